"""Paired comparisons against hand-computed cases, permutations and simulated error rates."""

import itertools
import math
import unittest

import numpy as np
from scipy import stats

from figures.lib.statistics import Differences, holm


class ByHand(unittest.TestCase):
    def test_three_pairs(self):
        # Differences 1, 2, 3: mean 2, s = 1, error 1/sqrt(3). With two degrees of freedom
        # P(T > t) = (1 - t / sqrt(2 + t^2)) / 2.
        found = Differences((1, 2, 3))
        t = 2 * math.sqrt(3)
        self.assertEqual((found.mean, found.deviation, found.degrees), (2, 1, 2))
        self.assertEqual(found.effect_size, 2)
        self.assertAlmostEqual(found.t(), t, places=14)
        self.assertAlmostEqual(found.above(), (1 - t / math.sqrt(2 + t * t)) / 2, places=14)
        # Student's table: 4.303 for 95 %.
        low, high = found.interval()
        self.assertAlmostEqual(low, 2 - 4.303 / math.sqrt(3), delta=3e-4)
        self.assertAlmostEqual(low + high, 4, places=13)

    def test_equivalence_is_the_worse_of_two_tests(self):
        found = Differences((1, 2, 3))
        # The distance to the nearer bound, 3, is one: t = sqrt(3).
        t = math.sqrt(3)
        self.assertAlmostEqual(found.within(3), (1 - t / math.sqrt(2 + t * t)) / 2, places=14)
        self.assertGreater(found.within(2), 0.49)
        self.assertAlmostEqual(Differences((-1, -2, -3)).within(3), found.within(3), places=14)
        self.assertLess(found.above(-3), found.within(3))

    def test_pairs_are_what_counts(self):
        first, second = [86.1, 80.2, 91.7, 84.0], [85.0, 79.4, 90.1, 83.2]
        found = Differences(tuple(np.subtract(first, second)))
        reference = stats.ttest_rel(first, second, alternative="greater")
        self.assertAlmostEqual(found.above(), reference.pvalue, places=12)
        self.assertAlmostEqual(found.t(), reference.statistic, places=10)
        # The seeds differ among themselves far more than the two sides do.
        self.assertLess(100 * found.above(), stats.ttest_ind(first, second).pvalue)

    def test_no_spread(self):
        self.assertEqual(Differences((1, 1)).above(), 0)
        self.assertEqual(Differences((0, 0)).above(), 0.5)
        # Counted in whole steps, one step of difference in each of three pairs proves little.
        self.assertGreater(Differences((1, 1, 1), resolution=1).above(), 0.02)
        self.assertLess(Differences((5, 5, 5), resolution=1).above(), 0.005)

    def test_one_pair_is_refused(self):
        with self.assertRaisesRegex(ValueError, "two pairs"):
            Differences((1,))

    def test_holm_by_hand(self):
        for given, adjusted in (
            ((0.01, 0.04, 0.03), (0.03, 0.06, 0.06)),
            ((0.5, 0.9), (1, 1)),
            ((0.2,), (0.2,)),
        ):
            np.testing.assert_allclose(holm(given), adjusted, rtol=1e-14)


class ErrorRates(unittest.TestCase):
    """Shares of simulated studies, with normal differences of standard deviation one."""

    STUDIES = 4000
    # Three standard errors of a share of 5 %, or 80 %, of so many studies.
    NEAR = 3 * math.sqrt(0.05 * 0.95 / STUDIES)
    NEAR_POWER = 3 * math.sqrt(0.8 * 0.2 / STUDIES)

    def share(self, mean, count, decide):
        random = np.random.default_rng(20)
        draws = random.normal(mean, 1, (self.STUDIES, count))
        return np.mean([decide(Differences(tuple(draw))) for draw in draws])

    def test_no_difference_is_found_in_five_percent(self):
        for count in (3, 5):
            found = self.share(0, count, lambda d: d.above() < 0.05)
            self.assertAlmostEqual(found, 0.05, delta=self.NEAR)

    def test_what_lies_at_the_margin_is_equivalent_in_five_percent(self):
        found = self.share(20, 3, lambda d: d.within(20) < 0.05)
        self.assertAlmostEqual(found, 0.05, delta=self.NEAR)

    def test_the_interval_covers_the_mean(self):
        found = self.share(7, 3, lambda d: not d.interval()[0] < 7 < d.interval()[1])
        self.assertAlmostEqual(found, 0.05, delta=self.NEAR)

    def test_the_detectable_difference_is_found_in_eighty_percent(self):
        for count in (3, 5):
            # Differences of mean 0 and deviation one.
            base = np.arange(count) - (count - 1) / 2
            known = Differences(tuple(base / np.std(base, ddof=1)))
            mean = known.detectable(0.05)
            found = self.share(mean, count, lambda d: d.above() < 0.05)
            self.assertAlmostEqual(found, 0.8, delta=self.NEAR_POWER)

    def test_the_margin_of_an_equivalence_is_shown_in_eighty_percent_or_more(self):
        base = np.arange(5) - 2
        known = Differences(tuple(base / np.std(base, ddof=1)))
        margin = known.detectable(0.05, 0.9)
        found = self.share(0, 5, lambda d: d.within(margin) < 0.05)
        self.assertGreater(found, 0.8 - self.NEAR_POWER)
        self.assertLess(found, 0.9)

    def test_holm_finds_none_among_true_nulls(self):
        random = np.random.default_rng(21)
        draws = random.uniform(size=(self.STUDIES, 5))
        self.assertAlmostEqual(
            np.mean([min(holm(row)) < 0.05 for row in draws]), 0.05, delta=self.NEAR
        )

    def test_permutation_of_signs(self):
        # Ten pairs: all 1024 ways to turn signs around, no assumption of normality.
        random = np.random.default_rng(22)
        values = random.normal(0.5, 1, 10)
        turned = [
            np.mean(values * signs) for signs in itertools.product((1, -1), repeat=len(values))
        ]
        share = np.mean(np.array(turned) >= values.mean() - 1e-12)
        self.assertAlmostEqual(Differences(tuple(values)).above(), share, delta=0.02)
