#!/usr/bin/env python3
"""Runs every study that has a priority, for days, on whatever processor time nobody else wants.

    experiments/run_campaign.py --data DIR     runs and goes on, until all is done or Ctrl-C
    experiments/run_campaign.py --status       what is under way, and how long it takes
    experiments/run_campaign.py --pause        a quiet machine for a measurement; --resume ends that
    experiments/run_campaign.py --list         every run with its number and state
    experiments/run_campaign.py --run N --data DIR   run N alone, as a job of a cluster
    experiments/run_campaign.py --collect      the results of what jobs have finished
    experiments/run_campaign.py --take FOLDER  rows of other results, those in FOLDER/STUDY

One thread a run and as many runs as processors, at the lowest scheduling priority. A kill, a reboot or
a move costs no finished run: those are in RESULTS/STUDY/results.csv, with commit, processor and digest
of the weights. What is unfinished goes on from the checkpoints in OUT, where these are still there.
"""

from __future__ import annotations

import json
import sys
import time
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
    replace,
    trainer,
)
from experiments.study_runner import (  # noqa: E402
    Book,
    Options,
    Runner,
    lock,
    unique_runs,
)

OUT = "build/campaign"
RESULTS = "experiments/results"
PRIORITIES = ("idle", "normal")
POLL_SECONDS = 0.2
# A trainer writes its checkpoint after the sample at hand.
PAUSE_SECONDS = 120


def parser() -> Parser:
    """Its options have `work`, what is to be done with them."""
    words = Parser(prog="run_campaign.py", description=__doc__.split("\n")[0])
    words.add_argument("--data", help="data.root, the folder with the data sets")
    words.add_argument("--out", default=OUT, help=f"folder for the runs; {OUT}")
    words.add_argument("--results", default=RESULTS, help=f"a folder a study in it; {RESULTS}")
    words.add_argument("--program", default="build/bin/batchless", help="the trainer")
    words.add_argument("--jobs", default=str(processors()), help="runs at a time; as many as processors")
    words.add_argument("--priority", default="idle", help="idle, the lowest there is, or normal")
    words.add_argument("--tier", default="paper", help="quick or paper; paper where not given")
    words.add_argument("--studies", help="folder of the studies; experiments/studies")
    words.set_defaults(work=execute)
    what = words.add_mutually_exclusive_group()
    alone = {"action": "store_const", "dest": "work"}
    what.add_argument("--status", const=show_status, help="print what is under way", **alone)
    what.add_argument("--pause", const=pause, help="stop the runs until --resume", **alone)
    what.add_argument("--resume", const=resume, help="go on after --pause", **alone)
    what.add_argument("--list", const=show_list, help="print every run and its state", **alone)
    what.add_argument("--run", metavar="N", help="run the run of that number alone")
    what.add_argument("--collect", const=collect, help="write the results, run nothing", **alone)
    what.add_argument("--take", metavar="FOLDER", help="add the rows of other results, run nothing")
    return words


def books_of(options) -> list[Book]:
    if options.studies:
        studies.FOLDER = Path(existing_folder("--studies", options.studies))
    queue = studies.queue(options.tier)
    if not queue:
        raise UsageError(f"--studies: got '{studies.FOLDER}', accepted: one study with a priority")
    results = output_folder("--results", options.results)
    books = [Book(study, results / study.name) for study in queue]
    if options.data:
        for book in books:
            for run in book.study.runs:
                run.settings["data.root"] = str(Path(options.data).resolve())
    return books


def execute(options) -> None:
    if options.tier == "paper":
        existing_folder("--data", options.data or "")
    if options.priority not in PRIORITIES:
        raise UsageError(f"--priority: got '{options.priority}', accepted: {', '.join(PRIORITIES)}")
    books = books_of(options)
    jobs = positive("--jobs", options.jobs)
    program = trainer(options.program)
    runner = Runner(
        books,
        output_folder("--out", options.out),
        Options(
            program,
            jobs,
            idle=options.priority == "idle",
            stops_at_refusal=False,
            alone=positive("--run", options.run) if options.run else None,
        ),
    )
    runner.execute()


def show_list(options) -> None:
    books, out = books_of(options), Path(options.out)
    finished = {}
    for book in books:
        finished |= study_results.read_kept(book.study, book.results)
    runs = unique_runs(book.study for book in books)
    for folder, run in runs.items():
        if folder not in finished and (done := study_results.read_run(out / "runs" / folder, run)):
            finished[folder] = done
    choices, to_come = study_results.Choices(list(runs.values())), runs.keys() - finished.keys()
    for number, run in enumerate(runs.values(), 1):
        if run.folder in finished:
            state = study_results.result(finished[run.folder])
        elif not choices.is_needed(run, to_come, finished):
            state = "left out: not the best"
        else:
            begun = (out / "runs" / run.folder / "checkpoint").exists()
            state = "begun" if begun else "waiting"
        print(f"{number:4} {run.study:24} {run.label:48} {state}")


def collect(options) -> None:
    runner = Runner(books_of(options), output_folder("--out", options.out), Options("", 1))
    runner.make_folders()
    with runner.locked():
        runner.take_finished()


def take(options) -> None:
    """Adds what FOLDER/STUDY has of the queue's runs and the results here have not."""
    folder = Path(existing_folder("--take", options.take))
    runner = Runner(books_of(options), output_folder("--out", options.out), Options("", 1))
    known = {book.study.name: book.study for book in runner.books}
    runner.make_folders()
    refused = 0
    with runner.locked():
        runner.take_finished()
        before = set(runner.finished)
        for path in sorted(path for path in folder.iterdir() if path.is_dir()):
            if path.name in known:
                found = study_results.compare(known[path.name], path, runner.finished, before)
            else:
                found = study_results.Offer(refused=["not a study of the queue"])
            runner.finished |= found.taken
            refused += len(found.refused)
            reasons = "".join(f"; refused: {reason}" for reason in found.refused)
            print(f"{path.name}: {len(found.taken)} taken, {found.there} there already{reasons}")
        runner.write_results()
    if refused:
        raise RunError(f"--take: {refused} refused")


def is_running(out: Path) -> bool:
    try:
        lock(out / "lock").close()
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def status_of(out: Path) -> dict:
    try:
        return json.loads((out / "status.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}


def show_status(options) -> None:
    out = Path(options.out)
    status = status_of(out)
    if not status:
        print("nothing has run yet")
        return
    state = "not running"
    if is_running(out):
        state = "paused" if status["paused"] else "running"
    days = status["days_left"]
    left = "" if days is None else f", {days:.1f} days of work left"
    print(f"{state}; {status['finished']} of {status['planned']} runs finished{left}")
    for label, samples in status["running"].items():
        print(f"  {label}: {samples:,} samples")


def pause(options) -> None:
    """Returns once no trainer runs."""
    out = Path(existing_folder("--out", options.out))
    replace(out / "pause", "")
    asked = (out / "pause").stat().st_mtime_ns
    deadline = time.monotonic() + PAUSE_SECONDS

    def is_paused() -> bool:
        # A status from before may be that of an earlier pause.
        return bool(status_of(out).get("paused")) and (out / "status.json").stat().st_mtime_ns > asked

    while is_running(out) and not is_paused():
        if time.monotonic() > deadline:
            raise RunError(f"{out}: still running after {PAUSE_SECONDS} s")
        time.sleep(POLL_SECONDS)


def resume(options) -> None:
    out = Path(existing_folder("--out", options.out))
    (out / "pause").unlink(missing_ok=True)
    if not is_running(out):
        print("not paused any more; nothing runs until run_campaign.py --data DIR is started")


def work(arguments: list[str] | None) -> None:
    options = parser().parse_args(arguments)
    (take if options.take else options.work)(options)


def main(arguments: list[str] | None = None) -> int:
    return exit_code_of("run_campaign", lambda: work(arguments))


if __name__ == "__main__":
    sys.exit(main())
