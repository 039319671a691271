import math

import numpy as np

from figures.gpt.plot import COLORS, ENTROPY_BITS
from figures.lib import slowdowns, style, study

TOKENS = 64  # of a sequence
DEEPEST = 20


def draw(data):
    found = slowdowns.cells(data) if data.has(slowdowns.RESULTS) else {}
    if not found:
        fig, ax = style.plt.subplots(figsize=(style.PAGE, 1.5))
        study.absent(ax)
        return fig
    fig, axes, below = style.panels(3.1, 2, 0.12)
    optimizers = list(dict.fromkeys(optimizer for optimizer, _ in found))
    for optimizer in optimizers:
        draw_slowdowns(axes[0], found, optimizer)
        draw_curves(axes[1], found, optimizer)
    axes[0].set(yscale="log", ylim=(0.8, slowdowns.LONGEST), xlabel="stages", ylabel="times the samples")
    axes[0].set_xticks(sorted({stages for _, stages in found}))
    style.plain_log(axes[0].yaxis)
    axes[1].set(yscale="log", xlabel="tokens (millions)", ylabel="bits a token above the entropy")
    style.plain_log(axes[1].yaxis)
    style.titles(axes, "to the loss of plain training", "dotted: plain, line: 20 stages")
    handles = [style.plt.Line2D([], [], color=COLORS[name], label=name) for name in optimizers]
    style.legend_below(fig, below, handles, len(handles))
    return fig


def draw_slowdowns(ax, found, optimizer) -> None:
    mine = sorted((stages, cell.slowdowns) for (name, stages), cell in found.items() if name == optimizer)
    color = COLORS[optimizer]
    means = [np.mean(list(values.values())) for _, values in mine]
    ax.plot([stages for stages, _ in mine], np.where(np.isfinite(means), means, np.nan), color=color)
    for stages, values in mine:
        reached = [x for x in values.values() if np.isfinite(x)]
        ax.plot([stages] * len(reached), reached, "o", color=color, markerfacecolor="none", clip_on=False)
        if len(reached) < len(values):
            ax.plot(stages, slowdowns.LONGEST, "^", color=color, clip_on=False)


def draw_curves(ax, found, optimizer) -> None:
    for stages, line in ((slowdowns.PLAIN, ":"), (DEEPEST, "-")):
        cell = found.get((optimizer, stages))
        curve = cell.curves.get(study.FIRST_SEED) if cell else None
        if curve is not None:
            excess = curve.losses / math.log(2) - ENTROPY_BITS
            ax.plot(TOKENS * curve.samples / 1e6, excess, line, color=COLORS[optimizer], linewidth=1)
