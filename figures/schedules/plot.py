import numpy as np

from figures.lib import style

KINDS = {
    "fill-drain": "fill and drain",
    "pb": "PB",
    "1f1b": "1F1B",
    "2bw": "2BW",
    "zb-h1": "ZB-H1",
}
COLORS = {"F": "#0072B2", "B": "#E69F00", "W": "#009E73"}
TWO_SLOTS = ("fill-drain", "pb")


def draw(data):
    fig, axes = style.plt.subplots(len(KINDS), 1, figsize=(style.PAGE, 6.2))
    for ax, letter, (kind, title) in zip(axes, "abcde", KINDS.items(), strict=True):
        boxes(ax, data.table(f"{kind}.csv"), kind in TWO_SLOTS)
        style.panel(ax, letter, title)
    axes[-1].set_xlabel("step")
    fig.tight_layout()
    return fig


def boxes(ax, table, two_slots):
    stages = int(table["stage"].max()) + 1
    versions = np.zeros(stages)
    most = max(1, np.count_nonzero(table["kind"] == "U") / stages)
    rows = zip(table["step"], table["stage"], table["kind"], table["microbatch"], strict=True)
    for step, stage, kind, microbatch in rows:
        stage = int(stage)
        if kind == "U":
            versions[stage] += 1
            continue
        # A step with room for two: the forward above, the backward below.
        height = 0.45 if two_slots else 0.9
        bottom = stage + (0.475 if two_slots and kind == "B" else 0.05)
        shade = 0.35 + 0.6 * versions[stage] / most
        ax.bar(
            step + 0.5, height, width=0.94, bottom=bottom, color=COLORS[kind],
            alpha=shade if kind == "F" else 0.6, linewidth=0,
        )
        ax.text(
            step + 0.5, bottom + height / 2, f"{microbatch:g}", ha="center", va="center",
            fontsize=4.5 if two_slots else 5.5, color="#000000",
        )
    ax.set_ylim(stages, 0)
    ax.set_xlim(0, table["step"].max() + 1)
    ax.set_yticks(np.arange(stages) + 0.5, [str(s) for s in range(stages)])
    ax.set_ylabel("stage")
    ax.tick_params(length=0)
