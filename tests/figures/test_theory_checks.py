"""Checks that compute their own side, against literal simulations and known roots."""

import math
import unittest

import mpmath
import numpy as np

from figures.lib import theory_checks as theory
from figures.lib.tables import Data
from folder import FolderTest


class Folder(FolderTest):
    def check(self, kind, **claim):
        return theory.CHECKS[kind](claim, lambda figure: Data(self.root))


def decay(a, b, horizon, weight_form, momentum, x, delay, updates=3000):
    """Logarithm of the largest of the last weights of a simulated run."""
    w, v = [1.0, 1.0], [0.0, 0.0]  # w_{-1} = w_0
    scale = 0.0
    for _ in range(updates):
        late = max(len(w) - 1 - delay, 1)
        if weight_form:
            predicted = w[late] + horizon * (w[late] - w[late - 1])
        else:
            predicted = w[late] - x * horizon * v[late]
        gradient = predicted
        v.append(momentum * v[-1] + gradient)
        w.append(w[-1] - x * (a * v[-1] + b * gradient))
        if len(w) > 60:
            size = max(map(abs, w[-40:]))
            if size < 1e-100 or size > 1e100:
                w, v = [y / size for y in w], [y / size for y in v]
                scale += math.log(size)
    return math.log(max(map(abs, w[-200:]))) + scale


class Polynomials(unittest.TestCase):
    def radius(self, name, momentum, x, delay):
        with mpmath.workdps(theory.DIGITS):
            m, rate = mpmath.mpf(momentum), mpmath.mpf(x)
            return float(theory.radius(theory.polynomial(name, m, rate, delay)))

    def test_known_roots(self):
        # Undelayed SGDM: z^2 - (1 + m - x) z + m, modulus sqrt(m) while complex.
        self.assertAlmostEqual(self.radius("sgdm", 0.81, 0.5, 0), 0.9, places=14)
        # z (z - 1) + x/4 is (z - 1/2)^2 at x = 1: a double root is not isolated.
        self.assertTrue(math.isnan(self.radius("sgdm", 0.0, 0.25, 1)))
        self.assertAlmostEqual(self.radius("sgdm", 0.0, 0.16, 1), 0.8, places=14)

    def test_a_simulated_run_decays_as_the_largest_root_says(self):
        for name, delay in (
            ("sgdm", 4), ("nesterov", 3), ("sc", 4), ("lwp-v", 3), ("lwp-w", 3),
            ("lwp-v+sc", 4), ("lwp-w+sc", 4),
        ):  # fmt: skip
            momentum, x = 0.6, 0.02
            compensated = {"nesterov": 1}.get(name, delay if "sc" in name else 0)
            a = momentum**compensated
            b = (1 - a) / (1 - momentum)
            horizon = delay if "lwp" in name else 0
            form = name.startswith("lwp-w")
            ends = [
                decay(a, b, horizon, form, momentum, x, delay, updates)
                for updates in (2000, 4000)
            ]
            with self.subTest(name):
                found = math.exp((ends[1] - ends[0]) / 2000)
                self.assertAlmostEqual(found, self.radius(name, momentum, x, delay), delta=2e-4)


class Certified(Folder):
    def write(self, off=0.0, bound=1e-14):
        momentum, rate = np.linspace(0.1, 0.9, 9), np.geomspace(1e-3, 1, 7)
        with mpmath.workdps(theory.DIGITS):
            radii = [
                [float(theory.radius(theory.polynomial("sc", mpmath.mpf(m), mpmath.mpf(x), 2)))
                 for x in map(float, rate)] for m in map(float, momentum)
            ]  # fmt: skip
        radii = np.array(radii)
        np.savez(
            self.root / "sc_d2.npz", momentum=momentum, rate=rate, spectral_radius=radii + off,
            error_bound=np.full(radii.shape, bound),
        )  # fmt: skip
        claim = {"figure": "f", "files": ["sc_d2.npz"], "points": 5, "bound": 1e-13}
        return self.check("certified_radii", **claim)

    def test_bounds_hold_or_do_not(self):
        self.assertTrue(self.write().passed)
        self.assertIn("5 of 5 radii", self.write().measured)
        # A radius that is off by more than it says, and a bound that is too large to be one.
        self.assertIn("0 of 5 radii", self.write(off=2e-14).measured)
        self.assertFalse(self.write(off=2e-14).passed)
        self.assertFalse(self.write(bound=2e-13).passed)

    def test_points_are_spread(self):
        points = theory.spread((512, 512), 8)
        self.assertEqual([i // 64 for i, _ in points], list(range(8)))
        columns = sorted(j for _, j in points)
        self.assertGreater(min(np.diff(columns)), 20)


class Limit(Folder):
    def test_undelayed_sgdm_is_at_the_limit(self):
        # Polyak's rate at κ = 9 is (3 - 1)/(3 + 1) = 1/2: a half-life of one update.
        self.assertAlmostEqual(float(theory.limit_half_life(np.array(9.0), np.array(0))), 1)
        self.assertAlmostEqual(float(theory.limit_half_life(np.array(9.0), np.array(4))), 5)
        head = "rule,delay,condition,half_life_updates\n"
        case = [{"figure": "f", "file": "t.csv", "column": "half_life_updates"}]
        for lines, passes in (
            ("sgdm,0,9,1\nsgdm,4,9,9\n", True),
            ("sgdm,0,9,1\nsgdm,4,9,4.99\n", False),
            ("sgdm,0,9,1\nsgdm,4,9,\n", True),
        ):
            (self.root / "t.csv").write_text(head + lines)
            found = self.check("above_limit", case=case, tolerance=1e-9)
            self.assertEqual(found.passed, passes)

    def test_interleaved_undelayed_rules_reach_it(self):
        # z^(2D+2) - (1 + m - x) z^(D+1) + m, with Polyak's m and rate for κ = 9 and D = 2.
        m, radii = 0.25, []
        for curvature in (1, 3, 9):
            x = curvature * (1 + math.sqrt(m)) ** 2 / 9
            radii.append(max(abs(np.roots([1, 0, 0, -(1 + m - x), 0, 0, m]))))
        half_life = -math.log(2) / math.log(max(radii))
        limit = float(theory.limit_half_life(np.array(9.0), np.array(2)))
        # Double roots at both ends of the spectrum: half the digits.
        self.assertAlmostEqual(half_life / limit, 1, delta=1e-6)


class Discrepancy(Folder):
    def test_one_late_update_in_closed_form(self):
        # z (z - 1) + x (1 + d) - x d z leaves the unit circle where the product of its roots is one.
        for d in (0, 0.25, 1):
            self.assertAlmostEqual(theory.critical_rate(1, d), 1 / (1 + d), places=9)

    def test_a_simulated_run(self):
        delay, d = 4, 0.5
        border = theory.critical_rate(delay, d)
        for factor, stable in ((0.98, True), (1.02, False)):
            w = [1.0] * (delay + 1)
            for _ in range(4000):
                x = factor * border
                w.append(w[-1] - x * ((1 + d) * w[-1 - delay] - d * w[-1]))
            self.assertEqual(max(map(abs, w[-50:])) < 1, stable)

    def test_the_check(self):
        claim = {"delays": [1, 4], "discrepancies": [0.25, 0.5]}
        self.assertTrue(self.check("discrepancy_lowers", **claim).passed)
        claim["discrepancies"] = [0.5, 0.25]
        self.assertFalse(self.check("discrepancy_lowers", **claim).passed)


class Actions(Folder):
    def write(self, stages=3, samples=6, late=0):
        lines = [
            f"{i + s + (late if kind == 'B' else 0)},{s},{kind},{i}"
            if kind == "F"
            else f"{i + 2 * (stages - 1) - s + late},{s},B,{i}"
            for s in range(stages)
            for i in range(samples)
            for kind in "FB"
        ]
        (self.root / "pb.csv").write_text("step,stage,kind,microbatch\n" + "\n".join(lines))
        return self.check("pipeline_delays", actions={"figure": "f", "file": "pb.csv"})

    def test_delays(self):
        self.assertTrue(self.write().passed)
        found = self.write(late=1)
        self.assertFalse(found.passed)
        self.assertNotIn(" 0 delays", found.measured)

    def test_side_by_side(self):
        # Two stages, one slot a step, an update after each backward, whose sample is one update late.
        lines = ["0,0,F,0", "1,0,F,1", "1,1,F,0", "2,1,B,0", "2,1,U,0", "3,0,B,0", "3,0,U,0", "3,1,F,1"]
        lines += ["4,0,F,2", "4,1,B,1", "4,1,U,1", "5,0,B,1", "5,0,U,1", "5,1,F,2"]
        lines += ["6,0,F,3", "6,1,B,2", "6,1,U,2", "7,0,B,2", "7,0,U,2", "7,1,F,3"]
        lines += ["8,1,B,3", "8,1,U,3", "9,0,B,3", "9,0,U,3"]
        (self.root / "a.csv").write_text("step,stage,kind,microbatch\n" + "\n".join(lines))
        case = {"figure": "f", "file": "a.csv", "label": "A", "slots": 1, "late": "S - 1", "passes": "newer"}
        found = self.check("side_by_side", case=[case])
        self.assertTrue(found.passed)
        self.assertIn("1 updates late, newer, 100", found.measured)
        for wrong in ({"late": "0"}, {"late": "2(S - 1)"}, {"slots": 2}, {"flushed": 2}):
            self.assertFalse(self.check("side_by_side", case=[case | wrong]).passed)
