import numpy as np

from figures.lib import style

MOMENTA = [0, 0.9, 0.99]


def draw(data):
    fig, panels, below = style.panels(2.9, 3, 0.08, share="xy")
    tables = {rule: data.table(f"{rule}.csv") for rule in style.RULES}
    for column, (ax, momentum) in enumerate(zip(panels, MOMENTA, strict=True)):
        rows = {rule: table.where(momentum=momentum) for rule, table in tables.items()}
        handles = style.curves(ax, rows, "delay", "critical_rate", 5)
        last = rows["sgdm"]["delay"][-1]
        delay = np.concatenate([np.linspace(0, 1, 20), np.geomspace(1, last, 100)])
        handles += ax.plot(
            delay, 2 * np.sin(np.pi / (4 * delay + 2)), color="#404040", linestyle=(0, (1, 1.6)),
            linewidth=1.6, zorder=3, label="$2\\,\\sin(\\pi/(4D+2))$",
        )
        ax.set_yscale("log")
        style.delay_axis(ax, last)
        style.panel(ax, "abc"[column], f"$m$ = {momentum:g}")
        style.left_label(ax, column == 0, "critical rate $x_c$")
    style.legend_below(fig, below, handles, 6)
    return fig
