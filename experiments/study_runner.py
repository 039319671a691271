"""Runs the runs of studies, several at a time, and writes each study's results as they come.

The folder OUT, which all studies of a queue share, gets

    configs/RUN.toml   what a run was told
    runs/RUN/          the run's folder, as the trainer writes it
    logs/RUN.log       what the trainer said
    status.json        what is under way, for whoever looks

A run that several studies have is run once. It is never run twice: a finished one is found in OUT, or
in the results that are kept with the sources. Unfinished ones go on from their checkpoints. When the
runner ends, however it ends, its trainers write their checkpoints and end too.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from experiments import study as studies
from experiments import study_results
from experiments.command_line import Interrupted, RunError, UsageError, no_program, replace
from experiments.study_results import Choices, Finished, planned

EPOCH_SAMPLES = 50_000  # in CIFAR-10
POLL_SECONDS = 0.05
# A status looks into the folder of every run that is left, which is not worth more of the machine.
STATUS_SECONDS = 5.0
# Trainers of a runner that was killed write a checkpoint after the sample at hand; a slow one takes
# seconds.
ORPHAN_SECONDS = 120
DAY_SECONDS = 86400
AUTOGROUP = "/proc/self/autogroup"
_PR_SET_PDEATHSIG = 1


@dataclass
class Book:
    """A study and the folder of its results."""

    study: studies.Study
    results: Path
    counted: int = 0


@dataclass
class Options:
    program: str
    jobs: int
    # Gives every other program on the machine precedence.
    idle: bool = False
    # A run that the trainer refuses ends a study, whose runs are alike, and not a queue of studies.
    stops_at_refusal: bool = True
    # The number of the one run to run, under its own lock, as a job of a cluster beside many like it.
    alone: int | None = None


def last_words(path: Path) -> str:
    try:
        said = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        said = []
    return said[-1] if said else "without a word"


def unique_runs(queue: Iterable[studies.Study]) -> dict[str, studies.Run]:
    """Every run of the studies once, by its folder, in the order of the queue."""
    runs: dict[str, studies.Run] = {}
    for study in queue:
        for run in study.runs:
            runs.setdefault(run.folder, run)
    return runs


def planned_samples(run: studies.Run) -> float:
    epochs = run.settings.get("run.epochs", 0)
    return run.settings.get("run.samples", epochs * EPOCH_SAMPLES)


@functools.cache
def flops_per_sample(program: str, network: str) -> float:
    """Multiplications and additions of a forward pass, a backward pass and an update; 0 where unknown."""
    words = [program, "costs", "--network", network, "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return 0.0
    total = json.loads(done.stdout)["total"]
    return sum(value for key, value in total.items() if key.endswith("_flops"))


class Pace:
    """How long runs take: at the median speed of the finished ones of the same network, or, where there are
    none, by floating-point operations at the median of the networks' speeds."""

    def __init__(
        self,
        runs: dict[str, studies.Run],
        finished: dict[str, Finished],
        flops: Callable[[str], float],
    ):
        self._flops = flops
        seconds: dict[tuple, list[float]] = {}  # of a sample
        for folder in runs.keys() & finished.keys():
            item = finished[folder]
            samples = int(item.cells["samples"])
            if samples and item.entry["training_seconds"]:
                own = seconds.setdefault(_network_of(runs[folder]), [])
                own.append(item.entry["training_seconds"] / samples)
        self._seconds = {network: statistics.median(own) for network, own in seconds.items()}

    def seconds(self, run: studies.Run, samples: float) -> float:
        """Of a processor; 0 where nothing says it."""
        network = _network_of(run)
        if network in self._seconds:
            return samples * self._seconds[network]
        return samples * self._flops(network[0]) / self._speed

    @functools.cached_property
    def _speed(self) -> float:
        """In floating-point operations a second."""
        speeds = [self._flops(network[0]) / own for network, own in self._seconds.items()]
        return statistics.median([speed for speed in speeds if speed > 0] or [math.inf])


def _network_of(run: studies.Run) -> tuple:
    """What `batchless costs` calls it, and all that the run says of it."""
    said = {key: value for key, value in run.settings.items() if key.startswith("network.")}
    name = studies.located(said["network.file"]) if said.get("network.file") else said.get("network.name", "")
    return name, json.dumps(said, sort_keys=True)


def spawn(run: studies.Run, out: Path, options: Options, locks: tuple[int, ...]) -> subprocess.Popen:
    """The trainer on its run; the locks are its own until it ends."""
    config = out / "configs" / f"{run.folder}.toml"
    replace(config, run.configuration())
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def prepare() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if options.idle:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            # Linux may weigh sessions before it weighs the processes in them; this one weighs least.
            with contextlib.suppress(OSError), open(AUTOGROUP, "w", encoding="ascii") as file:
                file.write("19")

    command = [options.program, "train", str(config), "--resume", "--json"]
    with (out / "logs" / f"{run.folder}.log").open("ab") as log:
        try:
            return subprocess.Popen(
                [*command, "--out", str(out / "runs" / run.folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                # Ctrl-C reaches the trainers through the runner alone, once: at a second one they
                # would give up without a checkpoint.
                start_new_session=True,
                pass_fds=locks,
                preexec_fn=prepare,
            )
        except OSError as error:
            raise no_program(options.program, error.strerror) from error


def lock(path: Path):
    """The file, locked; BlockingIOError where another process has it."""
    file = path.open("a", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise
    return file


class Runner:
    def __init__(self, books: list[Book], out: Path, options: Options):
        self.books, self.out, self.options = books, out, options
        self.terminal = sys.stderr.isatty()
        self.unique = unique_runs(book.study for book in books)
        self.runs = list(self.unique.values())
        self.choices = Choices(self.runs)
        if options.alone is not None:
            if options.alone > len(self.runs):
                raise UsageError(
                    f"--run: got '{options.alone}', accepted: an integer up to {len(self.runs)}"
                )
            self.runs = [self.runs[options.alone - 1]]
        self.running: dict[subprocess.Popen, studies.Run] = {}
        self.failures: dict[str, str] = {}  # a line by folder of the run, in this invocation
        self.finished: dict[str, Finished] = {}  # by folder of the run
        self.signal = 0

    @property
    def pause_file(self) -> Path:
        return self.out / "pause"

    @property
    def paused(self) -> bool:
        return not self.options.alone and self.pause_file.exists()

    def make_folders(self) -> None:
        for name in ("configs", "runs", "logs", "locks"):
            (self.out / name).mkdir(parents=True, exist_ok=True)

    def execute(self) -> None:
        self.make_folders()
        with self.locked(), self.noting_signals():
            try:
                self.take_finished()
                self.work()
            finally:
                self.stop()
                self.clear_status()
        if self.failures:
            raise RunError("\n".join(self.failures.values()))

    def locked(self):
        """The folder's lock; one process at a time writes the results."""
        if self.options.alone:
            return contextlib.nullcontext()
        try:
            return lock(self.out / "lock")
        except BlockingIOError as error:
            raise UsageError(
                f"--out: got '{self.out}', accepted: a folder that nobody else runs studies in"
            ) from error

    @contextlib.contextmanager
    def noting_signals(self):
        def note(number: int, _frame) -> None:
            self.signal = self.signal or number

        handlers = {
            number: signal.signal(number, note)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            # A parent that ignores it, as nohup does, wants it ignored.
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def take_finished(self) -> None:
        """What is finished already, here or in the results, is in the results of every study."""
        for book in self.books:
            self.finished |= study_results.read_kept(book.study, book.results)
        # What the results have stays, whatever is in OUT.
        for run in self.runs:
            if run.folder not in self.finished:
                self.take(run)
        self.write_results()
        if self.options.alone and self.runs[0].folder in self.finished:
            self.say(f"{self.runs[0].label}: finished already")
        elif self.options.alone and not self.is_chosen(self.runs[0]):
            self.say(f"{self.runs[0].label}: left out, not the best")
            self.runs = []
        elif self.finished and not self.options.alone:
            self.say(f"{self.count()} runs were finished already")

    def take(self, run: studies.Run) -> Finished | None:
        """The run is among the finished ones once it has ended."""
        done = study_results.read_run(self.out / "runs" / run.folder, run)
        if done:
            self.finished[run.folder] = done
        return done

    def is_chosen(self, run: studies.Run) -> bool:
        """Of a run alone: whether no choice among what others have finished has left it out."""
        for rival in self.choices.rivals(run):
            if rival.folder not in self.finished:
                self.take(rival)
        to_come = {rival.folder for rival in self.choices.rivals(run)} - self.finished.keys()
        return self.choices.is_needed(run, to_come, self.finished)

    def work(self) -> None:
        waiting = self.needed([run for run in self.runs if run.folder not in self.finished])
        if self.paused:
            self.say(f"paused; nothing runs while there is {self.pause_file}")
        shown = 0.0
        changed = True  # since the last look at all runs that are left
        while waiting or self.running:
            if self.signal:
                self.stop()
                raise Interrupted(
                    self.signal,
                    f"interrupted after {self.count()} runs; the same command goes on from there",
                )
            if self.paused:
                waiting = self.stop() + waiting
                changed = True
            elif changed:
                waiting = self.needed(waiting)
                while len(self.running) < self.options.jobs and (run := self.next_of(waiting)):
                    self.start(run)
                    # One that did not start can leave others without their choice.
                    waiting = self.needed([other for other in waiting if other is not run])
                changed = False
            for child in [child for child in self.running if child.poll() is not None]:
                self.collect(self.running.pop(child), child.returncode)
                changed = True
            if time.monotonic() - shown > STATUS_SECONDS and not self.options.alone:
                shown = time.monotonic()
                self.show_status(waiting)
            time.sleep(POLL_SECONDS)

    def to_come(self, waiting: list[studies.Run]) -> set[str]:
        return {run.folder for run in (*waiting, *self.running.values())}

    def needed(self, waiting: list[studies.Run]) -> list[studies.Run]:
        """Without those that a choice has left out, and those that a failure keeps from being chosen."""
        if self.options.alone:  # Its rivals are other processes' runs: take_finished has looked.
            return waiting
        to_come = self.to_come(waiting)
        return [
            run for run in waiting
            if self.choices.is_needed(run, to_come, self.finished)
            and not self.choices.is_open(run, self.failures.keys())
        ]  # fmt: skip

    def next_of(self, waiting: list[studies.Run]) -> studies.Run | None:
        """The first one that waits for no choice."""
        to_come = self.to_come(waiting)
        return next((run for run in waiting if not self.choices.is_open(run, to_come)), None)

    def start(self, run: studies.Run) -> None:
        """Starts the run. Its trainer holds the run's lock, so that it is never run twice at a time."""
        # Its folder is named by what the files held.
        if changed := run.changed_file():
            self.fail(run, f"{run.label}: the content of {changed} has changed since the studies were read")
            return
        try:
            held = self.wait_for_lock(run)
        except BlockingIOError:
            self.fail(run, f"{run.label}: another process runs it")
            return
        with held:
            self.running[spawn(run, self.out, self.options, (held.fileno(),))] = run

    def wait_for_lock(self, run: studies.Run):
        deadline = time.monotonic() + ORPHAN_SECONDS
        while True:
            try:
                return lock(self.out / "locks" / run.folder)
            except BlockingIOError:
                if self.options.alone or self.signal or time.monotonic() > deadline:
                    raise
                time.sleep(POLL_SECONDS)

    def collect(self, run: studies.Run, status: int) -> None:
        if done := self.take(run):
            self.write_results()
            self.say(f"[{self.count()}] {run.label}: {study_results.result(done)}")
            return
        if self.signal:
            return
        line = f"{run.label}: {last_words(self.out / 'logs' / f'{run.folder}.log')}"
        if status == 2 and self.options.stops_at_refusal:
            raise UsageError(line)
        self.fail(run, f"{line} (exit {status})")

    def fail(self, run: studies.Run, line: str) -> None:
        self.failures[run.folder] = line
        self.say(line)

    def stop(self) -> list[studies.Run]:
        """Has the trainers write their checkpoints and end. Returns the runs that are unfinished."""
        for child in self.running:
            child.terminate()
        unfinished = []
        for child, run in self.running.items():
            child.wait()
            if self.take(run):
                self.write_results()
            else:
                unfinished.append(run)
        self.running.clear()
        return unfinished

    def write_results(self) -> None:
        """Writes the results of the studies that have more runs than when they were last written."""
        for book in [] if self.options.alone else self.books:
            there = sum(run.folder in self.finished for run in book.study.runs)
            if there > book.counted:
                book.counted = study_results.write(book.study, self.finished, book.results)

    def count(self) -> str:
        done = sum(run.folder in self.finished for run in self.runs)
        return f"{done} of {planned(self.runs, self.finished)}"

    def say(self, line: str) -> None:
        self.clear_status()
        print(line, file=sys.stderr, flush=True)

    def clear_status(self) -> None:
        if self.terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def show_status(self, waiting: list[studies.Run]) -> None:
        days = self.days_left(waiting)
        status = {
            "finished": sum(run.folder in self.finished for run in self.runs),
            "planned": planned(self.runs, self.finished),
            "paused": self.paused and not self.running,
            "days_left": days,
            "running": {run.label: self.samples_of(run) for run in self.running.values()},
        }
        replace(self.out / "status.json", json.dumps(status, indent=2) + "\n")
        if not self.terminal:
            return
        parts = [f"{label}: {done:,} samples" for label, done in status["running"].items()]
        left = "" if days is None else f", {days:.1f} days left"
        line = f"{self.count()} runs{left}; " + ("paused" if status["paused"] else "; ".join(parts))
        width = os.get_terminal_size(sys.stderr.fileno()).columns
        print(f"\r{line[: width - 1]}\033[K", end="", file=sys.stderr, flush=True)

    def days_left(self, waiting: list[studies.Run]) -> float | None:
        """How long the runs that are left take at the speed of those that have finished."""
        if not self.finished:
            return None
        flops = functools.partial(flops_per_sample, self.options.program)
        pace = Pace(self.unique, self.finished, flops)
        left = sum(
            pace.seconds(run, max(0, planned_samples(run) - self.samples_of(run)))
            for run in [*waiting, *self.running.values()]
        )
        return left / self.options.jobs / DAY_SECONDS

    def samples_of(self, run: studies.Run) -> int:
        """How far the run has come."""
        try:
            path = self.out / "runs" / run.folder / "metrics.csv"
            done = path.read_text(encoding="utf-8").splitlines()[-1].split(",")[0]
        except (OSError, IndexError):
            return 0
        return int(done) if done.isdigit() else 0
