"""Comparisons over seeds. Two ways of training are paired by seed: the same initial weights and the
same order of samples.

    d_1 .. d_n   differences, one a seed, of mean d and standard deviation s
    t            (d - shift) / (s / sqrt n), Student's with n - 1 degrees of freedom
    effect size  d / s

Differences are tested on both sides, margins on one. Equivalence is two one-sided tests: more than
-margin and less than margin (Schuirmann, J. Pharmacokinet. Biopharm. 15 (1987) 657). Holm's adjustment
keeps the probability of any false one among m claims below the level (Holm, Scand. J. Statist. 6 (1979)
65).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

POWER = 0.8


@dataclass(frozen=True)
class Differences:
    """Differences of two or more pairs; `resolution` is the step that each of them is counted in."""

    values: tuple[float, ...]
    resolution: float = 0.0

    def __post_init__(self):
        if len(self.values) < 2:
            raise ValueError("a paired test takes two pairs or more")

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def deviation(self) -> float:
        """Standard deviation, at least that of the rounding of both sides: step / sqrt 6."""
        return max(float(np.std(self.values, ddof=1)), self.resolution / math.sqrt(6))

    @property
    def degrees(self) -> int:
        return len(self.values) - 1

    @property
    def error(self) -> float:
        return self.deviation / math.sqrt(len(self.values))

    @property
    def effect_size(self) -> float:
        return self.mean / self.deviation if self.deviation else math.copysign(math.inf, self.mean)

    def t(self, shift: float = 0.0) -> float:
        """Without any spread every difference is certain."""
        difference = self.mean - shift
        if self.error == 0:
            return math.copysign(math.inf, difference) if difference else 0.0
        return difference / self.error

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        half = float(stats.t.ppf((1 + confidence) / 2, self.degrees)) * self.error
        return self.mean - half, self.mean + half

    def above(self, shift: float = 0.0) -> float:
        """p of 'the mean is not above shift'."""
        return float(stats.t.sf(self.t(shift), self.degrees))

    def within(self, margin: float) -> float:
        """p of 'the mean is not between -margin and margin'."""
        return max(self.above(-margin), float(stats.t.cdf(self.t(margin), self.degrees)))

    def detectable(self, level: float, power: float = POWER) -> float:
        """Difference from the tested bound that as many pairs with this spread show with the given
        probability: their noncentral t is above the critical one."""
        critical = stats.t.ppf(1 - level, self.degrees)

        def surplus(shift: float) -> float:
            # Boost raises flags far out in the tails, where the values are right all the same.
            with np.errstate(divide="ignore", invalid="ignore"):
                return float(stats.nct.sf(critical, self.degrees, shift)) - power

        high = 2.0
        while surplus(high) < 0:
            high *= 2
        return optimize.brentq(surplus, high / 2, high) * self.error


def holm(probabilities: Sequence[float]) -> list[float]:
    """Each p adjusted for the number of tests, in the order given."""
    order = np.argsort(probabilities, kind="stable")
    adjusted, least = [0.0] * len(order), 0.0
    for rank, k in enumerate(order):
        least = max(least, min(1.0, (len(order) - rank) * probabilities[k]))
        adjusted[k] = least
    return adjusted
