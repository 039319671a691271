from figures.lib import style


def draw(data):
    fig, (first, second), below = style.panels(3.2, 2, 0.16, share="y")
    interleaved = data.table("interleaved.csv")
    for ax, name, column in ((first, "delay.csv", "delay"), (second, "condition.csv", "condition")):
        handles = style.curves(ax, style.by_rule(data.table(name)), column, "times_limit")
        ax.axhline(1, color="#404040", linestyle=":", linewidth=1)
        handles += ax.plot(
            interleaved[column], interleaved["times_limit"], marker="*", markersize=9,
            linestyle="none", color="#404040", label="interleaved heavy balls",
        )
        ax.set(yscale="log")
    first.set_ylim(bottom=0.8)
    style.delay_axis(first, 336)
    first.set_ylabel("best half-life / limit")
    second.set(xscale="log", xlabel="condition number $\\kappa$")
    second.tick_params(labelleft=False)
    style.titles((first, second), "$\\kappa$ = 1000", "$D$ = 4")
    style.legend_below(fig, below, handles, 6)
    return fig
