#!/usr/bin/env python3
"""Largest eigenvalues of the Hessian of a training loss, by Lanczos' method.

    experiments/measure_curvature.py CONFIG.toml --weights W.npz [--samples 256] [--eigenvalues 3]
        [--shares] [--by-stage] [--program build/bin/batchless]

The gradient of the mean loss over the first samples of the set, as they are, is read off a run of one
update at a rate of 1, without momentum and weight decay: g = w - w'. Products with the Hessian are central
differences, H v = (g(w + h v) - g(w - h v)) / 2h, |v| = 1, and Lanczos' method (ARPACK) finds the largest
eigenvalues from them. Each comes with its residual |H v - e v| / e, and, as a check that shares no gradient,
with the second difference of the loss along v. `--h` is a distance in weights: small against what changes
the curvature, large against the rounding of 32 bits and the kinks of ReLU: on ResNet-20 residuals are 0.04 to 0.2
at 0.1, and up to 0.6 at 0.01.

--shares adds to each eigenvector v the part of |v|^2 that lies in the parameters of each stage, --by-stage
also the largest eigenvalue of each stage's own block of the Hessian, by the same method with vectors that
are zero elsewhere. Parameters are dealt to stages by their number, as `batchless costs` counts them.

Network and data are those of the configuration. What `batchless advise` says is stable, over the largest
eigenvalue, is the rate that theory predicts. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from experiments.command_line import Parser, RunError, UsageError, positive, trainer  # noqa: E402


def call(command: list[str]) -> dict:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RunError((done.stderr.strip().splitlines() or ["no word"])[-1])
    return json.loads(done.stdout)


FIXED = {"order": "sequential", "augment": False, "limit_validation": 1}


def read(config: str) -> dict:
    with open(config, "rb") as file:
        return tomllib.load(file)


def sections(whole: dict) -> str:
    """Network and data of a configuration; the samples in their order, as they are."""
    lines = []
    for section, changes in (("network", {}), ("data", FIXED)):
        lines.append(f"[{section}]")
        lines += [f"{k} = {json.dumps(v)}" for k, v in (whole.get(section, {}) | changes).items()]
    return "\n".join(lines) + "\n"


def stage_ends(program: str, network: dict) -> list[int]:
    """The end of each stage, one past its last parameter, in a row of all parameters."""
    words = ["--network", network.get("file") or network.get("name", "resnet20")]
    if "norm" in network:
        words += ["--norm", network["norm"]]
    costs = call([program, "costs", *words, "--json"])
    return np.cumsum([stage["parameters"] for stage in costs["stages"]]).tolist()


class Loss:
    """The mean loss over some samples, and its gradient, as functions of all weights in a row."""

    def __init__(self, options: argparse.Namespace, folder: Path):
        self.options, self.folder = options, folder
        self.tensors = dict(np.load(options.weights))
        self.config = sections(read(options.config))
        self.start = np.concatenate([t.ravel() for t in self.tensors.values()]).astype(np.float64)

    def stages(self) -> list[slice]:
        """Where the parameters of each stage are in a row of all."""
        network = read(self.options.config).get("network", {})
        ends = stage_ends(self.options.program, network)
        if ends[-1] != self.start.size:
            raise UsageError(f"--by-stage: got {self.start.size} weights, accepted: {ends[-1]}, as many as "
                             "`batchless costs` counts")
        return [slice(a, b) for a, b in zip([0, *ends], ends)]

    def at(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        before, after = self.folder / "before.npz", self.folder / "after.npz"
        tensors, place = {}, 0
        for name, tensor in self.tensors.items():
            values = weights[place : place + tensor.size].astype(tensor.dtype)
            tensors[name] = values.reshape(tensor.shape)
            place += tensor.size
        np.savez(before, **tensors)
        rounded = np.concatenate([t.ravel() for t in tensors.values()]).astype(np.float64)
        samples = self.options.samples
        config = self.folder / "config.toml"
        config.write_text(self.config, encoding="utf-8")
        changes = [f"run.samples={samples}", f"optimizer.batch={samples}", "optimizer.lr=1",
                   "optimizer.momentum=0", "optimizer.weight_decay=0"]
        with tempfile.TemporaryDirectory(dir=self.folder) as out:
            summary = call([
                self.options.program, "train", str(config), "--out", out, "--json",
                "--init", str(before), "--export-weights", str(after),
                *(word for key in changes for word in ("--set", key)),
            ])
        changed = np.load(after)
        updated = np.concatenate([changed[name].ravel() for name in self.tensors])
        return summary["train_loss"], rounded - updated.astype(np.float64)

    def curvature_along(self, v: np.ndarray) -> np.ndarray:
        length = np.linalg.norm(v)
        step = self.options.h * v / length
        return (self.at(self.start + step)[1] - self.at(self.start - step)[1]) * (
            length / (2 * self.options.h)
        )


# Products for a stage: Lanczos' method starts near what it looks for.
STAGE_PRODUCTS = 4


class Block:
    """The Hessian's block of some parameters, those of a slice, as a product with vectors."""

    def __init__(self, loss: Loss, part: slice):
        self.loss, self.part, self.products = loss, part, 0

    def multiply(self, v: np.ndarray) -> np.ndarray:
        self.products += 1
        whole = np.zeros(self.loss.start.size)
        whole[self.part] = np.asarray(v, dtype=np.float64).ravel()
        return self.loss.curvature_along(whole)[self.part]

    def largest(self, start: np.ndarray, count: int, vectors: int) -> tuple[np.ndarray, np.ndarray]:
        """The largest eigenvalues, in falling order, and their eigenvectors as columns."""
        size = start.size
        values, found = eigsh(
            LinearOperator((size, size), matvec=self.multiply, dtype=np.float64), k=count, which="LA",
            v0=start, ncv=min(size, vectors), tol=self.loss.options.tolerance,
        )
        order = np.argsort(-values)
        return values[order], found[:, order]

    def nearly_largest(self, start: np.ndarray, products: int) -> tuple[float, float]:
        """The largest eigenvalue in a Krylov space of that many products, and its residual. Products that
        kinks of ReLU disturb need not let ARPACK's restarts converge."""
        basis, images = [], []
        vector = start
        for _ in range(min(products, start.size)):
            for _ in range(2):
                vector = vector - sum(((q @ vector) * q for q in basis), np.zeros(start.size))
            length = np.linalg.norm(vector)
            if length == 0:
                break
            basis.append(vector / length)
            images.append(self.multiply(basis[-1]))
            vector = images[-1]
        q, hq = np.array(basis).T, np.array(images).T
        values, vectors = np.linalg.eigh((q.T @ hq + hq.T @ q) / 2)
        value, y = float(values[-1]), vectors[:, -1]
        return value, float(np.linalg.norm(hq @ y - value * (q @ y)) / abs(value))

    def residual(self, value: float, v: np.ndarray) -> float:
        return float(np.linalg.norm(self.multiply(v) - value * v) / abs(value))


def measure(options: argparse.Namespace, folder: Path) -> dict:
    loss = Loss(options, folder)
    whole = Block(loss, slice(None))
    count = options.eigenvalues
    start = np.random.default_rng(0).standard_normal(loss.start.size)
    values, vectors = whole.largest(start, count, max(2 * count + 1, count + 8))
    centre, _ = loss.at(loss.start)
    stages = loss.stages() if options.shares or options.by_stage else []
    rows = []
    for value, v in zip(values, vectors.T):
        step = options.check * v
        bend = loss.at(loss.start + step)[0] + loss.at(loss.start - step)[0] - 2 * centre
        rows.append({"eigenvalue": float(value), "residual": whole.residual(value, v),
                     "by_the_loss": bend / options.check**2})
        if options.shares or options.by_stage:
            rows[-1]["shares"] = [float(v[part] @ v[part]) for part in stages]
    found = {"weights": str(options.weights), "samples": options.samples, "loss": centre,
             "products": whole.products, "eigenvalues": rows}
    if options.by_stage:
        found["stages"] = [
            stage_row(loss, k, part, vectors[part, 0])
            for k, part in enumerate(stages) if part.stop > part.start
        ]
    return found


def stage_row(loss: Loss, stage: int, part: slice, start: np.ndarray) -> dict:
    """The largest eigenvalue of a stage's block. The whole's eigenvector lies near its own."""
    block = Block(loss, part)
    value, residual = block.nearly_largest(start, STAGE_PRODUCTS)
    return {"stage": stage, "eigenvalue": value, "residual": residual, "products": block.products}


def options_of(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("--weights", required=True, type=Path)
    parser.add_argument("--samples", default="256")
    parser.add_argument("--eigenvalues", default="1")
    parser.add_argument("--shares", action="store_true")
    parser.add_argument("--by-stage", action="store_true")
    parser.add_argument("--h", type=float, default=0.1)
    parser.add_argument("--check", type=float, default=0.05)
    parser.add_argument("--tolerance", type=float, default=0.01)
    parser.add_argument("--program", default="build/bin/batchless")
    options = parser.parse_args(arguments)
    options.samples = positive("--samples", options.samples)
    options.eigenvalues = positive("--eigenvalues", options.eigenvalues)
    options.program = trainer(options.program)
    return options


def main(arguments: list[str]) -> int:
    try:
        options = options_of(arguments)
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure(options, Path(folder)), indent=1))
    except UsageError as error:
        print(f"measure_curvature: {error}", file=sys.stderr)
        return 2
    except (RunError, OSError) as error:
        print(f"measure_curvature: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
