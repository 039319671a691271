import numpy as np

from figures.lib import style

NETWORKS = ["resnet20", "resnet32", "resnet44", "resnet56", "resnet110"]
COLORS = ["#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00"]


def draw(data):
    fig, axes = style.plt.subplots(1, 2, figsize=(style.PAGE, 2.7), sharey=True)
    pb = data.table("pb.csv").one("utilisation")
    for ax, letter, schedule, title in zip(
        axes, "ab", ("fill-drain", "gpipe"), ("fill and drain", "GPipe"), strict=True
    ):
        for network, color in zip(NETWORKS, COLORS, strict=True):
            rows = data.table(f"{network}_{schedule}.csv")
            stages = rows["stages"][0]
            batch = np.geomspace(1, rows["batch"][-1], 200)
            idle = 2 * stages - 2 if schedule == "fill-drain" else stages - 1
            ax.plot(batch, batch / (batch + idle), color=color, linewidth=1)
            ax.plot(
                rows["batch"], rows["utilisation"], color=color, linestyle="", marker="o",
                markerfacecolor="white", label=f"$S$ = {stages:g}",
            )
        ax.axhline(pb, color="#000000", linestyle=(0, (5, 2)), label="PB, batch 1")
        ax.set_xscale("log")
        ax.set_ylim(0, 1.05)
        ax.set_xlabel("samples of an update $N$")
        style.panel(ax, letter, title)
    axes[0].set_ylabel("utilisation")
    axes[1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    return fig
