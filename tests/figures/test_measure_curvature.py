"""Eigenvalues from runs of one update, with a trainer of a few lines whose loss is a known quadratic."""

import contextlib
import io
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np

from experiments import measure_curvature

SCRIPT = Path("experiments/measure_curvature.py").resolve()
# f(w) = (w - 1)' H (w - 1) / 2, H = diag(1 + k) + 1/4 over the places k of all weights, but 40 at place 3.
# As a program, and as a function in place of the calls of one.
PROGRAM = """#!{python}
import json, sys
sys.path[:0] = {path}
from test_measure_curvature import trained
print(json.dumps(trained(sys.argv)))
"""
STAGES = (3, 0, 10, 11)
HESSIAN = np.diag([1.0, 2, 3, 40, *range(5, 25)]) + 0.25
CONFIG = '[network]\nname = "tiny"\n[data]\naugment = true\n[optimizer]\nmomentum = 0.9\n'


def trained(words):
    if words[1] == "costs":
        return {"stages": [{"parameters": n} for n in STAGES]}
    settings = dict(word.split("=", 1) for word in words if "=" in word)
    config = Path(words[2]).read_text()
    assert 'name = "tiny"' in config and "augment = false" in config and "momentum" not in config
    assert settings["run.samples"] == settings["optimizer.batch"] == "8"
    weights = dict(np.load(words[words.index("--init") + 1]))
    row = np.concatenate([w.ravel() for w in weights.values()])
    gradient = HESSIAN[: row.size, : row.size] @ (row - 1)
    changed, place = {}, 0
    for name, w in weights.items():
        changed[name] = (row - gradient)[place : place + w.size].reshape(w.shape)
        place += w.size
    np.savez(words[words.index("--export-weights") + 1], **changed)
    return {"train_loss": float(gradient @ (row - 1) / 2)}


class MeasureCurvature(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        program = self.root / "batchless"
        places = [str(Path(__file__).parent), str(Path.cwd())]
        program.write_text(PROGRAM.format(python=sys.executable, path=places))
        program.chmod(0o755)
        (self.root / "run.toml").write_text(CONFIG)
        random = np.random.default_rng(1)
        np.savez(self.root / "w.npz", a=random.normal(size=(2, 5)), b=random.normal(size=14))

    def call(self, *arguments):
        """Exit code, what it printed and what it complained of; the trainer is a function."""
        words = [str(self.root / "run.toml"), "--program", str(self.root / "batchless"), *arguments]
        out, error = io.StringIO(), io.StringIO()
        with (
            mock.patch.object(measure_curvature, "call", trained),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(error),
        ):
            status = measure_curvature.main(words)
        return status, out.getvalue(), error.getvalue()

    def weights(self):
        return "--weights", str(self.root / "w.npz")

    def test_as_a_process(self):
        done = subprocess.run(
            [sys.executable, str(SCRIPT), "run.toml", "--program", "./batchless", "--weights", "w.npz"]
            + ["--samples", "8", "--tolerance", "0.5"],
            cwd=self.root, capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)["eigenvalues"][0]["eigenvalue"]
        self.assertAlmostEqual(found / np.linalg.eigvalsh(HESSIAN)[-1], 1, delta=0.1)

    def test_the_largest_eigenvalues_of_a_quadratic(self):
        status, out, error = self.call(
            *self.weights(), "--samples", "8", "--eigenvalues", "2", "--tolerance", "1e-8"
        )
        self.assertEqual(status, 0, error)
        for row, exact in zip(
            json.loads(out)["eigenvalues"], np.linalg.eigvalsh(HESSIAN)[:-3:-1], strict=True
        ):
            self.assertAlmostEqual(row["eigenvalue"], exact, delta=1e-6)
            self.assertAlmostEqual(row["by_the_loss"], exact, delta=1e-6)
            self.assertLess(row["residual"], 1e-6)

    def test_blocks_and_shares_of_stages(self):
        status, out, error = self.call(
            *self.weights(), "--samples", "8", "--by-stage", "--tolerance", "1e-5"
        )
        self.assertEqual(status, 0, error)
        found = json.loads(out)
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
        status, _, error = self.call(*self.weights(), "--samples", "8", "--by-stage")
        self.assertEqual(status, 2)
        self.assertIn("--by-stage: got 23 weights, accepted: 24", error)

    def test_what_it_refuses(self):
        status, _, error = self.call(*self.weights(), "--samples", "0")
        self.assertEqual(status, 2)
        self.assertIn("--samples: got '0'", error)
        status, _, error = self.call("--weights", "none.npz")
        self.assertEqual(status, 1)
        self.assertIn("none.npz", error)


if __name__ == "__main__":
    unittest.main()
