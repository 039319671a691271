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
    fig, panels, below = style.panels(2.9, 2, 0.08, share="y")
    tables = {rule: data.table(f"{rule}.csv") for rule in CURVES}
    for column, (ax, delay) in enumerate(zip(panels, (1, 4), strict=True)):
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
    style.plain_log(panels[0].yaxis)
    style.legend_below(fig, below, handles, 4)
    return fig
