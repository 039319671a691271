from figures.lib import study

COLUMNS = ("D", "κ", "order", "half-life", "over the limit", "--numerator", "--denominator")


def tables(data, manifest):
    """The rules that were found, as `--rule linear` takes them."""
    rows = []
    for name in ("by_condition.csv", "design.csv"):
        table = data.table(name)
        for i in range(len(table)):
            rows.append(
                (
                    f"{table['delay'][i]:g}",
                    f"{table['condition'][i]:g}",
                    f"{table['order'][i]:g}",
                    study.text(table["half_life_updates"][i], 2),
                    study.text(table["times_limit"][i], 3),
                    str(table["numerator"][i]).replace(" ", ", "),
                    str(table["denominator"][i]).replace(" ", ", "),
                )
            )
    title = "The fastest rules found, for a learning rate and a largest curvature of 1."
    return [study.ReportTable(title, COLUMNS, tuple(rows))]
