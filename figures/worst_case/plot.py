from figures.lib import style


def draw(data):
    fig, (first, second), below = style.panels(3.2, 2, 0.24)
    by_delay, by_condition = (style.by_rule(data.table(f"{name}.csv")) for name in ("delay", "condition"))
    handles = style.curves(first, by_delay, "delay", "half_life_updates")
    style.curves(second, by_condition, "condition", "price")
    waiting = by_delay["sgdm"]
    handles += first.plot(
        waiting["delay"], waiting["waiting_half_life_updates"], color="#404040", linestyle=":",
        label="waiting",
    )
    designed = data.table("design.csv").where(order=3)
    handles += first.plot(
        designed["delay"], designed["half_life_updates"], marker="*", markersize=9,
        linestyle="none", color="#404040", label="free, order 3",
    )
    undelayed = data.table("undelayed.csv")
    looks = {f"undelayed-{rule}": undelayed.where(rule=rule) for rule in ("sgdm", "nesterov")}
    handles += style.curves(second, looks, "condition", "price")
    first.set(xscale="log", yscale="log", xlabel="delay $D$ (updates)")
    first.set_ylabel("certified half-life (updates)")
    second.set(xscale="log", yscale="log", xlabel="condition number $\\kappa$")
    second.set_ylabel("price of leaving quadratics")
    style.ticks_at(first, waiting["delay"])
    for axis in (first.yaxis, second.yaxis):
        style.plain_log(axis)
    style.titles((first, second), "$\\kappa$ = 100", "$D$ = 1, and no delay")
    style.legend_below(fig, below, handles, 5)
    return fig
