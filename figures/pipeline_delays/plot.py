from figures.lib import style

PANELS = (("sgdm", "a", "SGDM"), ("lwp-w+sc", "b", "LWPw$_D$+SC$_D$"))


def draw(data):
    coupled, apart = data.table("coupled.csv"), data.table("apart.csv")
    fig, panels, below = style.panels(3.2, 2, 0.16)
    for ax, (rule, letter, title) in zip(panels, PANELS, strict=True):
        rows = apart.where(rule=rule)
        first = rows.where(seed=min(rows["seed"]))
        handles = ax.plot(
            first["stages"], first["largest_half_life_updates"], color="#404040", linestyle="--",
            label="largest delay for all",
        )
        handles += ax.plot(
            first["stages"], first["mean_half_life_updates"], color="#404040", label="mean delay for all",
        )
        handles += ax.plot(
            rows["stages"], rows["half_life_updates"], color="#D55E00", marker="o", linestyle="none",
            markerfacecolor="none", label="blocks that do not meet",
        )
        rows = coupled.where(rule=rule)
        handles += ax.plot(
            rows["stages"], rows["half_life_updates"], color="#0072B2", marker="s", linestyle="none",
            markersize=4, label="coupled blocks",
        )
        ax.set(xscale="log", yscale="log", xlabel="number of stages $S$")
        style.ticks_at(ax, first["stages"])
        style.plain_log(ax.yaxis)
        style.panel(ax, letter, title)
    panels[0].set_ylabel("best half-life (updates)")
    style.legend_below(fig, below, handles, 4)
    return fig
