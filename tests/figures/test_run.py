"""Specifications and the run step, with a program of a few lines in the analyzer's place."""

import hashlib
import json
import os
from pathlib import Path

from figures.lib import run
from figures.lib import spec as specs
from folder import FolderTest

SPEC = """
order = 1
title = "t"
caption = "c"
alt = "a"

[tier.quick]
n = 8

[tier.paper]
n = 16

[[run]]
command = "sweep"
out = "{rule}_d{delay}.csv"
each = { rule = ["sgdm", "sc"], delay = [1, 4] }
args = { rule = "{rule}", delay = "{delay}", momenta = "log1m:-5:0:{n}", l = [1, 2], flag = true }
"""
PROGRAM = """#!/bin/sh
if [ "$1" = version ]; then
  echo '{"version": "1", "commit": "abc", "compiler": "c", "flags": "-O2"}'
  exit 0
fi
case "$*" in *FAIL*) echo "momenta: got 'FAIL', accepted: a list" >&2; exit 2 ;; esac
while [ "$1" != --out ]; do shift; done
echo a,b > "$2"
"""


class Folder(FolderTest):
    def setUp(self):
        super().setUp()
        (self.root / "fig").mkdir()
        self.program = self.executable("program", PROGRAM)

    def load(self, text=SPEC):
        (self.root / "fig" / "spec.toml").write_text(text)
        return specs.load("fig", self.root)


class Spec(Folder):
    def test_runs_are_all_combinations(self):
        commands = self.load().commands("paper")
        self.assertEqual(
            [c.out for c in commands],
            ["sgdm_d1.csv", "sgdm_d4.csv", "sc_d1.csv", "sc_d4.csv"],
        )
        self.assertEqual(
            " ".join(commands[1].arguments),
            "sweep --rule sgdm --delay 4 --momenta log1m:-5:0:16 --l 1,2 --flag",
        )

    def test_mistakes_are_named(self):
        for text, message in (
            (SPEC.replace('alt = "a"', ""), "'alt' is missing"),
            (SPEC.replace(".csv", ".txt"), "out: got .*accepted"),
            (SPEC + "\n[plot]\nsubject = 1\n", "plot: got subject, accepted: reference, pattern"),
            (SPEC.replace("tier.quick", "tier.fast"), "tier: got fast"),
            (SPEC.replace("_d{delay}", ""), "written twice: sc.csv, sgdm.csv"),
            (SPEC.split("[[run]]")[0], "'run', 'study' or 'results' is wanted"),
            ('study = "s"\nresults = "s"' + SPEC, "got 'study' beside 'results', accepted: one"),
            (SPEC + "=", "spec.toml: "),
        ):
            with self.assertRaisesRegex(specs.SpecError, message):
                self.load(text).commands("quick")

    def test_the_real_ones_hold_together(self):
        figures = specs.load_all()
        self.assertEqual([spec.order for spec in figures], list(range(1, len(figures) + 1)))
        for spec in figures:
            self.assertEqual(spec.plot is None, (spec.folder / "plot.py").is_file(), spec.name)
            for tier in specs.TIERS:
                self.assertNotEqual(bool(spec.outputs(tier, "data")), spec.waits, spec.name)


class InFolder(Folder):
    def setUp(self):
        super().setUp()
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.root)


class Run(InFolder):
    def test_manifest_says_what_was_done(self):
        spec = self.load()
        run.run_figure(spec, "quick", str(self.program))
        manifest = json.loads((spec.data / "manifest.json").read_text())
        self.assertEqual(manifest["program"]["commit"], "abc")
        self.assertEqual(len(manifest["runs"]), 4)
        for entry in manifest["runs"]:
            data = (spec.data / entry["output"]).read_bytes()
            self.assertEqual(entry["sha256"], hashlib.sha256(data).hexdigest())
            self.assertIn(f"--out {spec.data / entry['output']}", entry["command"])
        self.assertTrue(manifest["machine"]["cpu"])
        self.assertEqual(manifest["tier"], "quick")

    def test_a_failure_says_why_and_leaves_nothing_half_done(self):
        spec = self.load(SPEC.replace("log1m:-5:0:{n}", "FAIL"))
        with self.assertRaisesRegex(run.RunError, "exit 2: momenta: got 'FAIL'"):
            run.run_figure(spec, "quick", str(self.program))
        self.assertEqual([p for p in spec.data.parent.rglob("*") if p.is_file()], [])

    def test_a_program_that_writes_nothing_is_caught(self):
        self.program.write_text("#!/bin/sh\nexit 0\n")
        with self.assertRaisesRegex(run.RunError, "wrote no sgdm_d1.csv"):
            run.run_figure(self.load(), "quick", str(self.program))

    def test_a_missing_program_is_named(self):
        with self.assertRaisesRegex(run.RunError, "No such file"):
            run.run_figure(self.load(), "quick", "build/bin/missing")

    def test_leftovers_go(self):
        spec = self.load()
        run.run_figure(spec, "quick", str(self.program))
        (spec.data / "old.csv").write_text("x\n")
        run.clear_leftovers(spec, {c.out for c in spec.commands("quick")})
        self.assertFalse((spec.data / "old.csv").exists())
        self.assertTrue((spec.data / "manifest.json").exists())


STUDY_SPEC = """
order = 1
title = "t"
caption = "c"
alt = "a"
study = "probe"
"""
STUDY_RUNNER = """
import pathlib, sys
arguments = dict(zip(sys.argv[2::2], sys.argv[3::2]))
if "REFUSE" in pathlib.Path(arguments["--program"]).read_text():
    sys.exit(2)
out = pathlib.Path(arguments["--out"])
out.mkdir(parents=True, exist_ok=True)
(out / "results.csv").write_text(arguments["--tier"] + "\\n" + arguments.get("--data", "") + "\\n")
(out / "manifest.json").write_text('{"tier": "' + arguments["--tier"] + '"}')
"""


class StudyRun(InFolder):
    """A figure on a study, with a runner of a few lines."""

    def setUp(self):
        super().setUp()
        Path("experiments").mkdir()
        Path("experiments/run_study.py").write_text(STUDY_RUNNER)

    def keep(self):
        kept = Path("experiments/results/probe")
        kept.mkdir(parents=True)
        (kept / "results.csv").write_text("kept\n")
        (kept / "manifest.json").write_text('{"tier": "paper"}')

    def run_it(self, tier, data=""):
        spec = self.load(STUDY_SPEC)
        manifest = run.run_figure(spec, tier, str(self.program), 2, data)
        run.clear_leftovers(spec, set(spec.files(tier, data)))
        files = {p.name: p.read_text() for p in spec.data.glob("*.csv")}
        self.assertEqual(sorted(spec.files(tier, data)), sorted(files))
        return manifest, files

    def test_a_short_run_stands_beside_the_kept_results(self):
        self.assertEqual(self.run_it("quick")[1], {"quick.csv": "quick\n\n"})
        self.keep()
        manifest, files = self.run_it("quick")
        self.assertEqual(files, {"quick.csv": "quick\n\n", "paper.csv": "kept\n"})
        self.assertEqual(set(manifest["studies"]), {"quick", "paper"})

    def test_the_full_protocol_runs_where_there_are_data(self):
        self.assertEqual(self.run_it("paper")[1], {})
        self.keep()
        self.assertEqual(self.run_it("paper")[1], {"paper.csv": "kept\n"})
        self.assertEqual(self.run_it("paper", "sets")[1], {"paper.csv": "paper\nsets\n"})

    def test_results_that_are_kept_are_shown_as_they_are(self):
        spec = self.load(STUDY_SPEC.replace("study", "results"))
        manifest = run.run_figure(spec, "quick", str(self.program))
        self.assertEqual((manifest["runs"], spec.files("quick"), spec.sources("quick")), ([], [], []))
        self.assertNotIn("kept", manifest)
        self.keep()
        for tier in specs.TIERS:
            manifest = run.run_figure(spec, tier, str(self.program))
            self.assertEqual(spec.files(tier), ["results.csv"])
            self.assertEqual((spec.data / "results.csv").read_text(), "kept\n")
            self.assertEqual(manifest["kept"], {"tier": "paper"})
            self.assertEqual(
                spec.sources(tier),
                [f"experiments/results/probe/{name}" for name in ("results.csv", "manifest.json")],
            )

    def test_commands_run_beside_a_study(self):
        commands = SPEC[SPEC.index("[tier.quick]") :]
        self.keep()
        for kind, own in (("study", ["quick.csv", "paper.csv"]), ("results", ["results.csv"])):
            spec = self.load(STUDY_SPEC.replace("study", kind) + commands)
            made = [command.out for command in spec.commands("quick")]
            manifest = run.run_figure(spec, "quick", str(self.program))
            self.assertEqual(spec.files("quick"), own + made)
            self.assertEqual([each["output"] for each in manifest["runs"]], own + made)
            self.assertTrue(all((spec.data / name).is_file() for name in own + made))

    def test_another_program_starts_anew(self):
        self.run_it("quick")
        (first,) = Path("build/studies/probe/quick").iterdir()
        self.program.write_text(PROGRAM + "\n")
        self.run_it("quick")
        (second,) = Path("build/studies/probe/quick").iterdir()
        self.assertNotEqual(first, second)

    def test_a_failure_is_one(self):
        self.program.write_text(PROGRAM + "# REFUSE\n")
        with self.assertRaisesRegex(run.RunError, "run_study.py probe --tier quick .*: failed"):
            self.run_it("quick")
