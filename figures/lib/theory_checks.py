"""Checks that compute their own side: closed forms, roots in 50 digits, a schedule's actions.

They share no code with the program. Symbols: momentum m, delay D, horizon T, x = learning rate times
curvature, v' = m v + g, w' = w - eta (a v' + b g). Characteristic polynomials, from the update written
out for a gradient of the weights of D updates ago (velocity form, and weight form below):

    z^D (z - 1)(z - m) + x T (z - 1) + x ((a + b) z - b m)
    z^(D+1) (z - 1)(z - m) + x ((a + b) z - b m) ((1 + T) z - T)
"""

from __future__ import annotations

import re
from collections.abc import Callable

import mpmath
import numpy as np

from figures.lib.checks import Outcome, Reader, percent, rows, text
from figures.lib.tables import Table

DIGITS = 50


def limit_half_life(condition: np.ndarray, delay: np.ndarray) -> np.ndarray:
    """(D + 1) times the half-life of undelayed SGDM at its best, -ln 2 / ln((√κ - 1)/(√κ + 1)).

    No linear rule does better: the map from gradients to weights is T = L/(1 + L) with a zero of order
    D + 1 at infinity and T(1) = 1, and T has to leave out the values that a curvature within [1, κ]
    would make unstable. Schwarz's lemma bounds its radius of convergence.
    """
    root = np.sqrt(condition)
    return -(delay + 1) * np.log(2) / np.log((root - 1) / (root + 1))


def above_limit(claim: dict, read: Reader) -> Outcome:
    """Every half-life is at least the limit of linear rules, but for `tolerance` (relative)."""
    least, where, count = np.inf, "", 0
    for case in claim["case"]:
        table = rows(case, read)
        ratio = table[case["column"]] / limit_half_life(table["condition"], table["delay"])
        # A rule without any stable rate has no half-life.
        ratio = np.where(np.isnan(ratio), np.inf, ratio)
        count += len(ratio)
        k = int(np.argmin(ratio))
        if ratio[k] < least:
            least = float(ratio[k])
            where = f"{table['rule'][k]}, D = {table['delay'][k]:g}, κ = {table['condition'][k]:.4g}"
    ratio_text = f"1 + {text(least - 1)}" if 0 < least - 1 < 1e-3 else text(least)
    return Outcome(
        f"smallest ratio to the limit {ratio_text} ({where}) over {count} points",
        bool(least >= 1 - claim["tolerance"]),
        f"not below but for {text(claim['tolerance'])}",
    )


def _rule(name: str, m, delay: int) -> tuple[int, list[tuple[int, object]]]:
    """Degree and (power, coefficient) of x's factor, in the arithmetic of m."""
    one = m**0
    compensated = {"sc": delay, "nesterov": 1}.get(name, delay if name.endswith("+sc") else 0)
    a = m**compensated
    b = sum((m**k for k in range(compensated)), 0 * one)
    horizon = delay if name.startswith("lwp") else 0
    if name.startswith("lwp-w"):
        sums, ahead = [(1, a + b), (0, -b * m)], [(1, (1 + horizon) * one), (0, -horizon * one)]
        return delay + 1, [(i + j, c * d) for i, c in sums for j, d in ahead]
    return delay, [(1, a + b + horizon), (0, -b * m - horizon)]


def polynomial(name: str, m, x, delay: int) -> dict[int, object]:
    """Coefficients by power of z."""
    shift, factor = _rule(name, m, delay)
    found: dict[int, object] = {shift + 2: m**0, shift + 1: -(1 + m), shift: m}
    for power, coefficient in factor:
        found[power] = found.get(power, 0) + x * coefficient
    return found


def radius(coefficients: dict[int, object]) -> mpmath.mpf:
    """Largest modulus of a root, from Newton's method in 50 digits with every root isolated: the disc
    around z of radius n |p/p'| has a root in it, and n disjoint ones have one each. NaN where two are too
    close to be told apart."""
    degree = max(coefficients)
    starts = np.roots([complex(coefficients.get(k, 0)) for k in range(degree, -1, -1)])
    roots, radii = [], []
    for start in starts:
        z = mpmath.mpc(start)
        for _ in range(60):
            step = _newton(coefficients, z)
            z -= step
            if abs(step) < mpmath.mpf(10) ** (10 - DIGITS):
                break
        roots.append(z)
        radii.append(degree * abs(_newton(coefficients, z)))
    near = np.array([complex(z) for z in roots])
    gaps = np.abs(near[:, None] - near[None, :]) + np.eye(degree)
    isolated = gaps.min() > 2 * max(map(float, radii)) + 1e-14
    return max(map(abs, roots)) if isolated else mpmath.nan


def _newton(coefficients: dict[int, object], z):
    """p / p', by one power of z for each coefficient."""
    if z == 0:
        return z
    terms = [(k, c * z**k) for k, c in coefficients.items()]
    return z * sum(term for _, term in terms) / sum(k * term for k, term in terms)


def certified_radii(claim: dict, read: Reader) -> Outcome:
    """Radii at points spread over maps differ from those in 50 digits by no more than their own error
    bounds, and no bound exceeds `bound`."""
    bounds, worst, outside, count = 0.0, mpmath.mpf(0), 0, 0
    with mpmath.workdps(DIGITS):
        for file in claim["files"]:
            name, delay = re.fullmatch(r"(.*)_d(\d+)\.npz", file).groups()
            arrays = read(claim["figure"]).arrays(file)
            bounds = float(np.max([bounds, arrays["error_bound"].max()]))
            for i, j in spread(arrays["spectral_radius"].shape, claim["points"]):
                m, x = (mpmath.mpf(float(arrays[key][k])) for key, k in (("momentum", i), ("rate", j)))
                exact = radius(polynomial(name, m, x, int(delay)))
                off = abs(exact - mpmath.mpf(float(arrays["spectral_radius"][i, j])))
                worst, count = max(worst, off), count + 1
                outside += not off <= mpmath.mpf(float(arrays["error_bound"][i, j]))
    return Outcome(
        f"{count - outside} of {count} radii within their bounds of those in {DIGITS} digits, "
        f"largest difference {text(float(worst))}; largest bound {text(bounds)}",
        bool(outside == 0 and bounds <= claim["bound"]),
    )


def spread(shape: tuple[int, int], count: int) -> list[tuple[int, int]]:
    """Points of a map that lie evenly: steps of the golden ratio along one axis (R. L. Graham)."""
    golden = (np.sqrt(5) - 1) / 2
    return [
        (int((k + 0.5) / count * shape[0]), int((k * golden + 0.5) % 1 * shape[1]))
        for k in range(count)
    ]


def critical_rate(delay: int, discrepancy: float) -> float:
    """Largest rate x of SGD without momentum, up to which all roots of

        z^D (z - 1) + x (1 + d) - x d z^D

    are inside the unit circle: forward weights of D updates ago, backward weights of now, and a gradient
    (1 + d) w_forward - d w_backward for a curvature of one (PipeMare, arXiv 1910.05124, recalled).
    """

    def stable(x: float) -> bool:
        coefficients = np.zeros(delay + 2)
        coefficients[0] = 1
        coefficients[1] -= 1 + x * discrepancy
        coefficients[-1] += x * (1 + discrepancy)
        return bool(np.abs(np.roots(coefficients)).max() < 1)

    # The border without discrepancy is 2 sin(pi / (4 D + 2)); the first unstable rate from below.
    grid = 2 * np.sin(np.pi / (4 * delay + 2)) * np.linspace(0.005, 2, 400)
    first = next((k for k, x in enumerate(grid) if not stable(x)), None)
    if first is None or first == 0:
        return float("nan")
    low, high = grid[first - 1], grid[first]
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if stable(middle) else (low, middle)
    return float(low)


def discrepancy_lowers(claim: dict, read: Reader) -> Outcome:
    """At every delay the critical rate falls as the discrepancy grows, from that of the closed form."""
    words, passed = [], True
    for delay in claim["delays"]:
        found = [critical_rate(delay, d) for d in [0, *claim["discrepancies"]]]
        closed = 2 * np.sin(np.pi / (4 * delay + 2))
        passed &= bool(abs(found[0] / closed - 1) < 1e-6 and np.all(np.diff(found) < 0))
        words.append(f"D = {delay}: " + ", ".join(percent(rate / closed) for rate in found[1:]))
    shown = ", ".join(f"{d:g}" for d in claim["discrepancies"])
    return Outcome(f"of the consistent critical rate at d = {shown}: {'; '.join(words)}", passed)


def pipeline_delays(claim: dict, read: Reader) -> Outcome:
    """In a list of actions a stage updates 2(S-1-s) times between a sample's forward and its backward,
    fewer while the pipeline fills; and from its first backward to its last forward no step is idle."""
    table = rows(claim["actions"], read)
    stages = int(table["stage"].max()) + 1
    wrong = idle = 0
    for stage in range(stages):
        own = table.where(stage=stage)
        forward, backward = (own.where(kind=kind) for kind in "FB")
        start = dict(zip(forward["microbatch"], forward["step"]))
        ends = np.sort(backward["step"])
        for sample, step in zip(backward["microbatch"], backward["step"]):
            updates = int(np.count_nonzero((ends >= start[sample]) & (ends < step)))
            wrong += updates != min(2 * (stages - 1 - stage), int(sample))
        busy = np.arange(ends[0], forward["step"].max() + 1)
        idle += sum(step not in forward["step"] or step not in ends for step in busy)
    return Outcome(
        f"{stages} stages, {len(table)} actions: {wrong} delays that are not 2(S − 1 − s), {idle} steps "
        "without a forward, a backward and an update between filling and draining",
        wrong == 0 and idle == 0,
    )


def _first_stage(table: Table, slots: int, flushes: bool) -> tuple[int, float]:
    """What stage 0 does in a list of actions: the most updates between a sample's forward and its backward, and
    the share of the slots in use, from the first update to the last forward, or to the last flush."""
    own = table.where(stage=0)
    kinds, steps = own["kind"], own["step"]
    done = np.cumsum(kinds == "U")
    forward, backward = (
        dict(zip(own["microbatch"][kinds == kind], done[kinds == kind], strict=True)) for kind in "FB"
    )
    start, end = steps[kinds == "U"][0], steps[kinds == ("U" if flushes else "F")][-1]
    used = np.count_nonzero((kinds != "U") & (steps > start) & (steps <= end))
    return int(max(backward[each] - forward[each] for each in forward)), used / (slots * (end - start))


def side_by_side(claim: dict, read: Reader) -> Outcome:
    """In each system's list of actions the first of S stages updates `late` times between a sample's forward
    and its backward, and uses all its slots, or with `flushed` micro-batches an update M/(M + S - 1)."""
    words, passed = [], True
    for case in claim["case"]:
        table = rows(case, read)
        stages, flushed = int(table["stage"].max()) + 1, case.get("flushed", 0)
        late, busy = _first_stage(table, case["slots"], flushed > 0)
        expected = {"0": 0, "S - 1": stages - 1, "2(S - 1)": 2 * (stages - 1)}[case["late"]]
        share = flushed / (flushed + stages - 1) if flushed else 1
        passed &= late == expected and abs(busy - share) < 1e-12
        words.append(f"{case['label']}: {late} updates late, {case['passes']}, {percent(busy)} busy")
    return Outcome("; ".join(words), passed)


CHECKS: dict[str, Callable[[dict, Reader], Outcome]] = {
    check.__name__: check
    for check in (above_limit, certified_radii, discrepancy_lowers, pipeline_delays, side_by_side)
}
