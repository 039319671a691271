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

from figures.lib.tables import Data, DataError, Table

# Of a figure, or of the claim's own without a name.
Reader = Callable[[str | None], Data]

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
    p: float | None = None  # of a test over seeds
    # Which difference the seeds could have shown, by how many tests of the family are not passed.
    power: Callable[[int], str] | None = None


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


def near(claim: dict, words: list[str], off: float, limit: str = "") -> Outcome:
    """What is off by so much passes within `tolerance`."""
    limit = limit or within(claim["tolerance"])
    return Outcome("; ".join(words), bool(off <= claim["tolerance"]), limit)


def labelled(label: str, value: float, column: str, expected: float | None = None) -> str:
    """'label: value unit (expected)'; the column's name has the unit."""
    unit, scale = next((u for end, *u in UNITS if column.endswith(end)), ("", 1))
    words = f"{label}: {text(value / scale)} {unit}".rstrip()
    return words if expected is None else f"{words} ({expected / scale:,g})"


def rows(source: dict, read: Reader) -> Table:
    return read(source.get("figure")).table(source["file"]).where(**source.get("where", {}))


def value(source: dict, read: Reader) -> float:
    table = rows(source, read)
    if len(table) != 1:
        raise DataError(f"{table.source}: {len(table)} rows for '{source['label']}', one wanted")
    return float(table[source["column"]][0])


def near_expected(claim: dict, found: list[tuple[dict, float]], zero: float = 0) -> Outcome:
    """All within `tolerance`, relative to their distance from `zero`."""
    off = float(np.max([abs((x - zero) / (case["expected"] - zero) - 1) for case, x in found]))
    words = [labelled(c["label"], x, c.get("column", ""), c["expected"]) for c, x in found]
    of = " of the gain" if zero else ""
    words.append(f"expected in brackets; largest deviation {percent(off)}{of}")
    return near(claim, words, off, within(claim["tolerance"]) + of)


def values(claim: dict, read: Reader) -> Outcome:
    """Every case is within `tolerance` (relative) of its `expected`."""
    return near_expected(claim, [(case, value(case, read)) for case in claim["case"]])


def points(claim: dict, read: Reader) -> Outcome:
    """Every case, in percent, is within `tolerance` points of its `expected`."""
    found = [(case, value(case, read)) for case in claim["case"]]
    off = float(np.max([abs(x - case["expected"]) for case, x in found]))
    words = [f"{case['label']}: {x:.1f} % ({case['expected']})" for case, x in found]
    words.append(f"expected in brackets; largest deviation {off:.1f} points")
    return near(claim, words, off, f"within {claim['tolerance']:g} points")


def agree(claim: dict, read: Reader) -> Outcome:
    """All cases have the same value within `tolerance` (relative)."""
    found = [value(case, read) for case in claim["case"]]
    spread = np.max(found) / np.min(found) - 1
    words = [labelled(c["label"], x, c["column"]) for c, x in zip(claim["case"], found)]
    return near(claim, [*words, f"spread {percent(spread)}"], spread)


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
    """Row by row, each of `lower` is under `factor` times each of `higher`."""
    low, high = (
        [rows(case, read)[case["column"]] for case in claim[side]] for side in ("lower", "higher")
    )
    if len({curve.shape for curve in low + high}) > 1:
        counts = ", ".join(str(len(curve)) for curve in low + high)
        raise DataError(f"curves of {counts} rows, as many in each wanted")
    # A point where nothing is stable (NaN) bears no claim out.
    ratio = np.concatenate([below / above for below in low for above in high])
    worst = np.inf if np.isnan(ratio).any() else float(ratio.max())
    return Outcome(
        f"ratio at most {text(worst)} over {len(low[0])} points", bool(worst < claim.get("factor", 1))
    )


def closed_form(claim: dict, read: Reader) -> Outcome:
    """A column equals a formula within `tolerance` (relative) in every row."""
    source = claim["source_rows"]
    table = rows(source, read)
    off = float(np.max(np.abs(table[source["column"]] / CLOSED_FORMS[claim["formula"]](table) - 1)))
    words = f"largest relative difference {text(off)} over {len(table)} rows"
    return near(claim, [words], off, f"within {text(claim['tolerance'])}")


def same_columns(claim: dict, read: Reader) -> Outcome:
    """Two columns differ by at most `tolerance` (absolute, or `relative = true`) in every row."""
    first, second = (rows(claim[side], read)[claim[side]["column"]] for side in ("first", "second"))
    scale = np.abs(second) if claim.get("relative") else 1.0
    off = float(np.max(np.abs(first - second) / scale))
    kind = "relative " if claim.get("relative") else ""
    words = f"largest {kind}difference {text(off)} over {len(first)} rows"
    return near(claim, [words], off, f"within {text(claim['tolerance'])}")


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


def ratios(case: dict, read: Reader) -> np.ndarray:
    """`numerator` / `denominator`, row by row."""
    top, bottom = (
        rows(case[side], read)[case[side]["column"]] for side in ("numerator", "denominator")
    )
    return top / bottom


def ratio_range(claim: dict, read: Reader) -> Outcome:
    """`numerator` / `denominator`, row by row, stays within `range`."""
    ratio = ratios(claim, read)
    low, high = float(ratio.min()), float(ratio.max())
    limits = claim["range"]
    return Outcome(
        f"ratio {text(low)} to {text(high)} over {len(ratio)} rows",
        bool(limits[0] <= low and high <= limits[1]),
    )


def peak_ratio(claim: dict, read: Reader) -> Outcome:
    """Over all rows of all cases, the largest `numerator` / `denominator` is within `tolerance`
    (relative) of `expected`."""
    peaks = [float(ratios(case, read).max()) for case in claim["case"]]
    words = [labelled(case["label"], peak, "") for case, peak in zip(claim["case"], peaks)]
    off = abs(np.max(peaks) / claim["expected"] - 1)
    end = f"{claim['expected']:g} expected, off by {percent(off)}"
    return near(claim, [f"at most {'; '.join(words)}", end], off)


def hybrid(speedup: float, share: float) -> float:
    """Speedup of training that is pipelined for a share of its samples, plain for the rest.

    1 / (1 - share + share / speedup); Zhang and Abdelrahman, arXiv 1912.12675 (hybrid training).
    """
    return 1 / (1 - share + share / speedup)


def speedup_of(case: dict, read: Reader) -> float:
    return value(case["fast"], read) / value(case["slow"], read)


def speedups(claim: dict, read: Reader) -> Outcome:
    """Every `fast` / `slow` is within `tolerance` (relative) of its `expected`.

    With `share`, of training that is as fast for that share of its samples alone. With `gain = true`
    the tolerance is relative to what is gained, the speedup less one: two machines are at most twice
    as fast as one, so that a share of the speedup itself says little.
    """
    share = claim.get("share", 1)
    found = [(case, hybrid(speedup_of(case, read), share)) for case in claim["case"]]
    return near_expected(claim, found, 1 if claim.get("gain") else 0)


def growth(claim: dict, read: Reader) -> Outcome:
    """From the first case to the last, `fast` / `slow` grows as the `expected` do; what it grows by
    is within `tolerance` (relative) of what they grow by."""
    first, last = claim["case"][0], claim["case"][-1]
    low, high = speedup_of(first, read), speedup_of(last, read)
    found, expected = high / low - 1, last["expected"] / first["expected"] - 1
    words = [labelled(c["label"], x, "", c["expected"]) for c, x in ((first, low), (last, high))]
    words.append(f"growth {percent(found)} ({percent(expected)}); expected in brackets")
    return near(claim, words, abs(found / expected - 1))


def predictions(claim: dict, read: Reader) -> Outcome:
    """Every run's `prediction` is within `tolerance` (relative) of its `measurement`. With `by`,
    columns that tell cases apart: in every case the median over its runs is. With `mean_tolerance`
    their mean distance is within that, too."""

    def error(table: Table) -> np.ndarray:
        return table[claim["prediction"]] / table[claim["measurement"]] - 1

    table = rows(claim["runs"], read)
    off = error(table)
    near = int(np.count_nonzero(np.abs(off) <= claim["tolerance"]))
    counted, words = off, f"{near} of {len(off)} runs; off by {spread_percent(off)}"
    if "by" in claim:
        counted = np.array([np.median(error(own)) for own in table.by(*claim["by"]).values()])
        words = f"medians of {len(counted)} cases off by {spread_percent(counted)}; {words}"
    passed, limit = np.all(np.abs(counted) <= claim["tolerance"]), within(claim["tolerance"])
    if "mean_tolerance" in claim:
        mean = np.mean(np.abs(counted))
        passed &= mean <= claim["mean_tolerance"]
        words += f", {percent(mean)} on average"
        limit += f", on average {within(claim['mean_tolerance'])}"
    return Outcome(words, bool(passed), limit)


def spread_percent(values: np.ndarray) -> str:
    low, high = np.round([100 * values.min(), 100 * values.max()]) + 0.0  # no minus zero
    return f"{low:+.0f} to {high:+.0f} %".replace("-", "\N{MINUS SIGN}")


def flush_overhead(claim: dict, read: Reader) -> Outcome:
    """`fast` over `slow`, plans of one batch, is within `tolerance` (relative) of what the slow one's
    bubble and recomputation take: (1 + (depth - 1) / micro-batches), times 4/3 if it alone recomputes."""
    words, off = [], []
    for case in claim["case"]:
        plans = []
        for side in ("fast", "slow"):
            table = rows(case[side], read)
            plans.append({key: column[0] for key, column in table.columns.items()})
        fast, slow = plans
        microbatches = slow["batch"] / (slow["width"] * slow["microbatch"])
        expected = 1 + (slow["depth"] - 1) / microbatches
        expected *= 4 / 3 if slow["recompute"] > fast["recompute"] else 1
        found = fast["samples_per_second"] / slow["samples_per_second"]
        off.append(abs(found / expected - 1))
        words.append(f"{case['label']}: {text(found)} ({text(expected)})")
    return near(claim, [*words, "bubble and recomputation in brackets"], np.max(off))


CHECKS: dict[str, Callable[[dict, Reader], Outcome]] = {
    check.__name__: check
    for check in (
        values, points, agree, below, curve_below, closed_form, same_columns, best_near, slope, ratio_range,
        peak_ratio, speedups, growth, predictions, flush_overhead,
    )
}  # fmt: skip
