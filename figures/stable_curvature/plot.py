import numpy as np

from figures.lib import style
from figures.lib.stable_rates import measured

LOOKS = {
    "SGDM": ("no delay", "#666666", "x"),
    "PB": ("PB", "#000000", "o"),
    "PB+LWPv_D+SC_D": ("PB+LWPv$_D$+SC$_D$", "#009E73", "D"),
}
DELAYED = ("PB", "PB+LWPv_D+SC_D")
BASE_RATE = 0.1
# Column of a prediction, its name, its marker.
PREDICTIONS = (
    ("predicted_largest_delay", "largest delay", "v"),
    ("predicted_coupled", "shares by stage", "^"),
    ("predicted_blocks", "block by block", "s"),
)
START = 300  # where an axis of samples shows the start


def draw(data):
    if not data.has("results.csv"):
        return style.not_measured("experiments/compare_stability.py")
    table = data.table("results.csv")
    fig, axes, below = style.panels(3.4, 3, 0.24)
    curvatures(axes[0], table)
    ladders(axes[1], table)
    predictions(axes[2], table)
    style.titles(axes, "curvature", "runs of 8,000 samples", "measured, predicted")
    line = style.plt.Line2D
    handles = [
        line([], [], color=color, marker=marker, markerfacecolor="white", label=label)
        for label, color, marker in LOOKS.values()
    ] + [
        line([], [], color="#D55E00", marker=marker, linestyle="", label=f"predicted, {label}")
        for column, label, marker in PREDICTIONS
        if np.isfinite(table[column]).any()
    ]
    style.legend_below(fig, below, handles, 3)
    return fig


def look(method):
    _, color, marker = LOOKS[method]
    return {"color": color, "marker": marker, "markerfacecolor": "white"}


def curvatures(ax, table):
    points = table.where(part="curvature")
    for method in DELAYED:
        own = points.where(predicted_for=method)
        base = own.where(reference_lr=BASE_RATE)
        x, y = np.maximum(base["samples"], START), base["eigenvalue"]
        ax.errorbar(x, y, yerr=y * base["residual"], capsize=2, **look(method))
        fast = own.keep(own["reference_lr"] > BASE_RATE)
        if len(fast):
            ax.plot(fast["samples"], fast["eigenvalue"], linestyle="", **look(method)
                    | {"markerfacecolor": LOOKS[method][1]})  # fmt: skip
    ax.set(xscale="log", xlabel="samples trained", ylim=(0, None))
    ax.set_ylabel("largest eigenvalue")
    ax.set_xticks([START, 1000, 4000, 16000], ["start", "1k", "4k", "16k"])
    ax.minorticks_off()


def ladders(ax, table):
    ladder = table.where(part="ladder")
    for method in LOOKS:
        own = ladder.where(method=method)
        for seed in np.unique(own["seed"]):
            rows = own.where(seed=float(seed))
            ax.plot(rows["learning_rate"], rows["loss"], **look(method))
    ax.axhline(np.log(10), color="#999999", linewidth=0.8, zorder=0)
    ax.text(ladder["learning_rate"].min(), np.log(10) + 0.01, "guessing")
    ax.set(xscale="log", xlabel="learning rate", ylabel="loss, last quarter of a run")


def predictions(ax, table):
    for k, method in enumerate(LOOKS):
        for place, (low, high) in enumerate(measured(table, method)):
            x = k - 0.34 + 0.12 * place
            ax.plot([x, x], [low, high], color=LOOKS[method][1], linewidth=4, alpha=0.4,
                    solid_capstyle="butt")  # fmt: skip
        if method not in DELAYED:
            continue
        for place, (column, _, marker) in enumerate(PREDICTIONS):
            start = table.where(samples=0, predicted_for=method)
            rates = start[column][~np.isnan(start[column])]
            ax.plot(np.full(len(rates), k - 0.04 + 0.17 * place), rates, color="#D55E00",
                    marker=marker, linestyle="", markersize=5)  # fmt: skip
    ax.set(yscale="log", ylabel="largest stable learning rate", xlim=(-0.5, 2.5))
    ax.set_xticks(range(3), ["no\ndelay", "PB", "PB+LWPv$_D$\n+SC$_D$"])
