from figures.lib import style

DELAYED = {
    "sgdm": ("delayed.csv", "sgdm"),
    "sc": ("delayed.csv", "sc"),
    "lwp-v": ("delayed.csv", "lwp-v"),
    "sc-2d": ("sc_double.csv", "sc"),
    "lwp-v-2d": ("lwp_double.csv", "lwp-v"),
    "lwp-v+sc": ("delayed.csv", "lwp-v+sc"),
    "lwp-w+sc": ("delayed.csv", "lwp-w+sc"),
}
UNDELAYED = {f"undelayed-{rule}": ("undelayed.csv", rule) for rule in ("sgdm", "nesterov")}


def slopes(ax, low):
    """Two guides for the eye, drawn where no curve is."""
    for power, text, x, y in (
        (1, "$\\propto \\kappa$", 3e1, 4e3),
        (0.5, "$\\propto \\sqrt{\\kappa}$", 1e4, low),
    ):
        ends = [x, 20 * x]
        ax.plot(ends, [y, y * 20**power], color="#404040", linestyle=":", linewidth=1)
        ax.annotate(
            text, (x, y), (-3, 0), textcoords="offset points", ha="right", va="center"
        )


def draw(data):
    fig, panels, below = style.panels(3.5, 2, 0.17, share="xy")
    for column, (ax, delay) in enumerate(zip(panels, (1, 4), strict=True)):
        rows = {
            look: data.table(name).where(rule=rule, delay=at)
            for files, at in ((UNDELAYED, 0), (DELAYED, delay))
            for look, (name, rule) in files.items()
        }
        handles = style.curves(ax, rows, "condition", "half_life_updates", 5)
        ax.set(xscale="log", yscale="log", xlabel="condition number $\\kappa$")
        slopes(ax, 8)
        style.panel(ax, "ab"[column], f"$D$ = {delay}")
        style.left_label(ax, column == 0, "best half-life (updates)")
    style.legend_below(fig, below, handles, 5)
    return fig
