from figures.lib import style


def draw(data):
    fig, axes = style.plt.subplots(1, 2, figsize=(style.PAGE, 2.8))
    for network, (name, color, marker) in style.NETWORKS.items():
        table = data.table(f"{network}.csv")
        chosen = table.where(chosen=1)
        for ax, column in zip(axes, ("samples_per_second", "busy"), strict=True):
            ax.plot(
                table["largest_delay"], table[column], color=color, marker=marker,
                markerfacecolor="white", label=name,
            )
            ax.plot(
                chosen["largest_delay"], chosen[column], color=color, marker=marker, linestyle="",
                markersize=7,
            )
    axes[0].set_yscale("log")
    axes[0].set_ylim(bottom=1.2e4)
    axes[1].set_ylim(0, 1.05)
    for ax, letter, title in zip(axes, "ab", ("samples a second", "busy cores"), strict=True):
        ax.set_xscale("symlog", base=2, linthresh=2)
        ax.set_xlim(-0.4, 450)
        ticks = (0, 2, 6, 14, 30, 62, 126, 336)
        ax.set_xticks(ticks, [str(tick) for tick in ticks])
        ax.minorticks_off()
        ax.set_xlabel("delay of gradients (updates)")
        style.panel(ax, letter, title)
    axes[0].legend(loc="lower right")
    return fig
