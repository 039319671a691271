import numpy as np

from figures.lib import style

# What each curve has on the horizontal axis: T for prediction, d for compensation alone.
CURVES = {
    "lwp-v": ("horizon", "LWP$_T$"),
    "sc": ("sc_delay", "SC$_d$"),
    "lwp-v+sc": ("horizon", "LWPv$_T$+SC$_D$"),
    "lwp-w+sc": ("horizon", "LWPw$_T$+SC$_D$"),
}


def draw(data):
    fig = style.plt.figure(figsize=(style.PAGE, 2.9))
    grid = fig.add_gridspec(2, 2, height_ratios=[1, 0.08])
    tables = {rule: data.table(f"{rule}.csv") for rule in CURVES}
    first = None
    for column, delay in enumerate((1, 4)):
        ax = fig.add_subplot(grid[0, column], sharey=first)
        first = first or ax
        handles = []
        for k, (rule, (axis, label)) in enumerate(CURVES.items()):
            rows = tables[rule].where(delay=delay)
            scale, half_life = rows[axis] / delay, rows["half_life_updates"]
            handles.append(
                style.curve(ax, scale, half_life, rule, 7, k / len(CURVES), label=label)
            )
            # Prediction's triangle is larger than compensation's square, which may lie on it.
            best = np.argmin(half_life)
            ax.plot(
                scale[best], half_life[best], style.LOOKS[rule].marker,
                color=style.LOOKS[rule].color, markersize=5 if rule == "sc" else 8,
                markeredgecolor="black", markeredgewidth=0.5, zorder=5, clip_on=False,
            )
        ax.axvline(1, color="#909090", linewidth=0.7, linestyle=":", zorder=1)
        ax.set(yscale="log", xlim=(0, 4))
        ax.set_xlabel("horizon $T/D$, or compensated delay $d/D$")
        style.panel(ax, "ab"[column], f"$D$ = {delay}")
        style.left_label(ax, column == 0, "best half-life (updates)")
    style.plain_log(first.yaxis)
    style.legend_below(fig, grid[1, :], handles, 4)
    return fig
