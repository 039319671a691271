#!/usr/bin/env python3
"""Where curvature settles in training under a uniform delay: the edge of stability, predicted and measured.

    experiments/measure_edge.py --data DIR [--out build/measure_edge] [--results OUT] [--jobs 1]
        [--only NETWORK]

Every update is one of all the first samples of CIFAR-10, as they are, at a constant rate; all stages read
weights of D updates ago, and all runs of a network start from the same ones. The analyzer says at which
curvature rule, momentum, delay and rate lose stability, e* = (critical rate) / eta; for plain gradient descent
it is 2 sin(pi / (4 D + 2)) / eta. Rates are such that e* is 2, 4 and 8 times the largest eigenvalue of the
Hessian at the start, and runs are equally long in units of eta / (1 - m). POINTS times along each, the largest
eigenvalue, by Lanczos' method from the last one's vector. At the end of some runs, the density of all
eigenvalues, of the whole and of each stage's block.

OUT gets a folder for each run; RESULTS gets results.csv and manifest.json, written anew after each run, where
rows of networks that are not measured now stay. The same command goes on where an earlier one stopped. Needs
the Python module (`make python`).
"""

from __future__ import annotations

import csv
import json
import multiprocessing
import shutil
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from experiments.command_line import (  # noqa: E402  (its folder has to be found first)
    Parser,
    UsageError,
    existing_folder,
    exit_code_of,
    output_folder,
    positive,
    replace,
    stop_at_signals,
)
from experiments.curvature import Block, Loss, batchless, flat, full_batches, stages_of  # noqa: E402
from experiments.study_results import made_on_one_set, write_table  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Network:
    section: dict
    samples: int
    h: float  # of curvature.py
    # A run without delay and momentum, whose edge is twice the curvature at the start.
    updates: int


@dataclass(frozen=True)
class Case:
    network: str
    rule: str
    momentum: float
    delay: int
    multiple: float  # of the curvature at the start, at which stability is lost

    @property
    def name(self) -> str:
        return f"{self.network}-{self.rule}-{self.momentum:g}-{self.delay}-{self.multiple:g}"


NETWORKS = {
    "mlp": Network({"file": str(ROOT / "experiments/networks/smooth_mlp.toml")}, 2000, 1e-2, 300),
    "resnet20": Network({"name": "resnet20"}, 128, 0.05, 200),
}
DELAYS = (0, 1, 2, 4, 8)
MULTIPLES = (2, 4, 8)
# Compensated and predicting rules, at one delay and one edge.
RULES = (("sgdm", 0.9), ("sc", 0.9), ("lwp-v+sc", 0.9), ("lwp-w+sc", 0.9))
RULE_DELAY, RULE_MULTIPLE = 4, 4
DENSE = (("sgdm", 0.0, 0, 4), ("sgdm", 0.0, 4, 4))
POINTS = 40
PRODUCTS = 8  # for an eigenvalue, from the last one's vector on
PROBES, DENSITY_PRODUCTS = 4, 40
COLUMNS = ("part", "network", "rule", "momentum", "delay", "multiple", "learning_rate", "edge", "updates",
           "loss", "accuracy", "eigenvalue", "residual", "stage", "count")  # fmt: skip


def cases(network: str) -> list[Case]:
    """The shortest first."""
    plain = [Case(network, "sgdm", 0.0, delay, multiple)
             for delay in DELAYS for multiple in MULTIPLES]  # fmt: skip
    rules = [Case(network, rule, momentum, RULE_DELAY, RULE_MULTIPLE) for rule, momentum in RULES]
    return sorted(plain, key=lambda case: case.multiple / critical_rate(case)) + rules


def critical_rate(case: Case) -> float:
    """Largest stable product of rate and curvature."""
    found = batchless.boundary(rule=case.rule, momentum=case.momentum, delay=case.delay)
    return found.critical_rate


def configuration(network: str, data: str) -> dict:
    return {"network": NETWORKS[network].section, "data": {"name": "cifar10", "root": data}}


def start_of(network: str, data: str) -> dict:
    """Curvature at the start, and its vector."""
    about = NETWORKS[network]
    loss = Loss(configuration(network, data), about.samples, about.h)
    weights = flat(loss.tensors)
    first = np.random.default_rng(0).standard_normal(weights.size)
    values, vectors = Block(loss, weights).largest(first, 1, 12, 1e-3)
    return {"eigenvalue": float(values[0]), "vector": vectors[:, 0]}


def ignore_interrupts() -> None:
    """Ctrl-C is for the process that waits, which ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def run(task: tuple[Case, dict, str, Path]) -> str:
    """Trains, and measures on the way; out/NAME gets what the trainer writes and rows.json. Returns NAME."""
    case, start, data, out = task
    folder = out / case.name
    shutil.rmtree(folder, ignore_errors=True)
    about = NETWORKS[case.network]
    critical = critical_rate(case)
    edge = case.multiple * start["eigenvalue"]
    rate = critical / edge
    updates = round(about.updates * (1 - case.momentum) * (case.multiple / critical))
    loss = Loss(configuration(case.network, data), about.samples, about.h)
    trainer = full_batches(
        configuration(case.network, data), about.samples, out=folder,
        schedule={"kind": "uniform-delay", "delay": case.delay}, rule=case.rule,
        optimizer={"lr": rate, "momentum": case.momentum}, run={"samples": about.samples * updates},
    )  # fmt: skip
    place = asdict(case) | {"learning_rate": rate, "edge": edge}
    points = np.unique(np.linspace(0, updates - 1, POINTS).round().astype(int))
    rows, vector = [], start["vector"]
    weights = flat(trainer.weights)
    for update, row in enumerate(trainer.run()):
        if update in points:
            # A row's loss is that of the weights before its update.
            value, residual, vector = Block(loss, weights).nearly_largest(vector, PRODUCTS)
            rows.append({"part": "run", **place, "updates": update, "loss": row.train_loss,
                         "accuracy": row.train_accuracy, "eigenvalue": value, "residual": residual})  # fmt: skip
        if update + 1 in points:
            weights = flat(trainer.weights)
    if (case.rule, case.momentum, case.delay, case.multiple) in DENSE:
        rows += densities(case, place | {"updates": updates}, loss, flat(trainer.weights))
    replace(folder / "rows.json", json.dumps(rows))
    return case.name


def densities(case: Case, place: dict, loss: Loss, weights: np.ndarray) -> list[dict]:
    stages = enumerate(stages_of(NETWORKS[case.network].section))
    parts = {"whole": slice(None)} | {str(k): part for k, part in stages if part.start < part.stop}
    rows = []
    for stage, part in parts.items():
        block = Block(loss, weights, part)
        for value, count in zip(*block.density(PROBES, min(DENSITY_PRODUCTS, block.size), 1)):
            rows.append({"part": "density", **place, "stage": stage, "eigenvalue": float(value),
                         "count": float(count)})  # fmt: skip
    return rows


def of_other_networks(results: Path, networks: list[str]) -> tuple[list[dict], list[dict]]:
    """The rows of other networks that a folder of results holds, and, if there are any, its manifest in the
    form of a run's."""
    if not (results / "results.csv").exists():
        return [], []
    with (results / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["network"] not in networks]
    if not rows:
        return [], []
    manifest = json.loads((results / "manifest.json").read_text(encoding="utf-8"))
    return rows, [manifest | manifest["program"] | manifest["machine"]]


def shortened(row: dict) -> dict:
    """Six digits of each number: more than the residuals leave, in half the bytes."""
    return {name: float(f"{x:.6g}") if isinstance(x, float) else x for name, x in row.items()}


class Experiment:
    def __init__(self, data: str, out: Path, results: Path, jobs: int, networks: list[str]):
        self.data, self.out, self.results, self.jobs = str(Path(data).resolve()), out, results, jobs
        self.networks = networks
        self.kept, self.kept_manifest = of_other_networks(results, networks)

    def execute(self) -> None:
        self.out.mkdir(parents=True, exist_ok=True)
        todo = [case for network in self.networks for case in cases(network)]
        starts = {network: start_of(network, self.data) for network in self.networks}
        # The module has threads of its own, which no fork would take along. Leaving ends what still runs.
        with multiprocessing.get_context("spawn").Pool(self.jobs, ignore_interrupts) as pool:
            waiting = [(case, starts[case.network], self.data, self.out) for case in todo
                       if not (self.out / case.name / "rows.json").exists()]  # fmt: skip
            self.write(todo)
            for name in pool.imap_unordered(run, waiting):
                print(f"measured {name}", file=sys.stderr, flush=True)
                self.write(todo)

    def write(self, todo: list[Case]) -> None:
        folders = [self.out / case.name for case in todo]
        done = [folder for folder in folders if (folder / "rows.json").exists()]
        if not done:
            return
        rows = list(self.kept)
        for folder in done:
            rows += map(shortened, json.loads((folder / "rows.json").read_text(encoding="utf-8")))
        manifests = self.kept_manifest + [
            json.loads((folder / "manifest.json").read_text(encoding="utf-8")) for folder in done
        ]
        write_table(self.results, list(COLUMNS), rows, made_on_one_set(manifests), {})


def experiment_of(arguments: list[str] | None) -> Experiment:
    parser = Parser(prog="measure_edge.py", description=__doc__.split("\n")[0])
    parser.add_argument("--data", required=True, help="folder with the data sets")
    parser.add_argument("--out", help="folder for the runs; build/measure_edge")
    parser.add_argument("--results", help="folder for results.csv and manifest.json; OUT")
    parser.add_argument("--jobs", default="1", help="runs at a time; 1")
    parser.add_argument("--only", help=f"one network of {', '.join(NETWORKS)}; all")
    options = parser.parse_args(arguments)
    if options.only is not None and options.only not in NETWORKS:
        raise UsageError(f"--only: got '{options.only}', accepted: {', '.join(NETWORKS)}")
    out = output_folder("--out", options.out or "build/measure_edge")
    results = output_folder("--results", options.results or str(out))
    networks = [options.only] if options.only else list(NETWORKS)
    return Experiment(existing_folder("--data", options.data), out, results,
                      positive("--jobs", options.jobs), networks)  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    stop_at_signals()
    return exit_code_of("measure_edge", lambda: experiment_of(arguments).execute())


if __name__ == "__main__":
    sys.exit(main())
