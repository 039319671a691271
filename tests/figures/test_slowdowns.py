"""Samples until the loss that plain training has early: curves whose crossings are known."""

import csv
import json
import math

from figures.gpt_stages.plot import draw
from figures.lib import slowdowns
from figures.lib.tables import Data, Incomplete
from folder import FolderTest

ENTROPY = 2 * math.log(2)


def points(pace, end=24000):
    """A loss that falls in straight pieces, as far after `pace` samples as plain training after one."""
    return [[n, 50.0, max(ENTROPY + 0.1, 4 - n / 4000 / pace)] for n in range(400, end + 1, 400)]


class Slowdowns(FolderTest):
    def setUp(self):
        super().setUp()
        self.data = Data(self.root)
        # Losses are linear in the samples: the target of 3 is met after `pace` times 4,000.
        self.runs = {
            ("AdamW, P = 1, rate 0.1", 1): points(1),
            ("AdamW, P = 1, rate 0.2", 1): points(2),
            ("AdamW, P = 1, rate 0.1", 2): points(1),
            ("AdamW, P = 20, rate 0.1", 1): points(3),
            ("AdamW, P = 20, rate 0.2", 1): points(2.51),
            ("AdamW, P = 20, rate 0.2", 2): points(2.75),
            ("Muon, P = 1, rate 1", 1): points(1.25),
            ("Muon, P = 1, rate 1", 2): points(1.25),
            ("Muon, P = 20, rate 1", 1): points(1.25),
            ("Muon, P = 20, rate 1", 2): points(1.5),
        }
        self.lost = {}

    def write(self):
        with (self.root / "results.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["row", "seed", "data"])
            writer.writerows([row, seed, "markov"] for row, seed in self.runs)
        entries = [
            {"row": row, "seed": seed, "validations": found} | self.lost.get((row, seed), {})
            for (row, seed), found in self.runs.items()
        ]
        manifest = {"kept": {"runs": entries}}
        (self.root / "manifest.json").write_text(json.dumps(manifest))

    def cells(self):
        self.write()
        return slowdowns.cells(self.data)

    def outcome(self, **claim):
        self.write()
        claim = {"figure": "x", "stages": 20, "seeds": 2, "rates": 1, "optimizer": "AdamW"} | claim
        return slowdowns.slowdown(claim, lambda figure: self.data)

    def test_between_two_validations_the_loss_is_a_line(self):
        cells = self.cells()
        self.assertEqual(cells["AdamW", 1].rate, "0.1")
        self.assertEqual(cells["AdamW", 1].slowdowns, {1: 1, 2: 1})
        self.assertEqual(cells["AdamW", 20].rate, "0.2")
        for seed, expected in ((1, 2.51), (2, 2.75)):
            self.assertAlmostEqual(cells["AdamW", 20].slowdowns[seed], expected, places=12)
        # In units of plain training by the same optimizer.
        self.assertAlmostEqual(cells["Muon", 20].slowdowns[1], 1, places=12)
        self.assertAlmostEqual(cells["Muon", 20].slowdowns[2], 1.2, places=12)

    def test_what_never_comes_there_is_slower_than_any(self):
        self.runs["AdamW, P = 20, rate 0.2", 1] = points(7)
        self.assertEqual(self.cells()["AdamW", 20].rate, "0.1")
        self.runs["AdamW, P = 20, rate 0.1", 1] = []
        self.lost["AdamW, P = 20, rate 0.1", 1] = {"diverged_at": 7}
        self.assertEqual(self.cells()["AdamW", 20].slowdowns[1], math.inf)
        self.assertIn("above 6", self.outcome(low=2, seeds=1).measured)

    def test_a_loss_that_is_no_number_is_above_any(self):
        # Before the crossing, then at the end of what gives the target.
        self.runs["AdamW, P = 20, rate 0.2", 1][24][2] = math.nan
        self.assertEqual(self.cells()["AdamW", 20].slowdowns[1], 10400 / 4000)
        self.runs["AdamW, P = 1, rate 0.1", 1][9][2] = math.nan
        self.assertEqual(self.cells()["AdamW", 1].rate, "0.2")

    def test_plain_training_that_diverged_is_no_target(self):
        for row in ("AdamW, P = 1, rate 0.1", "AdamW, P = 1, rate 0.2"):
            self.runs[row, 1] = points(1, end=2000)
        self.assertEqual(self.cells()["AdamW", 20].slowdowns, {})
        with self.assertRaises(Incomplete):
            self.outcome(high=9)

    def test_verdicts(self):
        self.assertTrue(self.outcome(low=2.5).passed)
        self.assertFalse(self.outcome(low=2.6).passed)
        self.assertTrue(self.outcome(high=2.8).passed)
        self.assertFalse(self.outcome(high=2.7).passed)
        self.assertTrue(self.outcome(optimizer="Muon", than="AdamW").passed)
        self.assertFalse(self.outcome(than="Muon").passed)

    def test_missing_runs_test_nothing(self):
        with self.assertRaisesRegex(Incomplete, "AdamW, 20 stages: 2 of 3 runs"):
            self.outcome(low=2, seeds=3)
        with self.assertRaisesRegex(Incomplete, "Muon, P = 1: 1 of 2 rates"):
            self.outcome(low=1, optimizer="Muon", rates=2)
        self.assertTrue(self.outcome(low=2, rates=2).passed)
        with self.assertRaisesRegex(Incomplete, "NAdam, P = 1: 0 of 1 rates"):
            self.outcome(low=2, optimizer="NAdam")
        with self.assertRaisesRegex(Incomplete, "No runs"):
            slowdowns.slowdown({"figure": "x"}, lambda figure: Data(self.root / "none"))

    def test_the_picture_shows_what_is_beyond_its_edge(self):
        self.runs["AdamW, P = 20, rate 0.2", 1] = points(7)
        self.runs["AdamW, P = 20, rate 0.1", 1] = points(7)
        self.write()
        marks = [line for line in draw(self.data).axes[0].lines if line.get_marker() == "^"]
        self.assertEqual([list(line.get_ydata()) for line in marks], [[slowdowns.LONGEST]])
