import numpy as np

from figures.lib import statistics, study

COLUMNS = (("sgdm", "false"), ("sgdm", "true"), ("lwp-v+sc", "false"), ("lwp-v+sc", "true"))


def tables(data, manifest):
    return [
        accuracy_by_delay(file, table, manifest) if table else study.waiting()
        for file, table in study.results(data).items()
    ]


def accuracy_by_delay(file, table, manifest):
    accuracy, lost = study.accuracies(table), study.diverged(table)
    rows = []
    for delay in sorted(set(table["schedule.delay"])):
        line = [f"{delay:g}"]
        for rule, stashing in COLUMNS:
            own = (table["rule.name"] == rule) & (table["schedule.weight_stashing"] == stashing)
            here = (table["schedule.delay"] == delay) & (own | (delay == 0))
            if not np.any(here):
                line.append("–")
            elif lost[here].any():
                line.append(f"{study.text(statistics.mean(accuracy[here]))} (diverged)")
            else:
                line.append(study.text(statistics.mean(accuracy[here])))
        rows.append(tuple(line))
    caption = (
        f"{study.title(table)}, mini-batches of {int(table['batch'][0])}. Mean final "
        f"validation accuracy in percent, {seeds(table)}."
    )
    return study.ReportTable(
        caption=caption + study.count(manifest, file) + study.origin(manifest, file),
        columns=(
            "delay (updates)",
            "SGDM, inconsistent",
            "SGDM, consistent",
            "LWPv_D+SC_D, inconsistent",
            "LWPv_D+SC_D, consistent",
        ),
        rows=tuple(rows),
    )


def seeds(table):
    counts = [len(runs) for runs in study.rows(table).values()]
    least, most = min(counts), max(counts)
    if most == 1:
        return "one seed each"
    return f"{most} seeds each" if least == most else f"{least} to {most} seeds"
