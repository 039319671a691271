"""Eigenvalues from runs of one update, with a program of a few lines whose loss is a known quadratic."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

SCRIPT = Path("experiments/measure_curvature.py").resolve()
# f(w) = sum of (1 + k) (w_k - 1)^2 / 2 over the places k of all weights, but 40 at place 3.
PROGRAM = """#!{python}
import json, sys
import numpy as np
words = sys.argv[1:]
after = lambda word: words[words.index(word) + 1]
settings = dict(word.split("=", 1) for word in words if "=" in word)
config = open(words[1]).read()
assert 'name = "tiny"' in config and 'augment = false' in config and "momentum" not in config
assert settings["run.samples"] == settings["optimizer.batch"] == "8"
weights = dict(np.load(after("--init")))
row = np.concatenate([w.ravel() for w in weights.values()])
curvatures = np.arange(1.0, row.size + 1)
curvatures[3] = 40
gradient = curvatures * (row - 1)
changed, place = dict(), 0
for name, w in weights.items():
    changed[name] = (row - gradient)[place : place + w.size].reshape(w.shape)
    place += w.size
np.savez(after("--export-weights"), **changed)
print(json.dumps(dict(train_loss=float(curvatures @ (row - 1) ** 2 / 2))))
"""
CONFIG = '[network]\nname = "tiny"\n[data]\naugment = true\n[optimizer]\nmomentum = 0.9\n'


class MeasureCurvature(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        program = self.root / "batchless"
        program.write_text(PROGRAM.format(python=sys.executable))
        program.chmod(0o755)
        (self.root / "run.toml").write_text(CONFIG)
        random = np.random.default_rng(1)
        np.savez(self.root / "w.npz", a=random.normal(size=(2, 5)), b=random.normal(size=14))

    def call(self, *arguments):
        return subprocess.run(
            [sys.executable, str(SCRIPT), "run.toml", "--program", "./batchless", *arguments],
            cwd=self.root, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def test_the_largest_eigenvalues_of_a_quadratic(self):
        done = self.call("--weights", "w.npz", "--samples", "8", "--eigenvalues", "2",
                         "--tolerance", "1e-8")  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        for row, exact in zip(json.loads(done.stdout)["eigenvalues"], (40, 24), strict=True):
            self.assertAlmostEqual(row["eigenvalue"], exact, delta=1e-6)
            self.assertAlmostEqual(row["by_the_loss"], exact, delta=1e-6)
            self.assertLess(row["residual"], 1e-6)

    def test_what_it_refuses(self):
        done = self.call("--weights", "w.npz", "--samples", "0")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--samples: got '0'", done.stderr)
        done = self.call("--weights", "none.npz")
        self.assertEqual(done.returncode, 1)
        self.assertIn("none.npz", done.stderr)


if __name__ == "__main__":
    unittest.main()
