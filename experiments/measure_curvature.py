#!/usr/bin/env python3
"""Largest eigenvalues of the Hessian of a training loss, by Lanczos' method.

    experiments/measure_curvature.py CONFIG.toml --weights W.npz [--samples 256] [--eigenvalues 3]
        [--shares] [--by-stage]

The loss is the mean over the first samples of the set, as they are; experiments/curvature.py says what its
gradient and products with the Hessian are read off. Lanczos' method (ARPACK) finds the largest eigenvalues
from them. Each comes with its residual |H v - e v| / e, and, as a check that shares no gradient, with the
second difference of the loss along v. `--h` is the distance of the differences in weights: on ResNet-20
residuals are 0.04 to 0.2 at 0.1, and up to 0.6 at 0.01.

--shares adds to each eigenvector v the part of |v|^2 that lies in the parameters of each stage, --by-stage
also the largest eigenvalue of each stage's own block of the Hessian, by the same method with vectors that
are zero elsewhere. Parameters are dealt to stages by their number, as `batchless costs` counts them.

Network and data are those of the configuration. What `batchless advise` says is stable, over the largest
eigenvalue, is the rate that theory predicts. Prints JSON. Needs the Python module (`make python`).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from experiments.command_line import Parser, UsageError, exit_code_of, positive  # noqa: E402
from experiments.curvature import Block, Loss, stages_of  # noqa: E402

# Products for a stage: Lanczos' method starts near what it looks for.
STAGE_PRODUCTS = 4


def measure(options: argparse.Namespace) -> dict:
    try:
        configuration = tomllib.loads(options.config.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"CONFIG: got '{options.config}', accepted: a TOML file ({error})") from None
    loss = Loss(configuration, options.samples, options.h)
    try:
        with options.weights.open("rb") as file:
            weights = loss.row_of(dict(np.load(file)))
    except (OSError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise UsageError(
            f"--weights: got '{options.weights}', accepted: the network's weights, .npz ({error})"
        ) from None
    stages = []
    if options.shares or options.by_stage:
        stages = stages_of(configuration.get("network", {}))
        if stages[-1].stop != weights.size:
            raise UsageError(f"--by-stage: got {weights.size} weights, accepted: {stages[-1].stop}, as many "
                             "as `batchless costs` counts")  # fmt: skip
    whole = Block(loss, weights)
    count = options.eigenvalues
    start = np.random.default_rng(0).standard_normal(weights.size)
    values, vectors = whole.largest(start, count, max(2 * count + 1, count + 8), options.tolerance)
    centre, _ = loss.at(weights)
    rows = []
    for value, v in zip(values, vectors.T):
        step = options.check * v
        bend = loss.at(weights + step)[0] + loss.at(weights - step)[0] - 2 * centre
        rows.append({"eigenvalue": float(value), "residual": whole.residual(value, v),
                     "by_the_loss": bend / options.check**2})  # fmt: skip
        if stages:
            rows[-1]["shares"] = [float(v[part] @ v[part]) for part in stages]
    found = {"weights": str(options.weights), "samples": options.samples, "loss": centre,
             "products": whole.products, "eigenvalues": rows}  # fmt: skip
    if options.by_stage:
        found["stages"] = []
        for k, part in enumerate(stages):
            if part.stop == part.start:
                continue
            block = Block(loss, weights, part)
            # The whole's eigenvector lies near the block's own.
            value, residual, _ = block.nearly_largest(vectors[part, 0], STAGE_PRODUCTS)
            found["stages"].append({"stage": k, "eigenvalue": value, "residual": residual,
                                    "products": block.products})  # fmt: skip
    return found


def options_of(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("--weights", required=True, type=Path)
    parser.add_argument("--samples", default="256")
    parser.add_argument("--eigenvalues", default="1")
    parser.add_argument("--shares", action="store_true")
    parser.add_argument("--by-stage", action="store_true")
    parser.add_argument("--h", type=float, default=0.1)
    parser.add_argument("--check", type=float, default=0.05)
    parser.add_argument("--tolerance", type=float, default=0.01)
    options = parser.parse_args(arguments)
    options.samples = positive("--samples", options.samples)
    options.eigenvalues = positive("--eigenvalues", options.eigenvalues)
    for name, path in (("CONFIG", options.config), ("--weights", options.weights)):
        if not path.is_file():
            raise UsageError(f"{name}: got '{path}', accepted: a file that exists")
    for name, distance in (("--h", options.h), ("--check", options.check)):
        if not 0 < distance < math.inf:
            raise UsageError(f"{name}: got '{distance:g}', accepted: a number above 0")
    return options


def main(arguments: list[str]) -> int:
    return exit_code_of(
        "measure_curvature", lambda: print(json.dumps(measure(options_of(arguments)), indent=1))
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
