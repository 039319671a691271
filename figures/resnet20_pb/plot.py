from figures.lib import statistics, style, study

COLORS = {"SGDM": "#666666", "PB": "#000000"}


def draw(data):
    found = study.panels(data)
    fig, axes = style.plt.subplots(1, len(found), figsize=(style.PAGE, 2.6), squeeze=False)
    for ax, letter, table in zip(axes[0], "ab", found):
        if table is None:
            study.absent(ax)
            continue
        rows = study.rows(table)
        for y, (name, runs) in enumerate(rows.items()):
            color = COLORS.get(name.split(",")[0], "#009E73")
            accuracies = study.accuracies(runs)
            ax.plot(accuracies, [y] * len(accuracies), "o", color=color, markerfacecolor="none")
            middle = statistics.mean(accuracies)
            ax.plot([middle, middle], [y - 0.32, y + 0.32], color=color)
        ax.set_yticks(range(len(rows)), [label(name) for name in rows])
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.margins(x=0.08)
        ax.set_xlabel("final validation accuracy (%)")
        style.panel(ax, letter, study.subject(table))
    return fig


def label(name):
    for part in ("LWPv", "LWPw", "SC"):
        name = name.replace(f"{part}_D", f"{part}$_D$")
    return name
