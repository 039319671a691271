"""The runner of studies with the real trainer: killed and taken up again, it ends in the same bytes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from folder import FolderTest

RUNNER = Path("experiments/run_study.py").resolve()
PROGRAM = Path(os.environ.get("BATCHLESS_PROGRAM", "build/bin/batchless")).resolve()
STUDY = """
title = "Pipelined or not"

[base.network]
name = "lenet5"

[base.data]
name = "synthetic"
limit_validation = 20

[base.optimizer]
batch = 1
lr = 2e-4

[base.run]
samples = 1200
checkpoint_every_samples = 200
log_every_samples = 20

[[row]]
name = "SGDM"

[[row]]
name = "PB"
set = { schedule.kind = "pb", rule.name = "lwp-v+sc" }
seeds = 2
"""


class Training(FolderTest):
    def setUp(self):
        super().setUp()
        (self.root / "probe.toml").write_text(STUDY)

    def start(self, out, jobs):
        return subprocess.Popen(
            [sys.executable, str(RUNNER), "probe.toml", "--program", str(PROGRAM)]
            + ["--out", out, "--jobs", str(jobs)],
            cwd=self.root, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def results(self, out):
        return (self.root / out / "results.csv").read_bytes()

    def test_interrupted_runs_go_on_to_the_same_bytes(self):
        whole = self.start("whole", 2)
        said = whole.communicate(timeout=900)[1]
        self.assertEqual(whole.returncode, 0, said)

        # One interruption that the runner passes on, then one that nobody can catch.
        for number, samples in ((signal.SIGTERM, 100), (signal.SIGKILL, 500)):
            child = self.start("parts", 1)
            self.wait_for(samples)
            child.send_signal(number)
            said = child.communicate(timeout=900)[1]
            self.assertNotEqual(child.returncode, 0, said)
        # The killed runner's trainer ends too, with a checkpoint.
        last = self.start("parts", 2)
        said = last.communicate(timeout=900)[1]
        self.assertEqual(last.returncode, 0, said)
        self.assertEqual(self.results("parts"), self.results("whole"))

    def wait_for(self, samples):
        """Until a run that has no end yet has come so far."""
        deadline = time.monotonic() + 900
        while time.monotonic() < deadline:
            for folder in (self.root / "parts").glob("runs/*"):
                metrics = folder / "metrics.csv"
                if not metrics.is_file() or (folder / "summary.json").is_file():
                    continue
                done = metrics.read_text().splitlines()[-1].split(",")[0]
                if done.isdigit() and int(done) >= samples:
                    return
            time.sleep(0.01)
        self.fail(f"no run came to {samples} samples")
