"""Verdicts on stable rates, from ladders and curvatures that are made up."""

from figures.lib import stable_rates
from figures.lib.tables import Data, Incomplete
from folder import FolderTest

LADDER = "part,method,reference_lr,seed,samples,learning_rate,stable,eigenvalue,predicted_for,predicted_coupled"


class Checks(FolderTest):
    def found(self, check, claim, head, rows):
        """What the check finds in results of these rows."""
        (self.root / "results.csv").write_text("\n".join([head, *rows]) + "\n")
        claim = {"figure": "f", "file": "results.csv"} | claim
        return stable_rates.CHECKS[check](claim, lambda figure: Data(self.root))


class StableRates(Checks):
    def ladder(self, method, seed, stable):
        return [f"ladder,{method},,{seed},8,{2.0**k},{int(s)},,," for k, s in enumerate(stable)]

    def outcome(self, check, *rows, **claim):
        return self.found(check, claim, LADDER, rows)

    def predicted(self, rate, factor):
        # Stable up to 2 by one seed and up to 4 by the other, where a later rung does not count.
        rows = [*self.ladder("PB", 1, (1, 1, 0, 1)), *self.ladder("PB", 2, (1, 1, 1, 0))]
        rows += [f"curvature,,0.1,1,0,,,5,PB,{rate}", "curvature,PB,0.1,1,9,,,5,PB,0.001"]
        return self.outcome(
            "predicted_stable_rate", *rows, part="curvature", column="predicted_coupled",
            methods=["PB"], reference_lr=0.1, samples=0, factor=factor,
        )  # fmt: skip

    def test_a_prediction_between_the_measured_rates_holds(self):
        for rate in (2, 5, 8):
            outcome = self.predicted(rate, 1)
            self.assertTrue(outcome.passed)
            self.assertIn("between them", outcome.measured)

    def test_the_factor_counts_both_ways(self):
        for rate, words in ((1, "2 times too low"), (16, "2 times too high")):
            self.assertIn(words, self.predicted(rate, 2).measured)
            self.assertTrue(self.predicted(rate, 2).passed)
            self.assertFalse(self.predicted(rate, 1.9).passed)

    def test_a_ladder_that_ends_stable_says_nothing(self):
        rows = [*self.ladder("PB", 1, (1, 1)), "curvature,,0.1,1,0,,,5,PB,1"]
        with self.assertRaises(Incomplete):
            self.outcome("predicted_stable_rate", *rows, part="curvature", methods=["PB"],
                         column="predicted_coupled", reference_lr=0.1, samples=0, factor=2)  # fmt: skip

    def test_the_edge_takes_the_unit_of_rates_from_the_ladder(self):
        # A reference rate of 0.5 is a rate of 1; early samples do not count, nor does another method.
        rows = ["ladder,PB,0.5,1,8,1,1,,,", "curvature,PB,1,1,4,,,5,PB,3", "curvature,PB,4,1,9,,,5,PB,5"]
        rows += ["curvature,PB,1,1,3,,,5,PB,99", "curvature,SGDM,1,1,4,,,5,SGDM,99"]
        for factor, passed in ((1.61, True), (1.59, False)):
            outcome = self.outcome("edge_of_stability", *rows, method="PB", samples=4,
                                   column="predicted_coupled", factor=factor)  # fmt: skip
            self.assertEqual(outcome.passed, passed, outcome.measured)

    def test_without_a_delay_the_curvature_allows_2_1_plus_m_over_it(self):
        rows = [*self.ladder("SGDM", 1, (1, 0)), "curvature,,0.1,1,0,,,0.1,PB,1"]
        # Allowed 2 * 1.5 / 0.1 = 30; 15 times the first unstable rate, 2.
        for factor, passed in ((14.9, True), (15.1, False)):
            outcome = self.outcome(
                "limited_without_delay", *rows, method="SGDM", momentum=0.5, factor=factor
            )
            self.assertEqual(outcome.passed, passed)


EDGE = "part,network,rule,momentum,delay,multiple,edge,updates,eigenvalue"


class Edge(Checks):
    def outcome(self, check, ratios, **claim):
        """Runs whose edge is 20, by delay: their curvatures over it, the last point first."""
        rows = [
            f"run,mlp,sgdm,0,{delay},4,20,{10 * k},{20 * ratio}"
            for delay, own in ratios.items()
            for k, ratio in reversed(list(enumerate(own)))
        ]
        # Other networks, rules and rates, and densities, are not looked at.
        rows += ["run,other,sgdm,0,0,4,20,0,1000", "run,mlp,sgdm,0.9,0,4,20,0,1000"]
        rows += ["run,mlp,sgdm,0,0,2,20,0,1000", "density,mlp,sgdm,0,0,4,20,9,1000"]
        claim = {"network": "mlp", "multiples": [4], "delays": list(ratios)} | claim
        return self.found(check, claim, EDGE, rows)

    def test_the_median_counts_from_the_edge_on(self):
        # 0.5 and 0.9 come before the edge is reached; 0.8 does not.
        ratios = {0: (0.5, 0.9, 1.2, 0.8, 1.3), 4: (0.5, 1, 1.1, 1.2)}
        outcome = self.outcome("curvature_at_edge", ratios, low=1, high=1.2)
        self.assertEqual(outcome.measured, "edge at 4 times the start: 1.20, 1.10")
        self.assertTrue(outcome.passed)
        self.assertFalse(self.outcome("curvature_at_edge", ratios, low=1.15, high=1.2).passed)
        self.assertFalse(self.outcome("curvature_at_edge", ratios, low=1, high=1.15).passed)

    def test_an_edge_that_is_not_reached_is_no_success(self):
        ratios = {0: (0.5, 1.1), 4: (0.5, 0.99)}
        self.assertFalse(self.outcome("curvature_at_edge", ratios, low=0, high=2).passed)
        self.assertFalse(self.outcome("curvature_alike", ratios, factor=9).passed)

    def test_alike_is_a_factor_between_delays(self):
        ratios = {0: (1.5,), 4: (1.2,), 8: (1.3,)}
        self.assertTrue(self.outcome("curvature_alike", ratios, factor=1.25).passed)
        self.assertFalse(self.outcome("curvature_alike", ratios, factor=1.24).passed)

    def test_a_run_that_is_missing_says_nothing(self):
        with self.assertRaises(Incomplete):
            self.outcome("curvature_alike", {0: (1.5,)}, delays=[0, 4], factor=2)
