from figures.condition_number.plot import DELAYED
from figures.lib import style

STAGES = {"20": 34, "32": 52, "44": 70, "56": 88, "110": 169}


def draw(data):
    fig = style.plt.figure(figsize=(style.COLUMN, 3.6))
    grid = fig.add_gridspec(2, 1, height_ratios=[1, 0.26])
    ax = fig.add_subplot(grid[0])
    rows = {look: data.table(name).where(rule=rule) for look, (name, rule) in DELAYED.items()}
    handles = style.curves(ax, rows, "delay", "half_life_updates")
    style.delay_axis(ax, rows["sgdm"]["delay"][-1])
    ax.set(yscale="log", ylabel="best half-life (updates)")
    for stages in STAGES.values():
        # The first stage sees its gradient after a way forth and back through all others.
        ax.plot(
            2 * (stages - 1), 1, marker="|", color="black", clip_on=False,
            transform=ax.get_xaxis_transform(),
        )
    ax.annotate(
        "first stage of ResNet-20 to -110", (1, 1.02), xycoords="axes fraction",
        ha="right", va="bottom",
    )
    style.legend_below(fig, grid[1], handles, 2)
    return fig
