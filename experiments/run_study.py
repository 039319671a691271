#!/usr/bin/env python3
"""Runs a study: `batchless train` for each row and seed, several at a time.

The folder OUT gets the runs, as experiments/study_runner.py says, and

    results.csv        a line for each finished run, in the study's order
    manifest.json      what made them: build, machine, data, settings, times

These two are written anew after each run that ends, so that an unfinished study is a valid, smaller
one. The same command goes on where an earlier one stopped, within a run too. Where --results names a
folder that has runs of the same study, those stay as they are: a study goes on on another machine,
which its manifest then says. Changed settings make a run of their own beside the old one. results.csv
holds nothing that changes between runs.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from experiments import study as studies  # noqa: E402  (its folder has to be found first)
from experiments.command_line import (  # noqa: E402
    Parser,
    existing_folder,
    exit_code_of,
    output_folder,
    positive,
    processors,
    trainer,
)
from experiments.study_runner import Book, Options, Runner  # noqa: E402


def runner_of(arguments: list[str] | None) -> Runner:
    parser = Parser(prog="run_study.py", description=__doc__.split("\n")[0])
    parser.add_argument(
        "study", nargs="?", default="", help=f"{', '.join(studies.available())}, or a file *.toml"
    )
    parser.add_argument("--tier", default="quick", help="quick or paper; quick where not given")
    parser.add_argument("--out", help="folder for the runs; build/studies/STUDY/TIER")
    parser.add_argument("--results", help="folder for results.csv and manifest.json; OUT")
    parser.add_argument("--program", default="build/bin/batchless", help="the trainer")
    parser.add_argument("--data", help="data.root, the folder with the data sets")
    parser.add_argument("--jobs", help="runs at a time; processors / threads of a run")
    options = parser.parse_args(arguments)

    study = studies.load(options.study, options.tier)
    if options.data is not None:
        for run in study.runs:
            run.settings["data.root"] = existing_folder("--data", options.data)
    jobs = max(1, processors() // study.workers)
    if options.jobs is not None:
        jobs = positive("--jobs", options.jobs)
    program = trainer(options.program)
    out = output_folder("--out", options.out or f"build/studies/{study.name}/{study.tier}")
    results = output_folder("--results", options.results or str(out))
    return Runner([Book(study, results)], out, Options(program, jobs))


def main(arguments: list[str] | None = None) -> int:
    return exit_code_of("run_study", lambda: runner_of(arguments).execute())


if __name__ == "__main__":
    sys.exit(main())
