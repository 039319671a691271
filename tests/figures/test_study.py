"""Studies as data: what they expand to, and mistakes that are named."""

import contextlib
import os
import tempfile
import tomllib
import unittest
import unittest.mock
from pathlib import Path

from experiments import study, study_results, study_runner
from folder import FolderTest

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


class Study(FolderTest):
    def setUp(self):
        super().setUp()
        self.path = self.root / "probe.toml"

    def load(self, text=TEXT, tier="quick"):
        self.path.write_text(text)
        return study.load(str(self.path), tier)

    def lend(self, text):
        """Beside the study there is another one, and no other."""
        self.path.with_name("lender.toml").write_text(text)
        folder, study.FOLDER = study.FOLDER, self.path.parent
        self.addCleanup(setattr, study, "FOLDER", folder)

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

    def test_a_row_from_another_study_is_its_run(self):
        self.lend(TEXT)
        row = '\n[[row]]\nname = "mine"\nfrom = { study = "lender", row = "delay 2, sc" }\n'
        run = self.load(TEXT + row).runs[-1]
        lent = study.load("lender", "quick").runs[-1]
        self.assertEqual((run.row, run.study, run.origin), ("mine", "lender", "delay 2, sc"))
        self.assertEqual((run.folder, run.settings), (lent.folder, lent.settings))
        with self.assertRaisesRegex(study.StudyError, "from: got 'none', accepted: one, delay 1"):
            self.load(TEXT + row.replace("delay 2, sc", "none"))
        with self.assertRaisesRegex(study.StudyError, "got 'from' beside 'each', 'phase' or 'unset'"):
            self.load(TEXT + row + 'each = { "optimizer.lr" = [1] }\n')

    def test_a_row_from_another_study_is_its_own_where_that_lacks_the_tier(self):
        self.lend(TEXT.split("[tier.quick")[0] + "[tier.paper" + TEXT.split("[tier.paper", 1)[1])
        row = '\n[[row]]\nname = "mine"\nfrom = { study = "lender", row = "delay 2, sc" }\n'
        with self.assertRaisesRegex(study.StudyError, "tier: got 'quick', accepted: paper"):
            self.load(TEXT + row)
        row += "set = { optimizer.lr = 0.3, schedule.delay = 2 }\n"
        own, lent = self.load(TEXT + row).runs[-1], self.load(TEXT + row, "paper").runs
        lent = next(run for run in lent if run.row == "mine")
        self.assertEqual((own.study, own.origin, lent.study), ("probe", "mine", "lender"))
        self.assertEqual(own.settings["schedule.delay"], 2)
        message = "row 'mine': set: got schedule.delay = 1, accepted: 2, as in the row that it is from"
        with self.assertRaisesRegex(study.StudyError, message):
            self.load(TEXT + row.replace("delay = 2 }", "delay = 1 }"), "paper")

    def test_rows_like_those_of_another_study_are_its_own_but_for_what_the_file_says(self):
        self.lend(TEXT)
        text = """
title = "shorter"
[base.optimizer]
decay_points = [0.25]
[tier.quick.run]
epochs = 2
[[row]]
like = { study = "lender", rows = ["one", "delay *, sc"] }
set = { rule.name = "lwp-v" }
seeds = 2
"""
        probe = self.load(text)
        self.assertEqual(probe.rows, ("one", "delay 1, sc", "delay 2, sc"))
        run = probe.in_table_order()[-1]
        lent = study.load("lender", "quick").runs[-1]
        own = {"optimizer.decay_points": [0.25], "run.epochs": 2, "rule.name": "lwp-v", "run.seed": 2}
        self.assertEqual((run.row, run.origin, run.study), ("delay 2, sc", "delay 2, sc", "probe"))
        self.assertEqual(run.settings, lent.settings | own)
        # What the lender's rows vary is known of a line of results, without what all of them share.
        self.assertEqual(set(probe.varied) & {"schedule.delay", "run.epochs"}, {"schedule.delay"})
        self.assertEqual(len(set(probe.varied)), len(probe.varied))
        for old, new, message in (
            ('"one", "delay *, sc"', '"two"', "like: got 'two', accepted: one, delay 1, sgdm"),
            ('["one", "delay *, sc"]', '"one"', 'like: rows: got "one", accepted: a list of patterns'),
            ("seeds = 2", 'name = "mine"', "row: like: got 'name', accepted: like, set, seeds"),
            ("seeds = 2", '[[row]]\nlike = { study = "lender", rows = ["one"] }', "'one' is there twice"),
        ):
            with self.assertRaisesRegex(study.StudyError, message):
                self.load(text.replace(old, new))

    def test_a_row_without_what_the_base_has(self):
        row = '\n[[row]]\nname = "bare"\nunset = ["optimizer.lr"]\n'
        probe = self.load(TEXT + row)
        bare = next(run for run in probe.runs if run.row == "bare")
        self.assertNotIn("optimizer.lr", bare.settings)
        self.assertIn("optimizer.lr", probe.varied)

    def test_phases_are_the_trainers(self):
        row = """
[[row]]
name = "hybrid"
phase = [{ until = 0.5, schedule.kind = "pb", optimizer.lr = 0.2 }, { schedule.kind = "sequential" }]
"""
        probe = self.load(TEXT + row)
        run = next(run for run in probe.runs if run.row == "hybrid")
        read = tomllib.loads(run.configuration())
        self.assertEqual(
            read.pop("phase"),
            [
                {"until": 0.5, "schedule": {"kind": "pb"}, "optimizer": {"lr": 0.2}},
                {"schedule": {"kind": "sequential"}},
            ],
        )
        rest = {key: value for key, value in run.settings.items() if key != study.PHASES}
        self.assertEqual(study.flatten("configuration", read), rest)
        other = self.load(TEXT + row.replace("until = 0.5", "until = 0.6")).runs
        self.assertNotIn(run.folder, [one.folder for one in other])
        with self.assertRaisesRegex(study.StudyError, "row 'hybrid': phase: got '1', accepted"):
            self.load(TEXT + "\n[[row]]\nname = 'hybrid'\nphase = 1\n")

    def test_a_protocol_is_below_the_study(self):
        base = TEXT.replace('title = "t"', 'title = "t"\nprotocol = "reference"')
        settings = self.load(base, "paper").runs[0].settings
        self.assertEqual(settings["optimizer.lr"], 0.2)
        self.assertEqual(settings["optimizer.decay_factor"], 0.1)
        self.assertEqual(settings["run.validate_every_samples"], 250000)
        with self.assertRaisesRegex(study.StudyError, "protocol: got 'x', accepted: one_cycle"):
            self.load(base.replace("reference", "x"), "paper")

    def test_the_fixed_protocol(self):
        """Hyperparameters of the publication at N = 128; nothing tuned."""
        for one in study.queue("paper"):
            for run in one.runs:
                s = run.settings
                if s.get("optimizer.schedule", "steps") != "steps" or "resnet" not in s["network.name"]:
                    continue
                if s.get("optimizer.kind") in ("adam", "adamw", "nadam", "nadamw", "muon", "basis-rotation"):
                    continue
                self.assertEqual(s["optimizer.reference_batch"], 128)
                self.assertEqual(s["optimizer.reference_momentum"], 0.9)
                self.assertEqual(s["optimizer.weight_decay"], 1e-4)
                if one.name != "stable_rate":
                    self.assertEqual(s["optimizer.reference_lr"], 0.1)
                    self.assertEqual(s["optimizer.decay_points"], [0.5, 0.75])

    def test_optimizers_of_their_own_rate(self):
        """Usual hyperparameters at N = 128, with the same half-lives in samples at batch one."""
        seen = set()
        for run in study.load("comparison", "paper").runs:
            s, kind = run.settings, run.settings.get("optimizer.kind", "")
            if "adam" not in kind and kind != "muon":
                continue
            seen.add(kind)
            self.assertEqual(s["optimizer.batch"], 1)
            self.assertEqual("optimizer.lr" in s, kind == "muon")
            self.assertNotIn("optimizer.reference_momentum", s)
            if kind == "muon":
                self.assertAlmostEqual(s["optimizer.beta1"] ** 128, 0.9, places=12)
                self.assertAlmostEqual(s["optimizer.beta2"] ** 128, 0.999, places=12)
                self.assertAlmostEqual(s["optimizer.lr"], 0.02 / 128, places=15)
                self.assertAlmostEqual(s["optimizer.momentum"] ** 128, 0.95, places=12)
                adam = 0.001 / 128**0.5
                self.assertAlmostEqual(s["optimizer.vector_lr_ratio"] * 0.02 / 128, adam, places=15)
            else:
                self.assertEqual((s["optimizer.reference_lr"], s["optimizer.reference_batch"]), (0.001, 128))
                # Asynchronous Nesterov has 0.99 at once, or comes near it by stage.
                by_stage = s.get("optimizer.deepest_momentum")
                at_once = kind == "nadamw" and by_stage is None
                self.assertEqual(s.get("optimizer.beta1", 0.9), 0.99 if at_once else 0.9)
                self.assertAlmostEqual((by_stage or 0.99 ** (1 / 128)) ** 128, 0.99, places=12)
                self.assertNotIn("optimizer.beta2", s)
                self.assertEqual("optimizer.momentum_decay" in s, kind.startswith("nadam"))
                self.assertAlmostEqual(s.get("optimizer.momentum_decay", 0.004 / 128) * 128, 0.004, places=12)
        self.assertEqual(seen, {"adam", "adamw", "muon", "nadam", "nadamw"})

    def test_mistakes_are_named(self):
        for text, message in (
            (TEXT + "=", "probe.toml: "),
            (TEXT.replace('title = "t"', ""), "title: missing, accepted: a text"),
            (TEXT.replace("tier.quick", "tier.fast"), "tier: got 'fast', accepted: quick, paper"),
            (TEXT.replace("[base.network]\nname", "[base]\nnetwork"), "base.network: got 'lenet5'"),
            (TEXT.replace("quick = 1", "quick = -1"), "seeds: got '-1', accepted"),
            (TEXT.replace("quick = 1", "slow = 1"), "seeds: got 'slow', accepted: quick, paper"),
            (TEXT.replace("{rule.name}", "x"), "row: 'delay 1, x' is there twice"),
            (TEXT.replace("set =", "sets ="), "got 'sets', accepted: name, set, each, phase, unset"),
            (TEXT.replace("optimizer.lr = 0.3", "run.seed = 3"), "got run.seed"),
            (TEXT.replace('"schedule.delay" = [1, 2]', "x = 1"), "each: got 'x', accepted"),
            (TEXT.replace("set =", 'best = "optimizer.lr"\nset ='), "best: got 'optimizer.lr', accepted: a key of 'each'"),
            (TEXT.split("[[row]]")[0], "row: missing"),
        ):
            with self.assertRaisesRegex(study.StudyError, message):
                self.load(text)
        with self.assertRaisesRegex(study.StudyError, "study: got 'none', accepted: .*resnet20_pb"):
            study.load("none", "quick")
        with self.assertRaisesRegex(study.StudyError, "tier: got 'slow', accepted: quick, paper"):
            self.load(tier="slow")


# Keys of these sections that a study's rows differ in, beside the size of their mini-batches; all else
# about data, network, length and rate is the same in all rows.
# Whatever a study of several networks sets by network, in all of its rows.
OF_A_NETWORK = {
    "network.name",
    "network.norm",
    "network.groups",
    "optimizer.reference_lr",
    "optimizer.weight_decay",
    "run.epochs",
}
# Rates of optimizers that no reference rate is scaled for.
OF_AN_OPTIMIZER = {
    "optimizer.lr",
    "optimizer.momentum",
    "optimizer.beta1",
    "optimizer.beta2",
    "optimizer.vector_lr_ratio",
    "optimizer.reference_lr",
    "optimizer.reference_momentum",
    "optimizer.reference_batch",
}
OF_GPT = {
    "optimizer.kind",
    "optimizer.lr",
    "optimizer.momentum",
    "optimizer.beta2",
    "optimizer.vector_lr_ratio",
}
ASKED = {
    "gpt": OF_GPT,
    "gpt_stages": OF_GPT,
    "depth": {"network.name"},
    "techniques": {"network.name"},
    "rate_sensitivity": {"optimizer.reference_lr"},
    "stable_rate": {"optimizer.reference_lr"},
    "normalisation": {"network.groups"},
    "adam_batch": {"optimizer.reference_exponent", *OF_AN_OPTIMIZER},
    "designed": {"optimizer.kind", "optimizer.file"},
    "short": {"network.name", "network.groups", "optimizer.kind", "optimizer.annealing_samples", *OF_AN_OPTIMIZER},
    "zhang_cifar10": OF_A_NETWORK,
    "comparison": {
        "optimizer.kind",
        "optimizer.file",
        "optimizer.annealing_samples",
        "optimizer.discrepancy_decay",
        "optimizer.momentum_decay",
        "optimizer.deepest_momentum",
        *OF_AN_OPTIMIZER,
    },
}


def every_study():
    return [study.load(name, tier) for name in study.available() for tier in study.tiers_of(name)]


class RealOnes(unittest.TestCase):
    def test_quick_ones_are_synthetic_and_long_ones_are_not(self):
        for one in every_study():
            real = "mnist" if one.name in ("adam_batch", "zhang_lenet5") else "cifar10"
            data = {"quick": "synthetic", "paper": real}[one.tier]
            if one.name.startswith("gpt"):  # their source is the same in both, and known
                data = "markov"
            for run in one.runs:
                self.assertEqual(run.settings["data.name"], data, run.label)

    def test_rows_differ_in_what_they_say_alone(self):
        """The same data, samples, reference rate and shape of the schedule in all rows."""
        for one in every_study():
            said = {"run.seed", "run.convolution", "optimizer.batch"} | ASKED.get(one.name, set())
            for prefix in ("data.", "network.", "run.", "optimizer."):
                kept = [
                    {
                        key: value
                        for key, value in run.settings.items()
                        if key.startswith(prefix) and key not in said
                    }
                    for run in one.runs
                ]
                self.assertTrue(all(each == kept[0] for each in kept), f"{one.name} {prefix}")

    def test_rows_of_a_network_differ_in_their_schedules_alone(self):
        """Stale weights, hybrid and plain training: one protocol for each network."""
        for name in ("zhang_lenet5", "zhang_cifar10"):
            protocols = {}
            for run in study.load(name, "paper").runs:
                own = {
                    key: value
                    for key, value in run.settings.items()
                    if not key.startswith("schedule.") and key not in ("run.seed", study.PHASES)
                }
                protocols.setdefault(run.settings["network.name"], []).append(own)
                for phase in run.settings.get(study.PHASES, []):
                    self.assertTrue(all(k == "until" or k.startswith("schedule.") for k in phase))
            for network, found in protocols.items():
                self.assertTrue(all(each == found[0] for each in found), network)

    def test_files_are_found_from_any_folder_and_named_from_the_sources(self):
        named = [run for one in every_study() for run in one.runs if "optimizer.file" in run.settings]
        self.assertTrue(named)
        root = study.FOLDER.parent.parent
        for run in named:
            name = run.settings["optimizer.file"]
            self.assertTrue((root / name).is_file(), name)
            self.assertIn(f'file = "{root / name}"', run.configuration())
        for results in (study.FOLDER.parent / "results").glob("*/results.csv"):
            self.assertNotIn(",/", results.read_text(encoding="utf-8"), results)

    def test_samples_are_whole_batches(self):
        for one in every_study():
            for run in one.runs:
                samples = study_runner.planned_samples(run)
                self.assertEqual(samples % run.settings["optimizer.batch"], 0, run.label)

    def test_three_seeds_where_rows_are_tested(self):
        claims = "".join(path.read_text() for path in Path("figures/claims").glob("*.toml"))
        for one in study.queue("paper"):
            counts = {row: sum(run.row == row for run in one.runs) for row in one.rows}
            for row, seeds in counts.items():
                # Its study says why no more seeds of hybrid training are run but of ResNet-56.
                alone = row.endswith(", hybrid") and not row.startswith("ResNet-56")
                if alone:
                    self.assertNotIn(f'"{row}"', claims)
                least = 1 if alone or one.name in ("rate_sensitivity", "gpt_stages") else 3
                self.assertGreaterEqual(seeds, least, f"{one.name}: {row}")

    def test_the_queue_has_the_first_studies_first(self):
        queue = study.queue("paper")
        self.assertEqual(queue[0].name, "rate_sensitivity")
        self.assertEqual([one.priority for one in queue], sorted(one.priority for one in queue))
        self.assertNotIn("uniform_delay", [one.name for one in queue])

    def test_runs_that_studies_share_are_the_same(self):
        """A row from another study has that study's settings, so that it is run once."""
        comparison = study.load("resnet20_pb", "paper")
        there = {(run.row, run.seed): run for run in comparison.runs}
        shared = [
            run for run in study.load("controls", "paper").runs if run.study == "resnet20_pb"
        ]
        self.assertEqual(len(shared), 6)
        for run in shared:
            self.assertEqual(run.folder, there[run.origin, run.seed].folder)


class KeptResults(unittest.TestCase):
    """Results that are kept with the sources are those of the study as it is written now."""

    def test_whoever_is_killed_while_writing_loses_no_row(self):
        """Before each step of putting the files in their places, the first time and later."""
        name = "controls"
        one = study.load(name, "paper")
        kept = study_results.read_kept(one, Path("experiments/results", name))
        fewer = dict(list(kept.items())[:-1])
        for before in ({}, fewer):
            for step in range(4):
                with tempfile.TemporaryDirectory() as folder, self.subTest(step=step, before=len(before)):
                    if before:
                        study_results.write(one, before, Path(folder))
                    steps, move = iter(range(4)), os.replace

                    def stop(source, target, steps=steps, step=step, move=move):
                        if next(steps) == step:
                            raise KeyboardInterrupt
                        move(source, target)

                    with (
                        unittest.mock.patch("os.replace", stop),
                        unittest.mock.patch.object(Path, "replace", lambda path, to: os.replace(path, to)),
                        contextlib.suppress(KeyboardInterrupt),
                    ):
                        study_results.write(one, kept, Path(folder))
                    # Three files are moved; the table is the second.
                    expected = before if step < 2 else kept
                    self.assertEqual(study_results.read_kept(one, Path(folder)).keys(), expected.keys())

    def test_they_are_written_again_as_they_are(self):
        """All lines: each is a run of the study as it is planned now."""
        for name in study.available():
            folder = Path("experiments/results", name)
            if folder.is_dir():
                one = study.load(name, "paper")
                kept = study_results.read_kept(one, folder)
                with tempfile.TemporaryDirectory() as again:
                    study_results.write(one, kept, Path(again))
                    for file in ("results.csv", "manifest.json"):
                        text = Path(again, file).read_text()
                        self.assertEqual(text, (folder / file).read_text(), name)
