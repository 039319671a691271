#!/usr/bin/env python3
"""Measures the trainer against what the hardware model predicts of it from calibrated times.

For each network, `--repeats` times over: `batchless calibrate`, then with each number of `--workers`
the prediction of `batchless throughput` and a run of `batchless train`, all by plain pipelined
backpropagation at one sample a step, on the built-in synthetic set. The folder OUT gets

    config.toml                  what every run was told
    NETWORK/REPEAT/machine.toml  calibrated times
    NETWORK/REPEAT/predicted-W.json
    NETWORK/REPEAT/run-W/        the run's folder, as the trainer writes it
    results.csv                  a line for each network, number of workers and repeat
    manifest.json                what made them: build, machine, times

The last two are written anew after each run that ends. The same command goes on where an earlier one
stopped; a new OUT measures anew. Networks take turns, so that an hour in which the machine is slow does
not decide about one of them. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from experiments.command_line import (  # noqa: E402  (its folder has to be found first)
    Parser,
    RunError,
    UsageError,
    comparison_folder,
    exit_code_of,
    no_program,
    output_folder,
    positive,
    replace,
    stop_at_signals,
    trainer,
)
from experiments.study_results import made_by, write_table  # noqa: E402

NETWORKS = ("resnet20", "resnet56", "vgg11")
WORKERS = "1,2"
CONFIGURATION = """\
[data]
name = "synthetic"
limit_validation = 1

[schedule]
kind = "pb"

[optimizer]
batch = 1
reference_lr = 0.1
reference_momentum = 0.9
reference_batch = 128
weight_decay = 1e-4
"""
# The length of a run, long enough for the machine's fast and slow seconds to mix.
SECONDS = "10"
# Written to results.csv in this order; a column of each kind for every worker comes after them.
COLUMNS = (
    "network",
    "workers",
    "repeat",
    "samples",
    "samples_per_second",
    "predicted_samples_per_second",
    "trainer_memory_bytes",
    "predicted_memory_bytes",
    "peak_memory_bytes",
    "predicted_peak_memory_bytes",
)
WORKER_COLUMNS = ("idle", "predicted_idle")


class Comparison:
    def __init__(self, options: argparse.Namespace):
        self.options, self.out = options, options.out
        self.cases = [
            (network, count, repeat)
            for repeat in range(1, options.repeats + 1)
            for network in options.networks
            for count in options.workers
        ]
        self.is_measured = True  # before this command

    def execute(self) -> None:
        comparison_folder(self.out, CONFIGURATION)
        done = []
        for case in self.cases:
            done.append(self.measure(*case))
            self.write_results(done)
            row = done[-1]["row"]
            off = row["predicted_samples_per_second"] / row["samples_per_second"] - 1
            print(
                f"[{len(done)}/{len(self.cases)}] {case[0]}, {case[1]} workers, repeat {case[2]}: "
                f"{row['samples_per_second']:.1f} samples/s, predicted {off:+.1%}",
                file=sys.stderr,
                flush=True,
            )
        if self.is_measured:
            print(f"all was measured before, in {self.out}; another --out measures anew", file=sys.stderr)

    def measure(self, network: str, workers: int, repeat: int) -> dict:
        folder = self.out / network / str(repeat)
        folder.mkdir(parents=True, exist_ok=True)
        machine = folder / "machine.toml"
        if not machine.exists():
            self.call("calibrate", "--network", network, "--out", str(machine))
        prediction = folder / f"predicted-{workers}.json"
        if not prediction.exists():
            text = self.call(
                "throughput", "--network", network, "--hardware", str(machine), "--schedule", "pb",
                "--workers", str(workers), "--json",
            )  # fmt: skip
            replace(prediction, text)
        predicted = json.loads(prediction.read_text(encoding="utf-8"))
        run = folder / f"run-{workers}"
        samples = round(self.options.seconds * predicted["samples_per_second"])
        if not (run / "summary.json").exists():
            self.is_measured = False
            settings = {
                "network.name": network,
                "schedule.workers": workers,
                "schedule.machine": machine,
                "run.samples": samples,
            }
            words = [word for key, x in settings.items() for word in ("--set", f"{key}={x}")]
            self.call("train", str(self.out / "config.toml"), *words, "--resume", "--out", str(run))
        summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
        if summary["samples"] != samples:
            raise UsageError(
                f"--seconds: got '{self.options.seconds}', accepted: those of the runs in '{self.out}'"
            )
        manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
        return {"row": row_of(network, workers, repeat, summary, predicted), "manifest": manifest}

    def call(self, *words: str) -> str:
        """Standard output of the program."""
        try:
            done = subprocess.run(
                [self.options.program, *words], capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise no_program(self.options.program, error.strerror) from error
        if done.returncode != 0:
            said = done.stderr.strip().splitlines() or ["without a word"]
            raise RunError(f"{words[0]}: {said[-1]} (exit {done.returncode})")
        return done.stdout

    def write_results(self, done: list[dict]) -> None:
        columns = [f"{name}_{w}" for name in WORKER_COLUMNS for w in range(max(self.options.workers))]
        order = self.options.networks.index
        rows = [item["row"] for item in done]
        rows.sort(key=lambda row: (order(row["network"]), row["workers"], row["repeat"]))
        manifests = [item["manifest"] for item in done]
        about = {
            "runs_finished": len(done),
            "runs_planned": len(self.cases),
            **made_by(manifests),
            "started": manifests[0]["started"],
            "finished": manifests[-1]["finished"],
        }
        write_table(self.options.results, [*COLUMNS, *columns], rows, about, {})


def row_of(network: str, workers: int, repeat: int, summary: dict, predicted: dict) -> dict:
    row = {"network": network, "workers": workers, "repeat": repeat}
    row |= {name: summary[name] for name in COLUMNS if name in summary and name not in row}
    row["predicted_samples_per_second"] = predicted["samples_per_second"]
    for w, (times, expected) in enumerate(zip(summary["workers"], predicted["workers"], strict=True)):
        if any(times[border] != expected[border] for border in ("first_stage", "end_stage")):
            raise RunError(f"{network}, {workers} workers: not shared as predicted")
        all_seconds = times["busy_seconds"] + times["waiting_seconds"]
        row[f"idle_{w}"] = times["waiting_seconds"] / all_seconds
        row[f"predicted_idle_{w}"] = expected["idle"]
    return row


def comparison_of(arguments: list[str] | None) -> Comparison:
    parser = Parser(prog="compare_predicted.py", description=__doc__.split("\n")[0])
    parser.add_argument("--out", help="folder for the runs; build/compare_predicted")
    parser.add_argument("--results", help="folder for results.csv and manifest.json; OUT")
    parser.add_argument("--program", default="build/bin/batchless", help="the trainer")
    parser.add_argument("--networks", default=",".join(NETWORKS), help="joined by commas")
    parser.add_argument("--workers", default=WORKERS, help=f"joined by commas; {WORKERS}")
    parser.add_argument("--repeats", default="3", help="of everything; 3")
    parser.add_argument("--seconds", default=SECONDS, help=f"that a run takes as predicted; {SECONDS}")
    options = parser.parse_args(arguments)
    options.program = trainer(options.program)
    options.out = output_folder("--out", options.out or "build/compare_predicted")
    options.results = output_folder("--results", options.results or str(options.out))
    options.networks = options.networks.split(",")
    options.workers = [positive("--workers", count) for count in options.workers.split(",")]
    options.repeats = positive("--repeats", options.repeats)
    options.seconds = positive("--seconds", options.seconds)
    return Comparison(options)


def main(arguments: list[str] | None = None) -> int:
    stop_at_signals()
    return exit_code_of("compare_predicted", lambda: comparison_of(arguments).execute())


if __name__ == "__main__":
    sys.exit(main())
