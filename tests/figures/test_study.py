"""Studies as data: what they expand to, and mistakes that are named."""

import csv
import hashlib
import json
import tempfile
import tomllib
import unittest
from pathlib import Path

from experiments import study

TEXT = """
title = "t"

[base.network]
name = "lenet5"

[base.optimizer]
lr = 0.1
decay_points = [0.5, 0.75]

[tier.quick.data]
name = "synthetic"

[tier.paper.data]
name = "cifar10"

[tier.paper.optimizer]
lr = 0.2

[[row]]
name = "one"
seeds = { quick = 1, paper = 2 }

[[row]]
name = "delay {schedule.delay}, {rule.name}"
set = { optimizer.lr = 0.3 }
each = { "schedule.delay" = [1, 2], "rule.name" = ["sgdm", "sc"] }
"""


class Study(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "probe.toml"

    def load(self, text=TEXT, tier="quick"):
        self.path.write_text(text)
        return study.load(str(self.path), tier)

    def test_rows_are_all_combinations(self):
        probe = self.load()
        self.assertEqual(
            probe.rows,
            ("one", "delay 1, sgdm", "delay 1, sc", "delay 2, sgdm", "delay 2, sc"),
        )
        self.assertEqual(probe.varied, ("optimizer.lr", "schedule.delay", "rule.name"))
        self.assertEqual(probe.name, "probe")

    def test_a_row_wins_over_the_tier_and_that_over_the_base(self):
        quick, paper = self.load(), self.load(tier="paper")
        self.assertEqual([run.settings["optimizer.lr"] for run in quick.runs[:2]], [0.1, 0.3])
        self.assertEqual([run.settings["optimizer.lr"] for run in paper.runs[:2]], [0.2, 0.3])
        self.assertEqual(paper.runs[0].settings["data.name"], "cifar10")

    def test_seeds_come_one_after_the_other_for_all_rows(self):
        paper = self.load(tier="paper")
        self.assertEqual([run.seed for run in paper.runs], [1, 1, 1, 1, 1, 2])
        self.assertEqual([run.row for run in paper.in_table_order()[:2]], ["one", "one"])

    def test_the_configuration_is_what_was_set(self):
        run = self.load().runs[1]
        read = study.flatten("configuration", tomllib.loads(run.configuration()))
        self.assertEqual(read, run.settings)

    def test_a_folder_for_each_settings_whatever_has_no_effect(self):
        first, second = self.load().runs[0], self.load().runs[0]
        second.settings["data.root"] = "elsewhere"
        second.settings["schedule.workers"] = 2
        self.assertEqual(first.folder, second.folder)
        second.settings["optimizer.lr"] = 0.4
        self.assertNotEqual(first.folder, second.folder)

    def test_mistakes_are_named(self):
        for text, message in (
            (TEXT + "=", "probe.toml: "),
            (TEXT.replace('title = "t"', ""), "title: missing, accepted: a text"),
            (TEXT.replace("tier.quick", "tier.fast"), "tier: got 'fast', accepted: quick, paper"),
            (TEXT.replace("[base.network]\nname", "[base]\nnetwork"), "base.network: got 'lenet5'"),
            (TEXT.replace("quick = 1", "quick = -1"), "seeds: got '-1', accepted"),
            (TEXT.replace("quick = 1", "slow = 1"), "seeds: got 'slow', accepted: quick, paper"),
            (TEXT.replace("{rule.name}", "x"), "row: 'delay 1, x' is there twice"),
            (TEXT.replace("set =", "sets ="), "got 'sets', accepted: name, set, each, seeds"),
            (TEXT.replace("optimizer.lr = 0.3", "run.seed = 3"), "got run.seed"),
            (TEXT.replace('"schedule.delay" = [1, 2]', "x = 1"), "each: got 'x', accepted"),
            (TEXT.split("[[row]]")[0], "row: missing"),
        ):
            with self.assertRaisesRegex(study.StudyError, message):
                self.load(text)
        with self.assertRaisesRegex(study.StudyError, "study: got 'none', accepted: resnet20_pb"):
            study.load("none", "quick")
        with self.assertRaisesRegex(study.StudyError, "tier: got 'slow', accepted: quick, paper"):
            self.load(tier="slow")


class RealOnes(unittest.TestCase):
    def test_quick_ones_are_synthetic_and_long_ones_are_not(self):
        for name in study.available():
            for tier, data in (("quick", "synthetic"), ("paper", "cifar10")):
                for run in study.load(name, tier).runs:
                    self.assertEqual(run.settings["data.name"], data, run.label)

    def test_rows_differ_in_what_they_say_alone(self):
        """The same data, samples, reference rate and shape of the schedule in all rows."""
        said = ("run.seed", "run.convolution", "optimizer.batch")
        for name in study.available():
            for tier in study.TIERS:
                runs = study.load(name, tier).runs
                for prefix in ("data.", "network.", "run.", "optimizer."):
                    kept = [
                        {
                            key: value
                            for key, value in run.settings.items()
                            if key.startswith(prefix) and key not in said
                        }
                        for run in runs
                    ]
                    self.assertTrue(all(each == kept[0] for each in kept), f"{name} {prefix}")

    def test_samples_are_whole_batches(self):
        for name in study.available():
            for run in study.load(name, "quick").runs:
                samples, batch = (run.settings[k] for k in ("run.samples", "optimizer.batch"))
                self.assertEqual(samples % batch, 0, run.label)

    def test_three_seeds_where_rows_are_tested(self):
        paper = study.load("resnet20_pb", "paper")
        counts = {row: sum(run.row == row for run in paper.runs) for row in paper.rows}
        for row in ("SGDM, N = 128", "PB", "PB+LWPv_D+SC_D"):
            self.assertGreaterEqual(counts[row], 3)


class KeptResults(unittest.TestCase):
    """Results that are kept with the sources are those of the study as it is written now."""

    def test_they_belong_to_the_study(self):
        for name in study.available():
            folder = Path("experiments/results", name)
            if not folder.is_dir():
                continue
            text = (folder / "results.csv").read_bytes()
            manifest = json.loads((folder / "manifest.json").read_text())
            self.assertEqual(hashlib.sha256(text).hexdigest(), manifest["results_sha256"])
            self.assertEqual(manifest["tier"], "paper")
            kept = study.load(name, "paper")
            planned = {(run.row, str(run.seed)): run for run in kept.runs}
            for row in csv.DictReader(text.decode().splitlines()):
                run = planned[row["row"], row["seed"]]
                found = manifest["settings"] | row | {"run.seed": row["seed"]}
                found.setdefault("optimizer.batch", row["batch"])
                found.setdefault("run.convolution", row["convolution"])
                for key, value in run.settings.items():
                    self.assertIn(key, found, run.label)
                    is_text = isinstance(found[key], str) and not isinstance(value, str)
                    wanted = json.dumps(value) if is_text else value
                    self.assertEqual(found[key], wanted, f"{run.label}: {key}")


if __name__ == "__main__":
    unittest.main()
