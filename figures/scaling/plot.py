from figures.lib import style

NETWORKS = {
    "resnet20": ("ResNet-20", "#0072B2", "o"),
    "resnet110": ("ResNet-110", "#D55E00", "s"),
    "vgg16": ("VGG-16", "#009E73", "^"),
    "resnet50": ("ResNet-50, 224 x 224", "#E69F00", "v"),
}


def draw(data):
    fig, axes = style.plt.subplots(1, 2, figsize=(style.PAGE, 2.7))
    for network, (label, color, marker) in NETWORKS.items():
        rows = data.table(f"{network}.csv")
        look = {"color": color, "marker": marker, "markerfacecolor": "white", "label": label,
                "markersize": 3}
        axes[0].plot(rows["cores"], rows["samples_per_second"], **look)
        axes[1].plot(rows["cores"], rows["busy"], **look)
    axes[0].set_yscale("log")
    axes[1].set_ylim(0, 1.05)
    for ax, letter, title in zip(axes, "ab", ("samples a second", "busy cores"), strict=True):
        ax.set_xscale("log")
        ax.set_xlabel("cores")
        style.panel(ax, letter, title)
    axes[1].legend(loc="lower left")
    return fig
