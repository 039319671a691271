"""Largest stable rates of training, measured by ladders of runs and predicted from curvatures, the rows that
experiments/compare_stability.py writes; and where curvature settles, those of experiments/measure_edge.py."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from figures.lib.checks import Outcome, Reader, text
from figures.lib.tables import Incomplete, Table


def measured(table: Table, method: str) -> np.ndarray:
    """By seed: the largest rate of the ladder up to which all are stable, and the next one."""
    ladder = table.where(part="ladder", method=method)
    found = []
    for seed in np.unique(ladder["seed"]):
        own = ladder.where(seed=float(seed))
        order = np.argsort(own["learning_rate"])
        rates, stable = own["learning_rate"][order], own["stable"][order] == 1
        if stable.all() or not stable[0]:
            raise Incomplete(f"The ladder of {method} does not hold its largest stable rate")
        first = int(np.argmin(stable))
        found.append(rates[first - 1 : first + 1])
    return np.array(found)


def predicted_stable_rate(claim: dict, read: Reader) -> Outcome:
    """By each method's curvatures at the samples of `samples`, the least of `column` lies within `factor`
    of what was measured: of the rates from the largest stable one to the next, over all seeds."""
    table = read(claim["figure"]).table(claim["file"])
    words, passed = [], True
    for method in claim["methods"]:
        rates = measured(table, method)
        low, high = rates.min(), rates.max()
        points = table.where(
            part=claim["part"], predicted_for=method, reference_lr=claim["reference_lr"],
            samples=claim["samples"],
        )
        predicted = float(points[claim["column"]].min())
        off = max(1.0, low / predicted, predicted / high)
        side = f"{off:.2g} times too {'low' if predicted < low else 'high'}" if off > 1 else "between them"
        passed &= bool(off <= claim["factor"])
        words.append(
            f"{method}: measured {text(low)} to {text(high)}, predicted {text(predicted)}, {side}"
        )
    return Outcome("; ".join(words), passed, f"within a factor of {claim['factor']:g}")


def edge_of_stability(claim: dict, read: Reader) -> Outcome:
    """Along the method's runs, from `samples` on, the rate in use and the one that the curvature there
    allows, `column`, are equal to `factor`."""
    table = read(claim["figure"]).table(claim["file"])
    ladder = table.where(part="ladder", method=claim["method"])
    unit = ladder["learning_rate"][0] / ladder["reference_lr"][0]
    points = table.where(
        part="curvature", method=claim["method"], samples=[claim["samples"], np.inf]
    )
    ratio = unit * points["reference_lr"] / points[claim["column"]]
    words = [
        f"{text(x)} at {unit * rate:.2g} after {samples:,.0f} samples"
        for x, rate, samples in zip(ratio, points["reference_lr"], points["samples"], strict=True)
    ]
    off = float(np.max(np.abs(np.log(ratio))))
    return Outcome(
        f"rate in use over rate allowed: {'; '.join(words)}",
        bool(off <= np.log(claim["factor"])),
        f"within a factor of {claim['factor']:g}",
    )


def limited_without_delay(claim: dict, read: Reader) -> Outcome:
    """Without any delay training ends far below the rate that the curvature at the start allows,
    2 (1 + m) / e: by `factor` at least."""
    table = read(claim["figure"]).table(claim["file"])
    rates = measured(table, claim["method"])
    curvature = float(table.where(part="curvature", samples=0)["eigenvalue"][0])
    allowed = 2 * (1 + claim["momentum"]) / curvature
    ratio = allowed / rates.max()
    return Outcome(
        f"measured {text(rates.min())} to {text(rates.max())}, allowed {text(allowed)}: {ratio:,.0f} times",
        bool(ratio >= claim["factor"]),
    )


@dataclass(frozen=True)
class EdgeRun:
    """A run of measure_edge.py: largest eigenvalue over the edge of stability after some updates."""

    rule: str
    momentum: float
    delay: float
    multiple: float
    updates: np.ndarray
    ratio: np.ndarray


def runs_along_the_edge(table: Table, network: str) -> list[EdgeRun]:
    points = table.where(part="run", network=network)
    runs = []
    for key, own in points.by("rule", "momentum", "delay", "multiple").items():
        order = np.argsort(own["updates"])
        ratio = own["eigenvalue"] / own["edge"]
        runs.append(EdgeRun(*key, own["updates"][order], ratio[order]))
    return runs


def settled(run: EdgeRun) -> float | None:
    """The median of the ratio from where it first reaches 1; none where it never does."""
    if not (run.ratio >= 1).any():
        return None
    return float(np.median(run.ratio[int(np.argmax(run.ratio >= 1)) :]))


def settled_without_momentum(claim: dict, read: Reader) -> dict[float, dict[float, float]]:
    """By multiple of the curvature at the start, then delay; those of the claim."""
    table = read(claim["figure"]).table(claim["file"])
    found: dict[float, dict[float, float]] = {multiple: {} for multiple in claim["multiples"]}
    for run in runs_along_the_edge(table, claim["network"]):
        if run.momentum == 0 and run.multiple in found and run.delay in claim["delays"]:
            value = settled(run)
            found[run.multiple][run.delay] = np.nan if value is None else value
    for multiple, values in found.items():
        if set(values) != set(claim["delays"]):
            raise Incomplete(f"Runs whose edge is {multiple:g} times the start are missing")
    return found


def listed(found: dict[float, dict[float, float]]) -> str:
    return "; ".join(
        f"edge at {multiple:g} times the start: {', '.join(f'{x:.2f}' for _, x in sorted(values.items()))}"
        for multiple, values in found.items()
    )


def curvature_at_edge(claim: dict, read: Reader) -> Outcome:
    """Without momentum, every run reaches its edge and settles from `low` to `high` times it."""
    found = settled_without_momentum(claim, read)
    passed = all(claim["low"] <= x <= claim["high"] for values in found.values() for x in values.values())
    return Outcome(listed(found), bool(passed), f"from {claim['low']:g} to {claim['high']:g}")


def curvature_alike(claim: dict, read: Reader) -> Outcome:
    """At each edge, the ratio that a run settles at is the same for all delays, to `factor`."""
    found = settled_without_momentum(claim, read)
    ratios = (np.array(list(values.values())) for values in found.values())
    passed = all(each.max() <= claim["factor"] * each.min() for each in ratios)
    return Outcome(listed(found), passed, f"within a factor of {claim['factor']:g}")


CHECKS = {
    check.__name__: check
    for check in (
        predicted_stable_rate, edge_of_stability, limited_without_delay, curvature_at_edge,
        curvature_alike,
    )  # fmt: skip
}
