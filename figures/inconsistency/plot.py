from figures.lib import style

READS = {
    "current": {"color": "#000000", "marker": "o", "linestyle": "-", "label": "current weights"},
    "stashed": {"color": "#56B4E9", "marker": "<", "linestyle": (0, (5, 2)), "label": "stashed"},
    "corrected": {"color": "#CC79A7", "marker": "^", "linestyle": (0, (2, 1)), "label": "corrected (T2)"},
}
MODELS = [
    ("discrepancy", "discrepancy model", "discrepancy $\\Delta/\\lambda$"),
    ("network", "two linear layers", "singular value $r$ left to learn"),
]


def draw(data):
    fig = style.plt.figure(figsize=(style.PAGE, 5.0))
    grid = fig.add_gridspec(4, 2, height_ratios=[1, 0.12, 1, 0.16])
    for row, (model, title, label) in enumerate(MODELS):
        plain, mitigated = (fig.add_subplot(grid[2 * row, column]) for column in (0, 1))
        reads = []
        for backward, look in READS.items():
            rows = data.table(f"{model}_{backward}.csv")
            reads += plain.plot(
                rows["discrepancy"], rows["critical_rate"], markerfacecolor="white", markevery=2, **look
            )
        table = style.by_rule(data.table(f"{model}_rules.csv"))
        rules = style.curves(mitigated, table, "discrepancy", "critical_rate")
        for column, ax in enumerate((plain, mitigated)):
            ax.set_xlabel(label)
            if row == 0:
                ax.set_yscale("log")
                style.plain_log(ax.yaxis)
            else:
                ax.set_ylim(bottom=0)
            what = ("$m$ = 0", "$m$ = 0.9")[column]
            style.panel(ax, "abcd"[2 * row + column], f"{title}, {what}")
        plain.set_ylabel("critical rate $\\eta\\lambda$" if row == 0 else "critical rate $\\eta$")
        plain.legend(handles=reads, loc="upper right" if row == 0 else "lower left")
        if row == 1:
            style.legend_below(fig, grid[3, :], rules, 5)
    return fig
