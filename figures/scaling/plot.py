import numpy as np

from figures.lib import style


def draw(data):
    fig, axes = style.plt.subplots(1, 2, figsize=(style.PAGE, 2.7))
    for network, (label, color, marker) in style.NETWORKS.items():
        rows = data.table(f"{network}.csv")
        fits = rows["fits"] > 0
        first = int(np.argmax(fits)) if fits.any() else len(rows)
        for ax, name in zip(axes, ("samples_per_second", "busy"), strict=True):
            look = {"color": color, "marker": marker, "markersize": 3}
            few, enough = slice(None, first), slice(first, None)
            ax.plot(
                rows["cores"][few], rows[name][few], linestyle=(0, (1, 1.2)),
                markerfacecolor="white", **look,
            )
            ax.plot(rows["cores"][enough], rows[name][enough], label=label, **look)
    axes[0].set_yscale("log")
    axes[1].set_ylim(0, 1.05)
    for ax in axes:
        ax.set_xscale("log")
        ax.set_xlabel("cores")
    style.titles(axes, "samples a second", "busy cores")
    axes[0].legend(loc="upper left")
    return fig
