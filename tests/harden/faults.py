"""The n-th call to the system fails: what the program says, leaves, and goes on to."""

from __future__ import annotations

import random
import shutil
import sys
from pathlib import Path

import common

KINDS = ("open", "read", "write", "short", "fsync", "rename", "close", "lock", "map", "thread", "malloc")
ENOSPC = 28
# Faults of one kind that one command is given; malloc has thousands.
MOST = {"malloc": 40}
STUDY = """title = "A probe"
[base.network]
file = "FOLDER/net.toml"
[base.data]
name = "cifar10"
[base.run]
samples = 40
[tier.quick.run]
log_every_samples = 20
[[row]]
name = "plain"
seeds = 2
"""


class Command:
    """A command line, where it is in the way of faults, and what it should leave."""

    def __init__(self, place: common.Place, name: str, words: list[str], speaker: str = "batchless"):
        self.place, self.name, self.words, self.speaker = place, name, words, speaker
        self.environment: dict[str, str] = {}

    def begin(self) -> None:
        """Makes the folder as it is before the command."""

    def result(self):
        raise NotImplementedError

    def problem(self) -> str:
        return ""

    def refusal_problem(self, done: common.Outcome) -> str:
        return common.refusal_problem(done, self.speaker)

    def run(self, faults: Path, fault: str = "", log: str = "") -> common.Outcome:
        environment = dict(self.environment)
        if fault or log:
            environment["LD_PRELOAD"] = str(faults)
        if fault:
            environment["BATCHLESS_FAULT"] = fault
        if log:
            environment["BATCHLESS_FAULT_LOG"] = log
        return common.call(self.words, self.place.folder, **environment)


class Train(Command):
    def __init__(self, place: common.Place, begun: str = ""):
        name = "train --resume" if begun else "train"
        super().__init__(place, name, [place.program, *place.train("run")])
        self.begun = begun

    def begin(self) -> None:
        self.place.clear("run")
        if self.begun:
            shutil.copytree(self.place.folder / self.begun, self.place.folder / "run")

    def result(self):
        return self.place.result("run")

    def problem(self) -> str:
        return common.folder_problem(self.place.folder / "run")


class File(Command):
    """A command that writes one file, which is there as a whole or not at all."""

    def __init__(self, place: common.Place, name: str, words: list[str], file: str):
        super().__init__(place, name, [place.program, *words])
        self.file = place.folder / file
        self.whole = b""

    def begin(self) -> None:
        self.file.unlink(missing_ok=True)

    def result(self):
        self.whole = self.file.read_bytes()
        return self.whole

    def problem(self) -> str:
        left = [path.name for path in self.file.parent.glob("*.partial")]
        if left:
            return f"{left[0]} was left behind"
        if self.whole and self.file.exists() and self.file.read_bytes() != self.whole:
            return f"{self.file.name} is half written"
        return ""


class Queue(Command):
    """A study of two runs, whose faults are those of each process: Python's own files are its imports,
    so there the calls below the study's folder alone are counted."""

    def __init__(self, place: common.Place):
        (place.folder / "probe.toml").write_text(
            STUDY.replace("FOLDER", str(place.folder)), encoding="utf-8"
        )
        words = [sys.executable, str(common.ROOT / "experiments/run_study.py"), "probe.toml", "--out"]
        words += [str(place.folder / "study"), "--program", place.program, "--data", "data"]
        words += ["--jobs", "1"]
        super().__init__(place, "run_study", words, "run_study")
        self.environment = {"BATCHLESS_FAULT_UNDER": str(place.folder / "study")}

    def begin(self) -> None:
        self.place.clear("study")

    def refusal_problem(self, done: common.Outcome) -> str:
        """A queue goes on after a run that failed, and ends with a line for each of those."""
        if done.code == 0:
            return ""
        lines = done.error.splitlines()
        first = next((i for i, line in enumerate(lines) if line.startswith("run_study: ")), None)
        if first is None or done.code not in (1, 2) or done.hung:
            return f"exit {done.code} said {done.error[-300:]!r}"
        more = lines[first + 1 :]
        return "" if all(" (exit " in line for line in more) else f"said {lines[first:]!r}"

    def result(self):
        return (self.place.folder / "study/results.csv").read_bytes()

    def problem(self) -> str:
        for run in (self.place.folder / "study/runs").glob("*"):
            if problem := common.folder_problem(run):
                return problem
        return ""


def counts_of(command: Command, faults: Path) -> dict[str, int]:
    log = command.place.folder / "calls.log"
    log.unlink(missing_ok=True)
    command.begin()
    done = command.run(faults, log=str(log))
    if done.code != 0:
        raise SystemExit(f"harden: {command.name}: exit {done.code}: {done.error}")
    counts: dict[str, int] = {}
    for line in log.read_text(errors="replace").splitlines():
        if line.startswith("count "):
            _, kind, number = line.split()
            counts[kind] = max(counts.get(kind, 0), int(number))
    return counts


def try_fault(command: Command, faults: Path, fault: str, expected) -> tuple[str, bool]:
    """The problem, if any, and whether the command ended as an undisturbed one."""
    command.begin()
    done = command.run(faults, fault)
    problem = command.refusal_problem(done) or command.problem()
    if not problem and done.code == 0 and command.result() != expected:
        problem = "ended with other results"
    if not problem and done.code != 0:
        again = command.run(faults)
        if again.code != 0:
            problem = f"did not go on: {again.error[-200:]!r}"
        elif command.result() != expected:
            problem = "went on to other results"
    return (f"{command.name} with {fault}: {problem}" if problem else ""), done.code == 0


def commands_of(place: common.Place, faults: Path) -> list[Command]:
    place.half_done(faults, "begun")
    sweep = ["sweep", "--rule", "sc", "--delay", "3", "--momenta", "0.5,0.9", "--rates", "0.1,0.2"]
    optimum = ["optimum", "--rule", "sgdm,sc", "--delay", "1,2", "--condition", "100"]
    return [
        Train(place),
        Train(place, "begun"),
        File(place, "sweep to .npz", [*sweep, "--out", "map.npz"], "map.npz"),
        File(place, "sweep to .csv", [*sweep, "--out", "map.csv"], "map.csv"),
        # What a figure's step runs.
        File(place, "optimum", [*optimum, "--out", "optima.csv"], "optima.csv"),
        Queue(place),
    ]


def run(program: Path, faults: Path, scratch: Path, seconds: float) -> list[common.Row]:
    place = common.Place(program, scratch / "faults", samples=40)
    numbers = random.Random(1)
    rows = []
    commands = commands_of(place, faults)
    deadline = common.Deadline(seconds)
    for i, command in enumerate(commands):
        row = common.Row(f"faults: {command.name}")
        rows.append(row)
        counts = counts_of(command, faults)
        expected = command.result()
        plan = [
            f"{kind}:{n}"
            for kind in KINDS
            for n in common.spread(counts.get(kind, 0), MOST.get(kind, 60), numbers)
        ]
        # A full disk: no write from some moment on.
        plan += [
            f"write:{n}+:{ENOSPC}" for n in common.spread(counts.get("write", 0), 12, numbers)
        ]
        numbers.shuffle(plan)
        own = common.Deadline(deadline.left() / (len(commands) - i))
        for fault in plan:
            if own.passed():
                break
            row.count(*try_fault(command, faults, fault, expected))
        row.remark = f"{row.tried} of {len(plan)} planned"
    return rows
