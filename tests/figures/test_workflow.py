"""The workflow from end to end: one small figure, in a folder of its own."""

import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SPEC = """
order = 1
title = "Probe"
caption = "A probe."
alt = "Two points."
tier.quick.n = 2
tier.paper.n = 3

[[run]]
command = "sweep"
out = "line.csv"
args = { n = "{n}" }
"""
PLOT = """
from figures.lib import style


def draw(data):
    table = data.table("line.csv")
    fig, ax = style.plt.subplots(figsize=(style.COLUMN, 2))
    style.curve(ax, table["x"], table["y"], "sc")
    return fig
"""
CLAIM = """
[[claim]]
id = "one"
figure = "probe"
statement = "s"
source = "o"
provenance = "recalled"
verification = "predicted"
quantity = "q"
check = "values"
tolerance = 0.1
case = [{ label = "x", file = "line.csv", where = { x = 2 }, column = "y", expected = 4 }]
"""
PROGRAM = """#!/bin/sh
if [ "$1" = version ]; then echo '{"version": "1", "commit": "abc"}'; exit 0; fi
while [ "$1" != --out ]; do shift; done
printf 'x,y\\n1,1\\n2,4\\n' > "$2"
"""


class Workflow(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        figures = self.root / "figures"
        (figures / "probe").mkdir(parents=True)
        for name in ("Snakefile", "batchless.mplstyle"):
            shutil.copy(f"figures/{name}", figures)
        shutil.copytree(
            "figures/lib", figures / "lib", ignore=shutil.ignore_patterns("__pycache__")
        )
        (figures / "probe/spec.toml").write_text(SPEC)
        (figures / "probe/plot.py").write_text(PLOT)
        (figures / "claims").mkdir()
        (figures / "claims/some.toml").write_text(CLAIM)
        self.program = self.root / "build/bin/batchless"
        self.program.parent.mkdir(parents=True)
        self.program.write_text(PROGRAM)
        self.program.chmod(0o755)

    def make(self, *config):
        command = [sys.executable, "-m", "snakemake", "-s", "figures/Snakefile", "-j2"]
        done = subprocess.run(
            [*command, "--directory", ".", "--config", *(config or ["tier=quick"])],
            cwd=self.root, capture_output=True, text=True, check=False,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.root)},
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def test_makes_everything_once_and_again_where_inputs_changed(self):
        status, said = self.make()
        self.assertEqual(status, 0, said)
        out = self.root / "build/figures"
        for name in ("probe.pdf", "probe.png", "report.html", "data/probe/line.csv"):
            self.assertTrue((out / name).is_file(), name)
        self.assertIn("1 reproduced, 0 not reproduced, 0 not tested", said)
        self.assertEqual([p for p in out.rglob(".*")], [])

        status, said = self.make()
        self.assertEqual(status, 0, said)
        self.assertIn("Nothing to be done", said)

        # A change of the drawing leaves the data alone; a new program makes everything again.
        data = (out / "data/probe/line.csv").stat().st_mtime_ns
        time.sleep(0.05)
        (self.root / "figures/probe/plot.py").write_text(PLOT + "\n")
        status, said = self.make()
        self.assertIn("Drawing probe", said)
        self.assertNotIn("Running probe", said)
        self.assertEqual((out / "data/probe/line.csv").stat().st_mtime_ns, data)
        self.program.write_text(PROGRAM.replace("2,4", "2,5"))
        status, said = self.make()
        self.assertIn("Running probe", said)
        self.assertIn("0 reproduced, 1 not reproduced", said)

    def test_a_claim_that_has_to_hold_fails_the_workflow_after_the_report(self):
        claims = self.root / "figures/claims/some.toml"
        wrong = CLAIM.replace("expected = 4", "expected = 9")
        also = wrong.replace('"one"', '"other"').replace("predicted", "equation checked")
        claims.write_text(wrong)
        self.assertEqual(self.make()[0], 0)
        claims.write_text(wrong + also)
        for _ in range(2):
            status, said = self.make()
            self.assertEqual(status, 1, said)
            lines = [line for line in said.splitlines() if line.startswith("claim ")]
            self.assertEqual(len(lines), 1, said)
            self.assertRegex(lines[0], "^claim other: not reproduced: x: 4.000 .9.; ")
            self.assertIn("claim-other", (self.root / "build/figures/report.html").read_text())
        claims.write_text(wrong + also.replace("expected = 9", "expected = 4"))
        self.assertEqual(self.make()[0], 0)

    def test_failures_speak(self):
        self.program.write_text(PROGRAM.replace("while", "echo 'n: got 2' >&2; exit 2; while"))
        status, said = self.make()
        self.assertNotEqual(status, 0)
        self.assertIn("figures: probe: build/bin/batchless sweep --n 2 --out", said)
        self.assertIn("exit 2: n: got 2", said)
        self.assertFalse((self.root / "build/figures/data/probe/line.csv").exists())

    def test_bad_settings_are_refused(self):
        status, said = self.make("tier=slow")
        self.assertNotEqual(status, 0)
        self.assertIn("tier: got 'slow', accepted: quick, paper", said)
        status, said = self.make("tier=quick", "data=nowhere")
        self.assertIn("data: got 'nowhere'", said)
        self.program.unlink()
        status, said = self.make()
        self.assertNotEqual(status, 0)
        self.assertIn("no program 'build/bin/batchless'", said)


if __name__ == "__main__":
    unittest.main()
