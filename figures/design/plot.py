from figures.lib import style

LOOKS = (("#0072B2", "o"), ("#009E73", "s"), ("#D55E00", "v"), ("#CC79A7", "D"))


def draw(data):
    fig, (left, right, margins) = style.plt.subplots(1, 3, figsize=(style.PAGE, 2.8))
    published = data.table("published.csv")
    designs = data.table("design.csv")
    for delay, (color, marker) in zip(sorted(set(designs["delay"])), LOOKS):
        rows = designs.where(delay=delay)
        left.plot(
            rows["order"], rows["times_limit"], color=color, marker=marker,
            label=f"$D$ = {int(delay)}",
        )
        best = published.where(delay=delay)
        left.plot(1.5, best["times_limit"], color=color, marker=marker, markerfacecolor="white")
    left.axhline(1, color="#404040", linestyle=":", linewidth=1)
    orders = sorted(set(designs["order"]))
    left.set_xticks([1.5, *orders], ["LWPw$_D$\n+SC$_D$", *(str(int(order)) for order in orders)])
    left.set(xlabel="order of the rule", ylabel="half-life / limit", ylim=(0.95, None))
    left.legend(loc="upper right")

    frontier = data.table("frontier.csv")
    for order, (color, marker) in zip(sorted(set(frontier["order"])), LOOKS):
        rows = frontier.where(order=order)
        right.plot(
            rows["stationary_loss"], rows["half_life_updates"], color=color, marker=marker,
            label=f"order {int(order)}",
        )
    right.set(xscale="log", yscale="log", xlabel="stationary loss", ylabel="half-life (updates)")
    style.plain_log(right.yaxis)
    style.plain_log(right.xaxis)
    right.legend(loc="upper right")

    rows = designs.where(delay=4)
    best = data.table("published_margins.csv").where(momentum=0.9875810749828828)
    for (color, marker), column, label, of in (
        (LOOKS[0], "delay_margin_updates", "delay (updates)", lambda values: values),
        (LOOKS[2], "gain_margin", "curvature (%)", lambda values: 100 * (values - 1)),
    ):
        margins.plot(rows["order"], of(rows[column]), color=color, marker=marker, label=label)
        margins.plot(1.5, of(best[column]), color=color, marker=marker, markerfacecolor="white")
    orders = sorted(set(rows["order"]))
    margins.set_xticks([1.5, *orders], ["LWPw$_D$\n+SC$_D$", *(str(int(order)) for order in orders)])
    margins.set(yscale="log", xlabel="order of the rule", ylabel="margin")
    style.plain_log(margins.yaxis)
    margins.legend(loc="lower left")
    names = ("what an order buys", "its cost in noise, $D$ = 4", "and in margins, $D$ = 4")
    style.titles((left, right, margins), *names)
    return fig
