import numpy as np

from figures.lib import style

COLUMNS = [
    ("gain_margin", 1, "gain margin"),
    ("phase_margin_radians", 180 / np.pi, "phase margin (degrees)"),
    ("delay_margin_updates", 1, "delay margin (updates)"),
]


def draw(data):
    fig = style.plt.figure(figsize=(style.PAGE, 4.2))
    grid = fig.add_gridspec(3, 3, height_ratios=[1, 1, 0.16])
    table = data.table("margins.csv")
    first = None
    for row, momentum in enumerate((0.9, 0.98)):
        for column, (name, scale, label) in enumerate(COLUMNS):
            ax = fig.add_subplot(grid[row, column], sharex=first)
            first = first or ax
            stable = {
                rule: rows.keep(rows["gain_margin"] > 1)
                for rule, rows in style.by_rule(table, momentum=momentum).items()
            }
            handles = style.curves(ax, stable, "rate", lambda rows: scale * rows[name], 5)
            ax.set_xscale("log")
            if column != 1:
                ax.set_yscale("log")
            else:
                ax.set_ylim(0, 95)
            style.panel(ax, "abcdef"[3 * row + column], f"$m$ = {momentum:g}")
            ax.set_ylabel(label)
            if row == 1:
                ax.set_xlabel("normalised rate $x$")
            else:
                ax.tick_params(labelbottom=False)
    style.legend_below(fig, grid[2, :], handles, 5)
    return fig
