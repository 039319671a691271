"""What a study's results say: tables, labels, and the checks behind claims."""

import math
import re

import numpy as np

from figures.gpt import plot as gpt
from figures.lib import claims, study_checks, study_figure, style
from figures.lib import spec as specs
from figures.lib.statistics import Differences
from figures.lib.tables import Data, DataError, Incomplete
from folder import FolderTest

HEADER = (
    "row,seed,network,data,batch,epochs,samples,validation_accuracy_percent,validation_loss,"
    "diverged,weights_sha256,convolution,schedule.delay,rule.name,schedule.weight_stashing\n"
)


def line(row, seed, accuracy, data="synthetic", loss=1.5):
    measured = ",,yes," if accuracy is None else f"{accuracy},{loss},no,{seed:064x}"
    return f'"{row}",{seed},lenet5,{data},1,4,40000,{measured},winograd,0,sgdm,false\n'


def lines(rows, data="synthetic"):
    """Of each row the accuracies of its seeds, None where one diverged."""
    return [line(row, k, x, data) for row, found in rows.items() for k, x in enumerate(found, 1)]


def lines_of_losses(rows):
    return [
        line(row, k, None if x is None else 50, "cifar10", x)
        for row, found in rows.items()
        for k, x in enumerate(found, 1)
    ]


class Folder(FolderTest):
    def setUp(self):
        super().setUp()
        self.data = Data(self.root)

    def write(self, name, *lines):
        (self.root / name).write_text(HEADER + "".join(lines))

    def three(self, name="quick.csv", data="synthetic"):
        rows = {"PB": (40, 41, 42), "PB+SC_D": (44, 45, 46), "SGDM, N = 1": (43,)}
        self.write(name, *lines(rows, data))


class Table(Folder):
    def by_row(self, reference="PB", **about):
        table = self.data.table("quick.csv")
        layout = study_figure.Layout(reference=reference)
        return study_figure.by_row(table, {"studies": {"quick": about}}, layout)

    def test_mean_deviation_and_paired_difference_from_the_reference(self):
        rows = {"PB": (40, 41, 42), "PB+SC_D": (43, 45, 47)}
        self.write("quick.csv", *lines(rows), line("SGDM, N = 1", 2, 43))
        # Differences 3, 4, 5: mean 4, error 1/sqrt(3), times 4.303.
        self.assertEqual(
            self.by_row().rows,
            (
                ("PB", "41.00", "1.00", "3", "–", "–"),
                ("PB+SC_D", "45.00", "2.00", "3", "4.00", "1.52 to 6.48"),
                ("SGDM, N = 1", "43.00", "–", "1", "2.00", "–"),
            ),
        )

    def test_unfinished_studies_say_so(self):
        self.three()
        table = self.by_row(runs_finished=7, runs_planned=16)
        self.assertIn("So far 7 of 16 runs.", table.caption)

    def test_studies_of_several_machines_name_them(self):
        self.three()
        table = self.by_row(
            program={"commit": ["a" * 40, "b" * 40]}, machine={"cpu": ["One", "Two"]}
        )
        self.assertIn(" Commit aaaaaaaaaaaa, bbbbbbbbbbbb, One, Two, 0 s", table.caption)

    def test_a_diverged_run_counts_as_guessing(self):
        self.write("quick.csv", line("PB", 1, 40), line("PB", 2, None))
        table = self.by_row()
        (row,) = table.rows
        self.assertEqual((row[1], row[3]), ("25.00", "2, 1 diverged"))
        self.assertIn("A diverged run counts as guessing, 10 %.", table.caption)

    def test_a_diverged_run_has_no_loss(self):
        self.write("quick.csv", line("PB", 1, 40), line("PB", 2, None))
        layout = study_figure.Layout(value="loss")
        table = study_figure.by_row(self.data.table("quick.csv"), {}, layout)
        self.assertEqual(table.rows[0][1], "–")
        self.assertIn("Where a run diverged there is no mean.", table.caption)
        self.assertNotIn("guessing", table.caption)

    def test_runs_of_several_lengths_are_titled_by_all_of_them(self):
        short = line("B", 1, 30).replace(",1,4,40000,", ",1,1.5,15000,")
        early = line("C", 1, None).replace(",1,4,40000,", ",1,,700,")
        one = line("D", 1, 20).replace(",1,4,40000,", ",1,1,10000,")
        for lines, span in (
            ((one,), ": LeNet-5, 10,000 samples, 1 epoch "),
            ((line("A", 1, 40), early), ": LeNet-5, 40,000 samples, 4 epochs"),
            ((line("A", 1, 40), short, early), ": LeNet-5, 15,000 to 40,000 samples, 1.5 to 4 epochs"),
        ):
            self.write("quick.csv", *lines)
            self.assertIn(span, self.by_row().caption)

    def test_without_the_reference(self):
        self.write("quick.csv", line("A", 1, 40), line("A", 2, 42))
        (row,) = self.by_row().rows
        self.assertEqual(row, ("A", "41.00", "1.41", "2", "–", "–"))
        (row,) = self.by_row(reference="").rows
        self.assertEqual(row, ("A", "41.00", "1.41", "2"))

    def test_curves_share_the_row_that_belongs_to_all(self):
        self.write(
            "quick.csv",
            line("delay 0", 1, 50),
            *(line(f"delay {d}, {c}", s, 50 - d + s) for d in (1, 2) for c in "ab" for s in (1, 2)),
            line("delay 4, a", 1, None),
        )
        layout = study_figure.Layout(
            pattern=r"delay (?P<x>\d+)(, (?P<curve>.*))?", axis="delay", labels={"b": "B"}
        )
        table = study_figure.by_curve(self.data.table("quick.csv"), {}, layout)
        self.assertEqual(table.columns, ("delay", "B", "a"))
        self.assertEqual(
            table.rows,
            (
                ("0", "50.00", "50.00"),
                ("1", "50.50 (2)", "50.50 (2)"),
                ("2", "49.50 (2)", "49.50 (2)"),
                ("4", "–", "10.00 diverged"),
            ),
        )


class Figures(Folder):
    """What was trained on the synthetic set says so; what was not, does not."""

    def figures(self):
        return [spec for spec in specs.load_all() if spec.plot is not None]

    def shown(self, spec):
        tables = study_figure.tables(self.data, {}, spec.plot)
        drawn = study_figure.draw(self.data, spec.plot)
        titles = [ax.get_title(loc="left") for ax in drawn.axes]
        words = [text.get_text() for ax in drawn.axes for text in ax.texts]
        style.plt.close(drawn)
        return [table.caption for table in tables], [title for title in titles if title], words

    ROWS = ("delay 1, stashing true, sgdm", "PB, rate 0.1", "PB, N = 1, 8 groups", "PB")

    def one(self, spec, name, data):
        """A row of the form that the figure draws."""
        fits = [row for row in self.ROWS if re.fullmatch(spec.plot.get("pattern", ".*"), row)]
        self.write(name, line(fits[0], 1, 40, data))

    def test_label(self):
        for spec in self.figures():
            self.one(spec, "quick.csv", "synthetic")
            captions, titles, words = self.shown(spec)
            self.assertEqual(captions[0], "No results on real data yet.")
            self.assertEqual(words, ["No results on real data yet"])
            self.assertIn("not comparable", captions[1])
            # Nor has a panel without results a title.
            self.assertEqual(len(titles), 1)
            self.assertRegex(titles[0], r"\(b\) Synthetic set")
            self.assertEqual("ynthetic" in spec.caption, bool(spec.study))

        for spec in self.figures():
            self.one(spec, "quick.csv", "synthetic")
            self.one(spec, "paper.csv", "cifar10")
            captions, titles, words = self.shown(spec)
            self.assertEqual(words, [])
            self.assertNotIn("ynthetic", captions[0] + titles[0])
            self.assertIn("CIFAR-10", captions[0])
            self.assertIn("ynthetic", captions[1])
            self.assertIn("ynthetic", titles[1])

    def test_no_result_is_no_failure(self):
        self.assertEqual(len(self.figures()), 15)
        for spec in self.figures():
            captions, titles, words = self.shown(spec)
            self.assertEqual(captions, ["No results on real data yet."])
            self.assertEqual((titles, words), ([], ["No results on real data yet"]))

    def test_every_run_is_drawn_and_so_is_what_is_to_come(self):
        (self.root / "manifest.json").write_text(
            '{"kept": {"runs_finished": 3, "runs_planned": 12}}'
        )
        rows = [f"{name}, rate {rate}" for name, rate in (("PB", 0.1), ("PB", 0.2), ("SGDM", 0.1))]
        self.write("results.csv", *(line(row, 1, 40, "cifar10") for row in rows))
        plot = {"pattern": "(?P<curve>.*), rate (?P<x>.*)", "axis": "rate", "scale": "log"}
        for layout, points in ((plot, [2, 1]), ({}, [1, 2, 1, 2, 1, 2])):
            ax = study_figure.draw(self.data, layout).axes[0]
            self.assertIn("3 of 12 runs", ax.get_title(loc="left"))
            self.assertEqual([len(drawn.get_xdata()) for drawn in ax.lines], points)

    def test_a_row_of_another_form_is_named(self):
        self.write("results.csv", line("PB at 1", 1, 40, "cifar10"))
        with self.assertRaisesRegex(DataError, "results.csv: row 'PB at 1' is not of the form"):
            study_figure.draw(self.data, {"pattern": "(?P<curve>.*), rate (?P<x>.*)"})

    def test_a_lost_run_has_no_loss(self):
        self.write("results.csv", line("PB, rate 1", 1, None, "cifar10"))
        plot = {"pattern": "(?P<curve>.*), rate (?P<x>.*)", "value": "loss"}
        guessing, *_, cross = study_figure.draw(self.data, plot).axes[0].lines
        self.assertEqual(set(guessing.get_ydata()), {math.log(10)})
        self.assertEqual((cross.get_marker(), list(cross.get_ydata())), ("x", [1]))


class LanguageModels(Folder):
    def test_lost_runs_are_no_better_than_any_and_are_marked(self):
        rows = {"AdamW, PB, rate 1": (None,), "AdamW, PB, rate 2": (50, None, 50), "SGDM, PB, rate 1": (None,)}
        rows["Muon, N = 8, plain, rate 1"] = (50,)
        no_number = line("AdamW, PB, rate 0", 1, 50, "markov", "")
        self.write("results.csv", no_number, *lines(rows, "markov"))
        cells = gpt.best_cells(self.data.table("results.csv"))
        found = [list(np.isfinite(x)) for x in cells.values()]
        self.assertEqual(found, [[True, False, True], [False], [True]])
        ax = gpt.draw(self.data).axes[0]
        crosses = [drawn for drawn in ax.lines if drawn.get_marker() == "x"]
        self.assertEqual([list(drawn.get_ydata()) for drawn in crosses], [[0], [1]])
        self.assertEqual([len(drawn.get_xdata()) for drawn in ax.lines if drawn.get_marker() == "o"], [2, 0])


SIDES = {"higher": ["PB+SC_D"], "lower": ["PB"]}


class Checks(Folder):
    def outcome(self, kind, **claim):
        claim = {"figure": "f", "file": "paper.csv", "seeds": 3, "level": 0.05} | SIDES | claim
        return study_checks.CHECKS[kind](claim, lambda figure: self.data)

    def three_pairs(self):
        # Differences 3, 4, 5: t = 4 sqrt(3) against 0.
        rows = {"PB": (40, 45, 42), "PB+SC_D": (43, 49, 47), "SGDM, N = 1": (43,)}
        self.write("paper.csv", *lines(rows, "cifar10"))

    @staticmethod
    def p(t):
        """One-sided, two degrees of freedom."""
        return (1 - t / math.sqrt(2 + t * t)) / 2

    def test_above(self):
        self.three_pairs()
        found = self.outcome("paired_above")
        self.assertTrue(found.passed)
        self.assertAlmostEqual(found.p, 2 * self.p(4 * math.sqrt(3)), places=12)
        self.assertIn("PB+SC_D less PB: +4.00 points, 95 % from +1.52 to +6.48", found.measured)
        self.assertIn("effect size 4.0", found.measured)
        self.assertIn("3 seeds show a difference of 3.26 points", found.power(1))
        back = self.outcome("paired_above", higher=["PB"], lower=["PB+SC_D"])
        self.assertFalse(back.passed)
        self.assertEqual(back.p, 1)

    def test_a_margin(self):
        self.three_pairs()
        # Worse by 4 points is excluded at a margin of 8, not at one of 5.
        worse = {"higher": ["PB"], "lower": ["PB+SC_D"]}
        for margin, passes in ((8, True), (5, False)):
            found = self.outcome("paired_not_below", margin=margin, **worse)
            self.assertEqual(found.passed, passes)
            self.assertAlmostEqual(found.p, self.p((margin - 4) * math.sqrt(3)), places=12)
            self.assertEqual(self.outcome("paired_equivalent", margin=margin).passed, passes)
        # Better is not below, however far, and not equivalent.
        self.assertTrue(self.outcome("paired_not_below", margin=0.5).passed)
        self.assertFalse(self.outcome("paired_equivalent", margin=0.5).passed)

    def test_a_margin_as_large_as_the_effect_tests_nothing(self):
        self.three_pairs()
        for margin in (3.9, 4.0):
            claim = {"margin": margin, "held_against": SIDES}
            if margin < 4:
                self.assertIn("effect of 4.00", self.outcome("paired_not_below", **claim).limit)
                continue
            with self.assertRaisesRegex(Incomplete, "4 points is no smaller than .*, 4.00"):
                self.outcome("paired_not_below", **claim)

    def test_all_cases_have_to_pass_and_the_largest_p_counts(self):
        self.three_pairs()
        back = {"higher": ["PB"], "lower": ["PB+SC_D"]}
        self.assertTrue(self.outcome("paired_above", case=[SIDES, SIDES]).passed)
        found = self.outcome("paired_above", case=[SIDES, back])
        self.assertFalse(found.passed)
        self.assertGreater(found.p, 0.98)

    def test_sums_of_rows(self):
        self.three_pairs()
        # (PB+SC_D - PB) less itself: a loss that does not grow.
        found = self.outcome(
            "paired_above", higher=["PB+SC_D", "PB"], lower=["PB", "PB+SC_D"]
        )
        self.assertEqual(found.p, 1)
        self.assertIn("PB+SC_D + PB less PB + PB+SC_D: +0.00 points", found.measured)

    def test_unfinished_rows_test_nothing(self):
        with self.assertRaisesRegex(Incomplete, "^0 of 6 runs"):
            self.outcome("paired_above")
        self.three_pairs()
        for row, count in (("SGDM, N = 1", 4), ("none", 3)):
            with self.assertRaisesRegex(Incomplete, f"^{count} of 6 runs"):
                self.outcome("paired_above", lower=[row])

    def test_the_synthetic_set_tests_nothing(self):
        self.three("paper.csv", "synthetic")
        with self.assertRaisesRegex(Incomplete, "^0 of 6 runs"):
            self.outcome("paired_above")

    def test_each_at_its_best_rate_by_the_first_seed(self):
        rows = {"PB, rate 0.1": (40, 41, 42), "PB, rate 0.2": (39,)}
        rows |= {"PB+SC_D, rate 0.1": (43,), "PB+SC_D, rate 0.2": (44, 45.5, 45)}
        self.write("paper.csv", *lines(rows, "cifar10"))
        best = {"higher": ["PB+SC_D, rate *"], "lower": ["PB, rate *"], "rates": 2}
        found = self.outcome("paired_above", **best)
        self.assertIn("+3.83 points", found.measured)  # 4, 4.5 and 3
        ends = ", 'PB+SC_D, rate 0.2' is the highest tried, 'PB, rate 0.1' is the lowest tried"
        self.assertTrue(found.measured.endswith(ends), found.measured)
        with self.assertRaisesRegex(Incomplete, "^8 of 10 runs"):
            self.outcome("paired_above", **best | {"rates": 3})
        # Three seeds, but at a rate that is not the best.
        rows["PB, rate 0.2"] = (41,)
        self.write("paper.csv", *lines(rows, "cifar10"))
        with self.assertRaisesRegex(Incomplete, "no run of seed 2 at the best rate"):
            self.outcome("paired_above", **best)

    def test_seeds_of_one_rate_do_not_stand_in_for_another_rate(self):
        rows = {f"{name}, rate {rate}": (40, 41, 42) for name in ("PB", "PB+SC_D") for rate in (0.1, 0.2)}
        self.write("paper.csv", *lines(rows, "cifar10"))
        best = {"higher": ["PB+SC_D, rate *"], "lower": ["PB, rate *"]}
        with self.assertRaisesRegex(Incomplete, "^8 of 12 runs"):
            self.outcome("paired_above", rates=4, **best)

    def test_of_losses_the_lowest_by_the_first_seed_counts(self):
        rows = {
            "plain, rate 1": (2.0, 2.0, 2.0),
            "PB, rate 0": ("", 2.0, 2.0),  # its weights are finite and its loss is not
            "PB, rate 1": (2.6, 2.1, 2.1),
            "PB, rate 2": (2.5, 2.6, 2.7),
            "PB, rate 3": (None, 2.0, 2.0),
        }
        sides = {"higher": ["PB, rate *"], "lower": ["plain, rate *"], "rates": 1, "measure": "loss"}

        def outcome():
            self.write("paper.csv", *lines_of_losses(rows))
            return self.outcome("paired_above", **sides)

        found = outcome()
        self.assertIn("+0.60 nats", found.measured)
        self.assertNotIn("diverged", found.measured)
        # t = 0.6 / (0.1 / sqrt(3)).
        self.assertAlmostEqual(found.p, 2 * self.p(6 * math.sqrt(3)), places=12)
        rows["PB, rate 2"] = (2.5, None, 2.7)
        # A run that diverged has the loss of guessing one of ten: differences of 0.5, ln 10 - 2 and 0.7.
        found = outcome().measured
        self.assertIn(f"{(0.5 + math.log(10) - 2 + 0.7) / 3:+.2f} nats", found)
        # Neither the only rate nor the middle one is at an end of several.
        self.assertRegex(found, "p = [0-9.]+, 1 run diverged and counted as guessing$")

    def stable(self, *columns):
        """Rows PB at the rates 1, 2 and 4; what each seed loses at them, None where it diverged."""
        rows = {f"PB{mark}, rate {2**k}": [of[k] for of in seeds] for mark, seeds in columns for k in range(3)}
        self.write("paper.csv", *lines_of_losses(rows))
        return self.outcome(
            "paired_above", higher=["PB+, rate *"], lower=["PB, rate *"], rates=3,
            measure="log2_stable_rate",
        )  # fmt: skip

    def test_the_largest_stable_rate(self):
        low, high = (1.5, 2.4, 1.0), (1.5, 1.6, None)
        found = self.stable(("", [low] * 3), ("+", [high] * 3))
        # An octave each time: s is that of rounding to octaves, 1/sqrt(6).
        self.assertAlmostEqual(found.p, 2 * self.p(math.sqrt(3 * 6)), places=12)
        self.assertIn("+1.00 octaves", found.measured)
        for border, word in (((1.5, 1.6, 1.7), "the largest rate is stable"),
                             ((2.31, 1, 1), "the smallest rate diverges")):  # fmt: skip
            with self.assertRaisesRegex(Incomplete, word):
                self.stable(("", [border] * 3), ("+", [high] * 3))


class Families(Folder):
    """Holm's adjustment counts every claim of a figure that is a test over seeds."""

    def test_untested_claims_count(self):
        self.write("paper.csv", *lines({"PB": (40, 40, 40), "PB+SC_D": (46, 48, 50)}, "cifar10"))
        words = dict.fromkeys(claims.REQUIRED, "x") | {"level": 0.05, "seeds": 3, "figure": "f"}
        one = words | SIDES | {"check": "paired_above", "file": "paper.csv"}
        other = one | {"higher": ["none"]}
        alone = claims.outcome(one, lambda figure: self.data).p
        for count in (0, 1, 4):
            found = claims.evaluate([one] + [other] * count, lambda figure: self.data)
            self.assertEqual(found[0].verdict, "reproduced" if count < 4 else "not reproduced")
            self.assertIn(f"after Holm p = {alone * (count + 1):.2g}", found[0].measured)
            self.assertEqual("power of 80 %" in found[0].measured, count == 4)
            self.assertEqual({r.verdict for r in found[1:]}, {"not tested"} if count else set())
            self.assertTrue(all(r.measured == "3 of 6 runs." for r in found[1:]))

    def test_power_is_that_of_the_level_that_holm_leaves(self):
        # Differences of mean 3.4 and deviation 1, p = 0.028; one of three tests passes, so that the next has
        # to be below 5 % / 2.
        rows = {"PB": (40, 40, 40), "PB+SC_D": (48, 48.5, 49), "SGDM": (42.4, 43.4, 44.4)}
        self.write("paper.csv", *lines(rows, "cifar10"))
        words = dict.fromkeys(claims.REQUIRED, "x") | {"level": 0.05, "seeds": 3, "figure": "f"}
        words |= {"check": "paired_above", "file": "paper.csv", "lower": ["PB"]}
        tests = [words | {"higher": [row]} for row in ("SGDM", "none", "PB+SC_D")]
        found = claims.evaluate(tests, lambda figure: self.data)
        self.assertEqual([x.verdict for x in found], ["not reproduced", "not tested", "reproduced"])
        # Without the others, less than what was found would have been enough.
        self.assertLess(Differences((2.4, 3.4, 4.4)).detectable(0.025), 3.4)
        seen = Differences((2.4, 3.4, 4.4)).detectable(0.0125)
        self.assertGreater(seen, 3.4)
        self.assertIn(
            f"3 seeds show a difference of {seen:.2f} points with a power of 80 % at Holm's level of 2.5 %",
            found[0].measured,
        )
