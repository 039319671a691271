"""Continuous integration's steps, which failures are tried once more; what cleaning leaves."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[2]

# What ctest says of tests that passed, were skipped and ran into their limit.
LOG = """\
        Start 118: figures_digests_test
118/120 Test #118: figures_digests_test .............***Skipped   0.50 sec
        Start 119: training_weights_test
119/120 Test #119: training_weights_test ............   Passed    2.04 sec
120/120 Test #120: {name} ...........{outcome}

99% tests passed, 1 tests failed out of 120

The following tests did not run:
\t118 - figures_digests_test (Skipped)

The following tests FAILED:
\t120 - {name} ({reason})
"""


def bash(script):
    words = ["bash", "-c", f". .ci/common.sh; . .ci/steps.sh; {script}", f"{ROOT}/.ci/test"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True)


def run_step(output, succeeds_at=2):
    """A step that says `output` and fails before it is called for the given time; exit code and output."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "said").write_text(output, encoding="utf-8")
        command = f"cat {folder}/said; echo x >>{folder}/calls; [ $(wc -l <{folder}/calls) -ge {succeeds_at} ]"
        done = bash(f"build={folder}; step 60 tests bash -c '{command}'; summarize")
        return done.returncode, done.stdout + done.stderr


class StepsTest(unittest.TestCase):
    def test_what_load_can_explain_is_tried_once_more(self):
        log = LOG.format(name="program_processes_test", outcome="***Timeout 600.03 sec", reason="Timeout")
        code, said = run_step(log)
        self.assertEqual(code, 0, said)
        self.assertIn("FLAKY: tests failed and then passed", said)
        code, said = run_step(log, succeeds_at=3)
        self.assertEqual(code, 1)
        self.assertIn("FAILED: tests", said)

    def test_other_bits_and_crashes_are_not(self):
        for name, outcome, reason in [
            ("figures_digests_test", "***Failed    1.00 sec", "Failed"),
            ("program_processes_test", "***Exception: SegFault  1.00 sec", "SEGFAULT"),
        ]:
            code, said = run_step(LOG.format(name=name, outcome=outcome, reason=reason))
            self.assertEqual(code, 1)
            self.assertIn("tests: not tried again", said)

    def test_a_third_one_is_not(self):
        self.assertIn("tests: not tried again", bash("flaky=2; step 60 tests false").stdout)


class CleanTest(unittest.TestCase):
    def test_the_queues_checkpoints_stay_unless_told_otherwise(self):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            (place / ".ci").mkdir()
            for name in ("clean", "common.sh"):
                shutil.copy(ROOT / ".ci" / name, place / ".ci" / name)

            def clean(**words):
                (place / "build/bin").mkdir(parents=True, exist_ok=True)
                environment = {name: value for name, value in os.environ.items() if name != "CAMPAIGN"}
                done = subprocess.run([place / ".ci/clean"], env=environment | words, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                return done.stdout

            self.assertEqual(clean(), "clean: removed build\n")
            (place / "build/campaign/run").mkdir(parents=True)
            self.assertIn("CAMPAIGN=1", clean())
            self.assertEqual([path.name for path in (place / "build").iterdir()], ["campaign"])
            self.assertTrue((place / "build/campaign/run").exists())
            clean(CAMPAIGN="1")
            self.assertFalse((place / "build").exists())
