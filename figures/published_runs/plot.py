import numpy as np

from figures.lib import style

RUNS = {"megatron-22B": "22B", "gpt3-175B": "175B", "turing-530B": "530B", "megatron-1T": "1T"}
TIMES = {
    "all recomputed": ("all recomputed", "#0072B2", "o"),
    "sequence parallel, attention recomputed": ("attention recomputed", "#D55E00", "s"),
}
MEMORY = {
    "weights GiB": ("weights, optimizer", "#000000", "x"),
    "activations GiB": ("activations", "#009E73", "^"),
    "activations %": ("recomputation's part", "#E69F00", "v"),
}
LIMITS = (12, 3)  # %: of seconds, of memory


def places(table, shift):
    return np.array([list(RUNS).index(name) for name in table["name"]]) + shift


def draw(data):
    fig, axes = style.plt.subplots(1, 2, figsize=(style.PAGE, 2.8))
    rows = data.table("validation.csv")
    times = rows.where(quantity="step seconds")
    for shift, (setting, (label, color, marker)) in zip((-0.12, 0.12), TIMES.items(), strict=True):
        table = times.where(setting=setting)
        for fitted in (0, 1):
            part = table.where(fitted=fitted)
            axes[0].plot(
                places(part, shift), 100 * part["error"], color=color, linestyle="", marker=marker,
                markerfacecolor=color if fitted else "white", label=None if fitted else label,
            )
    for shift, (quantity, (label, color, marker)) in zip((-0.2, 0, 0.2), MEMORY.items(), strict=True):
        table = rows.where(quantity=quantity)
        axes[1].plot(
            places(table, shift), 100 * table["error"], color=color, linestyle="", marker=marker,
            markerfacecolor="white", label=label,
        )
    for ax, limit in zip(axes, LIMITS, strict=True):
        ax.axhline(0, color="#999999", linewidth=0.8)
        for sign in (-1, 1):
            ax.axhline(sign * limit, color="#000000", linestyle=(0, (1, 1.5)), linewidth=0.8)
        ax.set_xticks(range(len(RUNS)), RUNS.values())
        ax.set_xlim(-0.5, len(RUNS) - 0.5)
        ax.set_ylim(-2 * limit, 1.5 * limit)
        ax.set_xlabel("parameters")
        ax.set_ylabel("prediction's error (%)")
        ax.legend(loc="lower right", ncols=1)
    style.titles(axes, "seconds of a step", "memory of a GPU")
    return fig
