from figures.lib import style

GPUS = {"v100": ("V100", "#0072B2"), "a100": ("A100", "#009E73"), "h100": ("H100", "#E69F00")}
FINE = {"ipu_gc2": ("IPU GC2", "#CC79A7"), "wse1": ("WSE-1", "#999999"), "wse2": ("WSE-2", "#D55E00"),
        "wse3": ("WSE-3", "#000000")}
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
    fig = style.plt.figure(figsize=(style.PAGE, 3.1))
    grid = fig.add_gridspec(2, 3, height_ratios=[1, 0.12])
    for k, (name, title) in enumerate(PANELS):
        ax = fig.add_subplot(grid[0, k])
        handles = []
        for machine, (label, color) in GPUS.items():
            rows = data.table(f"{machine}_sequential.csv")
            handles += ax.plot(rows["batch"], column(rows, name), color=color, label=label)
            rows = data.table(f"{machine}_pb.csv")
            handles += ax.plot(
                rows["batch"], column(rows, name), color=color, marker="x", linestyle="",
                label=f"{label}, PB",
            )
        for machine, (label, color) in FINE.items():
            rows = data.table(f"{machine}_pb.csv")
            handles += ax.plot(
                rows["batch"], column(rows, name), color=color, marker="x", linestyle="",
                label=f"{label}, PB",
            )
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("batch (samples)")
        style.panel(ax, "abc"[k], title)
    style.legend_below(fig, grid[1, :], handles, 5)
    return fig
