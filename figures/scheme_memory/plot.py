from figures.lib import style

SCHEMES = {
    "pb": ("PB", "#000000", "-", "o"),
    "pipedream": ("PipeDream", "#D55E00", "-", "s"),
    "vertical-sync": ("PipeDream, vertical sync", "#D55E00", (0, (1, 1.2)), "x"),
    "paci": ("PACI", "#E69F00", "-", "p"),
    "pipemare": ("PipeMare", "#CC79A7", (0, (4, 1.5)), "<"),
    "2bw": ("2BW", "#0072B2", "-", "^"),
    "2bw-recompute": ("2BW, recomputed", "#56B4E9", (0, (4, 1.5)), "v"),
    "gpipe": ("GPipe", "#009E73", "-", "D"),
    "gpipe-recompute": ("GPipe, recomputed", "#009E73", (0, (1, 1.2)), "d"),
    "reversible": ("reversible", "#999999", (0, (5, 2)), "+"),
}
PANELS = (
    ("resnet110", "total_bytes", "ResNet-110, all"),
    ("gpt2", "total_bytes", "GPT-2, all"),
    ("gpt2", "largest_bytes", "GPT-2, largest worker"),
)


def draw(data):
    fig, panels, below = style.panels(3.0, 3, 0.12)
    for k, (ax, (network, name, title)) in enumerate(zip(panels, PANELS, strict=True)):
        table = data.table(f"{network}.csv")
        handles = []
        for scheme, (label, color, dashes, marker) in SCHEMES.items():
            rows = table.where(scheme=scheme)
            handles += ax.plot(
                rows["workers"], rows[name] / 1e6, color=color, linestyle=dashes, marker=marker,
                markerfacecolor="white", label=label,
            )
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        style.plain_log(ax.yaxis)
        ax.set_xticks(rows["workers"], [f"{w:g}" for w in rows["workers"]])
        ax.set_xlabel("workers")
        style.panel(ax, "abc"[k], title)
    panels[0].set_ylabel("memory (MB)")
    style.legend_below(fig, below, handles, 5)
    return fig
