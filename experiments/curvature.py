"""The mean loss of a network over some samples as a function of all its parameters, and its curvature.

The gradient is read off an update at a rate of 1, without momentum and weight decay: g = w - w'. Products with
the Hessian are central differences, H v = (g(w + h v) - g(w - h v)) / 2h, |v| = 1. `h` is a distance in
weights: small against what changes the curvature, large against the rounding of 32 bits and the kinks of ReLU.

    Loss      the loss, its gradient, products with the Hessian
    Block     the Hessian's block of some parameters: largest eigenvalues, spectral density
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

# One in PYTHONPATH comes first.
sys.path.append(str(Path(__file__).resolve().parent.parent / "build/python"))
try:
    import batchless
except ImportError:
    sys.exit("curvature: no Python module batchless, accepted: it in PYTHONPATH, or `make python` before")

# The samples in their order, as they are.
AS_THEY_ARE = {"order": "sequential", "augment": False, "limit_validation": 1}
NEVER = 10**12
# Running statistics are no parameters.
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def full_batches(configuration: dict, samples: int, **keywords) -> batchless.Trainer:
    """A trainer whose every update is one of all the first samples of the set; a row of run() is an update."""
    sections = {
        "network": configuration.get("network", {}),
        "data": configuration.get("data", {}) | AS_THEY_ARE | {"limit_train": samples},
    }
    run = {"samples": samples * (NEVER // samples), "log_every_samples": samples,
           "validate_every_samples": NEVER, "checkpoint_every_samples": NEVER}  # fmt: skip
    optimizer = {"batch": samples, "weight_decay": 0.0, "decay_points": []}
    # One by one, samples take a fifth longer.
    schedule = {"microbatch": math.gcd(samples, 16)}
    return batchless.Trainer(
        sections, **{**keywords, "run": run | keywords.get("run", {}),
                     "schedule": schedule | keywords.get("schedule", {}),
                     "optimizer": optimizer | keywords.get("optimizer", {})},
    )  # fmt: skip


def flat(tensors: dict[str, np.ndarray]) -> np.ndarray:
    """All parameters in a row."""
    return np.concatenate(
        [t.ravel() for name, t in tensors.items() if not name.endswith(STATISTICS)]
    ).astype(np.float64)


def stages_of(network: dict) -> list[slice]:
    """Where the parameters of each stage are in a row of all, as `batchless costs` counts them."""
    words = {"network": network.get("file") or network.get("name", "resnet20")}
    if "norm" in network:
        words["norm"] = network["norm"]
    ends = np.cumsum([stage.parameters for stage in batchless.costs(**words).stages]).tolist()
    return [slice(a, b) for a, b in zip([0, *ends], ends)]


class Loss:
    def __init__(self, configuration: dict, samples: int, h: float, precision: str = "float"):
        self.h = h
        self._trainer = full_batches(
            configuration, samples, schedule={"kind": "sequential"},
            optimizer={"lr": 1.0, "momentum": 0.0}, run={"precision": precision},
        )  # fmt: skip
        self._rows = self._trainer.run()
        self.tensors = self._trainer.weights

    def row_of(self, tensors: dict[str, np.ndarray]) -> np.ndarray:
        """The parameters of these names in a row, in the network's order."""
        self._trainer.weights = tensors
        return flat(self._trainer.weights)

    def at(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Loss and gradient."""
        tensors, place = {}, 0
        for name, tensor in self.tensors.items():
            if name.endswith(STATISTICS):
                tensors[name] = tensor
                continue
            values = weights[place : place + tensor.size].astype(tensor.dtype)
            tensors[name] = values.reshape(tensor.shape)
            place += tensor.size
        self._trainer.weights = tensors
        loss = next(self._rows).train_loss
        return loss, flat(tensors) - flat(self._trainer.weights)

    def curvature_along(self, weights: np.ndarray, v: np.ndarray) -> np.ndarray:
        """H v."""
        length = np.linalg.norm(v)
        step = self.h * v / length
        change = self.at(weights + step)[1] - self.at(weights - step)[1]
        return change * (length / (2 * self.h))


class Block:
    """The Hessian's block of some parameters, those of a slice, as a product with vectors."""

    def __init__(self, loss: Loss, weights: np.ndarray, part: slice = slice(None)):
        self.loss, self.weights, self.part, self.products = loss, weights, part, 0
        self.size = weights[part].size

    def multiply(self, v: np.ndarray) -> np.ndarray:
        self.products += 1
        whole = np.zeros(self.weights.size)
        whole[self.part] = np.asarray(v, dtype=np.float64).ravel()
        return self.loss.curvature_along(self.weights, whole)[self.part]

    def largest(
        self, start: np.ndarray, count: int, vectors: int, tolerance: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """The largest eigenvalues, in falling order, and their eigenvectors as columns, by ARPACK."""
        values, found = eigsh(
            LinearOperator((self.size, self.size), matvec=self.multiply, dtype=np.float64), k=count,
            which="LA", v0=start, ncv=min(self.size, vectors), tol=tolerance,
        )  # fmt: skip
        order = np.argsort(-values)
        return values[order], found[:, order]

    def lanczos(self, start: np.ndarray, products: int) -> tuple[np.ndarray, np.ndarray]:
        """An orthonormal basis of the Krylov space of a start, as columns, and its images."""
        basis: list[np.ndarray] = []
        images: list[np.ndarray] = []
        vector = start
        for _ in range(min(products, self.size)):
            for _ in range(2):
                vector = vector - sum(((q @ vector) * q for q in basis), np.zeros(self.size))
            length = np.linalg.norm(vector)
            if length == 0:
                break
            basis.append(vector / length)
            images.append(self.multiply(basis[-1]))
            vector = images[-1]
        return np.array(basis).T, np.array(images).T

    def nearly_largest(self, start: np.ndarray, products: int) -> tuple[float, float, np.ndarray]:
        """The largest eigenvalue in a Krylov space of that many products, its residual and its vector. Products
        that kinks of ReLU disturb need not let ARPACK's restarts converge."""
        q, hq = self.lanczos(start, products)
        values, vectors = np.linalg.eigh((q.T @ hq + hq.T @ q) / 2)
        value, y = float(values[-1]), vectors[:, -1]
        residual = np.linalg.norm(hq @ y - value * (q @ y)) / abs(value)
        return value, float(residual), q @ y

    def density(self, probes: int, products: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues and how many there are of each, about: stochastic Lanczos quadrature. A random probe u of
        length 1 sees f(H) as u' f(H) u = sum_k (e_1' y_k)^2 f(t_k), T y_k = t_k y_k on its Krylov space; the mean
        over probes times the size is the trace of f(H) (Ghorbani, Krishnan and Xiao 2019)."""
        random = np.random.default_rng(seed)
        nodes, counts = [], []
        for _ in range(probes):
            q, hq = self.lanczos(random.standard_normal(self.size), products)
            values, vectors = np.linalg.eigh((q.T @ hq + hq.T @ q) / 2)
            nodes.append(values)
            counts.append(self.size / probes * vectors[0] ** 2)
        order = np.argsort(np.concatenate(nodes))
        return np.concatenate(nodes)[order], np.concatenate(counts)[order]

    def residual(self, value: float, v: np.ndarray) -> float:
        return float(np.linalg.norm(self.multiply(v) - value * v) / abs(value))
