"""The t-test against closed forms, an independent integration and cases worked out by hand."""

import math
import unittest

from figures.lib import statistics


def integrated(t, df, steps=20_000):
    """Two-sided probability by Simpson's rule over the density, from -|t| to |t|."""
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)
    width = 2 * abs(t) / steps
    values = (
        (4 if k % 2 else 2 if 0 < k < steps else 1)
        * (1 + (k * width - abs(t)) ** 2 / df) ** (-(df + 1) / 2)
        for k in range(steps + 1)
    )
    return 1 - scale * width / 3 * math.fsum(values)


class Distribution(unittest.TestCase):
    ROUNDING = 1e-14
    INTEGRATION = 1e-10

    def test_closed_forms(self):
        for t in (0.0, 0.1, 1.0, 2.5, 12.0, 300.0):
            one = 1 - 2 / math.pi * math.atan(t)
            two = 1 - t / math.sqrt(2 + t * t)
            four = 1 - t * (t * t + 6) / (t * t + 4) ** 1.5
            for df, expected in ((1, one), (2, two), (4, four)):
                found = statistics.two_sided(t, df)
                self.assertAlmostEqual(found, expected, delta=self.ROUNDING, msg=f"{t} {df}")
                self.assertEqual(found, statistics.two_sided(-t, df))

    def test_integration_with_any_degrees_of_freedom(self):
        for t in (0.3, 1.7, 4.0):
            for df in (1.3, 3.0, 216 / 53, 17.5, 400.0):
                self.assertAlmostEqual(
                    statistics.two_sided(t, df), integrated(t, df), delta=self.INTEGRATION
                )

    def test_the_printed_table(self):
        # Student's t table, 0.05 two-sided, three decimals.
        for df, t in ((1, 12.706), (2, 4.303), (5, 2.571), (10, 2.228), (30, 2.042), (120, 1.980)):
            self.assertAlmostEqual(statistics.two_sided(t, df), 0.05, delta=5e-5)

    def test_one_side_is_half_of_both(self):
        self.assertAlmostEqual(statistics.one_sided(2.0, 7), statistics.two_sided(2.0, 7) / 2)
        self.assertAlmostEqual(statistics.one_sided(-2.0, 7), 1 - statistics.two_sided(2.0, 7) / 2)


class Tests(unittest.TestCase):
    def test_welch_by_hand(self):
        # Means 2 and 5, variances 1 and 20/3: a = 1/3, b = 5/3.
        test = statistics.welch([1, 2, 3], [2, 4, 6, 8])
        self.assertAlmostEqual(test.t, -3 / math.sqrt(2), places=14)
        self.assertAlmostEqual(test.df, 216 / 53, places=13)
        self.assertAlmostEqual(test.p, integrated(test.t, test.df), delta=1e-10)

    def test_equal_groups_give_the_pooled_test(self):
        # Same size and variance: Student's t with 2n - 2 degrees of freedom.
        test = statistics.welch([3, 4, 5, 6], [1, 2, 3, 4])
        self.assertAlmostEqual(test.df, 6, places=13)
        self.assertAlmostEqual(test.t, 2 / math.sqrt(2 * (5 / 3) / 4), places=14)

    def test_a_shift_moves_the_difference(self):
        moved = statistics.welch([1, 2, 3], [2, 4, 6, 8], shift=-3)
        self.assertAlmostEqual(moved.t, 0, places=14)

    def test_paired_by_hand(self):
        # Differences 1, 2, 3: mean 2, error 1/sqrt(3).
        test = statistics.paired([2, 4, 6], [1, 2, 3])
        self.assertAlmostEqual(test.t, 2 * math.sqrt(3), places=14)
        self.assertEqual(test.df, 2)

    def test_no_spread(self):
        self.assertEqual(statistics.welch([1, 1], [2, 2]).p, 0)
        self.assertEqual(statistics.welch([1, 1], [1, 1]).p, 1)

    def test_too_few(self):
        self.assertTrue(math.isnan(statistics.deviation([1])))
        for call in (statistics.welch, statistics.paired):
            with self.assertRaisesRegex(ValueError, "two"):
                call([1], [1])


if __name__ == "__main__":
    unittest.main()
