import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from figures.lib import style

KINDS = {
    "fill-drain": "fill and drain",
    "pb": "PB",
    "1f1b": "1F1B",
    "2bw": "2BW",
    "paci": "PACI",
    "zb-h1": "ZB-H1",
}
COLORS = {
    "F": style.PASSES["forward"],
    "B": style.PASSES["backward"],
    "W": style.PASSES["weight gradient"],
}
TWO_SLOTS = ("fill-drain", "pb")
# Shades of forwards on the first weights and on the last.
FIRST, LAST = 0.3, 0.9


def draw(data):
    tables = {kind: data.table(f"{kind}.csv") for kind in KINDS}
    fig = style.plt.figure(figsize=(style.PAGE, 7.5))
    grid = fig.add_gridspec(len(KINDS) + 1, 1, height_ratios=[1] * len(KINDS) + [0.18])
    steps = max(table["step"].max() for table in tables.values()) + 1
    for k, (kind, title) in enumerate(KINDS.items()):
        ax = fig.add_subplot(grid[k])
        boxes(ax, tables[kind], kind in TWO_SLOTS)
        # One scale for all: a step is as wide in every panel.
        ax.set_xlim(0, steps + 0.2)
        ax.tick_params(labelbottom=k == len(KINDS) - 1)
        style.panel(ax, "abcdef"[k], title)
    ax.set_xlabel("step")
    handles = [
        Patch(color=shade(COLORS["F"], FIRST), label="forward, first weights"),
        Patch(color=shade(COLORS["F"], LAST), label="forward, last weights"),
        Patch(color=shade(COLORS["B"]), label="backward"),
        Patch(color=shade(COLORS["W"]), label="weight gradient"),
        Line2D([], [], color="#000000", linestyle="", marker="|", markersize=9, label="update"),
    ]
    style.legend_below(fig, grid[-1], handles, 5)
    return fig


def shade(color, strength=0.6):
    """The colour on white; opaque, so that the grid does not show through."""
    return tuple(1 - strength * (1 - np.array(to_rgb(color))))


def boxes(ax, table, two_slots):
    stages = int(table["stage"].max()) + 1
    read = versions(table)
    for k, kind in enumerate(table["kind"]):
        step, stage, microbatch = (table[c][k] for c in ("step", "stage", "microbatch"))
        # A step with room for two: the forward above, the backward below.
        height = 0.45 if two_slots else 0.9
        bottom = stage + (0.475 if two_slots and kind != "F" else 0.05)
        if kind == "U":
            ends = [bottom - 0.05, bottom + height + 0.05]
            ax.plot([step + 1] * 2, ends, color="#000000", linewidth=1.4, zorder=3)
            continue
        strength = FIRST + (LAST - FIRST) * read[k] if kind == "F" else 0.6
        ax.bar(
            step + 0.5, height, width=0.94, bottom=bottom, color=shade(COLORS[kind], strength),
            linewidth=0, zorder=2,
        )
        ax.text(
            step + 0.5, bottom + height / 2, f"{microbatch:g}", ha="center", va="center",
            fontsize=4.5 if two_slots else 5.5, color="#000000", zorder=4,
        )
    ax.set_ylim(stages, 0)
    ax.set_yticks(np.arange(stages) + 0.5, [str(s) for s in range(stages)])
    ax.set_ylabel("stage")
    ax.tick_params(length=0)
    ax.grid(axis="y", visible=False)


def versions(table):
    """The version of the weights that each forward reads, as a share of the updates there are.

    It is how often its stage has updated, except by 2BW: with two versions, the one before the newest
    for the micro-batches of the mini-batch that the newest came too late for.
    """
    stages = int(table["stage"].max()) + 1
    updates = table["kind"] == "U"
    all_updates = np.count_nonzero(updates) / stages
    double = "weights" in table.columns and table["weights"][0] == "double-buffered"
    minibatch = (table["microbatch"][table["kind"] == "F"].max() + 1) / all_updates
    done, read = np.zeros(stages), np.zeros(len(table))
    for k, stage in enumerate(table["stage"].astype(int)):
        done[stage] += updates[k]
        read[k] = max(table["microbatch"][k] // minibatch - 1, 0) if double else done[stage]
    return read / all_updates
