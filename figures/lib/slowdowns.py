"""How many more samples a pipeline of more stages takes to the loss that plain training has early.

Rows of the study are `OPTIMIZER, P = STAGES, rate RATE`; the losses on the way are in its manifest.
Which loss, and which rates count, stands in experiments/studies/gpt_stages.toml.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from figures.lib import study
from figures.lib.checks import Outcome, Reader
from figures.lib.tables import Data, Incomplete

RESULTS = "results.csv"
# Samples of plain training whose loss is the target.
TARGET_SAMPLES = 4000
# Runs end here; the slowdown of one that has not come to the target is infinite.
LONGEST = 6
PLAIN = 1
ROW = re.compile(r"(?P<optimizer>.+), P = (?P<stages>\d+), rate (?P<rate>.+)")


@dataclass(frozen=True)
class Curve:
    """Validation losses of a run, in nats a token."""

    samples: np.ndarray
    losses: np.ndarray

    def at(self, samples: float) -> float:
        reached = len(self.samples) and self.samples[-1] >= samples
        loss = float(np.interp(samples, self.samples, self.losses)) if reached else np.inf
        return np.inf if math.isnan(loss) else loss

    def first_at(self, loss: float) -> float:
        """Samples, linear between two validations; infinite where the loss stays above."""
        below = np.flatnonzero(self.losses <= loss)
        if not len(below):
            return np.inf
        k = int(below[0])
        if k == 0 or not np.isfinite(self.losses[k - 1]):
            return float(self.samples[k])
        return float(np.interp(-loss, -self.losses[k - 1 : k + 1], self.samples[k - 1 : k + 1]))


@dataclass(frozen=True)
class Cell:
    """An optimizer in a number of stages, at the rate that is best by the first seed."""

    rate: str
    rates: int  # of how many it is the best
    curves: dict[int, Curve]  # by seed
    slowdowns: dict[int, float]


def _curves(data: Data) -> dict[tuple[str, int], dict[str, dict[int, Curve]]]:
    """By optimizer and stages, then rate, then seed."""
    found: dict[tuple[str, int], dict[str, dict[int, Curve]]] = {}
    for run in study.about(data.manifest(), data.table(RESULTS)).get("runs", []):
        name = ROW.fullmatch(run["row"])
        points = [point for point in run.get("validations", []) if len(point) == 3]
        if name and ("diverged_at" in run or points):
            samples, _, losses = np.array(points, dtype=float).reshape(-1, 3).T
            rates = found.setdefault((name["optimizer"], int(name["stages"])), {})
            rates.setdefault(name["rate"], {})[run["seed"]] = Curve(samples, losses)
    return found


def cells(data: Data) -> dict[tuple[str, int], Cell]:
    """By optimizer and stages, of optimizers whose plain training has finished."""
    curves = _curves(data)
    found = {}
    for (optimizer, stages), rates in curves.items():
        plain = curves.get((optimizer, PLAIN), {})
        firsts = {rate: seeds[study.FIRST_SEED].at(TARGET_SAMPLES) for rate, seeds in plain.items() if study.FIRST_SEED in seeds}
        if not firsts:
            continue
        target_rate = min(firsts, key=firsts.__getitem__)
        ends = {seed: curve.at(TARGET_SAMPLES) for seed, curve in plain[target_rate].items()}
        # Plain training that diverged, or was shorter, has no target.
        targets = {seed: loss for seed, loss in ends.items() if np.isfinite(loss)}
        slowdowns = {
            rate: {
                seed: curve.first_at(targets[seed]) / TARGET_SAMPLES
                for seed, curve in sorted(seeds.items())
                if seed in targets
            }
            for rate, seeds in rates.items()
        }
        best = min(slowdowns, key=lambda rate: slowdowns[rate].get(study.FIRST_SEED, np.inf))
        if stages == PLAIN:
            best = target_rate
        first_seeds = sum(study.FIRST_SEED in seeds for seeds in rates.values())
        found[optimizer, stages] = Cell(best, first_seeds, rates[best], slowdowns[best])
    return found


def _slowdowns(claim: dict, data: Data, optimizer: str) -> np.ndarray:
    found = cells(data)
    for stages in (PLAIN, claim["stages"]):
        rates = found[optimizer, stages].rates if (optimizer, stages) in found else 0
        if rates < claim["rates"]:
            raise Incomplete(f"{optimizer}, P = {stages}: {rates} of {claim['rates']} rates")
    cell = found.get((optimizer, claim["stages"]))
    planned = claim["seeds"]
    finished = [] if cell is None else [cell.slowdowns[k] for k in range(1, planned + 1) if k in cell.slowdowns]
    if len(finished) < planned:
        raise Incomplete(f"{optimizer}, {claim['stages']} stages: {len(finished)} of {planned} runs")
    return np.array(finished)


def _words(optimizer: str, values: np.ndarray) -> str:
    return f"{optimizer} " + ", ".join(f"{x:.2f}" if np.isfinite(x) else f"above {LONGEST}" for x in values)


def slowdown(claim: dict, read: Reader) -> Outcome:
    """In `stages` stages, every seed of `optimizer` takes at least `low` times the samples, or at most
    `high` times; with `than`, fewer than that optimizer's same seed. Of each there are `rates` first
    seeds to choose from."""
    data = read(claim["figure"])
    if not data.has(RESULTS):
        raise Incomplete("No runs")
    values = _slowdowns(claim, data, claim["optimizer"])
    words = _words(claim["optimizer"], values)
    if "than" in claim:
        others = _slowdowns(claim, data, claim["than"])
        words += "; " + _words(claim["than"], others)
        return Outcome(words, bool(np.all(values < others)), "fewer in every seed")
    if "low" in claim:
        return Outcome(words, bool(np.all(values >= claim["low"])), f"at least {claim['low']:g}")
    return Outcome(words, bool(np.all(values <= claim["high"])), f"at most {claim['high']:g}")


CHECKS = {"slowdown": slowdown}
