#!/usr/bin/env python3
"""Runs a study: `batchless train` for each row and seed, several at a time.

The folder OUT gets

    configs/RUN.toml   what a run was told
    runs/RUN/          the run's folder, as the trainer writes it
    logs/RUN.log       what the trainer said
    results.csv        a line for each finished run, in the study's order
    manifest.json      what made them: build, machine, data, settings, times

The last two are written anew after each run that ends, so that an unfinished study is a valid,
smaller one. The same command goes on where an earlier one stopped, within a run too. Where
--results names a folder that has runs of the same study, those stay as they are: a study goes on
on another machine, which its manifest then says. Changed settings make a run of their own beside
the old one. results.csv holds nothing that changes between runs.
"""

from __future__ import annotations

import argparse
import csv
import fcntl
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from experiments import study as studies  # noqa: E402  (its folder has to be found first)

# Written to results.csv in this order; the keys that rows vary come after them.
COLUMNS = (
    "row",
    "seed",
    "network",
    "data",
    "batch",
    "epochs",
    "samples",
    "validation_accuracy_percent",
    "validation_loss",
    "diverged",
    "weights_sha256",
    "convolution",
)
# Keys that one of those columns shows.
SHOWN = {"optimizer.batch": "batch", "run.convolution": "convolution"}
# Of the manifest of a run: what of it the study's manifest has.
PROGRAM = ("version", "commit", "compiler", "flags", "onednn")
MACHINE = ("cpu", "cpu_threads")
POLL_SECONDS = 0.05
STATUS_SECONDS = 1.0


class UsageError(ValueError):
    """One line that names the argument, its value and what is accepted."""


class RunError(RuntimeError):
    """Runs that failed, one line each."""


class Interrupted(RuntimeError):
    def __init__(self, number: int, line: str):
        super().__init__(line)
        self.number = number


@dataclass(frozen=True)
class Finished:
    run: studies.Run
    cells: dict  # column of results.csv -> text
    entry: dict  # the run's own in the manifest
    program: dict
    machine: dict
    data: object
    settings: dict  # section.key -> value, those that rows do not vary


class Parser(argparse.ArgumentParser):
    def error(self, message: str):
        raise UsageError(f"{message}; --help lists what is accepted")


def processors() -> int:
    return len(os.sched_getaffinity(0))


def replace(path: Path, text: str) -> None:
    """The file appears whole or not at all, whatever happens meanwhile."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with scratch.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)


def last_words(path: Path) -> str:
    try:
        said = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        said = []
    return said[-1] if said else "without a word"


class Runner:
    """The runs of one study in one folder."""

    def __init__(self, study: studies.Study, out: Path, results: Path, program: str, jobs: int):
        self.study, self.out, self.results = study, out, results
        self.program, self.jobs = program, jobs
        self.terminal = sys.stderr.isatty()
        self.running: dict[subprocess.Popen, studies.Run] = {}
        self.finished: dict[studies.Run, Finished] = {}
        self.failures: list[str] = []
        self.signal = 0

    # A run's folder has a summary once the run has reached its end, or a number that is none.
    def read_finished(self, run: studies.Run) -> Finished | None:
        folder = self.out / "runs" / run.folder
        try:
            summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
            manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
            resolved = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        settings = studies.flatten("config.toml", resolved)
        return finished_run(self.study, run, summary, manifest, settings)

    def execute(self) -> None:
        for folder in (self.out / "configs", self.out / "runs", self.out / "logs", self.results):
            folder.mkdir(parents=True, exist_ok=True)
        with (self.out / "lock").open("w", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise UsageError(
                    f"--out: got '{self.out}', accepted: a folder that no other run_study works in"
                ) from error
            handlers = {
                number: signal.signal(number, self.note)
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
                # A parent that ignores it, as nohup does, wants it ignored.
                if signal.getsignal(number) is not signal.SIG_IGN
            }
            try:
                self.work(lock.fileno())
            finally:
                self.stop()
                self.clear_status()
                for number, handler in handlers.items():
                    signal.signal(number, handler)
        if self.failures:
            raise RunError("\n".join(self.failures))

    def note(self, number: int, _frame) -> None:
        self.signal = self.signal or number

    def work(self, lock: int) -> None:
        kept = kept_runs(self.study, self.results)
        for run in self.study.runs:
            done = self.read_finished(run) or kept.get(run)
            if done:
                self.finished[run] = done
        if self.finished:
            self.write_results()
            self.say(f"{len(self.finished)} of {len(self.study.runs)} runs were finished already")
        waiting = [run for run in self.study.runs if run not in self.finished]
        shown = 0.0
        while waiting or self.running:
            if self.signal:
                self.stop()
                raise Interrupted(
                    self.signal,
                    f"interrupted after {len(self.finished)} of {len(self.study.runs)} runs; "
                    "the same command goes on from there",
                )
            while waiting and len(self.running) < self.jobs:
                self.start(waiting.pop(0), lock)
            for child in [child for child in self.running if child.poll() is not None]:
                self.collect(self.running.pop(child), child.returncode)
            if self.terminal and time.monotonic() - shown > STATUS_SECONDS:
                shown = time.monotonic()
                self.show_status()
            time.sleep(POLL_SECONDS)

    def start(self, run: studies.Run, lock: int) -> None:
        config = self.out / "configs" / f"{run.folder}.toml"
        replace(config, run.configuration())
        command = [self.program, "train", str(config), "--resume", "--json"]
        with (self.out / "logs" / f"{run.folder}.log").open("ab") as log:
            try:
                child = subprocess.Popen(
                    [*command, "--out", str(self.out / "runs" / run.folder)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    # Ctrl-C reaches the trainers through this process alone, once: at a second one
                    # they would give up without a checkpoint.
                    start_new_session=True,
                    # A trainer that outlives this process still keeps others out of the folder.
                    pass_fds=(lock,),
                )
            except OSError as error:
                raise UsageError(
                    f"--program: got '{self.program}', accepted: the program batchless "
                    f"({error.strerror})"
                ) from error
        self.running[child] = run

    def collect(self, run: studies.Run, status: int) -> None:
        done = self.read_finished(run)
        if done:
            self.finished[run] = done
            self.write_results()
            self.say(f"[{len(self.finished)}/{len(self.study.runs)}] {run.label}: {result(done)}")
            return
        if self.signal:
            return
        line = f"{run.label}: {last_words(self.out / 'logs' / f'{run.folder}.log')}"
        if status == 2:
            # What the trainer refuses to start, it would refuse in every run.
            raise UsageError(line)
        self.failures.append(f"{line} (exit {status})")
        self.say(self.failures[-1])

    def stop(self) -> None:
        for child in self.running:
            child.terminate()
        for child, run in self.running.items():
            child.wait()
            done = self.read_finished(run)
            if done and run not in self.finished:
                self.finished[run] = done
                self.write_results()
        self.running.clear()

    def write_results(self) -> None:
        done = [self.finished[run] for run in self.study.in_table_order() if run in self.finished]
        text = results_text(self.study, done)
        replace(self.results / "results.csv", text)
        manifest = json.dumps(manifest_of(self.study, done, text), indent=2, ensure_ascii=False)
        replace(self.results / "manifest.json", manifest + "\n")

    def say(self, line: str) -> None:
        self.clear_status()
        print(line, file=sys.stderr, flush=True)

    def clear_status(self) -> None:
        if self.terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def show_status(self) -> None:
        parts = [f"{run.label}: {self.samples_of(run)}" for run in self.running.values()]
        line = f"{len(self.finished)}/{len(self.study.runs)} runs; " + "; ".join(parts)
        width = os.get_terminal_size(sys.stderr.fileno()).columns
        print(f"\r{line[: width - 1]}\033[K", end="", file=sys.stderr, flush=True)

    def samples_of(self, run: studies.Run) -> str:
        try:
            path = self.out / "runs" / run.folder / "metrics.csv"
            done = path.read_text(encoding="utf-8").splitlines()[-1].split(",")[0]
        except (OSError, IndexError):
            return "starting"
        return f"{int(done):,} samples" if done.isdigit() else "starting"


def result(done: Finished) -> str:
    cells, speed = done.cells, f"{done.entry['samples_per_second'] or 0:.0f} samples/s"
    if "diverged_at" in done.entry:
        return f"diverged at sample {done.entry['diverged_at']:,}, {speed}"
    return (
        f"{float(cells['validation_accuracy_percent']):.2f} %, "
        f"loss {float(cells['validation_loss']):.4f}, {int(cells['samples']):,} samples, {speed}"
    )


def own_columns(study: studies.Study) -> list[str]:
    """After COLUMNS, what rows vary and those do not show."""
    return [key for key in study.varied if key not in SHOWN]


def columns(study: studies.Study) -> list[str]:
    return [*COLUMNS, *own_columns(study)]


def finished_run(
    study: studies.Study, run: studies.Run, summary: dict, manifest: dict, settings: dict
) -> Finished:
    """From the files of its folder."""
    diverged = summary["diverged"]
    accuracy, loss = summary["validation_accuracy"], summary["validation_loss"]
    cells = {key: cell(settings.get(key, "")) for key in own_columns(study)}
    # What was measured before a divergence is not the run's result.
    cells |= {
        "row": run.row,
        "seed": str(run.seed),
        "network": summary["network"],
        "data": summary["data"],
        "batch": str(settings["optimizer.batch"]),
        "epochs": format(summary["epochs"], ".10g"),
        "samples": str(summary["samples"]),
        "validation_accuracy_percent": (
            "" if diverged or accuracy is None else format(100 * accuracy, ".10g")
        ),
        "validation_loss": "" if diverged or loss is None else repr(loss),
        "diverged": "yes" if diverged else "no",
        "weights_sha256": summary["weights_sha256"] or "",
        "convolution": settings.get("run.convolution", ""),
    }
    entry = {
        "row": run.row,
        "seed": run.seed,
        "samples_per_second": summary["samples_per_second"],
        "training_seconds": summary["training_seconds"],
        "started": manifest.get("started"),
        "finished": manifest.get("finished"),
        "commit": manifest.get("commit"),
        "cpu": manifest.get("cpu"),
    }
    if diverged:
        entry["diverged_at"] = diverged["sample"]
    # Paths are the machine's own; seeds and what rows vary are in the results.
    own = ("data.root", "schedule.machine", "run.seed", *study.varied)
    return Finished(
        run=run,
        cells=cells,
        entry=entry,
        program={key: manifest.get(key) for key in PROGRAM},
        machine={key: manifest.get(key) for key in MACHINE},
        data=manifest.get("data"),
        settings={key: value for key, value in settings.items() if key not in own},
    )


def kept_runs(study: studies.Study, results: Path) -> dict[studies.Run, Finished]:
    """The study's runs that RESULTS has from before, on whatever machine."""
    try:
        text = (results / "results.csv").read_text(encoding="utf-8")
        manifest = json.loads((results / "manifest.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise UsageError(
            f"--results: got '{results}', accepted: a study's results ({error})"
        ) from error
    if manifest.get("results_sha256") != hashlib.sha256(text.encode()).hexdigest():
        raise UsageError(
            f"--results: got '{results}', accepted: a folder whose manifest.json was written with "
            "its results.csv"
        )
    if (manifest["study"], manifest["tier"]) != (study.name, study.tier):
        raise UsageError(
            f"--results: got '{results}' of the study {manifest['study']}, tier "
            f"{manifest['tier']}, accepted: a folder for {study.name}, {study.tier}"
        )
    table = csv.DictReader(io.StringIO(text))
    if table.fieldnames != columns(study):
        return {}
    rows = {(row["row"], row["seed"]): row for row in table}
    entries = {(entry["row"], str(entry["seed"])): entry for entry in manifest["runs"]}
    kept = {}
    for run in study.runs:
        key = (run.row, str(run.seed))
        if key in rows and is_of(run, rows[key], manifest["settings"]):
            about = {name: manifest[name] for name in ("program", "machine", "data", "settings")}
            kept[run] = Finished(run, rows[key], entries[key], **about)
    return kept


def is_of(run: studies.Run, cells: dict, settings: dict) -> bool:
    """Whether a line of results, with the settings of all lines, was made as the run would be."""
    for key, value in run.settings.items():
        if key in ("run.seed", *studies.WITHOUT_EFFECT):
            continue
        column = SHOWN.get(key, key)
        made = cells[column] if column in cells else settings.get(key)
        if made != (cell(value) if column in cells else value):
            return False
    return True


def results_text(study: studies.Study, done: list[Finished]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns(study), lineterminator="\n")
    writer.writeheader()
    writer.writerows(item.cells for item in done)
    return text.getvalue()


def cell(value: object) -> str:
    return json.dumps(value) if isinstance(value, (bool, list)) else str(value)


def common(values: list) -> object:
    """What all have in common; the different values where they differ."""
    single = [one for value in values for one in (value if isinstance(value, list) else [value])]
    distinct = [value for k, value in enumerate(single) if value not in single[:k]]
    return distinct[0] if len(distinct) == 1 else distinct


def manifest_of(study: studies.Study, done: list[Finished], results: str) -> dict:
    shared = {
        key: value
        for key, value in done[0].settings.items()
        if all(item.settings.get(key) == value for item in done)
    }
    return {
        "study": study.name,
        "title": study.title,
        "tier": study.tier,
        "runs_finished": len(done),
        "runs_planned": len(study.runs),
        "program": {key: common([item.program.get(key) for item in done]) for key in PROGRAM},
        "machine": {key: common([item.machine.get(key) for item in done]) for key in MACHINE},
        "data": common([item.data for item in done]),
        "settings": shared,
        "results_sha256": hashlib.sha256(results.encode()).hexdigest(),
        "training_seconds": round(sum(item.entry["training_seconds"] for item in done), 1),
        "runs": [item.entry for item in done],
    }


def positive(name: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{name}: got '{text}', accepted: an integer from 1")
    return int(text)


def runner_of(arguments: list[str]) -> Runner:
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
        if not Path(options.data).is_dir():
            raise UsageError(f"--data: got '{options.data}', accepted: a folder that exists")
        for run in study.runs:
            run.settings["data.root"] = options.data
    jobs = max(1, processors() // study.workers)
    if options.jobs is not None:
        jobs = positive("--jobs", options.jobs)
    program, out, results = places(options, f"build/studies/{study.name}/{study.tier}")
    return Runner(study, out, results, program, jobs)


def places(options: argparse.Namespace, default: str) -> tuple[str, Path, Path]:
    """The program, OUT and where the results go."""
    if not os.access(options.program, os.X_OK) or not Path(options.program).is_file():
        raise UsageError(
            f"--program: got '{options.program}', accepted: the program batchless (make build)"
        )
    out = Path(options.out or default)
    results = Path(options.results) if options.results else out
    for name, folder in (("--out", out), ("--results", results)):
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{name}: got '{folder}', accepted: a folder")
    return str(Path(options.program).resolve()), out, results


def exit_code_of(name: str, work: Callable[[], None]) -> int:
    """Of work whose failures become one line that starts with the name."""
    try:
        work()
    except (UsageError, studies.StudyError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except Interrupted as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 128 + error.number
    except (RunError, OSError, ValueError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    return 0


def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    return exit_code_of("run_study", lambda: runner_of(words).execute())


if __name__ == "__main__":
    sys.exit(main())
