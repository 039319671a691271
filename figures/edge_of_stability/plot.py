import numpy as np

from figures.lib import style
from figures.lib.stable_rates import runs_along_the_edge, settled

NETWORKS = {"mlp": "MLP", "resnet20": "ResNet-20"}
COLORS = ("#000000", "#0072B2", "#009E73", "#E69F00", "#D55E00")
MARKERS = {2.0: "o", 4.0: "s", 8.0: "^"}
SHOWN = 4.0  # times the curvature at the start


def draw(data):
    if not data.has("results.csv"):
        return style.not_measured("experiments/measure_edge.py")
    table = data.table("results.csv")
    networks = [network for network in NETWORKS if network in set(table["network"])]
    fig = style.plt.figure(figsize=(style.PAGE, 2.8 * len(networks) + 0.6))
    grid = fig.add_gridspec(len(networks) + 1, 3, height_ratios=[1] * len(networks) + [0.2])
    letters = iter("abcdef")
    for row, network in enumerate(networks):
        axes = [fig.add_subplot(grid[row, k]) for k in range(3)]
        runs = runs_along_the_edge(table, network)
        along(axes[0], [run for run in runs if run.momentum == 0 and run.multiple == SHOWN])
        medians(axes[1], runs)
        densities(axes[2], table.where(part="density", network=network, stage="whole"))
        for ax, what in zip(axes, ("along the run", "where it settles", "at the end")):
            style.panel(ax, next(letters), f"{NETWORKS[network]}: {what}")
    delays = sorted(set(table["delay"]))
    line = style.plt.Line2D
    handles = [line([], [], color=color, label=f"D = {delay:g}") for delay, color in zip(delays, COLORS)]
    handles += [
        line([], [], color="#666666", marker=marker, linestyle="", markerfacecolor="white",
             label=f"edge at {multiple:g} times the start")
        for multiple, marker in MARKERS.items()
    ]  # fmt: skip
    style.legend_below(fig, grid[len(networks), :], handles, 4)
    return fig


def along(ax, runs):
    for run, color in zip(sorted(runs, key=lambda run: run.delay), COLORS):
        ax.plot(run.updates / run.updates.max(), run.ratio, color=color)
    ax.axhline(1, color="#999999", linewidth=0.8, zorder=0)
    ax.set(xlabel="part of the run", ylabel="largest eigenvalue / edge", ylim=(0, None))


def medians(ax, runs):
    for run in runs:
        value = settled(run)
        if run.momentum != 0 or value is None:
            continue
        ax.plot(run.delay, value, marker=MARKERS[run.multiple], color="#666666", markerfacecolor="white")
    ax.axhline(1, color="#999999", linewidth=0.8, zorder=0)
    ax.set(xlabel="delay $D$ (updates)", ylabel="median, from the edge on", ylim=(0, None))


def densities(ax, table):
    for delay, color in zip((0.0, 4.0), (COLORS[0], COLORS[3])):
        own = table.where(delay=delay)
        order = np.argsort(-own["eigenvalue"])
        values, counts = own["eigenvalue"][order], np.cumsum(own["count"][order])
        shown = values > 1e-3
        ax.step(values[shown], counts[shown], where="post", color=color)
    ax.set(xscale="log", yscale="log", xlabel="eigenvalue", ylabel="eigenvalues above it", ylim=(0.3, None))
