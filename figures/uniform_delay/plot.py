import numpy as np

from figures.lib import statistics, style, study

# rule, weight stashing, label, dashes
CURVES = (
    ("sgdm", "false", "SGDM, inconsistent", (0, (2, 1.2))),
    ("sgdm", "true", "SGDM, consistent", "-"),
    ("lwp-v+sc", "false", "LWPv$_D$+SC$_D$, inconsistent", (0, (2, 1.2))),
    ("lwp-v+sc", "true", "LWPv$_D$+SC$_D$, consistent", "-"),
)


def draw(data):
    fig = style.plt.figure(figsize=(style.PAGE, 3.0))
    found = study.panels(data)
    grid = fig.add_gridspec(2, len(found), height_ratios=[1, 0.2])
    handles = []
    for k, table in enumerate(found):
        ax = fig.add_subplot(grid[0, k])
        if table is None:
            study.absent(ax)
            continue
        lines = [curve(ax, table, *look) for look in CURVES]
        handles = handles or [line for line in lines if line]
        delays = sorted(set(table["schedule.delay"]))
        style.delay_axis(ax, delays[-1])
        ax.set_xticks(delays, [f"{delay:g}" for delay in delays])
        ax.set_ylabel("validation accuracy (%)")
        batch = int(table["batch"][0])
        style.panel(ax, "ab"[k], f"{study.subject(table)}, $N$ = {batch}")
    style.legend_below(fig, grid[1, :], handles, 2)
    return fig


def curve(ax, table, rule, stashing, label, dashes):
    """Means over the seeds; the run without delay belongs to all curves."""
    zero = table["schedule.delay"] == 0
    own = (table["rule.name"] == rule) & (table["schedule.weight_stashing"] == stashing)
    delays = np.where(own | zero, table["schedule.delay"], np.nan)
    accuracy, lost = study.accuracies(table), study.diverged(table)
    x = sorted(set(delays[~np.isnan(delays)]))
    if not x:
        return None
    y = [statistics.mean(accuracy[delays == delay]) for delay in x]
    line = style.curve(ax, x, y, rule, len(x), label=label, linestyle=dashes)
    if stashing == "true":
        line.set_markerfacecolor(line.get_color())
    ended = [k for k, delay in enumerate(x) if lost[delays == delay].any()]
    ax.plot(
        [x[k] for k in ended], [y[k] for k in ended], "x", color=line.get_color(), markersize=7
    )
    return line
