"""A test with a folder of its own, and programs of a few lines that it runs there."""

import csv
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def executable(self, name, text):
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def run_script(self, *words, code=0):
        """Standard output and standard error of a script in Python, which has to end with the code."""
        done = subprocess.run(
            [sys.executable, *words], cwd=self.root, capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def rows_of(self, name):
        """The lines of a CSV file, by the names of its columns."""
        with (self.root / name).open(newline="") as file:
            return list(csv.DictReader(file))

    def lines_of(self, name):
        path = self.root / name
        return path.read_text().splitlines() if path.is_file() else []
