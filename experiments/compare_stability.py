#!/usr/bin/env python3
"""The largest stable rate of training ResNet-20 by pipelined backpropagation (PB), predicted and measured.

    experiments/compare_stability.py --data DIR [--out build/compare_stability]
        [--results experiments/results/stable_curvature]

Everything is on CIFAR-10, at one sample an update and constant rates, and starts from the same weights.
In order:

    ladder     runs of LADDER_SAMPLES samples, from the reference rate 0.1 upwards by factors of 2, in
               LADDER_SEEDS orders of the samples, until two in a row are unstable. A run is unstable where
               a number is not finite, or where the mean training loss of its last quarter is above ln 10,
               that of guessing.
    curvature  the largest eigenvalue of the Hessian and its eigenvector's shares by stage, at the start,
               along runs at the reference rate 0.1, and where runs of the ladder end
    stage      the largest eigenvalue of each stage's block, at the start

Of each curvature, three predictions of the largest stable rate:

    largest delay  all of the curvature under the delay of the first stage
    coupled        the eigenvector alone, each stage's share of it under the stage's own delay: the quadratic
                   e (r r' + I / 1000), r_s^2 the shares, by `batchless pipeline-stability`
    blocks         each stage's block under its own delay, and the least of these rates; `batchless advise`

The folder OUT gets a folder for each run and a file for each curvature; RESULTS gets results.csv, a line
for each of all these, and manifest.json. Both are written anew after each step. The same command goes on
where an earlier one stopped. Needs the Python module (`make python`).
"""

from __future__ import annotations

import csv
import json
import math
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from experiments import measure_curvature  # noqa: E402  (its folder has to be found first)
from experiments.command_line import (  # noqa: E402
    Parser,
    comparison_folder,
    existing_folder,
    exit_code_of,
    output_folder,
    replace,
    stop_at_signals,
)
from experiments.curvature import batchless  # noqa: E402
from experiments.study_results import made_on_one_set, write_table  # noqa: E402

# Name -> schedule and rule.
METHODS = {
    "SGDM": ("sequential", "sgdm"),
    "PB": ("pb", "sgdm"),
    "PB+LWPv_D+SC_D": ("pb", "lwp-v+sc"),
}
DELAYED = ("PB", "PB+LWPv_D+SC_D")
BASE_RATE = 0.1
LADDER_SAMPLES = 8000
LADDER_SEEDS = {"SGDM": 1, "PB": 2, "PB+LWPv_D+SC_D": 2}
MOST_RATE = 819.2
ALONG = (1000, 4000, 16000)
GUESSING = math.log(10)
ELSEWHERE = 1e-3
CONFIGURATION = """\
[network]
name = "resnet20"

[data]
name = "cifar10"
root = {root}
limit_validation = 1

[schedule]
workers = 1

[optimizer]
batch = 1
reference_lr = 0.1
reference_momentum = 0.9
reference_batch = 128
weight_decay = 1e-4
decay_points = []
"""
COLUMNS = (
    "part",
    "method",
    "reference_lr",
    "seed",
    "samples",
    "learning_rate",
    "loss",
    "stable",
    "stage",
    "delay",
    "share",
    "eigenvalue",
    "residual",
    "by_the_loss",
    "predicted_for",
    "predicted_largest_delay",
    "predicted_coupled",
    "predicted_blocks",
)


def save(path: Path, weights: dict[str, np.ndarray]) -> None:
    """The file appears whole or not at all."""
    scratch = path.with_name("scratch.npz")
    np.savez(scratch, **weights)
    scratch.replace(path)


class Comparison:
    def __init__(self, data: str, out: Path, results: Path):
        self.out, self.results = out, results
        self.configuration = CONFIGURATION.format(root=json.dumps(str(Path(data).resolve())))
        self.config = out / "config.toml"
        self.start = out / "start.npz"
        self.rows: list[dict] = []
        self.manifests: list[dict] = []

    def execute(self) -> None:
        comparison_folder(self.out, self.configuration)
        if not self.start.exists():
            save(self.start, batchless.Trainer(self.config).weights)
        ends = {method: self.climb(method) for method in METHODS}
        # The start has no method.
        points = [("", 0, BASE_RATE, self.start)]
        for samples in ALONG:
            for method in DELAYED:
                weights = self.run(method, BASE_RATE, 1, samples)[0] / "weights.npz"
                points.append((method, samples, BASE_RATE, weights))
        points += [end for method in DELAYED for end in ends[method]]
        for point in points:
            self.measure(*point, by_stage=False)
        self.measure(*points[0], by_stage=True)

    def climb(self, method: str) -> list[tuple]:
        """The ladder of a method; its points at the largest stable rate."""
        largest = None
        for seed in range(1, LADDER_SEEDS[method] + 1):
            rate, unstable = BASE_RATE, 0
            while unstable < 2 and rate <= MOST_RATE:
                folder, summary = self.run(method, rate, seed, LADDER_SAMPLES)
                stable, loss = self.is_stable(folder, summary)
                self.note({
                    "part": "ladder", "method": method, "reference_lr": rate, "seed": seed,
                    "samples": LADDER_SAMPLES, "learning_rate": summary["learning_rate"],
                    "loss": loss, "stable": int(stable),
                })  # fmt: skip
                unstable = 0 if stable else unstable + 1
                if stable and seed == 1:
                    largest = (method, LADDER_SAMPLES, rate, folder / "weights.npz")
                rate *= 2
        return [largest] if largest else []

    def run(self, method: str, rate: float, seed: int, samples: int) -> tuple[Path, dict]:
        """Folder and summary of a run at a constant rate."""
        schedule, rule = METHODS[method]
        folder = self.out / f"{method}-{rate:g}-{seed}-{samples}"
        weights = folder / "weights.npz"
        if not (folder / "summary.json").exists() or not weights.exists():
            trainer = batchless.Trainer(
                self.config, out=folder, resume=True, schedule=schedule, rule=rule,
                optimizer={"reference_lr": rate},
                run={"seed": seed, "samples": samples, "log_every_samples": samples // 4},
            )  # fmt: skip
            if trainer.samples == 0:
                trainer.weights = dict(np.load(self.start))
            try:
                for _ in trainer.run():
                    pass
            except RuntimeError:
                if trainer.summary().diverged is None:
                    raise
            save(weights, trainer.weights)
        self.manifests.append(json.loads((folder / "manifest.json").read_text(encoding="utf-8")))
        return folder, json.loads((folder / "summary.json").read_text(encoding="utf-8"))

    @staticmethod
    def is_stable(folder: Path, summary: dict) -> tuple[bool, float]:
        """Whether a run was stable, and the mean loss of its last quarter."""
        with (folder / "metrics.csv").open(newline="", encoding="utf-8") as file:
            losses = [row["train_loss"] or "nan" for row in csv.DictReader(file)]
        loss = float(losses[-1]) if losses else math.nan
        return summary["diverged"] is None and loss < GUESSING, loss

    def measure(self, method: str, samples: int, rate: float, weights: Path, by_stage: bool) -> None:
        name = f"curvature-{method}-{rate:g}-{samples}" + ("-stages" if by_stage else "") + ".json"
        path = self.out / name
        if not path.exists():
            words = [str(self.config), "--weights", str(weights)]
            options = measure_curvature.options_of([*words, "--by-stage" if by_stage else "--shares"])
            replace(path, json.dumps(measure_curvature.measure(options)))
        found = json.loads(path.read_text(encoding="utf-8"))
        top = found["eigenvalues"][0]
        place = {"method": method, "reference_lr": rate, "seed": 1, "samples": samples}
        if by_stage:
            for row in found["stages"]:
                self.note({"part": "stage", **place, "share": top["shares"][row["stage"]],
                           **{key: row[key] for key in ("stage", "eigenvalue", "residual")}})  # fmt: skip
        curvature = {key: top[key] for key in ("eigenvalue", "residual", "by_the_loss")}
        for rule in [method] if method else DELAYED:
            self.note({
                "part": "blocks" if by_stage else "curvature", **place, "loss": found["loss"],
                **curvature, "predicted_for": rule, **self.predictions(rule, found),
            })  # fmt: skip

    def predictions(self, method: str, found: dict) -> dict:
        """Largest stable learning rates of a method with the curvature that was found."""
        momentum = self.run("PB", BASE_RATE, 1, LADDER_SAMPLES)[1]["momentum"]
        rule = METHODS[method][1]
        advice = batchless.advise(network="resnet20", condition=100, rule=rule, momentum=momentum).rows
        rates = np.array([row.largest_stable_rate for row in advice])
        delays = np.array([row.delay for row in advice])
        top = found["eigenvalues"][0]
        words = {
            "predicted_largest_delay": rates.min() / top["eigenvalue"],
            "predicted_coupled": self.coupled(rule, momentum, top, delays),
        }
        if "stages" in found:
            words["predicted_blocks"] = min(
                rates[row["stage"]] / row["eigenvalue"] for row in found["stages"]
            )
        return words

    def coupled(self, rule: str, momentum: float, top: dict, delays: np.ndarray) -> float:
        """By bisection, to a thousandth. A little curvature elsewhere, since without any the radius is 1."""
        shares = np.array(top["shares"])
        own = shares > 0
        r = np.sqrt(shares[own])
        hessian = top["eigenvalue"] * (np.outer(r, r) + ELSEWHERE * np.eye(r.size))

        def is_stable(rate: float) -> bool:
            found = batchless.pipeline_stability(
                hessian=hessian, stages=int(own.sum()), widths=1, rule=rule, momentum=momentum,
                delays=delays[own].tolist(), learning_rate=rate,
            )  # fmt: skip
            return found.spectral_radius < 1

        low, high = 1e-8, 1.0
        while high / low > 1.001:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if is_stable(middle) else (low, middle)
        return low

    def note(self, row: dict) -> None:
        self.rows.append(row)
        write_table(self.results, list(COLUMNS), self.rows, made_on_one_set(self.manifests), {})
        print(", ".join(f"{k} {v}" for k, v in row.items() if v != ""), file=sys.stderr, flush=True)


def comparison_of(arguments: list[str] | None) -> Comparison:
    parser = Parser(prog="compare_stability.py", description=__doc__.split("\n")[0])
    parser.add_argument("--data", required=True, help="folder with the data sets")
    parser.add_argument("--out", help="folder for the runs; build/compare_stability")
    parser.add_argument("--results", help="folder for results.csv and manifest.json; OUT")
    options = parser.parse_args(arguments)
    out = output_folder("--out", options.out or "build/compare_stability")
    results = output_folder("--results", options.results or str(out))
    return Comparison(existing_folder("--data", options.data), out, results)


def main(arguments: list[str] | None = None) -> int:
    stop_at_signals()
    return exit_code_of("compare_stability", lambda: comparison_of(arguments).execute())


if __name__ == "__main__":
    sys.exit(main())
