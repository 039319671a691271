"""The manual that is read off the program's help."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from experiments import manual

PROGRAM = Path(os.environ.get("BATCHLESS_PROGRAM", "build/bin/batchless")).resolve()
ROOT = """What it is for
Usage: batchless [OPTIONS] [COMMAND]

Options:
  -h,--help                   Print this
  --json                      Print one object

Commands:
  first                       Does one thing
  second-one                  Does another
"""


class Manual(unittest.TestCase):
    def test_commands_and_options(self):
        self.assertEqual(manual.commands(ROOT), {"first": "Does one thing", "second-one": "Does another"})
        self.assertEqual(manual.options(ROOT), ["--help", "--json"])

    def test_a_page_keeps_the_help(self):
        page = manual.page("first", ROOT)
        self.assertTrue(page.startswith("# first\n\nWhat it is for.\n"))
        self.assertIn("  --json                      Print one object\n", page)

    def test_bash_completes_commands_options_and_nothing_else(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "manual")
            subprocess.run(
                ["python3", "experiments/manual.py", "--out", out, "--program", PROGRAM],
                check=True, capture_output=True,
            )  # fmt: skip
            script = out / "bash-completion/completions/batchless"
            for words, expected in (
                (["batchless", "opti"], ["optimum", "optimizers"]),
                (["batchless", "optimum", "--de"], ["--denominator", "--delay", "--delays"]),
                (["batchless", "optimum", "--nothing"], []),
            ):
                line = f"source {script}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; "
                line += '_batchless; printf "%s\\n" "${COMPREPLY[@]}"'
                done = subprocess.run(["bash", "-c", line], check=True, capture_output=True, text=True)
                self.assertEqual(sorted(done.stdout.split()), sorted(expected))
            listed = manual.commands(manual.help_of(str(PROGRAM)))
            self.assertEqual({page.stem for page in (out / "pages").glob("*.md")}, set(listed))
