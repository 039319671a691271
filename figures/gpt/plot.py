import math

import numpy as np

from figures.lib import style, study
from figures.lib.study_figure import subscripts

ENTROPY_BITS = 2
COLORS = {"SGDM": "#666666", "AdamW": "#D55E00", "NAdam": "#0072B2", "Muon": "#009E73",
          "Basis rotation": "#CC79A7"}
MINI_BATCHES = "N = 8"


def draw(data):
    table = study.panels(data)[0]
    if table is None:
        fig, ax = style.plt.subplots(figsize=(style.PAGE, 1.5))
        study.absent(ax)
        return fig
    cells = best_cells(table)
    single = {name: x for name, x in cells.items() if MINI_BATCHES not in name}
    eight = {name: x for name, x in cells.items() if MINI_BATCHES in name}
    height = 0.17 * max(len(single), len(eight)) + 0.8
    fig, axes = style.plt.subplots(1, 2, figsize=(style.PAGE, height))
    for ax, found in zip(axes, (single, eight)):
        draw_cells(ax, found)
    style.titles(axes, "one sequence an update", "eight an update")
    return fig


def best_cells(table) -> dict[str, np.ndarray]:
    """Excess of each run, in bits, infinite of one that diverged, by the cell's name; of its rates the best
    by the first seed."""
    cells: dict[str, np.ndarray] = {}
    for name, runs in study.rows(table).items():
        lost = study.diverged(runs)
        bits = np.where(lost, np.inf, np.array(runs["validation_loss"], dtype=float)) / math.log(2)
        excess = bits[np.argsort(runs["seed"])] - ENTROPY_BITS
        cell = name.rsplit(", rate ", 1)[0]
        if cell not in cells or excess[0] < cells[cell][0]:
            cells[cell] = excess
    return cells


def draw_cells(ax, cells) -> None:
    rows = {}
    for y, (name, excess) in enumerate(cells.items()):
        color, finite = COLORS[name.split(",")[0]], excess[np.isfinite(excess)]
        rows[subscripts(name.replace(f"{MINI_BATCHES}, ", ""))] = color, finite
        if len(finite) < len(excess):
            ax.plot(1, y, "x", color=color, clip_on=False, transform=ax.get_yaxis_transform())
    style.dots(ax, rows)
    ax.margins(x=0.08)
    ax.set_xlabel("bits a token above the entropy")
