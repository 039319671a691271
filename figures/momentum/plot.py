from figures.lib import style


def draw(data):
    fig, (left, right), below = style.panels(2.9, 2, 0.08)
    best, none = (style.by_rule(data.table(f"{name}.csv")) for name in ("best", "none"))
    handles = style.curves(left, best, "delay", lambda rows: 1 - rows["momentum"], 5)
    for k, (rule, rows) in enumerate(best.items()):
        gain = none[rule]["half_life_updates"] / rows["half_life_updates"]
        style.curve(right, rows["delay"], gain, rule, 5, k / len(best))
    for ax in (left, right):
        style.delay_axis(ax, best["sgdm"]["delay"][-1])
        ax.set_yscale("log")
    style.plain_log(right.yaxis)
    left.set_ylabel("$1 - m$ at the best half-life")
    right.set_ylabel("half-life at $m$ = 0 / best")
    right.axhline(1, color="#909090", linewidth=0.7, linestyle=":", zorder=1)
    style.titles((left, right), "best momentum", "what it gains")
    style.legend_below(fig, below, handles, 5)
    return fig
