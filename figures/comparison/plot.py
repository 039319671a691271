from matplotlib.ticker import EngFormatter

from figures.comparison.systems import systems
from figures.lib import style, study
from figures.lib.study_figure import color, subscripts

RIGHT = (
    ("samples_per_second", "predicted samples/s"),
    ("stable_rate", "stable rate"),
)


def draw(data):
    panels = study.panels(data)
    found = [systems(data, table, data.manifest()) if table else [] for table in panels]
    heights = [0.17 * len(rows) + 0.6 if rows else 0.8 for rows in found]
    fig = style.plt.figure(figsize=(style.PAGE, sum(heights) + 0.3 * len(heights)))
    grid = fig.add_gridspec(len(panels), 3, height_ratios=heights, width_ratios=[2, 1.2, 1.2])
    for k, (table, rows) in enumerate(zip(panels, found, strict=True)):
        left = fig.add_subplot(grid[k, 0])
        if table is None:
            study.absent(left)
            continue
        dots = {subscripts(row.name): (color(row.name), row.accuracies) for row in rows}
        style.dots(left, dots, fontsize=6.5)
        left.set_xlabel("validation accuracy (%)")
        letters = "abc" if not any(found[:k]) else "def"
        style.panel(left, letters[0], study.heading(data.manifest(), table))
        for column, (name, label) in enumerate(RIGHT, 1):
            ax = fig.add_subplot(grid[k, column], sharey=left)
            for y, row in enumerate(rows):
                value = getattr(row, name)
                if value is not None:
                    ax.plot(value, y, "o", color=color(row.name))
            ax.set_xscale("log")
            if name == "samples_per_second":
                style.plain_log(ax.xaxis)
                ax.xaxis.set_major_formatter(EngFormatter(sep=""))
            ax.tick_params(labelleft=False)
            ax.set_xlabel(label)
            style.panel(ax, letters[column], "on a WSE-2" if column == 1 else "quadratic")
    return fig
