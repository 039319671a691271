"""The comparison of prediction and measurement, with a program of a few lines: what it writes, takes up
again and refuses; and what figure and table make of it."""

import json
import sys
from pathlib import Path

import numpy as np

from figures.lib.tables import Data, Table
from figures.predicted_measured import comparison, plot, table
from folder import FolderTest

# Says in `calls` what it was asked; {rule} is a line of Python.
PROGRAM = """#!{python}
import json, pathlib, sys
words = sys.argv[1:]
with open("calls", "a") as calls:
    calls.write(" ".join(words) + "\\n")
def after(word):
    return words[words.index(word) + 1]
spans = {{1: [(0, 4)], 2: [(0, 1), (1, 4)]}}
{rule}
if words[0] == "calibrate":
    pathlib.Path(after("--out")).write_text("machine")
elif words[0] == "throughput":
    workers = int(after("--workers"))
    print(json.dumps(dict(samples_per_second=100.0 * workers, workers=[
        dict(first_stage=a, end_stage=b, idle=0.1 * k) for k, (a, b) in enumerate(spans[workers])])))
elif words[0] == "train":
    settings = dict(word.split("=", 1) for word in words if "=" in word)
    out = pathlib.Path(after("--out"))
    out.mkdir(exist_ok=True)
    workers = int(settings["schedule.workers"])
    (out / "manifest.json").write_text(json.dumps(dict(version="1", commit="c", compiler="gcc",
        flags="-O3", cpu="Some CPU", cpu_threads=2, started="s", finished="f")))
    (out / "summary.json").write_text(json.dumps(dict(samples=int(settings["run.samples"]),
        network=settings["network.name"], samples_per_second=80.0 * workers,
        trainer_memory_bytes=10, predicted_memory_bytes=11, peak_memory_bytes=100,
        predicted_peak_memory_bytes=90, workers=[
        dict(first_stage=a, end_stage=b, busy_seconds=3.0, waiting_seconds=1.0)
        for a, b in spans[workers]])))
"""
SCRIPT = Path("experiments/compare_predicted.py").resolve()


class Folder(FolderTest):
    def setUp(self):
        super().setUp()
        self.program()

    def program(self, rule=""):
        self.executable("batchless", PROGRAM.format(python=sys.executable, rule=rule))

    def call(self, *arguments, code=0):
        words = ["--program", "./batchless", "--out", "out", "--networks", "a,b", *arguments]
        return self.run_script(SCRIPT, *words, code=code)[1]

    def rows(self):
        return self.rows_of("out/results.csv")


class Compare(Folder):
    def test_every_network_and_number_of_workers_each_repeat(self):
        self.call("--repeats", "2")
        rows = self.rows()
        self.assertEqual(
            [(row["network"], row["workers"], row["repeat"]) for row in rows],
            [(n, w, r) for n in "ab" for w in "12" for r in "12"],
        )
        self.assertEqual(rows[2]["samples_per_second"], "160.0")
        self.assertEqual(rows[2]["predicted_samples_per_second"], "200.0")
        self.assertEqual(rows[2]["samples"], "2000")
        self.assertEqual((rows[2]["idle_0"], rows[2]["idle_1"]), ("0.25", "0.25"))
        self.assertEqual((rows[0]["idle_1"], rows[0]["predicted_idle_1"]), ("", ""))
        self.assertEqual(rows[2]["predicted_idle_1"], "0.1")
        manifest = json.loads((self.root / "out" / "manifest.json").read_text())
        self.assertEqual((manifest["runs_finished"], manifest["runs_planned"]), (8, 8))
        self.assertEqual(manifest["machine"], {"cpu": "Some CPU", "cpu_threads": 2})
        # Repeats are apart in time, and each has a calibration of its own.
        words = [line.split()[0] for line in self.lines_of("calls")]
        self.assertEqual(words, ["calibrate", *["throughput", "train"] * 2] * 4)
        self.assertIn("schedule.machine=out/a/1/machine.toml", self.lines_of("calls")[2])

    def test_what_is_there_is_not_measured_again(self):
        self.program('sys.exit(3) if words[0] == "train" and "network.name=b" in words else None')
        self.assertIn("train: without a word (exit 3)", self.call("--repeats", "1", code=1))
        self.assertEqual(len(self.rows()), 2)
        before = len(self.lines_of("calls"))
        self.program()
        self.call("--repeats", "1")
        self.assertEqual(len(self.rows()), 4)
        self.assertTrue(all("network.name=a" not in line for line in self.lines_of("calls")[before:]))
        before = len(self.lines_of("calls"))
        self.assertIn("all was measured before, in out; another --out", self.call("--repeats", "1"))
        line = self.call("--repeats", "1", "--seconds", "5", code=2)
        self.assertIn("--seconds: got '5', accepted: those of the runs in 'out'", line)
        self.assertEqual(len(self.lines_of("calls")), before)

    def test_another_split_than_the_predicted_one_is_an_error(self):
        self.program('spans[2] = [(0, 2), (2, 4)] if words[0] == "train" else spans[2]')
        self.assertIn("a, 2 workers: not shared as predicted", self.call(code=1))

    def test_bad_arguments_are_named(self):
        for arguments, line in (
            (("--repeats", "0"), "--repeats: got '0', accepted: an integer from 1"),
            (("--program", "missing"), "--program: got 'missing', accepted: the program"),
            (("--out", "batchless"), "--out: got 'batchless', accepted: a folder"),
            (("--what",), "--help lists what is accepted"),
        ):
            self.assertIn(line, self.call(*arguments, code=2))
        (self.root / "out").mkdir()
        (self.root / "out" / "config.toml").write_text("another")
        self.assertIn("a folder of the same comparison", self.call(code=2))


class Shown(Folder):
    def test_what_was_not_measured_says_so(self):
        (shown,) = table.tables(Data(self.root), {})
        self.assertEqual((shown.caption, shown.rows), ("Not measured yet.", ()))
        self.assertEqual(len(plot.draw(Data(self.root)).axes), 1)

    def test_every_repeat_and_what_is_within_tolerance(self):
        self.call("--repeats", "3")
        data = Data(self.root / "out")
        one, two = comparison.cases(data.table("results.csv"))[:2]
        self.assertEqual((one.workers, two.workers), (1, 2))
        self.assertEqual(list(two.speed.predicted), [200.0] * 3)
        self.assertEqual([round(off, 9) for off in two.speed.off], [0.25] * 3)
        self.assertEqual([round(off, 9) for off in two.peak.off], [-0.1] * 3)
        self.assertEqual([pair.predicted[0] for pair in two.idle], [0.0, 0.1])
        self.assertEqual([pair.measured[0] for pair in two.idle], [0.25, 0.25])
        self.assertEqual(list(two.times_within), [False] * 3)
        self.assertEqual(list(two.memory_within), [True] * 3)
        manifest = {"kept": json.loads((self.root / "out" / "manifest.json").read_text())}
        self.assertEqual(len(plot.draw(data).axes), 4)
        times, memory = table.tables(data, manifest)
        self.assertIn("Ranges over 3 repeats, each", times.caption)
        self.assertIn("Some CPU, 2 processors, s to f, commit c.", times.caption)
        for shown in (times, memory):
            self.assertEqual({len(row) for row in shown.rows}, {len(shown.columns)})
        self.assertEqual(
            times.rows[1], ("a, 2", "200", "160", "25.0", "0 / 10", "25 / 25", "0 of 3")
        )
        self.assertEqual(memory.rows[1][-2:], ("\N{MINUS SIGN}10.0", "3 of 3"))

    def test_a_measurement_is_compared_with_its_own_prediction(self):
        # Predicted 1.29, 0.83 and 0.96 of what was measured: the medians alone would be 15 % apart.
        rows = Table(
            {
                "predicted_samples_per_second": np.array([448.0, 306.0, 306.0]),
                "samples_per_second": np.array([347.0, 369.0, 319.0]),
                "predicted_idle_0": np.zeros(3),
                "idle_0": np.zeros(3),
                **dict.fromkeys(
                    (
                        "predicted_memory_bytes", "trainer_memory_bytes",
                        "predicted_peak_memory_bytes", "peak_memory_bytes",
                    ),
                    np.full(3, 1e6),
                ),
            }
        )  # fmt: skip
        case = comparison.case(rows, "resnet20", 1)
        self.assertEqual(list(case.times_within), [False, False, True])
        off = "\N{MINUS SIGN}17.1 to 29.1"
        self.assertEqual(
            table.times(case),
            ("ResNet-20, 1", "306 to 448", "319 to 369", off, "0", "0", "1 of 3"),
        )

    def test_only_all_of_them_within_tolerance_is_within(self):
        rule = """
if words[0] == "train": json.dumps = lambda d, dumps=json.dumps: dumps(
    d | ({} if "workers" not in d else dict(samples_per_second=d["samples_per_second"] * 1.25,
        workers=[w | dict(waiting_seconds=0.3) for w in d["workers"]])))"""
        self.program(rule)
        self.call("--repeats", "1")
        cases = comparison.cases(Data(self.root / "out").table("results.csv"))
        self.assertTrue(all(case.times_within.all() for case in cases))
        self.assertTrue(all(case.memory_within.all() for case in cases))
