"""Predicates over the data files: what a claim in figures/claims can be tested with.

A check gets the claim's own table and a reader of data files, and returns an Outcome: the numbers
found, in words, and whether they bear the claim out. Where a number does not exist (NaN: nothing is
stable there) the claim fails; numpy's maximum carries a NaN on, Python's does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from figures.lib import statistics
from figures.lib.study import accuracies
from figures.lib.tables import Data, DataError, Incomplete, Table

Reader = Callable[[str], Data]

CLOSED_FORMS = {
    # Largest stable rate of SGD without momentum.
    "2 sin(pi / (4 D + 2))": lambda table: 2 * np.sin(np.pi / (4 * table["delay"] + 2)),
    # Utilisation of a pipeline that drains after every batch, by room for two passes a step or one.
    "N / (N + 2 S - 2)": lambda table: table["batch"] / (table["batch"] + 2 * table["stages"] - 2),
    "N / (N + S - 1)": lambda table: table["batch"] / (table["batch"] + table["stages"] - 1),
}


# How a column's name ends, the unit that it is shown in, and how many of its own make one of that.
UNITS = (
    ("_updates", "updates", 1),
    ("_bytes", "MB", 1e6),
    ("_percent", "%", 1),
    ("samples_per_second", "samples/s", 1),
)


@dataclass(frozen=True)
class Outcome:
    measured: str
    passed: bool
    limit: str = ""  # how near counts, in words; empty where the claim itself says it


def text(value: float) -> str:
    """Four significant digits, without exponents where a reader would not want one."""
    if not math.isfinite(value):
        return "none (unstable)" if math.isnan(value) else "infinite"
    if value == 0:
        return "0"
    if abs(value) < 1e-3:
        digits, power = f"{value:.1e}".split("e")
        return f"{digits}·10^{int(power)}"
    if abs(value) >= 1000:
        return f"{float(f'{value:.4g}'):,.0f}"
    return f"{value:#.4g}".rstrip(".")


def percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def within(share: float) -> str:
    return f"within {100 * share:g} %"


def labelled(label: str, value: float, column: str, expected: float | None = None) -> str:
    """'label: value unit (expected)'; the column's name has the unit."""
    unit, scale = next((u for end, *u in UNITS if column.endswith(end)), ("", 1))
    words = f"{label}: {text(value / scale)} {unit}".rstrip()
    return words if expected is None else f"{words} ({expected / scale:,g})"


def rows(source: dict, read: Reader) -> Table:
    return read(source["figure"]).table(source["file"]).where(**source.get("where", {}))


def value(source: dict, read: Reader) -> float:
    table = rows(source, read)
    if len(table) != 1:
        raise DataError(f"{table.source}: {len(table)} rows for '{source['label']}', one wanted")
    return float(table[source["column"]][0])


def near_expected(claim: dict, found: list[tuple[dict, float]]) -> Outcome:
    off = float(np.max([abs(x / case["expected"] - 1) for case, x in found]))
    words = [labelled(c["label"], x, c.get("column", ""), c["expected"]) for c, x in found]
    return Outcome(
        "; ".join([*words, f"expected in brackets; largest deviation {percent(off)}"]),
        bool(off <= claim["tolerance"]),
        within(claim["tolerance"]),
    )


def values(claim: dict, read: Reader) -> Outcome:
    """Every case is within `tolerance` (relative) of its `expected`."""
    return near_expected(claim, [(case, value(case, read)) for case in claim["case"]])


def points(claim: dict, read: Reader) -> Outcome:
    """Every case, in percent, is within `tolerance` points of its `expected`."""
    found = [(case, value(case, read)) for case in claim["case"]]
    off = float(np.max([abs(x - case["expected"]) for case, x in found]))
    words = [f"{case['label']}: {x:.1f} % ({case['expected']})" for case, x in found]
    return Outcome(
        "; ".join([*words, f"expected in brackets; largest deviation {off:.1f} points"]),
        bool(off <= claim["tolerance"]),
        f"within {claim['tolerance']:g} points",
    )


def agree(claim: dict, read: Reader) -> Outcome:
    """All cases have the same value within `tolerance` (relative)."""
    found = [value(case, read) for case in claim["case"]]
    spread = np.max(found) / np.min(found) - 1
    words = [labelled(c["label"], x, c["column"]) for c, x in zip(claim["case"], found)]
    return Outcome(
        "; ".join([*words, f"spread {percent(spread)}"]),
        bool(spread <= claim["tolerance"]),
        within(claim["tolerance"]),
    )


def below(claim: dict, read: Reader) -> Outcome:
    """The largest of `lower` is under `factor` times the smallest of `higher`."""
    low, high = ([value(case, read) for case in claim[side]] for side in ("lower", "higher"))
    ratio = float(np.max(low) / np.min(high))
    words = [
        "; ".join(labelled(case["label"], x, case["column"]) for case, x in zip(cases, found))
        for cases, found in ((claim["lower"], low), (claim["higher"], high))
    ]
    return Outcome(
        f"{'; against '.join(words)}; ratio at most {text(ratio)}",
        bool(ratio < claim.get("factor", 1)),
    )


def curve_below(claim: dict, read: Reader) -> Outcome:
    """Row by row, `lower` is under `factor` times each of `higher`."""
    low = rows(claim["lower"], read)[claim["lower"]["column"]]
    worst = -np.inf
    for case in claim["higher"]:
        high = rows(case, read)[case["column"]]
        if high.shape != low.shape:
            raise DataError(f"'{case['label']}': {len(high)} rows against {len(low)}")
        # A point where nothing is stable (NaN) bears no claim out.
        ratio = low / high
        worst = max(worst, np.inf if np.isnan(ratio).any() else float(ratio.max()))
    return Outcome(
        f"ratio to the next best at most {text(worst)} over {len(low)} points",
        bool(worst < claim.get("factor", 1)),
    )


def closed_form(claim: dict, read: Reader) -> Outcome:
    """A column equals a formula within `tolerance` (relative) in every row."""
    source = claim["source_rows"]
    table = rows(source, read)
    off = float(np.max(np.abs(table[source["column"]] / CLOSED_FORMS[claim["formula"]](table) - 1)))
    return Outcome(
        f"largest relative difference {text(off)} over {len(table)} rows",
        bool(off <= claim["tolerance"]),
        f"within {text(claim['tolerance'])}",
    )


def same_columns(claim: dict, read: Reader) -> Outcome:
    """Two columns differ by at most `tolerance` (absolute, or `relative = true`) in every row."""
    first, second = (rows(claim[side], read)[claim[side]["column"]] for side in ("first", "second"))
    scale = np.abs(second) if claim.get("relative") else 1.0
    off = float(np.max(np.abs(first - second) / scale))
    kind = "relative " if claim.get("relative") else ""
    return Outcome(
        f"largest {kind}difference {text(off)} over {len(first)} rows",
        bool(off <= claim["tolerance"]),
        f"within {text(claim['tolerance'])}",
    )


def delays(count: float) -> str:
    """2D for twice the delay."""
    return "D" if count == 1 else f"{count:.3g}D"


def best_near(claim: dict, read: Reader) -> Outcome:
    """Along `axis`, the value `at` is within `tolerance` of the best and beats that at `than`."""
    words, passed = [], True
    for case in claim["case"]:
        table = rows(case, read)
        along, found = table[case["axis"]] / case["unit"], table[case["column"]]
        here, there = (
            float(found[np.argmin(np.abs(along - point))]) for point in (claim["at"], claim["than"])
        )
        best = int(np.nanargmin(found))
        lowest = labelled(case["label"], found[best], case["column"])
        words.append(
            f"{lowest} at best, at {delays(along[best])}, "
            f"{text(here)} at {delays(claim['at'])}, {text(there)} at {delays(claim['than'])}"
        )
        passed &= here <= found[best] * (1 + claim["tolerance"]) and here < there
    return Outcome("; ".join(words), bool(passed))


def slope(claim: dict, read: Reader) -> Outcome:
    """Power law: slope of log(column) over log(axis) is within `range` for every case."""
    words, passed = [], True
    for case in claim["case"]:
        table = rows(case, read)
        x, y = np.log(table[case["axis"]]), np.log(table[case["column"]])
        power = float(np.polyfit(x, y, 1)[0])
        words.append(f"{case['label']}: {power:.3f}")
        passed &= case["range"][0] <= power <= case["range"][1]
    return Outcome("; ".join(words), bool(passed))


def ratio_range(claim: dict, read: Reader) -> Outcome:
    """`numerator` / `denominator`, row by row, stays within `range`."""
    top, bottom = (
        rows(claim[side], read)[claim[side]["column"]] for side in ("numerator", "denominator")
    )
    ratio = top / bottom
    low, high = float(ratio.min()), float(ratio.max())
    limits = claim["range"]
    return Outcome(
        f"ratio {text(low)} to {text(high)} over {len(ratio)} rows",
        bool(limits[0] <= low and high <= limits[1]),
    )


def hybrid(speedup: float, share: float) -> float:
    """Speedup of training that is pipelined for a share of its samples, plain for the rest.

    1 / (1 - share + share / speedup); Zhang and Abdelrahman, arXiv 1912.12675 (hybrid training).
    """
    return 1 / (1 - share + share / speedup)


def speedup_of(case: dict, read: Reader) -> float:
    return value(case["fast"], read) / value(case["slow"], read)


def speedups(claim: dict, read: Reader) -> Outcome:
    """Every `fast` / `slow` is within `tolerance` (relative) of its `expected`.

    With `share`, of training that is as fast for that share of its samples alone.
    """
    share = claim.get("share", 1)
    found = [(case, hybrid(speedup_of(case, read), share)) for case in claim["case"]]
    return near_expected(claim, found)


def growth(claim: dict, read: Reader) -> Outcome:
    """From the first case to the last, `fast` / `slow` grows as the `expected` do; what it grows by
    is within `tolerance` (relative) of what they grow by."""
    first, last = claim["case"][0], claim["case"][-1]
    low, high = speedup_of(first, read), speedup_of(last, read)
    found, expected = high / low - 1, last["expected"] / first["expected"] - 1
    words = [labelled(c["label"], x, "", c["expected"]) for c, x in ((first, low), (last, high))]
    words.append(f"growth {percent(found)} ({percent(expected)}); expected in brackets")
    return Outcome(
        "; ".join(words),
        bool(abs(found / expected - 1) <= claim["tolerance"]),
        within(claim["tolerance"]),
    )


def predictions(claim: dict, read: Reader) -> Outcome:
    """Every run's `prediction` is within `tolerance` (relative) of its `measurement`. With `by`,
    columns that tell cases apart: in every case the median over its runs is."""
    table = rows(claim["runs"], read)
    off = table[claim["prediction"]] / table[claim["measurement"]] - 1
    near = int(np.count_nonzero(np.abs(off) <= claim["tolerance"]))
    counted, words = off, f"{near} of {len(off)} runs; off by {spread_percent(off)}"
    if "by" in claim:
        cases = list(zip(*(table[key] for key in claim["by"]), strict=True))
        counted = np.array(
            [np.median(off[[each == case for each in cases]]) for case in dict.fromkeys(cases)]
        )
        words = f"medians of {len(counted)} cases off by {spread_percent(counted)}; {words}"
    return Outcome(
        words, bool(np.all(np.abs(counted) <= claim["tolerance"])), within(claim["tolerance"])
    )


def spread_percent(values: np.ndarray) -> str:
    low, high = np.round([100 * values.min(), 100 * values.max()]) + 0.0  # no minus zero
    return f"{low:+.0f} to {high:+.0f} %".replace("-", "\N{MINUS SIGN}")


def array_bound(claim: dict, read: Reader) -> Outcome:
    """No entry of an array, over several .npz files, exceeds `bound`."""
    worst, count = 0.0, 0
    for name in claim["files"]:
        array = read(claim["figure"]).arrays(name)[claim["array"]]
        worst, count = float(np.max([worst, array.max()])), count + array.size
    return Outcome(f"largest {text(worst)} over {count:,} points", bool(worst <= claim["bound"]))


def seeds(source: dict, read: Reader) -> np.ndarray:
    """Accuracies of a study's row, one for each seed; two at least, or nothing can be tested."""
    table = read(source["figure"]).table(source["file"])
    try:
        found = accuracies(table.where(**source["where"]))
    except DataError:
        found = np.empty(0)
    if len(found) < 2:
        raise Incomplete(f"{len(found)} of '{source['label']}', two or more wanted")
    return found


def group(label: str, found: np.ndarray) -> str:
    spread = f"{statistics.mean(found):.2f} ± {statistics.deviation(found):.2f} %"
    return f"{label} {spread} ({len(found)} seeds)"


def welch_above(claim: dict, read: Reader) -> Outcome:
    """The mean of `higher` is above that of `lower`; Welch's t-test, two-sided p under `level`."""
    high, low = (seeds(claim[side], read) for side in ("higher", "lower"))
    test = statistics.welch(high, low)
    words = " against ".join(
        group(claim[side]["label"], found) for side, found in (("higher", high), ("lower", low))
    )
    return Outcome(
        f"{words}; Welch t = {test.t:.2f}, df = {test.df:.1f}, p = {test.p:.3g}",
        bool(test.t > 0 and test.p < claim["level"]),
    )


def welch_not_below(claim: dict, read: Reader) -> Outcome:
    """The mean of `first` is no more than `margin` below that of `second`; Welch's t-test of a
    difference of -`margin`, one-sided p under `level`. A large p alone would only say that there
    are few seeds."""
    first, second = (seeds(claim[side], read) for side in ("first", "second"))
    margin = claim["margin"]
    test = statistics.welch(first, second, shift=-margin)
    p = statistics.one_sided(test.t, test.df)
    words = " against ".join(
        group(claim[side]["label"], found) for side, found in (("first", first), ("second", second))
    )
    return Outcome(
        f"{words}; worse by less than {margin:g} points: Welch t = {test.t:.2f}, "
        f"df = {test.df:.1f}, one-sided p = {p:.3g}",
        bool(p < claim["level"]),
    )


def paired_above(claim: dict, read: Reader) -> Outcome:
    """Over the values of `axis` that both have, `higher` is above `lower` on the average; paired
    t-test, two-sided p under `level`."""
    columns = []
    for side in ("higher", "lower"):
        source = claim[side]
        table = read(source["figure"]).table(source["file"])
        try:
            found = table.where(**source["where"])
        except DataError as error:
            raise Incomplete(f"none of '{source['label']}'") from error
        points: dict[float, list[float]] = {}
        for x, y in zip(found[claim["axis"]], accuracies(found)):
            points.setdefault(float(x), []).append(float(y))
        columns.append({x: statistics.mean(values) for x, values in points.items()})
    both = sorted(set(columns[0]) & set(columns[1]))
    if len(both) < claim["least"]:
        raise Incomplete(f"{len(both)} pairs, {claim['least']} wanted")
    high, low = ([column[x] for x in both] for column in columns)
    test = statistics.paired(high, low)
    gain = statistics.mean([x - y for x, y in zip(high, low)])
    return Outcome(
        f"{claim['higher']['label']} less {claim['lower']['label']}: {gain:+.2f} points on the "
        f"average of {len(both)} pairs; paired t = {test.t:.2f}, df = {test.df:.0f}, "
        f"p = {test.p:.3g}",
        bool(test.t > 0 and test.p < claim["level"]),
    )


CHECKS: dict[str, Callable[[dict, Reader], Outcome]] = {
    check.__name__: check
    for check in (
        values, points, agree, below, curve_below, closed_form, same_columns, best_near, slope, ratio_range,
        speedups, growth, predictions, array_bound, welch_above, welch_not_below, paired_above,
    )
}  # fmt: skip
