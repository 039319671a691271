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
    fig = style.plt.figure(figsize=(style.PAGE, 3.5))
    grid = fig.add_gridspec(2, 2, height_ratios=[1, 0.17])
    tables = {name: data.table(name) for name, _ in FILES.values()}
    first = None
    for column, delay in enumerate((1, 4)):
        ax = fig.add_subplot(grid[0, column], sharex=first, sharey=first)
        first = first or ax
        handles = []
        for k, (look, (name, rule)) in enumerate(FILES.items()):
            at = 0 if look.startswith("undelayed") else delay
            rows = tables[name].where(rule=rule, delay=at)
            handles.append(
                style.curve(
                    ax, rows["condition"], rows["half_life_updates"], look, 5, k / len(FILES)
                )
            )
        ax.set(xscale="log", yscale="log", xlabel="condition number $\\kappa$")
        slopes(ax, 8)
        style.panel(ax, "ab"[column], f"$D$ = {delay}")
        if column == 0:
            ax.set_ylabel("best half-life (updates)")
        else:
            ax.tick_params(labelleft=False)
    style.legend_below(fig, grid[1, :], handles, 5)
    return fig
