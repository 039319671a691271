"""The workflow: what it hands to Ninja, and small figures made in a folder of their own."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from figures.lib import workflow
from folder import FolderTest

SPEC = """
order = 1
title = "Probe"
caption = "A probe."
alt = "Two points."
threads = 8
tier.quick.n = 2
tier.paper.n = 3

[[run]]
command = "sweep"
out = "line.csv"
args = { n = "{n}", threads = "{threads}" }
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


# Names that the shell or Ninja would take apart.
FOLDER = "a $folder: it's one"
PROGRAM_NAME = "my tools/$program: 1"


class Steps(unittest.TestCase):
    def test_paths_and_words_are_quoted(self):
        self.assertEqual(workflow.path(Path("a b/c:$d")), "a$ b/c$:$$d")
        step = workflow.build(["x y"], ["z:1"], ["run", "it's $HOME"], "a $step", "wide")
        self.assertEqual(
            step.splitlines(),
            [
                "build x$ y: step z$:1",
                "  words = run 'it'\"'\"'s $$HOME'",
                "  what = a $$step",
                "  pool = wide",
            ],
        )

    def test_code_is_followed_into_what_it_imports(self):
        found = workflow.imported(Path("figures/stable_curvature/plot.py"))
        names = ["checks.py", "stable_rates.py", "style.py", "tables.py", "plot.py"]
        self.assertEqual([file.name for file in found], names)
        self.assertIn(
            Path("figures/memory_increase/published.py"),
            workflow.imported(Path("figures/memory_increase/table.py")),
        )

    def test_the_quick_tier_is_the_same_with_data(self):
        def steps(tier, data):
            return workflow.text(tier, data, "program", "python3", 2)

        self.assertEqual(steps("quick", "data"), steps("quick", ""))
        self.assertNotEqual(steps("paper", "data"), steps("paper", ""))

    def test_the_real_figures_read_what_they_are_made_from(self):
        text = workflow.text("quick", "", "the program", "python3", 16)
        reads = {}
        for line in text.splitlines():
            if line.startswith("build "):
                made, read = line.removeprefix("build ").split(": ", 1)
                reads |= dict.fromkeys(made.replace("$ ", "_").split(), read.split())
        out, library = "build/figures", "figures/lib"
        data = f"{out}/data/layouts/resnet20.csv"
        self.assertIn(f"{out}/workflow/program.sha256", reads[data])
        self.assertIn("hwmodel/machines/wse2.toml", reads[data])
        self.assertIn("figures/layouts/spec.toml", reads[data])
        study = reads[f"{out}/data/uniform_delay/quick.csv"]
        self.assertIn("experiments/studies/uniform_delay.toml", study)
        picture = reads[f"{out}/layouts.png"]
        for name in (data, f"{out}/data/layouts/manifest.json", "figures/batchless.mplstyle"):
            self.assertIn(name, picture)
        self.assertNotIn(f"{library}/study_figure.py", picture)
        self.assertIn(f"{library}/study_figure.py", reads[f"{out}/uniform_delay.png"])
        report = reads[f"{out}/report.html"]
        for name in ("claims", "checks", "stable_rates", "study_checks", "theory_checks"):
            self.assertIn(f"{library}/{name}.py", report)
        for name in ("claims/training.toml", "design/table.py", "predicted_measured/comparison.py"):
            self.assertIn(f"figures/{name}", report)
        self.assertNotIn("figures/layouts/plot.py", report)
        # Steps of two threads, eight at a time on sixteen processors.
        self.assertIn("pool threads_2\n  depth = 8\n", text)
        self.assertIn("pool threads_64\n  depth = 1\n", text)


class Workflow(FolderTest):
    @classmethod
    def setUpClass(cls):
        fonts = tempfile.TemporaryDirectory()
        cls.addClassCleanup(fonts.cleanup)
        cls.fonts = fonts.name

    def setUp(self):
        super().setUp()
        self.root = self.root / FOLDER
        figures = self.root / "figures"
        shutil.copytree(
            "figures/lib", figures / "lib", ignore=shutil.ignore_patterns("__pycache__")
        )
        shutil.copy("figures/batchless.mplstyle", figures)
        (figures / "findings.toml").write_text("part = []\n")
        # Without studies: nothing waits.
        (self.root / "experiments/studies").mkdir(parents=True)
        for module in Path("experiments").glob("*.py"):
            shutil.copy(module, self.root / "experiments")
        self.add("probe")
        (figures / "claims").mkdir()
        (figures / "claims/some.toml").write_text(CLAIM)
        self.program = self.executable(PROGRAM_NAME, PROGRAM)
        self.python = self.root / "my python"
        self.python.symlink_to(sys.executable)
        self.out = self.root / "build/figures"

    def add(self, name):
        folder = self.root / "figures" / name
        folder.mkdir()
        (folder / "spec.toml").write_text(SPEC)
        (folder / "plot.py").write_text(PLOT)

    def start(self, *arguments):
        command = [self.python, "-m", "figures.lib.workflow", "--program", PROGRAM_NAME]
        return subprocess.Popen(
            [*command, "--jobs", "2", *arguments],
            cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            # No home that could be written.
            env={"PATH": os.environ["PATH"], "HOME": "/dev/null", "MPLCONFIGDIR": self.fonts},
        )  # fmt: skip

    def make(self, *arguments, code=0):
        process = self.start(*arguments)
        said, _ = process.communicate()
        self.assertEqual(process.returncode, code, said)
        return said

    def test_makes_everything_once_and_again_where_inputs_changed(self):
        said = self.make()
        for name in ("probe.pdf", "probe.png", "report.html", "data/probe/line.csv"):
            self.assertTrue((self.out / name).is_file(), name)
        manifest = (self.out / "data/probe/manifest.json").read_text()
        self.assertIn("sweep --n 2 --threads 2 --out", manifest)
        self.assertIn("1 reproduced, 0 not reproduced, 0 not tested", said)
        lines = said.splitlines()
        self.assertEqual(lines[0], "figures: on the way to build/figures/report.html")
        self.assertRegex(lines[1], r"^figures: 1/4 computing probe \(\d+ s\)$")
        self.assertRegex(lines[-1], r"^figures: build/figures/report.html \(4 steps, \d+ s\)$")
        self.assertEqual([p.name for p in self.out.glob("**/.*")], [".ninja_log"])

        self.assertEqual(self.make().splitlines()[1:], ["figures: up to date (build/figures)"])

        # The program linked again, the same: no step.
        os.utime(self.program)
        self.assertEqual(self.make().splitlines()[1:], ["figures: up to date (build/figures)"])

        # A change of the drawing leaves the data alone; a new program makes everything again, and so
        # does another tier.
        data = (self.out / "data/probe/line.csv").stat().st_mtime_ns
        (self.root / "figures/probe/plot.py").write_text(PLOT + "\n")
        said = self.make()
        self.assertIn("drawing probe", said)
        self.assertNotIn("computing probe", said)
        self.assertEqual((self.out / "data/probe/line.csv").stat().st_mtime_ns, data)
        self.program.write_text(PROGRAM.replace("2,4", "2,5"))
        said = self.make()
        self.assertIn("computing probe", said)
        self.assertIn("0 reproduced, 1 not reproduced", said)
        self.assertIn("1/2 computing probe", self.make("--tier", "paper", "probe"))

    def test_one_figure_alone(self):
        self.add("other")
        self.assertIn("on the way to build/figures/probe.png", self.make("probe"))
        made = sorted(p.name for p in self.out.iterdir())
        self.assertEqual(made, ["data", "probe.pdf", "probe.png", "workflow"])

    def test_a_claim_that_has_to_hold_fails_the_workflow_after_the_report(self):
        claims = self.root / "figures/claims/some.toml"
        wrong = CLAIM.replace("expected = 4", "expected = 9")
        also = wrong.replace('"one"', '"other"').replace("predicted", "equation checked")
        claims.write_text(wrong)
        self.make()
        claims.write_text(wrong + also)
        for _ in range(2):
            said = self.make(code=1)
            lines = [line for line in said.splitlines() if line.startswith("claim ")]
            self.assertEqual(len(lines), 1, said)
            self.assertRegex(lines[0], "^claim other: not reproduced: x: 4.000 .9.; ")
            self.assertIn("claim-other", (self.out / "report.html").read_text())
        claims.write_text(wrong + also.replace("expected = 9", "expected = 4"))
        self.make()

    def test_a_failure_speaks_and_stops_no_other_figure(self):
        self.add("other")
        refuse = "case $* in *probe*) echo 'n: got 2' >&2; exit 2; esac; while"
        self.program.write_text(PROGRAM.replace("while", refuse))
        said = self.make(code=1)
        self.assertIn(f"figures: probe: '{PROGRAM_NAME}' sweep --n 2 --threads 2 --out", said)
        self.assertIn("exit 2: n: got 2", said)
        # Neither Ninja's words nor its command lines.
        self.assertNotIn("ninja", said)
        self.assertNotIn("figures.lib.run", said)
        self.assertEqual(said.splitlines()[-1], "figures: failed: computing probe")
        self.assertEqual(list((self.out / "data/probe").iterdir()), [])
        self.assertTrue((self.out / "other.png").is_file())
        self.assertFalse((self.out / "report.html").exists())

    def test_what_was_stopped_can_be_repeated(self):
        begun = self.root / "begun"
        self.program.write_text(PROGRAM.replace("while", "touch begun; exec sleep 600; while"))
        process = self.start("probe")
        while not begun.exists() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate()
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, said)
        self.assertEqual(said.splitlines()[1:], ["figures: stopped; the same command goes on"])
        self.assertEqual([p.name for p in (self.out / "data").iterdir()], ["probe"])
        self.program.write_text(PROGRAM)
        self.make("probe")

    def test_bad_settings_are_refused(self):
        for arguments, said in (
            (("--tier", "slow"), "tier: got 'slow', accepted: quick, paper"),
            (("--data", "nowhere"), "data: got 'nowhere', accepted: a folder that exists"),
            (("--data", b"caf\xe9"), r"data: got 'caf\xe9', accepted: a path in UTF-8"),
            (("--program", "none"), "no program 'none'; build it first (make build)"),
            (("nothing",), "figure: got 'nothing', accepted: probe"),
        ):
            self.assertEqual(self.make(*arguments, code=2), f"figures: {said}\n")
        (self.root / "figures/probe/spec.toml").write_text("order =")
        self.assertRegex(self.make(code=2), "^figures: figures/probe/spec.toml: ")
