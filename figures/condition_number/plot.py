from figures.lib import style

FILES = {
    "undelayed-sgdm": ("undelayed.csv", "sgdm"),
    "undelayed-nesterov": ("undelayed.csv", "nesterov"),
    "sgdm": ("delayed.csv", "sgdm"),
    "sc": ("delayed.csv", "sc"),
    "lwp-v": ("delayed.csv", "lwp-v"),
    "sc-2d": ("sc_double.csv", "sc"),
    "lwp-v-2d": ("lwp_double.csv", "lwp-v"),
    "lwp-v+sc": ("delayed.csv", "lwp-v+sc"),
    "lwp-w+sc": ("delayed.csv", "lwp-w+sc"),
}


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
    tables = {name: data.table(name) for name, _ in FILES.values()}
    for column, (ax, delay) in enumerate(zip(panels, (1, 4), strict=True)):
        rows = {
            look: tables[name].where(rule=rule, delay=0 if look.startswith("undelayed") else delay)
            for look, (name, rule) in FILES.items()
        }
        handles = style.curves(ax, rows, "condition", "half_life_updates", 5)
        ax.set(xscale="log", yscale="log", xlabel="condition number $\\kappa$")
        slopes(ax, 8)
        style.panel(ax, "ab"[column], f"$D$ = {delay}")
        style.left_label(ax, column == 0, "best half-life (updates)")
    style.legend_below(fig, below, handles, 5)
    return fig
