"""Eigenvalues from runs of one update, with a program of a few lines whose loss is a known quadratic."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

SCRIPT = Path("experiments/measure_curvature.py").resolve()
# f(w) = (w - 1)' H (w - 1) / 2, H = diag(1 + k) + 1/4 over the places k of all weights, but 40 at place 3.
PROGRAM = """#!{python}
import json, sys
import numpy as np
if sys.argv[1] == "costs":
    print(json.dumps(dict(stages=[dict(parameters=n) for n in {stages}])))
    sys.exit()
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
gradient = (np.diag(curvatures) + 0.25) @ (row - 1)
changed, place = dict(), 0
for name, w in weights.items():
    changed[name] = (row - gradient)[place : place + w.size].reshape(w.shape)
    place += w.size
np.savez(after("--export-weights"), **changed)
print(json.dumps(dict(train_loss=float(gradient @ (row - 1) / 2))))
"""
STAGES = (3, 0, 10, 11)
HESSIAN = np.diag([1.0, 2, 3, 40, *range(5, 25)]) + 0.25
CONFIG = '[network]\nname = "tiny"\n[data]\naugment = true\n[optimizer]\nmomentum = 0.9\n'


class MeasureCurvature(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        program = self.root / "batchless"
        program.write_text(PROGRAM.format(python=sys.executable, stages=STAGES))
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
        for row, exact in zip(
            json.loads(done.stdout)["eigenvalues"], np.linalg.eigvalsh(HESSIAN)[:-3:-1], strict=True
        ):
            self.assertAlmostEqual(row["eigenvalue"], exact, delta=1e-6)
            self.assertAlmostEqual(row["by_the_loss"], exact, delta=1e-6)
            self.assertLess(row["residual"], 1e-6)

    def test_blocks_and_shares_of_stages(self):
        done = self.call("--weights", "w.npz", "--samples", "8", "--by-stage", "--tolerance", "1e-5")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        parts = {0: slice(0, 3), 2: slice(3, 13), 3: slice(13, 24)}
        vector = np.linalg.eigh(HESSIAN)[1][:, -1]
        shares = [vector[parts[k]] @ vector[parts[k]] if k in parts else 0 for k in range(4)]
        np.testing.assert_allclose(found["eigenvalues"][0]["shares"], shares, rtol=0, atol=1e-4)
        self.assertEqual([row["stage"] for row in found["stages"]], list(parts))
        for row in found["stages"]:
            exact = np.linalg.eigvalsh(HESSIAN[parts[row["stage"]], parts[row["stage"]]])[-1]
            # A Ritz value is never above; the space of four products is all of the first block.
            self.assertLessEqual(row["eigenvalue"], exact * (1 + 1e-9))
            self.assertAlmostEqual(row["eigenvalue"] / exact, 1, delta=0.03)
            self.assertLess(row["residual"], 1e-6 if row["stage"] == 0 else 0.2)

    def test_stages_with_other_parameters_are_refused(self):
        np.savez(self.root / "w.npz", a=np.ones(23))
        done = self.call("--weights", "w.npz", "--samples", "8", "--by-stage")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--by-stage: got 23 weights, accepted: 24", done.stderr)

    def test_what_it_refuses(self):
        done = self.call("--weights", "w.npz", "--samples", "0")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--samples: got '0'", done.stderr)
        done = self.call("--weights", "none.npz")
        self.assertEqual(done.returncode, 1)
        self.assertIn("none.npz", done.stderr)


if __name__ == "__main__":
    unittest.main()
