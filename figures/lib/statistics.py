"""Means, deviations and Welch's t-test, for results over a few seeds.

Welch's test asks whether two groups have the same mean without taking their variances for equal:

    t  = (x - y - shift) / sqrt(a + b),    a = s_x^2 / n_x,  b = s_y^2 / n_y
    df = (a + b)^2 / (a^2 / (n_x - 1) + b^2 / (n_y - 1))        Welch-Satterthwaite

B. L. Welch, Biometrika 34 (1947) 28. The probability of Student's t follows from the regularised
incomplete beta function I_x(p, q), which is computed by its continued fraction (DLMF 8.17.22).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_MOST_TERMS = 1000
_TINY = 1e-300
_PRECISION = 1e-15


@dataclass(frozen=True)
class Test:
    t: float
    df: float
    p: float  # two-sided


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def deviation(values: Sequence[float]) -> float:
    """Of a sample: divided by n - 1. NaN for fewer than two values."""
    if len(values) < 2:
        return math.nan
    middle = mean(values)
    return math.sqrt(math.fsum((x - middle) ** 2 for x in values) / (len(values) - 1))


def incomplete_beta(x: float, p: float, q: float) -> float:
    """I_x(p, q) for 0 <= x <= 1 and p, q > 0."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    # The fraction converges fast on this side of the distribution's middle.
    if x > (p + 1) / (p + q + 2):
        return 1 - incomplete_beta(1 - x, q, p)
    front = math.exp(
        math.lgamma(p + q) - math.lgamma(p) - math.lgamma(q) + p * math.log(x) + q * math.log1p(-x)
    )
    # Lentz's method: 1 / (1 + d_1 / (1 + d_2 / (1 + ...))).
    value, c, d = 1.0, 1.0, 0.0
    for k in range(1, _MOST_TERMS):
        m = k // 2
        if k % 2:
            term = -(p + m) * (p + q + m) * x / ((p + 2 * m) * (p + 2 * m + 1))
        else:
            term = m * (q - m) * x / ((p + 2 * m - 1) * (p + 2 * m))
        d = 1 / (1 + term * d or _TINY)
        c = 1 + term / c or _TINY
        value *= c * d
        if abs(c * d - 1) < _PRECISION:
            break
    return front / (p * value)


def two_sided(t: float, df: float) -> float:
    """Probability that Student's t with `df` degrees of freedom is at least |t| away from 0."""
    if math.isinf(t):
        return 0.0
    return incomplete_beta(df / (df + t * t), df / 2, 0.5)


def one_sided(t: float, df: float) -> float:
    """Probability that Student's t is at least t."""
    half = two_sided(t, df) / 2
    return half if t >= 0 else 1 - half


def _test(difference: float, variance: float, df: float) -> Test:
    if variance > 0:
        t = difference / math.sqrt(variance)
    else:
        # Without any spread, any difference is certain.
        t = math.copysign(math.inf, difference) if difference else 0.0
    return Test(t, df, two_sided(t, df))


def welch(first: Sequence[float], second: Sequence[float], shift: float = 0.0) -> Test:
    """Whether mean(first) - mean(second) is `shift`; t > 0 where it is more. Two values each."""
    if min(len(first), len(second)) < 2:
        raise ValueError("Welch's test takes two values or more on both sides")
    a, b = (deviation(side) ** 2 / len(side) for side in (first, second))
    below = a**2 / (len(first) - 1) + b**2 / (len(second) - 1)
    df = (a + b) ** 2 / below if below > 0 else float(len(first) + len(second) - 2)
    return _test(mean(first) - mean(second) - shift, a + b, df)


def paired(first: Sequence[float], second: Sequence[float]) -> Test:
    """Student's test of the differences first - second; t > 0 where they are above 0."""
    if len(first) != len(second) or len(first) < 2:
        raise ValueError("the paired test takes two pairs or more")
    differences = [x - y for x, y in zip(first, second)]
    variance = deviation(differences) ** 2 / len(differences)
    return _test(mean(differences), variance, len(differences) - 1)
