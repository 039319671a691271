import numpy as np

from figures.lib import style
from figures.predicted_measured.comparison import NETWORKS, TOLERANCE, cases

COLORS = {"resnet20": "#0072B2", "resnet56": "#009E73", "vgg11": "#D55E00"}
MARKERS = {1: "o", 2: "s"}


def draw(data):
    if not data.has("results.csv"):
        return style.not_measured("experiments/compare_predicted.py")
    found = cases(data.table("results.csv"))
    fig, axes, below = style.panels(3.1, 3, 0.12)
    scatter(axes[0], [(case, case.speed) for case in found], 1)
    idle = [(case, pair) for case in found if case.workers > 1 for pair in case.idle]
    for case, pair in idle:
        axes[1].plot(100 * pair.predicted, 100 * pair.measured, **look(case))
    most = 1.1 * max(100 * max(pair.predicted.max(), pair.measured.max()) for _, pair in idle) + 1
    line = np.array([0, most])
    axes[1].plot(line, line, color="#999999", linewidth=0.8, zorder=0)
    band(axes[1], line, line - 100 * TOLERANCE, line + 100 * TOLERANCE)
    axes[1].set(xlim=(-0.03 * most, most), ylim=(-0.03 * most, most))
    scatter(axes[2], [(case, case.peak) for case in found], 1e6)
    style.titles(axes, "samples a second", "idle, each of 2 workers (%)", "peak memory (MB)")
    for ax in axes:
        ax.set_xlabel("predicted")
    axes[0].set_ylabel("measured")
    handles = [
        style.plt.Line2D([], [], color=color, marker="o", linestyle="", label=NETWORKS[network])
        for network, color in COLORS.items()
    ] + [
        style.plt.Line2D(
            [], [], color="#333333", marker=marker, markerfacecolor="white", linestyle="",
            label=f"{workers} worker{'s' if workers > 1 else ''}",
        )
        for workers, marker in MARKERS.items()
    ]  # fmt: skip
    style.legend_below(fig, below, handles, 5)
    return fig


def look(case):
    color = COLORS.get(case.network, "#000000")
    marker = MARKERS.get(case.workers, "D")
    return {"color": color, "marker": marker, "markerfacecolor": "white", "linestyle": ""}


def band(ax, line, low, high):
    ax.fill_between(line, low, high, color="#E6E6E6", linewidth=0, zorder=-1)


def scatter(ax, pairs, unit):
    """A point a repeat; what lies in the band is predicted."""
    for case, pair in pairs:
        ax.plot(pair.predicted / unit, pair.measured / unit, **look(case))
    ends = np.concatenate([part / unit for _, p in pairs for part in (p.predicted, p.measured)])
    line = np.array([0.7 * ends.min(), 1.4 * ends.max()])
    ax.plot(line, line, color="#999999", linewidth=0.8, zorder=0)
    band(ax, line, line / (1 + TOLERANCE), line / (1 - TOLERANCE))
    ax.set_xscale("log")
    ax.set_yscale("log")
    for axis in (ax.xaxis, ax.yaxis):
        style.plain_log(axis)
