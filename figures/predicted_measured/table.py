from figures.lib import study
from figures.predicted_measured.comparison import ABSENT, TOLERANCE, cases


def tables(data, manifest):
    if not data.has("results.csv"):
        return [study.ReportTable(f"{ABSENT}.")]
    rows = []
    for case in cases(data.table("results.csv")):
        idle = [pair.middle for pair in case.idle]
        rows.append(
            (
                case.label,
                *numbers(case.speed, 1, 1 if case.speed.middle[0] < 100 else 0),
                " / ".join(f"{100 * predicted:.0f}" for predicted, _ in idle),
                " / ".join(f"{100 * measured:.0f}" for _, measured in idle),
                *numbers(case.trainer, 1e6, 0),
                *numbers(case.peak, 1e6, 0),
                "yes" if case.within else "no",
            )
        )
    return [study.ReportTable(caption(data, manifest), COLUMNS, tuple(rows))]


COLUMNS = (
    "network, workers",
    "samples/s predicted",
    "measured",
    "off by",
    "idle % predicted",
    "measured",
    "trainer MB predicted",
    "measured",
    "off by",
    "peak MB predicted",
    "measured",
    "off by",
    f"within {TOLERANCE:.0%}",
)


def numbers(pair, unit, digits):
    predicted, measured = (study.text(x / unit, digits) for x in pair.middle)
    return predicted, measured, f"{study.text(100 * pair.off, 0)} %"


def caption(data, manifest):
    about = manifest["kept"]
    repeats = len(set(data.table("results.csv")["repeat"]))
    times = "one repeat" if repeats == 1 else f"medians of {repeats} repeats"
    machine, program = about["machine"], about["program"]
    return (
        f"Measured on {machine['cpu']}, {machine['cpu_threads']} processors, {about['started']} to "
        f"{about['finished']}, commit {study.short(program['commit'])}; {times} with a "
        "calibration of its own. Idle time by worker; it counts as predicted within "
        f"{100 * TOLERANCE:.0f} points. Peak memory is the whole process's: what program and data had "
        "before, measured, and what the model predicts of the trainer."
    )
