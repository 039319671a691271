import numpy as np

from figures.lib import style

METHODS = ["undelayed", "wait", "mini-batch", "sgdm", "sc", "lwp-v+sc", "lwp-w+sc"]
# Methods without delay; the late rules have their own looks.
WAITING = {
    "undelayed": {"color": "#999999", "linestyle": (0, (5, 2)), "label": "no delay, no waiting"},
    "wait": {"color": "#CC79A7", "linestyle": (0, (3, 1)), "marker": "P", "label": "waiting"},
    "mini-batch": {"color": "#56B4E9", "linestyle": (0, (1, 1)), "marker": "X", "label": "mini-batches"},
}
CONDITION = 1000


def draw(data):
    fig = style.plt.figure(figsize=(style.PAGE, 4.6))
    grid = fig.add_gridspec(3, 3, height_ratios=[1, 1, 0.2])
    tables = [data.table("plain.csv"), data.table("averaged.csv")]
    first = [None, None]
    for column, delay in enumerate((1, 4, 16)):
        for row, table in enumerate(tables):
            ax = fig.add_subplot(grid[row, column], sharex=first[0], sharey=first[row])
            first = [first[0] or ax, first[1]]
            first[row] = first[row] or ax
            handles = []
            for k, method in enumerate(METHODS):
                rows = table.where(method=method, delay=delay)
                half_life = rows["half_life_updates"]
                loss = rows["loss"] * 8 * half_life / (CONDITION * np.log(2))
                if method in WAITING:
                    look = {"markerfacecolor": "white", "markevery": 4} | WAITING[method]
                    handles += ax.plot(half_life, loss, **look)
                else:
                    handles.append(style.curve(ax, half_life, loss, method, 6, k / len(METHODS)))
            ax.set(xscale="log", yscale="log")
            if row == 0:
                ax.set_ylim(0.6, 8)
                style.plain_log(ax.yaxis)
                ax.tick_params(labelbottom=False)
                style.panel(ax, "abc"[column], f"$D$ = {delay}")
            else:
                ax.set_ylim(0.15, 2)
                style.plain_log(ax.yaxis)
                ax.set_xlabel("half-life $h$ (steps)")
                style.panel(ax, "def"[column], f"$D$ = {delay}, averaged")
            style.left_label(ax, column == 0, "loss $\\times\\, 8h/(\\kappa \\ln 2)$")
    style.legend_below(fig, grid[2, :], handles, 4)
    return fig
