import numpy as np

from figures.lib import style


def draw(data):
    fig, (left, right), below = style.panels(3.2, 2, 0.14)
    limit, discrete, sgd = (data.table(f"{name}.csv") for name in ("limit", "discrete", "sgd"))
    handles = style.curves(left, style.by_rule(limit), "damping", "critical_delay_time")
    for rule, rows in style.by_rule(discrete).items():
        error(right, rows, style.LOOKS[rule].line | {"marker": style.LOOKS[rule].marker})
    damping = np.geomspace(2, 20)
    guide = {"color": "#404040", "linestyle": (0, (1, 1.6))}
    left.plot(damping, damping * np.pi / 2, **guide)
    left.annotate("$c\\pi/2$", (8, 8 * np.pi / 2), (-4, 4), textcoords="offset points", ha="right")
    left.set(xscale="log", yscale="log", xlabel="damping $c$", ylabel="critical delay $\\tau_c$")
    handles.append(error(right, sgd, {"color": "#56B4E9", "marker": "P", "label": "SGD, $m$ = 0"}))
    delay = np.array([8, 1024])
    handles += right.plot(delay, 0.04 / delay, label="$\\propto 1/D$", **guide)
    right.set(
        xscale="log", yscale="log", xlabel="delay $D$ (updates)",
        ylabel="$|\\tau_c(D)/\\tau_c - 1|$",
    )
    style.titles((left, right), "limit of small rates", "discrete rules, $c$ = 0.5")
    style.legend_below(fig, below, handles, 4)
    return fig


def error(ax, rows, look):
    late = rows.where(delay=[1, np.inf])
    return ax.plot(late["delay"], late["relative_distance"], markerfacecolor="white", **look)[0]
