from figures.lib import style

RULES = ["sgdm", "sc", "lwp-v", "lwp-v+sc", "lwp-w+sc"]


def draw(data):
    fig = style.plt.figure(figsize=(style.PAGE, 2.9))
    grid = fig.add_gridspec(2, 2, height_ratios=[1, 0.08])
    best, none = data.table("best.csv"), data.table("none.csv")
    left, right = (fig.add_subplot(grid[0, k]) for k in range(2))
    handles = []
    for k, rule in enumerate(RULES):
        with_momentum, without = best.where(rule=rule), none.where(rule=rule)
        delay = with_momentum["delay"]
        phase = k / len(RULES)
        handles.append(style.curve(left, delay, 1 - with_momentum["momentum"], rule, 5, phase))
        gain = without["half_life_updates"] / with_momentum["half_life_updates"]
        style.curve(right, delay, gain, rule, 5, phase)
    for ax in (left, right):
        style.delay_axis(ax, delay[-1])
        ax.set_yscale("log")
    style.plain_log(right.yaxis)
    left.set_ylabel("$1 - m$ at the best half-life")
    right.set_ylabel("half-life at $m$ = 0 / best")
    right.axhline(1, color="#909090", linewidth=0.7, linestyle=":", zorder=1)
    style.panel(left, "a", "best momentum")
    style.panel(right, "b", "what it gains")
    style.legend_below(fig, grid[1, :], handles, 5)
    return fig
