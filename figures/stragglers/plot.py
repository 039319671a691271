from figures.lib import style

KINDS = {
    "pb": ("PB", "#000000", "o"),
    "1f1b": ("1F1B", "#D55E00", "s"),
    "gpipe": ("GPipe", "#009E73", "^"),
}


def draw(data):
    fig, axes = style.plt.subplots(1, 3, figsize=(style.PAGE, 2.6))
    for kind, (label, color, marker) in KINDS.items():
        look = {"color": color, "marker": marker, "markerfacecolor": "white", "label": label}
        table = data.table(f"{kind}_jitter.csv")
        for ax, queue in zip(axes, (0, 1), strict=False):
            rows = table.where(queue=queue)
            ax.plot(rows["jitter"], rows["slowdown"], **look)
        rows = data.table(f"{kind}_stalls.csv")
        axes[2].plot(rows["cores"], rows["slowdown"], **look)
    titles = ("queues of any length", "queues of one message", "stalls")
    for ax, letter, title in zip(axes, "abc", titles, strict=True):
        style.panel(ax, letter, title)
        ax.set_ylim(bottom=0.95)
    for ax in axes[:2]:
        ax.set_xlabel("jitter $j$ (share of mean time)")
    axes[1].set_ylim(axes[0].get_ylim())
    axes[2].set_xscale("log")
    axes[2].set_xlabel("cores of a stage")
    axes[0].set_ylabel("slowdown")
    axes[0].legend(loc="upper left")
    return fig
