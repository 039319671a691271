"""Loss, gradient and curvature of softmax regression, whose Hessian is known; blocks of a known quadratic."""

import contextlib
import csv
import io
import json
import struct
import tempfile
import unittest
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import numpy as np

if find_spec("batchless") is None:
    raise unittest.SkipTest("no Python module batchless")

import batchless

from experiments import command_line, compare_stability, curvature, measure_curvature, measure_edge, study_results

# H = diag(1 + k) + 1/4 over the places k of all weights, but 40 at place 3.
HESSIAN = np.diag([1.0, 2, 3, 40, *range(5, 25)]) + 0.25
SAMPLES, PIXELS, CLASSES = 12, 784, 10
NETWORK = """
name = "linear"
input = [1, 28, 28]
classes = 10
stage = [{ name = "fc", layers = [{ kind = "linear", features = 10 }] }, { name = "loss", layers = ["loss"] }]
"""


class Quadratic:
    """In place of a Loss."""

    def curvature_along(self, weights, v):
        return HESSIAN @ v


class Blocks(unittest.TestCase):
    def block(self, *part):
        return curvature.Block(Quadratic(), np.zeros(24), slice(*part))

    def test_the_largest_eigenvalues(self):
        values, vectors = self.block(None).largest(np.ones(24), 2, 10, 1e-10)
        np.testing.assert_allclose(values, np.linalg.eigvalsh(HESSIAN)[:-3:-1], rtol=1e-10)
        np.testing.assert_allclose(HESSIAN @ vectors, vectors * values, atol=1e-8)

    def test_a_ritz_value_is_never_above_and_exact_in_the_whole_space(self):
        random = np.random.default_rng(0)
        for part in ((0, 3), (3, 13), (13, 24)):
            block = self.block(*part)
            exact = np.linalg.eigvalsh(HESSIAN[slice(*part), slice(*part)])[-1]
            value, residual, vector = block.nearly_largest(random.standard_normal(block.size), 4)
            self.assertLessEqual(value, exact * (1 + 1e-12))
            self.assertAlmostEqual(block.residual(value, vector), residual, delta=1e-9)
            value, residual, _ = block.nearly_largest(np.ones(block.size), block.size)
            self.assertAlmostEqual(value / exact, 1, delta=1e-10)
            self.assertLess(residual, 1e-9)

    def test_the_density_has_the_trace_and_every_eigenvalue(self):
        block = self.block(None)
        exact = np.linalg.eigvalsh(HESSIAN)
        # Krylov spaces that are everything: the probes' own shares remain, whose mean is 1.
        nodes, counts = block.density(probes=200, products=24, seed=1)
        self.assertAlmostEqual(counts.sum(), 24, delta=1e-9)
        for value in exact:
            near = np.abs(nodes - value) < 1e-6
            # The mean of 200 squares of a coordinate of a random direction, times 24: deviation 0.1.
            self.assertAlmostEqual(counts[near].sum(), 1, delta=0.4)
        # Moments by Gauss' rule are exact for each probe: 5 products give those up to 9.
        for power in (1, 2, 9):
            short = [x for x in zip(*block.density(probes=3, products=5, seed=2))]
            long = [x for x in zip(*block.density(probes=3, products=24, seed=2))]
            sums = [sum(count * value**power for value, count in pairs) for pairs in (short, long)]
            self.assertAlmostEqual(sums[0] / sums[1], 1, delta=1e-9)


class Softmax(unittest.TestCase):
    """One layer on images of noise."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = Path(folder.name)
        random = np.random.default_rng(1)
        images = random.integers(0, 256, (SAMPLES, PIXELS), dtype=np.uint8)
        cls.labels = random.integers(0, CLASSES, SAMPLES, dtype=np.uint8)
        (cls.root / "mnist").mkdir()
        for prefix in ("train", "t10k"):
            for kind, data, lengths in (
                ("images-idx3", images, (SAMPLES, 28, 28)), ("labels-idx1", cls.labels, (SAMPLES,)),
            ):  # fmt: skip
                header = struct.pack(f">4B{len(lengths)}I", 0, 0, 8, len(lengths), *lengths)
                (cls.root / "mnist" / f"{prefix}-{kind}-ubyte").write_bytes(header + data.tobytes())
        network = cls.root / "linear.toml"
        network.write_text(NETWORK)
        cls.configuration = {
            "network": {"file": str(network)}, "data": {"name": "mnist", "root": folder.name},
        }  # fmt: skip
        # As the trainer does, in single precision.
        seen = (images.astype(np.float32) / np.float32(255) - np.float32(0.1307)) / np.float32(0.3081)
        cls.inputs = np.hstack([seen, np.ones((SAMPLES, 1))])
        cls.weights = 0.05 * random.standard_normal(CLASSES * (PIXELS + 1))

    def matrix(self, weights):
        """Rows of weights and bias of each class."""
        rows = weights[: CLASSES * PIXELS].reshape(CLASSES, PIXELS)
        return np.hstack([rows, weights[CLASSES * PIXELS :, None]])

    def probabilities(self, weights):
        outputs = self.inputs @ self.matrix(weights).T
        powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    def eigenvalues(self, weights):
        """Of the mean of (diag p - p p') x (x x'): those of its square root's other product."""
        p = self.probabilities(weights)
        roots = []
        for row in p:
            values, vectors = np.linalg.eigh(np.diag(row) - np.outer(row, row))
            roots.append(vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T)
        products = self.inputs @ self.inputs.T / SAMPLES
        blocks = [[products[i, j] * roots[i] @ roots[j] for j in range(SAMPLES)] for i in range(SAMPLES)]
        return np.linalg.eigvalsh(np.block(blocks))[::-1]

    def test_loss_and_gradient(self):
        for precision, tolerance in (("float", 1e-5), ("double", 1e-12)):
            loss = curvature.Loss(self.configuration, SAMPLES, 0.01, precision)
            self.assertEqual(curvature.flat(loss.tensors).size, self.weights.size)
            value, gradient = loss.at(self.weights)
            p = self.probabilities(self.weights)
            exact = -np.log(p[np.arange(SAMPLES), self.labels]).mean()
            self.assertAlmostEqual(value, exact, delta=tolerance * exact)
            p[np.arange(SAMPLES), self.labels] -= 1
            rows = p.T @ self.inputs / SAMPLES
            exact = np.concatenate([rows[:, :-1].ravel(), rows[:, -1]])
            np.testing.assert_allclose(gradient, exact, rtol=0, atol=tolerance * np.abs(exact).max())
            # Nothing of one call is left for the next.
            np.testing.assert_array_equal(loss.at(self.weights)[1], gradient)

    def test_measure_curvature(self):
        config = self.root / "run.toml"
        config.write_text(f'[network]\nfile = "{self.root}/linear.toml"\n[data]\nname = "mnist"\n'
                          f'root = "{self.root}"\naugment = true\n[optimizer]\nmomentum = 0.9\n')  # fmt: skip
        file = self.root / "w.npz"
        tensors = curvature.Loss(self.configuration, SAMPLES, 0.01).tensors
        (weight, bias) = tensors
        # By their names, in whatever order.
        np.savez(file, **{bias: self.weights[7840:], weight: self.weights[:7840].reshape(10, 784)})
        words = [str(config), "--weights", str(file), "--samples", str(SAMPLES)]
        status, out, error = self.call(
            *words, "--eigenvalues", "2", "--h", "0.002", "--check", "0.01", "--tolerance", "1e-6", "--by-stage"
        )
        self.assertEqual(status, 0, error)
        found = json.loads(out)
        for row, exact in zip(found["eigenvalues"], self.eigenvalues(self.weights)[:2], strict=True):
            # Single precision and second order in h.
            self.assertAlmostEqual(row["eigenvalue"] / exact, 1, delta=1e-3)
            self.assertAlmostEqual(row["by_the_loss"] / exact, 1, delta=0.02)
            self.assertLess(row["residual"], 5e-3)
            self.assertAlmostEqual(sum(row["shares"]), 1, delta=1e-6)
        # All parameters are those of one stage.
        (stage,) = found["stages"]
        self.assertAlmostEqual(stage["eigenvalue"] / found["eigenvalues"][0]["eigenvalue"], 1, delta=1e-3)

        np.savez(file, **{weight: np.zeros((10, 783)), bias: np.zeros(10)})
        status, _, error = self.call(*words)
        accepted = f"--weights: got '{file}', accepted: the network's weights, .npz ("
        self.assertEqual((status, error), (2, f"measure_curvature: {accepted}{weight}: got shape (10, 783), "
                                              "accepted: shape (10, 784))\n"))  # fmt: skip
        cut = self.root / "cut.npz"
        cut.write_bytes(file.read_bytes()[:100])
        status, _, error = self.call(*words[:2], str(cut), *words[3:])
        self.assertEqual((status, error.count("\n")), (2, 1), error)
        self.assertIn("(File is not a zip file)", error)
        status, _, error = self.call(*words[:-1], "0")
        self.assertEqual(status, 2)
        self.assertIn("--samples: got '0'", error)
        for bad, line in (
            ((str(config), "--weights", "none.npz"), "--weights: got 'none.npz', accepted: a file that exists"),
            (("none.toml", *words[1:]), "CONFIG: got 'none.toml', accepted: a file that exists"),
            ((str(file), *words[1:]), f"CONFIG: got '{file}', accepted: a TOML file ("),
            ((*words, "--h", "0"), "--h: got '0', accepted: a number above 0"),
            ((*words, "--check", "nan"), "--check: got 'nan', accepted: a number above 0"),
        ):
            status, _, error = self.call(*bad)
            self.assertEqual(status, 2)
            self.assertIn(line, error)

    def call(self, *words):
        out, error = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            status = measure_curvature.main(list(words))
        return status, out.getvalue(), error.getvalue()


class Ladder(unittest.TestCase):
    def test_weights_are_there_whole_or_not_at_all(self):
        def interrupted(file, **_):
            Path(file).write_bytes(b"PK")
            raise KeyboardInterrupt

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "weights.npz"
            with mock.patch.object(np, "savez", interrupted), self.assertRaises(KeyboardInterrupt):
                compare_stability.save(path, {"a": np.ones(3)})
            self.assertFalse(path.exists())
            compare_stability.save(path, {"a": np.ones(3)})
            np.testing.assert_array_equal(np.load(path)["a"], np.ones(3))


    def test_a_run_that_diverges_is_unstable(self):
        with tempfile.TemporaryDirectory() as folder:
            ladder = compare_stability.Comparison(folder, Path(folder), Path(folder))
            ladder.config.write_text(
                '[network]\nname = "mlp"\nhidden = [16]\n[data]\nname = "synthetic"\nlimit_train = 200\n'
                "limit_validation = 50\n[optimizer]\nbatch = 8\nreference_lr = 0.1\nreference_momentum = 0.9\n"
                "reference_batch = 8\n"
            )
            compare_stability.save(ladder.start, batchless.Trainer(ladder.config).weights)
            for samples in (80, 800):
                # Its first row would be behind the divergence where there are many samples.
                stable, loss = ladder.is_stable(*ladder.run("SGDM", 1e5, 1, samples))
                self.assertFalse(stable)
                self.assertEqual(loss > 0, samples == 80)

    def test_what_the_trainer_cannot_do_is_one_line(self):
        def full():
            raise RuntimeError("run/checkpoint: No space left on device")

        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(command_line.exit_code_of("measure_edge", full), 1)
        self.assertEqual(said.getvalue(), "measure_edge: run/checkpoint: No space left on device\n")


class Edge(unittest.TestCase):
    def test_rates_are_those_of_the_closed_form(self):
        for case in measure_edge.cases("mlp"):
            if case.momentum == 0:
                exact = 2 * np.sin(np.pi / (4 * case.delay + 2))
                self.assertAlmostEqual(measure_edge.critical_rate(case) / exact, 1, delta=1e-9)

    def test_rows_of_networks_that_are_not_measured_now_stay(self):
        with tempfile.TemporaryDirectory() as folder:
            results, out = Path(folder) / "results", Path(folder) / "out"
            made = {"program": {"commit": "1"}, "machine": {"cpu": "x"}, "data": {}, "started": "b",
                    "finished": "c"}  # fmt: skip
            rows = [{"part": "run", "network": name, "delay": 4, "edge": 0.1} for name in ("mlp", "resnet20")]
            study_results.write_table(results, list(measure_edge.COLUMNS), rows, made, {})
            experiment = measure_edge.Experiment(".", out, results, 1, ["resnet20"])
            case = measure_edge.cases("resnet20")[0]
            (out / case.name).mkdir(parents=True)
            new = [{"part": "run", "network": "resnet20", "delay": 1, "edge": 0.3}]
            (out / case.name / "rows.json").write_text(json.dumps(new))
            (out / case.name / "manifest.json").write_text(
                json.dumps({"commit": "2", "cpu": "x", "data": {}, "started": "a", "finished": "b"})
            )
            experiment.write([case])
            with (results / "results.csv").open() as file:
                found = [(row["network"], row["delay"], row["edge"]) for row in csv.DictReader(file)]
            self.assertEqual(found, [("mlp", "4", "0.1"), ("resnet20", "1", "0.3")])
            manifest = json.loads((results / "manifest.json").read_text())
            self.assertEqual((manifest["started"], manifest["finished"]), ("a", "c"))
            self.assertEqual(manifest["program"]["commit"], ["1", "2"])
            self.assertEqual(manifest["machine"]["cpu"], "x")

    def test_what_it_refuses(self):
        for words, line in (
            (["--data", "."] + ["--only", "vgg"], "--only: got 'vgg', accepted: mlp, resnet20"),
            (["--data", "none"], "--data: got 'none'"),
            (["--data", ".", "--jobs", "x"], "--jobs: got 'x'"),
        ):
            error = io.StringIO()
            with contextlib.redirect_stderr(error):
                self.assertEqual(measure_edge.main(words), 2)
            self.assertIn(line, error.getvalue())
