from figures.lib import style

# Lines from wide to narrow: where they coincide, all are seen.
GPUS = {
    "v100": ("V100", "#0072B2", 3.4),
    "a100": ("A100", "#009E73", 2.1),
    "h100": ("H100", "#E69F00", 0.9),
}
FINE = {
    "ipu_gc2": ("IPU GC2", "#CC79A7"),
    "wse1": ("WSE-1", "#999999"),
    "wse2": ("WSE-2", "#D55E00"),
    "wse3": ("WSE-3", "#000000"),
}
# Crosses stand side by side left of the lines; their place in that strip means nothing.
STRIP = (0.13, 0.75)
PLACES = (0.16, 0.2, 0.25, 0.31, 0.39, 0.49, 0.61)
PANELS = (
    ("samples_per_second", "samples a second"),
    ("joules_per_sample", "energy of a sample (J)"),
    ("intensity", "FLOPs a byte of memory"),
)


def column(rows, name):
    if name != "intensity":
        return rows[name]
    return rows["flops_per_sample"] / (
        rows["local_bytes_per_sample"] + rows["shared_bytes_per_sample"]
    )


def draw(data):
    fig, panels, below = style.panels(3.1, 3, 0.12)
    colors = {name: (label, color) for name, (label, color, _) in GPUS.items()} | FINE
    for k, (ax, (name, title)) in enumerate(zip(panels, PANELS, strict=True)):
        lines, crosses = [], []
        for machine, (label, color, width) in GPUS.items():
            rows = data.table(f"{machine}_sequential.csv")
            lines += ax.plot(
                rows["batch"], column(rows, name), color=color, linewidth=width, label=label
            )
        for place, (machine, (label, color)) in zip(PLACES, colors.items(), strict=True):
            pipelined = data.table(f"{machine}_pb.csv")
            fits = bool(pipelined["fits"][0])
            crosses += ax.plot(
                place, column(pipelined, name)[0], color=color, marker="x" if fits else "+",
                linestyle="", label=f"{label}, PB" + ("" if fits else ", does not fit"),
            )
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.axvspan(*STRIP, color="#F0F0F0", linewidth=0, zorder=0)
        last = rows["batch"][-1]
        ax.set_xlim(STRIP[0], 1.3 * last)
        batches = [10**power for power in range(5) if 10**power <= last]
        ax.set_xticks([PLACES[3], *batches], ["PB", *map(str, batches)])
        ax.xaxis.set_minor_locator(style.plt.NullLocator())
        # Samples a second span powers of ten enough.
        if k:
            style.plain_log(ax.yaxis, (1, 1.5, 2, 3, 5, 7))
        ax.set_xlabel("batch (samples)")
        style.panel(ax, "abc"[k], title)
    style.legend_below(fig, below, lines + crosses, 4)
    return fig
