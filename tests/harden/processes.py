"""A process of several is killed or stopped: the others end in the watchdog's time, with a line."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path

import common
import kills

WATCHDOG_SECONDS = 3


def problem_of(place: common.Place, processes: int, number: int, moment: float, victim: int) -> str:
    launcher = (*kills.LAUNCHER[:-1], str(processes))
    # As many workers as there are stages, at most.
    settings = ("run.epochs=1000", "schedule.workers=1", f"run.watchdog_seconds={WATCHDOG_SECONDS}")
    words = place.train("run", *(word for each in settings for word in ("--set", each)))
    process = kills.start(place, words, launcher)
    start = common.Deadline(common.HANG_SECONDS)
    ranks: list[int] = []
    # Before training begins MPI's own start waits for everybody, without an end.
    checkpoint = place.folder / "run/checkpoint"
    while not checkpoint.exists() and process.poll() is None and not start.passed():
        time.sleep(0.05)
        ranks = kills.ranks_of(process)
    time.sleep(moment)
    try:
        if len(ranks) < processes or process.poll() is not None:
            error = kills.error_of(process, common.HANG_SECONDS, launched=True)
            return f"did not start: {(error or '')[-200:]!r}"
        os.kill(ranks[victim], number)
        error = kills.error_of(process, common.HANG_SECONDS, launched=True)
        if error is None:
            return f"went on for {common.HANG_SECONDS} s"
    finally:
        for pid in [*ranks, process.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.wait()
    if process.returncode == 0:
        return "ended as if nothing had happened"
    # Open MPI names a rank that died; the program's watchdog the worker that waits for one.
    told = "exited on signal" in error if number == signal.SIGKILL else "batchless: process" in error
    return "" if told else f"said {error[-400:]!r}"


def run(program: Path, scratch: Path, seconds: float) -> list[common.Row]:
    if shutil.which(kills.LAUNCHER[0]) is None:
        return []
    place = common.Place(program, scratch / "processes", samples=200)
    numbers = random.Random(3)
    rows = [common.Row("processes: killed"), common.Row("processes: stopped")]
    deadline = common.Deadline(seconds)
    while not deadline.passed():
        for row, number in zip(rows, (signal.SIGKILL, signal.SIGSTOP), strict=True):
            processes = numbers.choice((2, 3))
            victim = numbers.randrange(processes)
            place.clear("run")
            moment = numbers.uniform(0, 2)
            problem = problem_of(place, processes, number, moment, victim)
            about = f"rank {victim} of {processes} after {moment:.2f} s: "
            row.count(about + problem if problem else "", ended_well=False)
    return rows
