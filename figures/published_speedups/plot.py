import numpy as np

from figures.lib import style
from figures.published_speedups.published import (
    BATCHES,
    MODELS,
    OVER_GPIPE,
    label,
    over_gpipe,
    two_gpus,
)


def draw(data):
    fig, axes = style.plt.subplots(1, 2, figsize=(style.PAGE, 2.8))
    found = two_gpus(data)
    x = np.arange(len(found))
    for k, (name, color) in enumerate((("pipelined", "#0072B2"), ("hybrid", "#56B4E9"))):
        pairs = [row[1 + k] for row in found]
        places = x + 0.36 * (k - 0.5)
        axes[0].bar(places, [planned for _, planned in pairs], 0.34, color=color, label=name)
        axes[0].plot(
            places, [published for published, _ in pairs], color="#000000", linestyle="",
            marker="x", label="published" if k else None,
        )
    axes[0].set_xticks(x, [label(row[0]).removeprefix("ResNet-") for row in found])
    axes[0].set_xlabel("layers of the ResNet")
    axes[0].set_ylabel("speedup over one GPU")
    axes[0].set_ylim(0, 2.3)
    axes[0].legend(loc="upper left", ncols=3)
    style.panel(axes[0], "a", "two GPUs")
    for (model, name), color, marker in zip(
        MODELS.items(), ("#009E73", "#E69F00", "#D55E00"), "os^", strict=True
    ):
        axes[1].plot(
            BATCHES, over_gpipe(data, model), color=color, marker=marker, markerfacecolor="white",
            label=name,
        )
    axes[1].axhline(OVER_GPIPE, color="#000000", linestyle=(0, (5, 2)), label="published, up to")
    axes[1].set_xscale("log", base=2)
    axes[1].set_xticks(BATCHES, [str(batch) for batch in BATCHES])
    axes[1].set_ylim(0, 4.6)
    axes[1].set_xlabel("samples of an update")
    axes[1].set_ylabel("2BW over GPipe")
    axes[1].legend(loc="upper right", ncols=2)
    style.panel(axes[1], "b", "64 GPUs")
    return fig
