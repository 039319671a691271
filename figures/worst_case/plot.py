from figures.lib import style

RULES = ("sgdm", "sc", "lwp-v", "lwp-v+sc", "lwp-w+sc")


def draw(data):
    fig = style.plt.figure(figsize=(style.PAGE, 3.2))
    grid = fig.add_gridspec(2, 2, height_ratios=[1, 0.24])
    first, second = (fig.add_subplot(grid[0, k]) for k in range(2))
    handles = []
    for k, rule in enumerate(RULES):
        phase = k / len(RULES)
        rows = data.table("delay.csv").where(rule=rule)
        handles.append(
            style.curve(first, rows["delay"], rows["half_life_updates"], rule, 6, phase)
        )
        rows = data.table("condition.csv").where(rule=rule)
        style.curve(second, rows["condition"], rows["price"], rule, 6, phase)
    waiting = data.table("delay.csv").where(rule=RULES[0])
    handles += first.plot(
        waiting["delay"], waiting["waiting_half_life_updates"], color="#404040", linestyle=":",
        label="waiting",
    )
    designed = data.table("design.csv").where(order=3)
    handles += first.plot(
        designed["delay"], designed["half_life_updates"], marker="*", markersize=9,
        linestyle="none", color="#404040", label="free, order 3",
    )
    for k, rule in enumerate(("sgdm", "nesterov")):
        rows = data.table("undelayed.csv").where(rule=rule)
        look = f"undelayed-{rule}"
        handles.append(style.curve(second, rows["condition"], rows["price"], look, 6, k / 2))
    first.set(xscale="log", yscale="log", xlabel="delay $D$ (updates)")
    first.set_ylabel("certified half-life (updates)")
    second.set(xscale="log", yscale="log", xlabel="condition number $\\kappa$")
    second.set_ylabel("price of leaving quadratics")
    style.ticks_at(first, waiting["delay"])
    for axis in (first.yaxis, second.yaxis):
        style.plain_log(axis)
    style.panel(first, "a", "$\\kappa$ = 100")
    style.panel(second, "b", "$D$ = 1, and no delay")
    style.legend_below(fig, grid[1, :], handles, 5)
    return fig
