"""Every check on small tables: it passes where it should and fails where it should."""

import numpy as np

from figures.lib.checks import CHECKS, labelled, percent, rows, text
from figures.lib.tables import Data, DataError
from folder import FolderTest

HALF_LIVES = """rule,delay,condition,horizon,half_life_updates
a,1,10,0,100
a,1,100,1,1000
a,1,1000,2,10000
b,1,10,0,50
b,1,100,1,400
b,1,1000,2,410
"""


class Checks(FolderTest):
    def setUp(self):
        super().setUp()
        (self.root / "t.csv").write_text(HALF_LIVES)

    def check(self, kind, **claim):
        return CHECKS[kind](claim, lambda figure: Data(self.root))

    @staticmethod
    def case(rule, condition=None, **more):
        where = {"rule": rule} | ({"condition": condition} if condition else {})
        column = {"file": "t.csv", "column": "half_life_updates", "figure": "f", "label": rule}
        return column | {"where": where} | more

    def test_values(self):
        near = [self.case("a", 10, expected=98), self.case("b", 10, expected=51)]
        self.assertTrue(self.check("values", case=near, tolerance=0.03).passed)
        self.assertFalse(self.check("values", case=near, tolerance=0.01).passed)

    def test_a_case_is_one_row(self):
        with self.assertRaisesRegex(DataError, "3 rows"):
            self.check("values", case=[self.case("a", expected=1)], tolerance=1)
        with self.assertRaisesRegex(DataError, "no row with"):
            self.check("values", case=[self.case("c", expected=1)], tolerance=1)
        with self.assertRaisesRegex(DataError, "no column 'speed'"):
            self.check("values", case=[self.case("a", 10, column="speed")], tolerance=1)

    def test_points(self):
        near = [self.case("a", 10, expected=98), self.case("b", 10, expected=51)]
        self.assertTrue(self.check("points", case=near, tolerance=2).passed)
        self.assertFalse(self.check("points", case=near, tolerance=1.9).passed)

    def test_agree(self):
        cases = [self.case("b", 100), self.case("b", 1000)]
        self.assertTrue(self.check("agree", case=cases, tolerance=0.03).passed)
        self.assertFalse(self.check("agree", case=cases, tolerance=0.02).passed)

    def test_below(self):
        low, high = [self.case("b", 10)], [self.case("a", 10)]
        self.assertTrue(self.check("below", lower=low, higher=high).passed)
        self.assertFalse(self.check("below", lower=high, higher=low).passed)
        self.assertFalse(self.check("below", lower=low, higher=high, factor=0.4).passed)

    def test_curve_below(self):
        low, high = self.case("b"), self.case("a")
        self.assertTrue(self.check("curve_below", lower=[low], higher=[high]).passed)
        self.assertFalse(self.check("curve_below", lower=[high], higher=[low]).passed)
        self.assertFalse(self.check("curve_below", lower=[low], higher=[high, low]).passed)
        self.assertFalse(self.check("curve_below", lower=[low, high], higher=[high]).passed)
        with self.assertRaisesRegex(DataError, "curves of 3, 1 rows"):
            self.check("curve_below", lower=[low], higher=[self.case("a", 10)])

    def test_peak_ratio(self):
        case = {"label": "a / b", "numerator": self.case("a"), "denominator": self.case("b")}
        a, b = (rows(self.case(rule), lambda figure: Data(self.root)) for rule in "ab")
        peak = float(max(a["half_life_updates"] / b["half_life_updates"]))
        near = {"case": [case], "expected": 1.1 * peak}
        self.assertTrue(self.check("peak_ratio", **near, tolerance=0.1).passed)
        self.assertFalse(self.check("peak_ratio", **near, tolerance=0.09).passed)

    def test_unstable_points_bear_nothing_out(self):
        (self.root / "t.csv").write_text(HALF_LIVES.replace("b,1,100,1,400", "b,1,100,1,nan"))
        hole, good, low = self.case("b", 100), self.case("b", 10), self.case("b")
        for kind, claim in {
            "curve_below": {"lower": [low], "higher": [self.case("a")]},
            "values": {"case": [good | {"expected": 50}, hole | {"expected": 1}], "tolerance": 9},
            "points": {"case": [good | {"expected": 50}, hole | {"expected": 1}], "tolerance": 9},
            "agree": {"case": [good, hole], "tolerance": 9},
            "below": {"lower": [good, hole], "higher": [self.case("a", 1000)]},
            "same_columns": {"first": low, "second": low, "tolerance": 1},
            "slope": {"case": [low | {"axis": "condition", "range": [0, 9]}]},
            "ratio_range": {"numerator": low, "denominator": low, "range": [0, 9]},
            "speedups": {
                "case": [{"label": "s", "expected": 1, "fast": good, "slow": hole}], "tolerance": 9
            },
            "growth": {
                "case": [
                    {"label": "s", "expected": 1, "fast": good, "slow": good},
                    {"label": "t", "expected": 2, "fast": good, "slow": hole},
                ],
                "tolerance": 9,
            },
            "predictions": {
                "runs": low, "tolerance": 9,
                "prediction": "half_life_updates", "measurement": "half_life_updates",
            },
        }.items():
            with self.subTest(kind):
                self.assertFalse(self.check(kind, **claim).passed)

    def test_closed_form(self):
        form = {"formula": "2 sin(pi / (4 D + 2))", "tolerance": 1e-10}
        source = {"figure": "f", "file": "c.csv", "column": "critical_rate"}
        rows = [f"{d},{2 * np.sin(np.pi / (4 * d + 2)):.17g}" for d in (0, 1, 4, 66)]
        (self.root / "c.csv").write_text("\n".join(["delay,critical_rate", *rows]))
        self.assertTrue(self.check("closed_form", source_rows=source, **form).passed)
        (self.root / "c.csv").write_text("\n".join(["delay,critical_rate", *rows, "2,0.6"]))
        self.assertFalse(self.check("closed_form", source_rows=source, **form).passed)

    def test_same_columns(self):
        same = {"first": self.case("a"), "second": self.case("a"), "tolerance": 0}
        self.assertTrue(self.check("same_columns", **same).passed)
        other = same | {"second": self.case("b")}
        self.assertFalse(self.check("same_columns", **other).passed)
        self.assertTrue(
            self.check("same_columns", **other | {"tolerance": 25, "relative": True}).passed
        )

    def test_best_near(self):
        case = [self.case("b", axis="horizon", unit=1)]
        self.assertTrue(self.check("best_near", case=case, at=0, than=1, tolerance=0.1).passed)
        self.assertFalse(self.check("best_near", case=case, at=1, than=2, tolerance=0.1).passed)

    def test_slope(self):
        case = self.case("a", axis="condition")
        self.assertTrue(self.check("slope", case=[case | {"range": [0.99, 1.01]}]).passed)
        self.assertFalse(self.check("slope", case=[case | {"range": [0.45, 0.55]}]).passed)

    def test_speedups(self):
        # 1000 / 400.
        case = {"label": "c", "fast": self.case("a", 100), "slow": self.case("b", 100)}
        for expected, passes in ((2.5, True), (2.45, True), (2.6, True), (2.2, False), (2.9, False)):
            found = self.check("speedups", case=[case | {"expected": expected}], tolerance=0.05)
            self.assertEqual(found.passed, passes)
        # A share of the gain, 1.5: 1.45 is a thirtieth away, 2.6 a sixteenth.
        for expected, passes in ((2.45, True), (2.6, False)):
            found = self.check(
                "speedups", case=[case | {"expected": expected}], tolerance=0.05, gain=True
            )
            self.assertEqual(found.passed, passes)
            self.assertIn("of the gain", found.limit)
        # Half at that speed: 1 / (0.5 + 0.2).
        both = [case | {"expected": 1 / 0.7}]
        self.assertTrue(self.check("speedups", case=both, tolerance=1e-12, share=0.5).passed)
        self.assertFalse(self.check("speedups", case=both, tolerance=0.05).passed)

    def test_growth(self):
        def case(rule, condition, expected):
            fast = {"fast": self.case(rule, condition), "slow": self.case("b", condition)}
            return {"label": rule, "expected": expected} | fast

        # 1000 / 400 and 10000 / 410: growth by a factor of 9.76.
        for expected, tolerance, passes in ((9.76, 0.01, True), (9.76, 0, False), (2, 0.5, False)):
            cases = [case("a", 100, 1), case("a", 1000, expected)]
            found = self.check("growth", case=cases, tolerance=tolerance)
            self.assertEqual(found.passed, passes)
        # The same speedup throughout is within any tolerance of the values, and grows by nothing.
        flat = [case("b", 100, 1), case("b", 1000, 1.1)]
        self.assertTrue(self.check("speedups", case=flat, tolerance=0.1).passed)
        found = self.check("growth", case=flat, tolerance=0.5)
        self.assertFalse(found.passed)
        self.assertIn("growth 0 % (10.0 %)", found.measured)

    def test_predictions(self):
        (self.root / "p.csv").write_text("predicted,measured\n100,100\n90,100\n130,100\n")
        claim = {"runs": {"figure": "f", "file": "p.csv"}}
        claim |= {"prediction": "predicted", "measurement": "measured"}
        found = self.check("predictions", **claim, tolerance=0.15)
        self.assertFalse(found.passed)
        self.assertEqual(found.measured, "2 of 3 runs; off by \N{MINUS SIGN}10 to +30 %")
        self.assertEqual(found.limit, "within 15 %")
        self.assertTrue(self.check("predictions", **claim, tolerance=0.31).passed)

    def test_predictions_on_average_and_of_some_rows(self):
        lines = ["kind,predicted,measured", "a,110,100", "b,98,100", "c,200,100"]
        (self.root / "p.csv").write_text("\n".join(lines) + "\n")
        runs = {"figure": "f", "file": "p.csv", "where": {"kind": ["a", "b"]}}
        claim = {"runs": runs, "prediction": "predicted", "measurement": "measured", "tolerance": 0.12}
        self.assertTrue(self.check("predictions", **claim, mean_tolerance=0.061).passed)
        found = self.check("predictions", **claim, mean_tolerance=0.059)
        self.assertFalse(found.passed)
        self.assertEqual(found.limit, "within 12 %, on average within 5.9 %")

    def test_predictions_by_the_median_of_each_case(self):
        lines = ["n,w,predicted,measured", "a,1,105,100", "a,1,300,100", "a,1,90,100", "a,2,120,100"]
        claim = {"runs": {"figure": "f", "file": "p.csv"}, "by": ["n", "w"]}
        claim |= {"prediction": "predicted", "measurement": "measured"}
        # Medians: +5 % of a, 1; +20 % of a, 2 with one run, +10 % with three.
        for more, passes, high in (([], False, 20), (["a,2,110,100", "a,2,50,100"], True, 10)):
            (self.root / "p.csv").write_text("\n".join(lines + more) + "\n")
            found = self.check("predictions", **claim, tolerance=0.15)
            self.assertEqual(found.passed, passes)
            self.assertIn(f"medians of 2 cases off by +5 to +{high} %; ", found.measured)

    def test_ratio_range(self):
        claim = {"numerator": self.case("a"), "denominator": self.case("b")}
        self.assertTrue(self.check("ratio_range", **claim, range=[2, 25]).passed)
        self.assertFalse(self.check("ratio_range", **claim, range=[2, 20]).passed)
        self.assertFalse(self.check("ratio_range", **claim, range=[3, 25]).passed)

    def test_flush_overhead(self):
        head = "width,depth,microbatch,recompute,batch,samples_per_second\n"
        # Eight micro-batches through four stages, recomputed: (1 + 3/8) 4/3.
        (self.root / "fast.csv").write_text(head + "2,4,1,0,16,110\n")
        (self.root / "slow.csv").write_text(head + "2,4,1,1,16,60\n")
        case = {k: {"figure": "f", "file": f"{k}.csv", "label": k} for k in ("fast", "slow")}
        case = [case | {"label": "c"}]
        self.assertTrue(self.check("flush_overhead", case=case, tolerance=1e-12).passed)
        (self.root / "slow.csv").write_text(head + "2,4,1,0,16,60\n")
        self.assertFalse(self.check("flush_overhead", case=case, tolerance=0.2).passed)

    def test_numbers_in_words(self):
        self.assertEqual(text(119.47), "119.5")
        self.assertEqual(text(43.499), "43.50")
        self.assertEqual(text(999.96), "1000")
        self.assertEqual(text(2189.4), "2,189")
        self.assertEqual(text(4839325.1), "4,839,000")
        self.assertEqual(text(0), "0")
        self.assertEqual(text(3.6e-15), "3.6·10^-15")
        self.assertEqual(text(float("nan")), "none (unstable)")
        self.assertEqual([percent(x) for x in (0.1365, 1e-5)], ["13.7 %", "0.001 %"])

    def test_values_have_label_and_unit(self):
        for column, words in {
            "half_life_updates": "x: 1,304,000,000 updates",
            "weight_bytes": "x: 1,304 MB",
            "samples_per_second": "x: 1,304,000,000 samples/s",
            "speed": "x: 1,304,000,000",
        }.items():
            self.assertEqual(labelled("x", 1304297472, column), words)
        self.assertEqual(labelled("x", 2e6, "peak_bytes", 3e6), "x: 2.000 MB (3)")
        low, high = [self.case("b", 10), self.case("b", 100)], [self.case("a", 1000)]
        found = self.check("below", lower=low, higher=high).measured
        self.assertEqual(
            found,
            "b: 50.00 updates; b: 400.0 updates; against a: 10,000 updates; ratio at most 0.04000",
        )

    def test_how_near_counts_is_said(self):
        case = [self.case("a", 10, expected=98)]
        self.assertEqual(self.check("values", case=case, tolerance=0.005).limit, "within 0.5 %")
        self.assertEqual(self.check("points", case=case, tolerance=3).limit, "within 3 points")
