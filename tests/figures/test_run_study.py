"""The runner of studies, with a trainer of a few lines: what it writes, takes up again and refuses."""

import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path

from folder import FolderTest

STUDY = """
title = "A probe"

[base.network]
name = "lenet5"

[base.data]
root = "sets"

[tier.quick.data]
name = "synthetic"

[[row]]
name = "first, of two"
seeds = 2

[[row]]
name = "second"
set = { optimizer.lr = 0.5, schedule.weight_stashing = true }
"""
# Reads the configuration that it is given and writes what the trainer would; says in `calls` that it
# was there. {rule} is a line of Python on `seed`, `config` and `loss`.
TRAINER = """#!{python}
import json, os, pathlib, sys, time, tomllib
config = tomllib.loads(pathlib.Path(sys.argv[2]).read_text())
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
assert sys.argv[1] == "train" and "--resume" in sys.argv
with open("calls", "a") as calls:
    calls.write(out.name + "\\n")
seed, lost = config["run"]["seed"], False
loss = 2.0 / seed
{rule}
out.mkdir(exist_ok=True)
resolved = {{"network": config["network"], "data": config["data"], "run": config["run"]}}
resolved["run"]["convolution"] = "winograd"
resolved["optimizer"] = {{"batch": 1, "lr": config.get("optimizer", {{}}).get("lr", 0.1)}}
stashing = config.get("schedule", {{}}).get("weight_stashing", False)
phases = "".join(f"[[phase]]\\nuntil = {{phase.get('until', 1)}}\\n" for phase in config.get("phase", []))
resolved["schedule"] = {{"weight_stashing": stashing}}
(out / "config.toml").write_text("".join(
    f"[{{section}}]\\n" + "".join(f"{{k}} = {{json.dumps(v)}}\\n" for k, v in keys.items())
    for section, keys in resolved.items()) + phases)
(out / "metrics.csv").write_text("samples,validation_accuracy,validation_loss\\n10,,\\n50,0.05,2.5\\n"
    "60,,\\n100,0.1,2.25\\n")
(out / "manifest.json").write_text(json.dumps(dict(version="1", commit=f"c{{seed}}",
    compiler="gcc", flags="-O3", cpu="Some CPU", cpu_threads=2, started="s", finished="f",
    data=dict(name=config["data"]["name"], train_sha256="d" * 64))))
(out / "summary.json").write_text(json.dumps(dict(network=config["network"]["name"],
    data=config["data"]["name"], samples=100, epochs=0.01, validation_accuracy=0.1 * seed,
    validation_loss=loss, weights_sha256="w" * 64, samples_per_second=time.time(),
    predicted_memory_bytes=1000 * seed, trainer_memory_bytes=1100 * seed,
    training_seconds=2.0, diverged=dict(stage="conv1", sample=7) if lost else None)))
sys.exit(1 if lost else 0)
"""
RUNNER = Path("experiments/run_study.py").resolve()


class Folder(FolderTest):
    def setUp(self):
        super().setUp()
        (self.root / "probe.toml").write_text(STUDY)
        self.trainer()

    def trainer(self, rule=""):
        self.executable("batchless", TRAINER.format(python=sys.executable, rule=rule))

    def command(self, *arguments, study="probe.toml"):
        return [RUNNER, study, "--program", "./batchless", "--out", "out", *arguments]

    def call(self, *arguments, code=0, **words):
        return self.run_script(*self.command(*arguments, **words), code=code)[1]

    def results(self, folder="out"):
        return self.rows_of(f"{folder}/results.csv")

    def manifest(self):
        return json.loads((self.root / "out/manifest.json").read_text())


class Results(Folder):
    def test_a_line_for_each_run_in_the_studys_order(self):
        self.assertIn("[3 of 3]", self.call())
        rows = self.results()
        self.assertEqual(
            [(row["row"], row["seed"]) for row in rows],
            [("first, of two", "1"), ("first, of two", "2"), ("second", "1")],
        )
        self.assertEqual(rows[1]["validation_accuracy_percent"], "20")
        self.assertEqual(rows[1]["validation_loss"], "1.0")
        self.assertEqual(rows[0]["data"], "synthetic")
        self.assertEqual(rows[0]["convolution"], "winograd")
        self.assertEqual([row["optimizer.lr"] for row in rows], ["0.1", "0.1", "0.5"])
        self.assertEqual(rows[2]["schedule.weight_stashing"], "true")

    def test_the_manifest_has_what_runs_share_and_no_place_of_this_machine(self):
        self.call()
        manifest = self.manifest()
        self.assertEqual(manifest["program"]["compiler"], "gcc")
        self.assertEqual(manifest["program"]["commit"], ["c1", "c2"])
        self.assertEqual(manifest["data"]["train_sha256"], "d" * 64)
        self.assertEqual(manifest["settings"]["network.name"], "lenet5")
        for key in ("optimizer.lr", "schedule.weight_stashing", "data.root", "run.seed"):
            self.assertNotIn(key, manifest["settings"])
        self.assertEqual((manifest["runs_finished"], manifest["runs_planned"]), (3, 3))
        self.assertEqual(manifest["tier"], "quick")
        self.assertEqual(manifest["runs"][1]["validations"], [[50, 5.0, 2.5], [100, 10.0, 2.25]])
        self.assertEqual(manifest["runs"][1]["predicted_memory_bytes"], 2000)
        self.assertEqual(manifest["runs"][1]["trainer_memory_bytes"], 2200)
        for name in ("results.csv", "manifest.json"):
            self.assertNotIn(str(self.root), (self.root / "out" / name).read_text())

    def test_the_results_go_where_they_are_wanted(self):
        self.call("--results", "kept/probe")
        self.assertEqual(len(self.results("kept/probe")), 3)
        self.assertFalse((self.root / "out/results.csv").exists())

    def test_what_diverged_has_no_accuracy(self):
        self.trainer("lost = seed == 2")
        self.assertIn("diverged at sample 7", self.call())
        lost = self.results()[1]
        self.assertEqual((lost["diverged"], lost["validation_accuracy_percent"]), ("yes", ""))

    def test_nothing_is_left_half_written(self):
        self.call()
        hidden = [p for p in (self.root / "out").rglob(".*")]
        self.assertEqual(hidden, [])


class GoingOn(Folder):
    def test_finished_runs_are_not_run_again(self):
        self.call()
        first = (self.root / "out/results.csv").read_bytes()
        self.assertIn("3 of 3 runs were finished already", self.call())
        self.assertEqual(len(self.lines_of("calls")), 3)
        self.assertEqual((self.root / "out/results.csv").read_bytes(), first)

    def test_a_failed_run_leaves_a_smaller_result_and_is_tried_again(self):
        self.trainer("if seed == 2: sys.exit('no more memory')")
        said = self.call("--jobs", "1", code=1)
        self.assertIn("run_study: first, of two, seed 2: no more memory (exit 1)", said)
        self.assertEqual(len(self.results()), 2)
        self.assertEqual(self.manifest()["runs_finished"], 2)
        self.trainer()
        self.call()
        self.assertEqual(len(self.results()), 3)
        self.assertEqual(len(self.lines_of("calls")), 4)

    def test_a_finished_run_is_in_the_results_while_others_go_on(self):
        self.trainer("if seed == 2: time.sleep(900)")
        child = subprocess.Popen(
            [sys.executable, *self.command("--jobs", "2")], cwd=self.root, stderr=subprocess.PIPE
        )
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline:
            if (self.root / "out/manifest.json").is_file() and len(self.results()) == 2:
                break
            time.sleep(0.05)
        # Nobody else may work in the folder meanwhile.
        said = self.call(code=2)
        self.assertIn("--out: got 'out', accepted: a folder that nobody else runs studies in", said)
        child.terminate()
        said = child.communicate(timeout=240)[1].decode()
        self.assertEqual(child.returncode, 128 + 15)
        self.assertIn("interrupted after 2 of 3 runs; the same command goes on from there", said)
        self.assertEqual(len(self.results()), 2)
        self.trainer()
        self.call()
        self.assertEqual(len(self.results()), 3)

    def test_changed_settings_are_another_run(self):
        self.call()
        (self.root / "probe.toml").write_text(STUDY.replace("0.5", "0.6"))
        self.call()
        self.assertEqual(len(self.lines_of("calls")), 4)
        self.assertEqual(self.results()[2]["optimizer.lr"], "0.6")
        self.assertEqual(len(list((self.root / "out/runs").iterdir())), 4)

    def test_another_content_of_a_file_is_another_run(self):
        rule, delays = self.root / "rule.json", self.root / "delays.csv"
        rule.write_text("{}")
        delays.write_text("delay,probability\n1,1\n")
        named = f'set = {{ optimizer.file = "{rule}", '
        text = STUDY.replace("set = { ", named)
        text += f'phase = [{{ until = 0.5, schedule.delays = "{delays}" }}]\n'
        (self.root / "probe.toml").write_text(text)
        both = (("--results", "kept"), ("--results", "kept", "--out", "other"))
        for arguments in both:
            self.call(*arguments)
        self.assertEqual(len(self.lines_of("calls")), 3)
        manifest = self.root / "kept/manifest.json"
        files = json.loads(manifest.read_text())["runs"][2]["files"]
        self.assertEqual(
            files,
            {
                "optimizer.file": hashlib.sha256(b"{}").hexdigest(),
                "phase.1.schedule.delays": hashlib.sha256(delays.read_bytes()).hexdigest(),
            },
        )
        # In its folder, or among the results: what was made with the file as it was is not this run.
        for count, (path, content) in enumerate(((rule, "{ }"), (delays, "delay,probability\n2,1\n")), 4):
            path.write_text(content)
            for arguments in both:
                self.call(*arguments)
            self.assertEqual(len(self.lines_of("calls")), count)
        # Results of an earlier version say nothing of files, and stand.
        old = json.loads(manifest.read_text())
        del old["runs"][2]["files"]
        manifest.write_text(json.dumps(old))
        rule.write_text("{  }")
        self.call("--results", "kept", "--out", "third")
        self.assertEqual(len(self.lines_of("calls")), 5)

    def test_a_file_that_changes_while_runs_wait_for_their_turn(self):
        rule = self.root / "rule.json"
        rule.write_text("{}")
        text = STUDY.replace("set = { ", f'set = {{ optimizer.file = "{rule}", ')
        (self.root / "probe.toml").write_text(text)
        self.trainer(f"pathlib.Path({str(rule)!r}).write_text('other')")
        said = self.call("--jobs", "1", code=1)
        self.assertIn("second, seed 1: the content of optimizer.file has changed since", said)
        self.assertEqual(len(self.lines_of("calls")), 2)

    def test_a_study_goes_on_elsewhere(self):
        self.trainer("if seed == 2: sys.exit('no more memory')")
        self.call("--results", "kept", code=1)
        two = (self.root / "kept/results.csv").read_text()
        self.trainer()
        elsewhere = (self.root / "batchless").read_text().replace("Some CPU", "Other CPU")
        (self.root / "batchless").write_text(elsewhere)
        (self.root / "calls").unlink()
        self.assertIn("2 of 3 runs were finished already", self.call("--results", "kept", "--out", "other"))
        self.assertEqual(len(self.lines_of("calls")), 1)
        three = (self.root / "kept/results.csv").read_text()
        self.assertEqual([line for line in three.splitlines(True) if ",2,lenet5" not in line],
                         two.splitlines(True))
        manifest = json.loads((self.root / "kept/manifest.json").read_text())
        self.assertEqual(manifest["machine"]["cpu"], ["Some CPU", "Other CPU"])
        self.assertEqual(
            [entry["cpu"] for entry in manifest["runs"]], ["Some CPU", "Other CPU", "Some CPU"]
        )
        self.assertEqual(manifest["settings"]["network.name"], "lenet5")
        # Once more, with runs of two machines kept: nothing is run, nothing changes.
        self.call("--results", "kept", "--out", "third")
        self.assertEqual(len(self.lines_of("calls")), 1)
        again = json.loads((self.root / "kept/manifest.json").read_text())
        self.assertEqual(again, manifest)

    def test_kept_runs_have_the_phases_of_the_study(self):
        text = STUDY.replace('name = "second"', 'name = "second"\nphase = [{ until = 0.5, rule.name = "sc" }]')
        (self.root / "probe.toml").write_text(text)
        self.call("--results", "kept")
        row = self.results("kept")[2]
        self.assertEqual(json.loads(row["phase"]), [{"until": 0.5, "rule.name": "sc"}])
        self.assertEqual(self.results("kept")[0]["phase"], "")
        self.call("--results", "kept", "--out", "other")
        self.assertEqual(len(self.lines_of("calls")), 3)
        for changed in (text.replace("0.5, rule", "0.6, rule"), STUDY):
            (self.root / "probe.toml").write_text(changed)
            calls = len(self.lines_of("calls"))
            self.call("--results", "kept", "--out", f"other{calls}")
            self.assertEqual(len(self.lines_of("calls")), calls + 1)

    def test_results_of_other_settings_are_not_kept(self):
        self.call("--results", "kept")
        (self.root / "probe.toml").write_text(STUDY.replace("lenet5", "vgg11"))
        self.call("--results", "kept", "--out", "other")
        self.assertEqual(len(self.lines_of("calls")), 6)
        self.assertEqual({row["network"] for row in self.results("kept")}, {"vgg11"})


class BadInput(Folder):
    def test_results_that_were_changed_or_are_of_another_study(self):
        self.call("--results", "kept")
        whole = (self.root / "kept/results.csv").read_text()
        (self.root / "kept/results.csv").write_text(whole.replace("20", "90"))
        said = self.call("--results", "kept", code=2)
        self.assertIn("--results: got 'kept', accepted: a folder whose manifest.json", said)
        (self.root / "kept/results.csv").write_text(whole)
        (self.root / "probe.toml").rename(self.root / "other.toml")
        said = self.call("--results", "kept", study="other.toml", code=2)
        self.assertIn("of the study probe, tier quick, accepted: a folder for other", said)
        self.assertEqual((self.root / "kept/results.csv").read_text(), whole)

    def test_results_without_what_made_them(self):
        self.call("--results", "kept")
        (self.root / "kept/manifest.json").unlink()
        whole = (self.root / "kept/results.csv").read_text()
        said = self.call("--results", "kept", code=2)
        self.assertIn("--results: got 'kept', accepted: a folder with manifest.json beside", said)
        self.assertEqual((self.root / "kept/results.csv").read_text(), whole)

    def test_results_that_are_no_text(self):
        self.call("--results", "kept")
        (self.root / "kept/results.csv").write_bytes(b"row\xff")
        self.assertIn("--results: got 'kept', accepted: a study's results (", self.call("--results", "kept", code=2))

    def test_results_of_another_experiment_are_no_studys(self):
        self.call("--results", "kept")
        manifest = json.loads((self.root / "kept/manifest.json").read_text())
        del manifest["study"]
        (self.root / "kept/manifest.json").write_text(json.dumps(manifest))
        said = self.call("--results", "kept", code=2)
        self.assertIn("--results: got 'kept', accepted: a study's results (no 'study' in", said)
        self.assertEqual(len(said.splitlines()), 1)

    def test_one_line_that_names_it(self):
        for arguments, line in (
            (("--jobs", "0"), "--jobs: got '0', accepted: an integer from 1"),
            (("--jobs", "two"), "--jobs: got 'two', accepted: an integer from 1"),
            (("--tier", "slow"), "tier: got 'slow', accepted: quick, paper"),
            (("--data", "none"), "--data: got 'none', accepted: a folder that exists"),
            (("--program", "none"), "--program: got 'none', accepted: the program batchless"),
            (("--results", "batchless"), "--results: got 'batchless', accepted: a folder"),
            (("--out", b"caf\xe9"), r"argument: got 'caf\xe9', accepted: text in UTF-8"),
            (("--what",), "unrecognized arguments: --what; --help lists what is accepted"),
        ):
            said = self.call(*arguments, code=2)
            self.assertIn(f"run_study: {line}", said)
            self.assertEqual(said.count("\n"), 1, said)
        self.assertEqual(self.lines_of("calls"), [])
        self.assertFalse((self.root / "out").exists())

    def test_what_the_trainer_refuses_ends_the_study(self):
        self.trainer("print('optimizer.lr: got 9, accepted: less', file=sys.stderr); sys.exit(2)")
        said = self.call("--jobs", "1", code=2)
        self.assertEqual(
            said, "run_study: first, of two, seed 1: optimizer.lr: got 9, accepted: less\n"
        )
        self.assertEqual(len(self.lines_of("calls")), 1)
        self.assertFalse((self.root / "out/results.csv").exists())
