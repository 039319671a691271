"""How a rule looks, the same in every figure, and how a figure is saved.

Colours are those of Okabe and Ito, which people with the common colour-vision deficiencies tell
apart; marker and dashes carry the same information once more for print without colour.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend has to be chosen first)
import numpy as np  # noqa: E402

COLUMN = 3.3  # inches: one column of two
PAGE = 6.8  # inches: both columns

# Label, colour and marker, where figures of machines compare these.
NETWORKS = {
    "resnet20": ("ResNet-20", "#0072B2", "o"),
    "resnet110": ("ResNet-110", "#D55E00", "s"),
    "vgg16": ("VGG-16", "#009E73", "^"),
    "resnet50": ("ResNet-50, 224 x 224", "#E69F00", "v"),
}

# What a worker does, where figures show it.
PASSES = {"forward": "#0072B2", "backward": "#E69F00", "weight gradient": "#009E73"}

plt.style.use(Path(__file__).parent.parent / "batchless.mplstyle")


@dataclass(frozen=True)
class Look:
    label: str
    color: str
    marker: str
    dashes: object = "-"

    @property
    def line(self) -> dict:
        return {"color": self.color, "linestyle": self.dashes, "label": self.label}


LOOKS = {
    "undelayed-sgdm": Look("SGDM, no delay", "#666666", "x", (0, (5, 2))),
    "undelayed-nesterov": Look("Nesterov, no delay", "#999999", "+", (0, (1, 1.2))),
    "sgdm": Look("SGDM", "#000000", "o"),
    "nesterov": Look("Nesterov", "#999999", "+", (0, (1, 1.2))),
    "sc": Look("SC$_D$", "#0072B2", "s"),
    "lwp-v": Look("LWP$_D$", "#E69F00", "^"),
    "sc-2d": Look("SC$_{2D}$", "#56B4E9", "<", (0, (4, 1.5))),
    "lwp-v-2d": Look("LWP$_{2D}$", "#CC79A7", ">", (0, (2, 1.2))),
    "lwp-v+sc": Look("LWPv$_D$+SC$_D$", "#009E73", "D", (0, (7, 1.5, 1.5, 1.5))),
    "lwp-w+sc": Look("LWPw$_D$+SC$_D$", "#D55E00", "v"),
}


# The rules that figures compare, in this order.
RULES = ("sgdm", "sc", "lwp-v", "lwp-v+sc", "lwp-w+sc")


def by_rule(table, **where) -> dict:
    """The rows of each rule."""
    return {rule: table.where(rule=rule, **where) for rule in RULES}


def curve(ax, x, y, look: str, markers: int = 7, phase: float = 0.0, **changes):
    """A line in the rule's look, with `markers` markers spread over it.

    Curves that lie on each other stay visible when their phases (0..1) differ.
    """
    x, y = np.asarray(x), np.asarray(y)
    style = LOOKS[look].line | {"marker": LOOKS[look].marker, "markerfacecolor": "white"} | changes
    # Whole points only: a marker that the data does not have would claim a computed value.
    step = max(1, round(len(x) / markers))
    start = min(int(phase * step), len(x) - 1)
    return ax.plot(x, y, markevery=(start, step), **style)[0]


def curves(ax, tables: dict, x: str, y, markers: int = 6, **changes) -> list:
    """A curve of each table in the look of its name: y, a column or a function of the table, over the column x."""
    return [
        curve(ax, rows[x], y(rows) if callable(y) else rows[y], look, markers, k / len(tables), **changes)
        for k, (look, rows) in enumerate(tables.items())
    ]


def left_label(ax, is_left: bool, label: str) -> None:
    """Panels side by side that share y have its label and numbers once."""
    if is_left:
        ax.set_ylabel(label)
    else:
        ax.tick_params(labelleft=False)


def dots(ax, rows: dict, **names) -> None:
    """A line for each row, of a name, its colour and values: a dot for each value, and their mean."""
    for y, (color, values) in enumerate(rows.values()):
        ax.plot(values, [y] * len(values), "o", color=color, markerfacecolor="none")
        ax.plot([values.mean() if len(values) else np.nan] * 2, [y - 0.32, y + 0.32], color=color)
    ax.set_yticks(range(len(rows)), list(rows), **names)
    ax.set_ylim(len(rows) - 0.5, -0.5)


def not_measured(script: str):
    """In place of a figure whose results are not there: what measures them."""
    fig, ax = plt.subplots(figsize=(PAGE, 1))
    ax.set_axis_off()
    ax.text(0.5, 0.5, f"Not measured yet:\n{script}", ha="center", va="center")
    return fig


def panels(height: float, count: int, legend: float, share: str = "", **ratios):
    """Panels side by side on a page, which share these axes: figure, panels, and the cell of a legend below,
    whose height is a share of theirs."""
    fig = plt.figure(figsize=(PAGE, height))
    grid = fig.add_gridspec(2, count, height_ratios=[1, legend], **ratios)
    axes = [fig.add_subplot(grid[0, 0])]
    for k in range(1, count):
        axes.append(fig.add_subplot(grid[0, k], **{f"share{axis}": axes[0] for axis in share}))
    return fig, axes, grid[1, :]


def legend_below(fig, cell, handles, columns: int):
    """A legend in a cell of its own, where no data can be."""
    ax = fig.add_subplot(cell)
    ax.axis("off")
    ax.legend(handles=handles, loc="center", ncol=columns, borderaxespad=0)
    return ax


def delay_axis(ax, last: float) -> None:
    """No delay and the deepest one on one axis: linear up to 1, logarithmic beyond."""
    ax.set_xscale("symlog", linthresh=1, linscale=0.4)
    ticks = [tick for tick in (0, 1, 3, 10, 30, 100, 300) if tick <= last]
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    ax.minorticks_off()
    ax.set_xlim(-0.15, last * 1.15)
    ax.set_xlabel("delay $D$ (updates)")


def plain_log(axis, subs: tuple[float, ...] = (1, 2, 5)) -> None:
    """1, 2, 5, 10, 20, ...: for logarithmic axes that span a few powers of ten at most."""
    axis.set_major_locator(matplotlib.ticker.LogLocator(subs=subs))
    axis.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
    axis.set_minor_formatter(matplotlib.ticker.NullFormatter())


def ticks_at(ax, values) -> None:
    """A tick at each of these values of x and at no other, for few values on a logarithmic axis."""
    ax.set_xticks(values, [f"{value:g}" for value in values])
    ax.set_xticks([], minor=True)


def panel(ax, letter: str, title: str) -> None:
    ax.set_title(f"({letter}) {title}", loc="left")


def titles(axes, *names: str) -> None:
    """Panels with letters in their order."""
    for ax, letter, name in zip(axes, "abcdef", names):
        panel(ax, letter, name)


def save(fig, folder: Path, name: str) -> None:
    """PDF and PNG with the same bytes for the same data: no dates, no program versions."""
    metadata = {
        "png": {"Software": None},
        "pdf": {"CreationDate": None, "Creator": "batchless", "Producer": None},
    }
    folder.mkdir(parents=True, exist_ok=True)
    for kind, entries in metadata.items():
        scratch = folder / f".{name}.{os.getpid()}.{kind}"
        try:
            fig.savefig(scratch, format=kind, metadata=entries)
            # Laid out once, which takes as long as to draw; the PDF gets the layout of the PNG.
            fig.set_layout_engine("none")
            os.replace(scratch, folder / f"{name}.{kind}")
        finally:
            scratch.unlink(missing_ok=True)
    plt.close(fig)
