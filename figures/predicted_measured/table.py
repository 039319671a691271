import numpy as np

from figures.lib import study
from figures.predicted_measured.comparison import ABSENT, TOLERANCE, cases

WITHIN = f"within {TOLERANCE:.0%}".replace("%", " %")
TIMES = (
    "network, workers",
    "samples/s predicted",
    "measured",
    "off by %",
    "idle % predicted",
    "measured",
    WITHIN,
)
MEMORY = (
    "network, workers",
    "trainer MB predicted",
    "measured",
    "off by %",
    "process MB predicted",
    "measured",
    "off by %",
    WITHIN,
)


def tables(data, manifest):
    if not data.has("results.csv"):
        return [study.ReportTable(f"{ABSENT}.")]
    found = cases(data.table("results.csv"))
    return [
        study.ReportTable(times_caption(data, manifest), TIMES, tuple(map(times, found))),
        study.ReportTable(MEMORY_CAPTION, MEMORY, tuple(map(memory, found))),
    ]


def times(case):
    idle = [[span(100 * part, 0) for part in (p.predicted, p.measured)] for p in case.idle]
    return (
        case.label,
        *numbers(case.speed, 1, 1 if case.speed.predicted.max() < 100 else 0),
        " / ".join(predicted for predicted, _ in idle),
        " / ".join(measured for _, measured in idle),
        count(case.times_within),
    )


def memory(case):
    return (
        case.label,
        *numbers(case.trainer, 1e6, 0),
        *numbers(case.peak, 1e6, 0),
        count(case.memory_within),
    )


def numbers(pair, unit, digits):
    ranges = (span(part / unit, digits) for part in (pair.predicted, pair.measured))
    return *ranges, span(100 * pair.off, 1)


def span(values, digits):
    """'306 to 448', or one number where all are the same to these digits."""
    ends = dict.fromkeys(study.text(end, digits) for end in (np.min(values), np.max(values)))
    return " to ".join(ends)


def count(within):
    return f"{np.count_nonzero(within)} of {len(within)}"


def times_caption(data, manifest):
    about = manifest["kept"]
    repeats = len(set(data.table("results.csv")["repeat"]))
    ranges = "One repeat" if repeats == 1 else f"Ranges over {repeats} repeats"
    machine, program = about["machine"], about["program"]
    return (
        f"Speed and idle time, the latter by worker. {ranges}, each with a calibration of its own and "
        "compared with its own measurement. The last column counts repeats whose speed and idle "
        f"times were as predicted, idle times within {100 * TOLERANCE:.0f} points. Measured on "
        f"{machine['cpu']}, {machine['cpu_threads']} processors, {about['started']} to "
        f"{about['finished']}, commit {study.short(program['commit'])}."
    )


MEMORY_CAPTION = (
    "Memory, from the same runs: what the trainer keeps, and the most that the process had. The "
    "latter is predicted from what program and data had before, measured, and what the model says "
    "of the trainer."
)
