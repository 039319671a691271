from numpy.polynomial import Polynomial

from figures.lib import study

COLUMNS = (
    "D",
    "κ",
    "order",
    "half-life",
    "over the limit",
    "c₁/D",
    "2c₂/D²",
    "--numerator",
    "--denominator",
)


def leads(numerator, delay):
    """c₁/D and 2c₂/D² of N = N(1) (1 + c₁ u + c₂ u² + ...), u = z - 1; both are 1 where N begins as the
    Taylor series of z^D does for long delays."""
    slope = numerator.deriv()
    return (
        slope(1) / numerator(1) / delay,
        slope.deriv()(1) / numerator(1) / delay**2,
    )


def tables(data, manifest):
    """The rules that were found, as `--rule linear` takes them."""
    rows = []
    for name in ("by_condition.csv", "long_delays.csv", "design.csv"):
        table = data.table(name)
        for i in range(len(table)):
            powers = [float(x) for x in str(table["numerator"][i]).split()]
            numerator = Polynomial(powers[::-1])
            rows.append(
                (
                    f"{table['delay'][i]:g}",
                    f"{table['condition'][i]:g}",
                    f"{table['order'][i]:g}",
                    study.text(table["half_life_updates"][i], 2),
                    study.text(table["times_limit"][i], 3),
                    *(study.text(lead, 3) for lead in leads(numerator, table["delay"][i])),
                    str(table["numerator"][i]).replace(" ", ", "),
                    str(table["denominator"][i]).replace(" ", ", "),
                )
            )
    title = (
        "The fastest rules found, for a learning rate and a largest curvature of 1. With u = z − 1 their "
        "numerators are N(1) (1 + c₁ u + c₂ u² + …). For long delays c₁ comes near D and c₂ near D²/2, as in "
        "the Taylor series of z^D: the rule predicts D updates ahead to second order, where LWPw_D+SC_D, near "
        "(1 + D u)², takes twice as much of either."
    )
    return [study.ReportTable(title, COLUMNS, tuple(rows))]
