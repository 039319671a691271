"""What a study's results say: tables, labels, and the checks behind claims."""

import tempfile
import unittest
from pathlib import Path

from figures.lib import claims, study
from figures.lib import spec as specs
from figures.lib.checks import CHECKS
from figures.lib.tables import Data, Incomplete

HEADER = (
    "row,seed,network,data,batch,epochs,samples,validation_accuracy_percent,validation_loss,"
    "diverged,weights_sha256,convolution,schedule.delay,rule.name,schedule.weight_stashing\n"
)


def line(row, seed, accuracy, data="synthetic", delay=0, rule="sgdm", stashing="false"):
    lost = accuracy is None
    measured = f",,yes,{''}" if lost else f"{accuracy},1.5,no,{seed:064x}"
    return (
        f'"{row}",{seed},lenet5,{data},1,4,40000,{measured},winograd,{delay},{rule},{stashing}\n'
    )


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.data = Data(self.folder)

    def write(self, name, *lines):
        (self.folder / name).write_text(HEADER + "".join(lines))

    def three(self, name="quick.csv", data="synthetic"):
        self.write(
            name,
            *(line("PB", k + 1, x, data) for k, x in enumerate((40, 41, 42))),
            *(line("PB+SC_D", k + 1, x, data) for k, x in enumerate((44, 45, 46))),
            line("SGDM, N = 1", 1, 43, data),
        )


class Table(Folder):
    def test_mean_deviation_and_test_against_the_reference(self):
        self.three()
        table = study.comparison("quick.csv", self.data.table("quick.csv"), {}, "PB")
        # Means 41 and 45, both variances 1: t = 4 / sqrt(2/3), 4 degrees of freedom.
        self.assertEqual(
            table.rows,
            (
                ("PB", "41.00", "1.00", "3", "–", "–", "–", "–"),
                ("PB+SC_D", "45.00", "1.00", "3", "4.00", "4.90", "4.0", "0.008"),
                ("SGDM, N = 1", "43.00", "–", "1", "2.00", "–", "–", "–"),
            ),
        )

    def test_unfinished_studies_say_so(self):
        self.three()
        manifest = {"studies": {"quick": {"runs_finished": 7, "runs_planned": 16}}}
        table = study.comparison("quick.csv", self.data.table("quick.csv"), manifest, "PB")
        self.assertIn("So far 7 of 16 runs.", table.caption)

    def test_studies_of_several_machines_name_them(self):
        self.three()
        about = {"program": {"commit": ["a" * 40, "b" * 40]}, "machine": {"cpu": ["One", "Two"]}}
        table = study.comparison(
            "quick.csv", self.data.table("quick.csv"), {"studies": {"quick": about}}, "PB"
        )
        self.assertIn(" Commit aaaaaaaaaaaa, bbbbbbbbbbbb, One, Two, 0 s", table.caption)

    def test_a_diverged_run_counts_as_guessing(self):
        self.write("quick.csv", line("PB", 1, 40), line("PB", 2, None))
        (row,) = study.comparison("quick.csv", self.data.table("quick.csv"), {}, "PB").rows
        self.assertEqual(row[1], "25.00")
        self.assertEqual(row[3], "2, 1 diverged")

    def test_without_the_reference(self):
        self.write("quick.csv", line("A", 1, 40), line("A", 2, 42))
        (row,) = study.comparison("quick.csv", self.data.table("quick.csv"), {}, "PB").rows
        self.assertEqual(row, ("A", "41.00", "1.41", "2", "–", "–", "–", "–"))


class Synthetic(Folder):
    """What was trained on the synthetic set says so; what was not, does not."""

    def figures(self):
        return [spec for spec in specs.load_all() if spec.study]

    def shown(self, spec):
        import importlib

        tables = importlib.import_module(f"figures.{spec.name}.table").tables(self.data, {})
        drawn = importlib.import_module(f"figures.{spec.name}.plot").draw(self.data)
        titles = [ax.get_title(loc="left") for ax in drawn.axes]
        return [table.caption for table in tables], [title for title in titles if title]

    def test_label(self):
        self.three("quick.csv")
        self.assertEqual(len(self.figures()), 2)
        for spec in self.figures():
            captions, titles = self.shown(spec)
            self.assertIn("No results on CIFAR-10 yet", captions[0])
            self.assertIn("not comparable", captions[1])
            self.assertIn("synthetic", captions[1])
            # Nor is there a panel without results.
            self.assertEqual(len(titles), 1)
            self.assertRegex(titles[0], r"\(a\) Synthetic set")
            self.assertIn("synthetic", spec.caption)

        self.three("paper.csv", "cifar10")
        for spec in self.figures():
            captions, titles = self.shown(spec)
            self.assertNotIn("ynthetic", captions[0] + titles[0])
            self.assertIn("CIFAR-10", captions[0])
            self.assertIn("ynthetic", captions[1])
            self.assertIn("ynthetic", titles[1])

    def test_neither_result_is_no_failure(self):
        for spec in self.figures():
            captions, titles = self.shown(spec)
            command = "make figures TIER=paper DATA=folder"
            self.assertEqual(captions, [f"No results on CIFAR-10 yet: `{command}`."])
            self.assertEqual(titles, [])

    def test_claims_rest_on_real_data_alone(self):
        path = Path("figures/claims")
        trained = {spec.name for spec in self.figures()}
        tested = [c for c in claims.load(path) if c.get("figure") in trained]
        self.assertTrue(tested)
        self.three("quick.csv")
        for claim in tested:
            sides = [v for v in claim.values() if isinstance(v, dict) and "file" in v]
            self.assertEqual(len(sides), 2, claim["id"])
            for side in sides:
                self.assertEqual((side["file"], side["where"]["data"]), ("paper.csv", "cifar10"))
            result = claims.evaluate(claim, lambda figure: self.data)
            self.assertEqual(result.verdict, "not tested")
            self.assertIn("CIFAR-10", result.measured)
        # Even a synthetic study in the wrong place decides nothing.
        self.three("paper.csv")
        for claim in tested:
            self.assertEqual(
                claims.evaluate(claim, lambda figure: self.data).verdict, "not tested"
            )


class Checks(Folder):
    def check(self, kind, **claim):
        return CHECKS[kind](claim, lambda figure: self.data)

    @staticmethod
    def side(row):
        return {"figure": "f", "label": row, "file": "quick.csv", "where": {"row": row}}

    def test_welch_above(self):
        self.three()
        above = self.check(
            "welch_above", higher=self.side("PB+SC_D"), lower=self.side("PB"), level=0.05
        )
        self.assertTrue(above.passed)
        self.assertIn("(3 seeds)", above.measured)
        self.assertIn("t = 4.90, df = 4.0, p = 0.008", above.measured)
        for higher, lower, level in (("PB", "PB+SC_D", 0.05), ("PB+SC_D", "PB", 0.001)):
            found = self.check(
                "welch_above", higher=self.side(higher), lower=self.side(lower), level=level
            )
            self.assertFalse(found.passed)

    def test_welch_not_below(self):
        self.three()

        def passes(first, second, margin):
            return self.check(
                "welch_not_below", first=self.side(first), second=self.side(second),
                margin=margin, level=0.05,
            ).passed  # fmt: skip

        self.assertTrue(passes("PB+SC_D", "PB", 0.5))
        self.assertFalse(passes("PB", "PB+SC_D", 0.5))
        # The same mean, but too few seeds to exclude a loss of half a point.
        self.assertFalse(passes("PB", "PB", 0.5))
        self.assertTrue(passes("PB", "PB", 5))

    def test_one_seed_decides_nothing(self):
        self.three()
        for row, message in (("SGDM, N = 1", "1 of"), ("none", "0 of")):
            with self.assertRaisesRegex(Incomplete, message):
                self.check("welch_above", higher=self.side(row), lower=self.side("PB"), level=0.05)

    def test_paired_above(self):
        gains = ((1, 3), (2, 4), (4, 4), (8, 5))
        self.write(
            "quick.csv",
            *(line(f"a{d}", 1, 40 - d, delay=d) for d, _ in gains),
            *(line(f"b{d}", 1, 40 - d + g, delay=d, rule="sc") for d, g in gains),
            line("b16", 1, 30, delay=16, rule="sc"),
        )

        def side(rule):
            return self.side("") | {"label": rule, "where": {"rule.name": rule}}

        found = self.check(
            "paired_above", axis="schedule.delay", least=4, level=0.05,
            higher=side("sc"), lower=side("sgdm"),
        )  # fmt: skip
        self.assertTrue(found.passed)
        self.assertIn("+4.00 points on the average of 4 pairs", found.measured)
        self.assertFalse(
            self.check(
                "paired_above", axis="schedule.delay", least=4, level=0.05,
                higher=side("sgdm"), lower=side("sc"),
            ).passed  # fmt: skip
        )
        for high, least in ((side("sc"), 5), (side("none"), 1)):
            with self.assertRaises(Incomplete):
                self.check(
                    "paired_above", axis="schedule.delay", least=least, level=0.05,
                    higher=high, lower=side("sgdm"),
                )  # fmt: skip


if __name__ == "__main__":
    unittest.main()
