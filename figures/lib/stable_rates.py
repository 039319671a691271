"""Largest stable rates of training, measured by ladders of runs and predicted from curvatures: the rows
that experiments/compare_stability.py writes."""

from __future__ import annotations

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


CHECKS = {
    check.__name__: check
    for check in (predicted_stable_rate, edge_of_stability, limited_without_delay)
}
