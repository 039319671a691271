"""The queue of studies, with a trainer of a few lines: order, shared runs, kills, moves, pauses."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from experiments import study as studies
from experiments import study_results, study_runner
from folder import FolderTest
from test_run_study import TRAINER

RUNNER = Path("experiments/run_campaign.py").resolve()
BASE = """
[base.network]
name = "lenet5"

[tier.quick.data]
name = "synthetic"
"""
LENDER = 'title = "Later"\npriority = 2\n' + BASE + """
[[row]]
name = "plain"
seeds = 3

[[row]]
name = "stashing"
set = { schedule.weight_stashing = true }
seeds = 2
"""
FIRST = 'title = "First"\npriority = 1\n' + BASE
BORROWER = FIRST + """
[[row]]
name = "rate {optimizer.lr}"
each = { "optimizer.lr" = [0.3, 0.4] }

[[row]]
name = "as before"
from = { study = "lender", row = "plain" }
seeds = 2
"""
CHOOSER = FIRST + """
[[row]]
name = "rate {optimizer.lr}, {rule.name}"
each = { "optimizer.lr" = [0.3, 0.4, 0.5], "rule.name" = ["sgdm", "sc"] }
best = "optimizer.lr"
seeds = 3
"""
CHOOSER_OF_RATES = CHOOSER.replace(', "rule.name" = ["sgdm", "sc"]', "").replace(", {rule.name}", "")
OUTSIDE = BORROWER.replace("priority = 1", "").replace("0.4", "0.5")
RUNS = 7  # of 9 rows and seeds in both, two are shared


class Pace(unittest.TestCase):
    """How long runs take, of two networks that have runs and of others."""

    FLOPS = {"resnet20": 1e6, "resnet110": 5e6, "gpt": 1e9}

    def setUp(self):
        self.runs, self.finished, self.asked = {}, {}, []

    def run_of(self, seconds=0.0, seed=1, **network):
        """For 100 samples; finished where it took any time."""
        settings = {f"network.{key}": value for key, value in network.items()}
        run = studies.Run("row", seed, settings | {"run.seed": seed}, "study", "row")
        self.runs[run.folder] = run
        if seconds:
            cells, entry = {"samples": "100"}, {"training_seconds": seconds}
            self.finished[run.folder] = study_results.Finished(cells, entry, {}, {}, None, {})
        return run

    def seconds(self, run):
        def flops(network):
            self.asked.append(network)
            return self.FLOPS.get(network, 0)

        return study_runner.Pace(self.runs, self.finished, flops).seconds(run, 50)

    def test_as_long_as_runs_of_the_same_network(self):
        for seed, seconds in ((1, 10), (2, 30), (3, 12)):
            self.run_of(seconds, seed, name="resnet20")
        self.assertEqual(self.seconds(self.run_of(seed=4, name="resnet20")), 6)
        # Whose operations nobody has to know.
        self.assertEqual(self.asked, [])

    def test_by_operations_where_the_network_has_none(self):
        for seed in (1, 2, 3):
            self.run_of(10, seed, name="resnet20")
        self.assertAlmostEqual(self.seconds(self.run_of(name="resnet110")), 25)
        # A network whose operations are those of a larger one is one of three that the speed is from.
        self.run_of(1, name="gpt", width=64)
        self.run_of(20, seed=1, name="resnet20", groups=1)
        self.assertAlmostEqual(self.seconds(self.run_of(name="resnet110")), 25)

    def test_nothing_where_nothing_says_it(self):
        self.assertEqual(self.seconds(self.run_of(name="resnet20")), 0)
        self.run_of(10, name="other")
        self.assertEqual(self.seconds(self.run_of(name="resnet110")), 0)
        self.run_of(10, name="resnet20")
        for run in (self.run_of(file="networks/none.toml"), self.run_of()):
            self.assertEqual(self.seconds(run), 0)


class Queue(FolderTest):
    def setUp(self):
        super().setUp()
        self.root = self.root / "place"
        (self.root / "studies").mkdir(parents=True)
        for name, text in (("lender", LENDER), ("borrower", BORROWER), ("outside", OUTSIDE)):
            (self.root / f"studies/{name}.toml").write_text(text)
        self.trainer()

    def trainer(self, rule=""):
        text = TRAINER.format(python=sys.executable, rule=rule)
        says = text.replace("sys.exit(1 if", "open('ends', 'a').write(out.name + '\\n')\nsys.exit(1 if")
        self.executable("batchless", says)

    def command(self, *arguments):
        words = ["--program", "./batchless", "--tier", "quick", "--studies", "studies"]
        words += ["--out", "out", "--results", "results", "--jobs", "2", "--priority", "normal"]
        return [RUNNER, *words, *arguments]

    def call(self, *arguments, code=0):
        return "".join(self.run_script(*self.command(*arguments), code=code))

    def start(self, *arguments):
        return subprocess.Popen(
            [sys.executable, *self.command(*arguments)],
            cwd=self.root, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def results(self, study):
        name = f"results/{study}/results.csv"
        lines = self.rows_of(name) if (self.root / name).is_file() else []
        return [(line["row"], line["seed"]) for line in lines]

    def kept(self):
        """What the files of results hold."""
        return {path: path.read_bytes() for path in (self.root / "results").rglob("*") if path.is_file()}

    def wait_until(self, ready):
        deadline = time.monotonic() + 240
        while not ready():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)


class Order(Queue):
    def test_urgent_studies_first_and_shared_runs_once(self):
        self.assertIn(f"[{RUNS} of {RUNS}]", self.call("--jobs", "1"))
        calls = [name.rsplit("-", 1)[0] for name in self.lines_of("calls")]
        self.assertEqual(
            calls,
            ["rate-0-3-seed1", "rate-0-4-seed1", "plain-seed1", "plain-seed2"]
            + ["stashing-seed1", "stashing-seed2", "plain-seed3"],
        )
        self.assertEqual(
            self.results("borrower"),
            [("rate 0.3", "1"), ("rate 0.4", "1"), ("as before", "1"), ("as before", "2")],
        )
        self.assertEqual(len(self.results("lender")), 5)
        self.assertFalse((self.root / "results/outside").exists())
        manifest = json.loads((self.root / "results/borrower/manifest.json").read_text())
        self.assertEqual(manifest["runs"][-1]["row"], "as before")
        self.assertEqual({"commit", "cpu"} - set(manifest["runs"][-1]), set())

    def choose(self, text):
        """The study alone in the queue."""
        for path in (self.root / "studies").iterdir():
            path.unlink()
        (self.root / "studies/chooser.toml").write_text(text)

    def test_the_best_row_by_the_first_seed_has_the_others(self):
        self.choose(CHOOSER)
        # The largest rate diverges; without `sc` the smaller of the others is the better one.
        self.trainer(
            "rate, sc = config['optimizer']['lr'], config['rule']['name'] == 'sc'\n"
            "loss, lost = abs(rate - (0.4 if sc else 0.3)), rate == 0.5"
        )
        self.assertIn("[10 of 10]", self.call("--jobs", "3"))
        later = sorted(row for row, seed in self.results("chooser") if seed != "1")
        self.assertEqual(later, 2 * ["rate 0.3, sgdm"] + 2 * ["rate 0.4, sc"])
        manifest = json.loads((self.root / "results/chooser/manifest.json").read_text())
        self.assertEqual([manifest[f"runs_{key}"] for key in ("finished", "planned")], [10, 10])
        listed = self.call("--list").splitlines()
        self.assertEqual(sum("left out: not the best" in line for line in listed), 8)
        self.assertFalse(any("waiting" in line for line in listed))

    def test_what_failed_keeps_the_choice_open(self):
        self.choose(CHOOSER_OF_RATES)
        self.trainer("if config['optimizer']['lr'] == 0.3: sys.exit('no more memory')")
        self.call(code=1)
        self.assertEqual(len(self.results("chooser")), 2)
        # Its loss decides once there is one.
        self.trainer("loss = config['optimizer']['lr']")
        self.call()
        later = [row for row, seed in self.results("chooser") if seed != "1"]
        self.assertEqual(later, 2 * ["rate 0.3"])

    def test_a_loss_that_is_no_number_is_no_better_than_any(self):
        self.choose(CHOOSER_OF_RATES)
        self.trainer("loss = None if config['optimizer']['lr'] == 0.3 else config['optimizer']['lr']")
        self.assertIn("loss nan", self.call())
        later = [row for row, seed in self.results("chooser") if seed != "1"]
        self.assertEqual(later, 2 * ["rate 0.4"])
        self.assertIn("loss nan", self.call("--list"))

    def test_a_run_alone_is_left_out_too(self):
        self.choose(CHOOSER_OF_RATES)
        self.trainer("loss = config['optimizer']['lr']")
        for number in (1, 2, 3):
            self.call("--run", str(number))
        said = [self.call("--run", str(number)) for number in (4, 5)]
        self.assertIn("rate 0.3, seed 2: ", said[0])
        self.assertEqual(said[1].strip(), "rate 0.4, seed 2: left out, not the best")
        self.assertEqual(len(self.lines_of("ends")), 4)

    def test_a_run_alone_waits_for_no_choice(self):
        self.choose(CHOOSER_OF_RATES)
        # Its job may begin before the first seeds of others have ended.
        self.assertIn("rate 0.4, seed 2: ", self.call("--run", "5"))
        self.assertEqual(len(self.lines_of("ends")), 1)

    def test_trainers_take_what_nobody_else_wants(self):
        self.trainer("open('classes', 'a').write(f'{os.sched_getscheduler(0)}\\n')")
        self.call("--priority", "idle", "--run", "1")
        self.call("--run", "2")
        self.assertEqual(self.lines_of("classes"), [str(os.SCHED_IDLE), str(os.SCHED_OTHER)])

    def test_their_session_weighs_least(self):
        if not Path(study_runner.AUTOGROUP).is_file():
            self.skipTest("this kernel does not weigh sessions")
        self.trainer(f"open('weights', 'a').write(open('{study_runner.AUTOGROUP}').read())")
        self.call("--priority", "idle", "--run", "1")
        weights = {word for line in self.lines_of("weights") for word in line.split() if word.isdigit()}
        self.assertEqual(weights, {"19"})

    def test_a_failed_run_holds_nobody_up(self):
        self.trainer("if seed == 2: sys.exit('no more memory')")
        self.assertIn("run_campaign: plain, seed 2: no more memory (exit 1)", self.call(code=1))
        self.assertEqual(len(self.lines_of("ends")), RUNS - 2)

    def test_refused_runs_hold_nobody_up_either(self):
        self.trainer("if seed == 2: print('x: got 1', file=sys.stderr); sys.exit(2)")
        self.assertIn("stashing, seed 2: x: got 1 (exit 2)", self.call(code=1))
        self.assertEqual(len(self.lines_of("ends")), RUNS - 2)


class GoingOn(Queue):
    def test_kills_and_a_move_lose_no_finished_run(self):
        # A run takes some tenths of a second, so that kills fall before, into and behind runs.
        self.trainer("time.sleep(0.3)")
        moments = random.Random(1)
        kills = 0
        while kills < 10:
            child = self.start()
            time.sleep(moments.uniform(0.2, 0.9))
            child.kill()
            child.wait()
            kills += 1
            if kills == 5:
                # Half-way everything goes to another folder; the runs' folders stay behind.
                place = self.root.with_name("other")
                shutil.copytree(self.root, place, ignore=shutil.ignore_patterns("out"))
                kept = {study: self.results(study) for study in ("lender", "borrower")}
                self.root = place
                self.assertEqual({s: self.results(s) for s in kept}, kept)
                before = {name for rows in kept.values() for name in rows}
        self.call()
        self.assertEqual((len(self.results("lender")), len(self.results("borrower"))), (5, 4))
        # What was in the results when it moved was not run again.
        ends = self.lines_of("ends")
        for name in set(ends):
            self.assertLessEqual(ends.count(name), 2)
        self.assertLessEqual(len(ends), 2 * RUNS - len({row for row in before if row[0] != "as before"}))

    def test_a_killed_runner_takes_its_trainers_with_it(self):
        self.trainer("time.sleep(900)")
        child = self.start()
        self.wait_until(lambda: len(self.lines_of("calls")) == 2)
        child.kill()
        child.wait()
        self.trainer()
        self.call()
        self.assertEqual(len(self.lines_of("calls")), RUNS + 2)

    def test_results_from_before_are_not_run_again(self):
        self.call()
        before = self.kept()
        shutil.rmtree(self.root / "out")
        self.assertIn(f"{RUNS} of {RUNS} runs were finished already", self.call())
        self.assertEqual(len(self.lines_of("calls")), RUNS)
        self.assertEqual(self.kept(), before)

    def test_results_from_before_stay_whatever_the_runs_folders_say(self):
        self.call()
        before = self.kept()
        for path in (self.root / "out/runs").glob("*/summary.json"):
            path.write_text(path.read_text().replace("w" * 64, "v" * 64))
        self.call("--collect")
        self.call()
        self.assertEqual(self.kept(), before)


class Pausing(Queue):
    def test_nothing_runs_until_it_is_resumed(self):
        self.trainer("time.sleep(900 if not pathlib.Path('go').exists() else 0)")
        child = self.start()
        self.addCleanup(child.kill)
        self.wait_until(lambda: len(self.lines_of("calls")) == 2)
        self.assertIn(f"running; 0 of {RUNS} runs finished", self.call("--status"))
        self.assertEqual(self.call("--pause"), "")
        self.assertIn("paused", self.call("--status"))
        children = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text()
        self.assertEqual(children, "")
        (self.root / "go").touch()
        self.assertEqual(self.call("--resume"), "")
        self.assertEqual(child.wait(timeout=240), 0)
        self.assertEqual(len(self.results("lender")), 5)
        self.assertEqual(len(self.lines_of("calls")), RUNS + 2)

    def test_the_status_of_an_earlier_pause_does_not_count(self):
        out = self.root / "out"
        out.mkdir()
        (out / "status.json").write_text('{"paused": true}')
        with study_runner.lock(out / "lock"):
            child = self.start("--pause")
            self.addCleanup(child.kill)
            self.wait_until((out / "pause").exists)
            with self.assertRaises(subprocess.TimeoutExpired):
                child.wait(timeout=1)
            (out / "status.json").write_text('{"paused": true}')
            self.assertEqual(child.wait(timeout=60), 0)

    def test_a_signal_ends_a_pause(self):
        (self.root / "out").mkdir()
        self.call("--pause")
        child = self.start()
        self.wait_until(lambda: json.loads(self.status()).get("paused"))
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(timeout=240), 128 + 15)
        self.assertEqual(self.lines_of("calls"), [])
        self.assertIn("nothing runs until", self.call("--resume"))

    def status(self):
        path = self.root / "out/status.json"
        return path.read_text() if path.is_file() else "{}"


class Jobs(Queue):
    def test_one_run_a_job_and_their_results(self):
        listed = self.call("--list").splitlines()
        self.assertEqual(len(listed), RUNS)
        self.assertIn("waiting", listed[0])
        for number in range(1, RUNS):
            self.call("--run", str(number))
        self.assertEqual(self.results("lender"), [])
        self.call("--collect")
        self.assertEqual((len(self.results("lender")), len(self.results("borrower"))), (4, 4))
        self.assertIn("rate 0.3, seed 1: finished already", self.call("--run", "1"))
        self.assertEqual(len(self.lines_of("calls")), RUNS - 1)

    def test_a_run_is_run_by_one_process_at_a_time(self):
        self.trainer("time.sleep(900)")
        job = self.start("--run", "1")
        self.wait_until(lambda: self.lines_of("calls"))
        self.assertIn("another process runs it", self.call("--run", "1", code=1))
        job.terminate()
        # A job that was told to stop says so, and is queued again.
        self.assertEqual(job.wait(timeout=240), 128 + 15)


class Taking(Queue):
    """Rows of the results of a place where all seven runs ended; it is the same for all tests."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.offered = Path(folder.name) / "offered"

    def setUp(self):
        super().setUp()
        if not self.offered.is_dir():
            self.call()
            (self.root / "results").rename(self.offered)
            shutil.rmtree(self.root / "out")
            (self.root / "calls").unlink()
        shutil.copytree(self.offered, self.root / "offered")

    def change(self, study, edit, name="results.csv", place="offered"):
        """Edits a file of the offered results; the digest goes with it."""
        folder = self.root / place / study
        text = edit((folder / name).read_text())
        (folder / name).write_text(text)
        manifest = json.loads((folder / "manifest.json").read_text())
        digest = hashlib.sha256((folder / "results.csv").read_bytes()).hexdigest()
        (folder / "manifest.json").write_text(json.dumps(manifest | {"results_sha256": digest}))

    def take(self, code=0):
        return self.call("--take", "offered", code=code)

    def test_new_rows_are_taken_once(self):
        self.assertIn("borrower: 4 taken, 0 there already\nlender: 5 taken, 0 there already\n", self.take())
        self.assertEqual((len(self.results("lender")), len(self.results("borrower"))), (5, 4))
        manifest = json.loads((self.root / "results/lender/manifest.json").read_text())
        self.assertEqual(manifest["program"]["commit"], ["c1", "c2", "c3"])
        self.assertEqual([run["commit"] for run in manifest["runs"]], ["c1", "c2", "c3", "c1", "c2"])
        before = self.kept()
        self.assertIn("borrower: 0 taken, 4 there already\nlender: 0 taken, 5 there already\n", self.take())
        self.assertEqual(self.kept(), before)
        # What was taken is finished.
        self.call()
        self.assertEqual(self.lines_of("calls"), [])

    def test_other_weights_are_refused_and_overwrite_nothing(self):
        self.take()
        before = self.kept()
        self.change("lender", lambda text: text.replace("w" * 64, "v" * 64, 1))
        said = self.take(code=1)
        self.assertIn(
            "lender: 0 taken, 4 there already; refused: plain, seed 1: other weights than the row here",
            said,
        )
        self.assertIn("run_campaign: --take: 1 refused", said)
        self.assertEqual(self.kept(), before)

    def test_what_is_not_of_the_study_is_refused_and_the_rest_taken(self):
        self.change("borrower", lambda text: text.replace("0.3", "0.35").replace("rate 0.35", "rate 0.3"))
        self.change("lender", lambda text: text.replace("stashing,2", "stashing,9"))
        (self.root / "offered/other").mkdir()
        said = self.take(code=1)
        self.assertIn("refused: rate 0.3, seed 1: other settings than the study's", said)
        self.assertIn("refused: stashing, seed 9: not a row of the study", said)
        self.assertIn("other: 0 taken, 0 there already; refused: not a study of the queue", said)
        self.assertEqual((len(self.results("lender")), len(self.results("borrower"))), (4, 3))

    def test_rows_of_an_unnamed_program_or_other_data_are_refused(self):
        shutil.copytree(self.root / "offered", self.root / "results")
        (self.root / "results/borrower/results.csv").unlink()
        self.change("borrower", lambda text: text.replace("d" * 64, "e" * 64), "manifest.json")
        self.change("lender", lambda text: text.replace('"commit": "c3"', '"commit": null'), "manifest.json")
        said = self.take(code=1)
        self.assertIn("refused: as before, seed 1: other data than the rows here", said)
        self.assertIn("refused: plain, seed 3: no commit of the program", said)

    def test_rows_made_with_another_default_are_refused(self):
        shutil.copytree(self.root / "offered/lender", self.root / "results/lender")
        shutil.rmtree(self.root / "offered/borrower")
        self.change("lender", lambda text: "".join(text.splitlines(True)[:2]), place="results")
        for place, value in (("offered", "false"), ("results", "true")):
            settings = f'"settings": {{"data.augment": {value},'
            self.change("lender", lambda text: text.replace('"settings": {', settings), "manifest.json", place)
        said = self.take(code=1)
        for seed in (2, 3):
            self.assertIn(
                f"refused: plain, seed {seed}: data.augment = false, which other seeds here have otherwise", said
            )
        # Of those of the row that has none here nobody knows.
        self.assertIn("lender: 2 taken, 0 there already", said)

    def test_changed_results_are_refused(self):
        path = self.root / "offered/lender/results.csv"
        path.write_text(path.read_text().replace("20", "90"))
        self.assertIn("lender: 0 taken, 0 there already; refused: --take: got", self.take(code=1))
        # Its runs that the other study has too are taken from there.
        self.assertEqual(self.results("lender"), [("plain", "1"), ("plain", "2")])


class Script(Queue):
    """The job script, outside a job."""

    def script(self, *arguments, code=0, **settings):
        words = [str(RUNNER.with_name("campaign.sbatch")), *arguments]
        environment = os.environ | {"BATCHLESS": str(self.root / "batchless")} | settings
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def test_it_runs_its_number(self):
        program = self.root / "batchless"
        text = program.read_text()
        for name in ("calls", "ends"):
            text = text.replace(f'open("{name}"', f'open("{self.root}/{name}"')
            text = text.replace(f"open('{name}'", f"open('{self.root}/{name}'")
        program.write_text(text)
        data, out = self.root / "data", self.root / "out"
        data.mkdir()
        queue = ["--tier", "quick", "--studies", str(self.root / "studies")]
        queue += ["--results", str(self.root / "results"), "--priority", "normal"]
        self.script(str(data), str(out), *queue, RUN="7")
        self.assertEqual([name.rsplit("-", 1)[0] for name in self.lines_of("calls")], ["plain-seed3"])
        self.assertEqual(len(list((out / "runs").iterdir())), 1)
        self.script(code=2, RUN="1")
        line = "RUN: got nothing, accepted: a number of run_campaign.py --list"
        self.assertIn(line, self.script(str(data), str(out), code=2))


class Cluster(FolderTest):
    """The job scripts, with commands that note what Slurm is asked for."""

    def setUp(self):
        super().setUp()
        self.command("scontrol", f'echo "$@" >> "{self.root}/asked"')

    def command(self, name: str, body: str) -> Path:
        return self.executable(name, f"#!/bin/bash\n{body}\n")

    def start(self, script: str, *arguments: str, **settings: str) -> subprocess.Popen:
        words = ["bash", f"experiments/{script}", *arguments]
        path = f"{self.root}:{os.environ['PATH']}"
        return subprocess.Popen(words, cwd=RUNNER.parent.parent, env=os.environ | {"PATH": path} | settings)

    def campaign(self, at_start: str, when_told: str, **settings: str) -> int:
        """The exit code of a task that is told to stop once its Python has written `begun`."""
        begun = f'touch "{self.root}/begun"'
        python = self.command(
            "python",
            f'if [ "$1" = -c ]; then {at_start.format(begun=begun)}; exit 0; fi\n'
            f"trap '{when_told}' TERM; {begun}; while :; do sleep 0.02; done",
        )
        job = self.start("campaign.sbatch", "data", "out", PYTHON=str(python), **settings)
        while not (self.root / "begun").exists():
            time.sleep(0.01)
        job.send_signal(signal.SIGTERM)
        return job.wait(60)

    ARRAY = {"SLURM_JOB_ID": "1234", "SLURM_ARRAY_JOB_ID": "1234", "SLURM_ARRAY_TASK_ID": "2"}

    def test_a_task_of_an_array_queues_itself_alone(self):
        self.assertEqual(self.campaign(":", "exit 143", **self.ARRAY), 143)
        self.assertEqual(self.lines_of("asked"), ["requeue 1234_2"])

    def test_a_job_of_its_own_queues_itself(self):
        self.assertEqual(self.campaign(":", "exit 143", SLURM_JOB_ID="77", RUN="2"), 143)
        self.assertEqual(self.lines_of("asked"), ["requeue 77"])

    def test_a_signal_before_the_run_is_there_is_passed_on(self):
        self.assertEqual(self.campaign("{begun}; sleep 0.3", "exit 143", **self.ARRAY), 143)
        self.assertEqual(self.lines_of("asked"), ["requeue 1234_2"])

    def test_a_run_that_ends_as_the_signal_comes_has_ended(self):
        self.assertEqual(self.campaign(":", "exit 0", **self.ARRAY), 0)
        self.assertEqual(self.lines_of("asked"), [])

    def test_training_by_several_processes(self):
        self.command("srun", f'echo "$@" > "{self.root}/words"; exit 143')
        for settings, name in ((self.ARRAY, "1234_2"), ({"SLURM_JOB_ID": "77"}, "77")):
            job = self.start("train.sbatch", "run.toml", "out", **settings)
            self.assertEqual(job.wait(60), 143)
            self.assertEqual(self.lines_of("asked")[-1], f"requeue {name}")
            # Every start looks for a checkpoint.
            self.assertIn(" --out out --resume ", (self.root / "words").read_text())

    def test_a_node_that_fails_has_its_jobs_queued_again(self):
        for script in ("campaign.sbatch", "train.sbatch"):
            text = RUNNER.with_name(script).read_text(encoding="utf-8")
            self.assertIn("\n#SBATCH --requeue\n", text)


class BadInput(Queue):
    def test_one_line_that_names_it(self):
        (self.root / "empty").mkdir()
        for arguments, line in (
            (("--jobs", "0"), "--jobs: got '0', accepted: an integer from 1"),
            (("--priority", "low"), "--priority: got 'low', accepted: idle, normal"),
            (("--run", "x"), "--run: got 'x', accepted: an integer from 1"),
            (("--run", "8"), "--run: got '8', accepted: an integer up to 7"),
            (("--tier", "paper"), "--data: got '', accepted: a folder that exists"),
            (("--tier", "slow"), "tier: got 'slow', accepted: quick, paper"),
            (("--program", "none"), "--program: got 'none', accepted: the program batchless"),
            (("--studies", "none"), "--studies: got 'none', accepted: a folder that exists"),
            (("--studies", "empty"), "--studies: got 'empty', accepted: one study with a priority"),
            (("--results", "batchless"), "--results: got 'batchless', accepted: a folder"),
            (("--take", "none"), "--take: got 'none', accepted: a folder that exists"),
            (("--pause", "--out", "none"), "--out: got 'none', accepted: a folder that exists"),
        ):
            said = self.call(*arguments, code=2)
            self.assertIn(f"run_campaign: {line}", said)
            self.assertEqual(said.count("\n"), 1, said)
        self.assertEqual(self.lines_of("calls"), [])
