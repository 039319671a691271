#!/usr/bin/env python3
"""Repeats one run of a study and compares it with the row of its results.

    experiments/verify_row.py resnet20_pb "PB+SC_D" 1 --data DIR

The run goes into OUT, by the program that is there now, and goes on where an earlier call with the same
program, threads and data stopped. It has to end with the same digest of its weights, the same loss and
the same accuracy: neither later commits nor threads change them, nor does another processor with
AVX2 or AVX-512; which rows are older than that, HACKING.md says.
Prints the row's origin (commit, processor, dates) and exits 1 where anything is another.
"""

from __future__ import annotations

import dataclasses
import hashlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from experiments import study as studies  # noqa: E402  (its folder has to be found first)
from experiments import study_results  # noqa: E402
from experiments.command_line import (  # noqa: E402
    Parser,
    RunError,
    UsageError,
    existing_folder,
    exit_code_of,
    output_folder,
    positive,
    processors,
    trainer,
)
from experiments.study_runner import Book, Options, Runner  # noqa: E402

OUT = "build/verified"
COMPARED = ("samples", "diverged", "weights_sha256", "validation_loss", "validation_accuracy_percent")


def run_of(study: studies.Study, row: str, seed: int) -> studies.Run:
    runs = [run for run in study.runs if run.row == row]
    if not runs:
        raise UsageError(f"ROW: got '{row}', accepted: {'; '.join(study.rows)}")
    if seed > len(runs):
        raise UsageError(f"SEED: got '{seed}', accepted: an integer from 1 to {len(runs)}")
    return runs[seed - 1]


def folder_of(out: Path, program: str, run: studies.Run) -> Path:
    """Another program, other threads or other data repeat a run that has ended here, too."""
    digest = hashlib.sha256(Path(program).read_bytes())
    digest.update(repr([run.settings.get(key) for key in ("schedule.workers", "data.root")]).encode())
    return out / digest.hexdigest()[:12]


def repeated(run: studies.Run, study: studies.Study, out: Path, options: Options):
    """The run as it ends here; nothing is taken from results elsewhere."""
    alone = dataclasses.replace(study, runs=(run,))
    runner = Runner([Book(alone, out / "results" / run.folder)], out, options)
    runner.execute()
    return runner.finished[run.folder]


def work(arguments: list[str] | None) -> None:
    parser = Parser(prog="verify_row.py", description=__doc__.split("\n")[0])
    parser.add_argument("study", metavar="STUDY", help=", ".join(studies.available()))
    parser.add_argument("row", metavar="ROW", help="name of the row, as in results.csv")
    parser.add_argument("seed", metavar="SEED", help="from 1 on")
    parser.add_argument("--tier", default="paper", help="quick or paper; paper where not given")
    parser.add_argument("--data", help="data.root, the folder with the data sets")
    parser.add_argument("--results", help="folder with the row; experiments/results/STUDY")
    parser.add_argument("--out", default=OUT, help=f"folder for the run; {OUT}")
    parser.add_argument("--program", default="build/bin/batchless", help="the trainer")
    parser.add_argument("--workers", help="threads of the run; as many as processors")
    options = parser.parse_args(arguments)

    study = studies.load(options.study, options.tier)
    run = run_of(study, options.row, positive("SEED", options.seed))
    results = existing_folder("--results", options.results or f"experiments/results/{study.name}")
    row = study_results.read_kept(study, Path(results)).get(run.folder)
    if row is None:
        raise UsageError(f"ROW: got '{options.row}', seed {run.seed}, accepted: a finished run of {results}")
    workers = processors() if options.workers is None else positive("--workers", options.workers)
    run.settings["schedule.workers"] = workers
    if options.data is not None:
        run.settings["data.root"] = str(Path(existing_folder("--data", options.data)).resolve())
    program, out = trainer(options.program), output_folder("--out", options.out)

    origin = ", ".join(str(row.entry[key]) for key in ("commit", "cpu", "finished"))
    print(f"{run.label}: {study_results.result(row)} ({origin})", flush=True)
    now = repeated(run, study, folder_of(out, program, run), Options(program, jobs=1))
    other = [
        f"{run.label}: {name}: got '{now.cells[name]}', expected '{row.cells[name]}'"
        for name in COMPARED
        if now.cells[name] != row.cells[name]
    ]
    if other:
        other.append(f"made on {row.entry['cpu']}, repeated on {now.entry['cpu']}")
        raise RunError("\n".join(other))
    same = "end" if now.diverged else f"weights: {now.cells['weights_sha256']}"
    print(f"repeated, with the same {same}")


def main(arguments: list[str] | None = None) -> int:
    return exit_code_of("verify_row", lambda: work(arguments))


if __name__ == "__main__":
    sys.exit(main())
