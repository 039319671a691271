"""SIGKILL at random moments, of one process and of several; then the same bits as without."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import common

LAUNCHER = ("mpirun", "--oversubscribe", "-n", "2")
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def start(place: common.Place, words: tuple[str, ...], launcher=()) -> subprocess.Popen:
    command = [*launcher, place.program, *words]
    return common.start(command, place.folder, subprocess.DEVNULL, **AS_ROOT)


def ranks_of(launcher: subprocess.Popen) -> list[int]:
    """The processes that a launcher has started."""
    path = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")
    try:
        return [int(word) for word in path.read_text().split()]
    except OSError:
        return []


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def error_of(process: subprocess.Popen, seconds: float, launched: bool) -> str | None:
    """What a process said until it ended; None where it was still there after so long.

    Open MPI's launcher sometimes waits for itself within its end (PMIx, pmix_rte_finalize) after a rank was
    lost early: one without living ranks has done what it was for and is ended.
    """
    deadline = common.Deadline(seconds)
    while not deadline.passed():
        try:
            return process.communicate(timeout=min(5, max(deadline.left(), 0.1)))[1]
        except subprocess.TimeoutExpired:
            if launched and not any(map(is_alive, ranks_of(process))):
                process.kill()
    return None


def kill(process: subprocess.Popen, launched: bool, numbers: random.Random) -> None:
    victims = [process.pid, *ranks_of(process)] if launched else [process.pid]
    try:
        os.kill(numbers.choice(victims), signal.SIGKILL)
    except ProcessLookupError:
        pass


def run_with_kills(place, launcher, seconds_of_run, numbers, row, deadline) -> bool:
    """One run, killed until it ends; false where the time ended before it."""
    place.clear("run")
    kills = 0
    problem = ""
    while True:
        process = start(place, place.train("run"), launcher)
        try:
            process.wait(timeout=numbers.uniform(0.02, 1.0) * seconds_of_run)
        except subprocess.TimeoutExpired:
            kill(process, bool(launcher), numbers)
            kills += 1
        error = error_of(process, common.HANG_SECONDS, bool(launcher))
        if error is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            problem = "hung after a kill"
            break
        if process.returncode == 0:
            break
        # The ranks of a launcher that was killed end by themselves and let go of the folder.
        busy = "another run is at work" in error
        if process.returncode in (1, 2) and not launcher and not busy:
            problem = f"did not go on: {error[-200:]!r}"
            break
        if deadline.passed():
            return False
        if busy:
            time.sleep(0.2)
    if not problem and place.result("run") != place.expected:
        problem = "went on to other results"
    for _ in range(max(kills, 1)):
        row.count(problem, ended_well=True)
        problem = ""
    return True


def run(program: Path, scratch: Path, seconds: float) -> list[common.Row]:
    rows = []
    numbers = random.Random(2)
    has_mpi = shutil.which(LAUNCHER[0]) is not None
    launchers = [("one process", ()), ("two processes", LAUNCHER)][: 2 if has_mpi else 1]
    for i, (name, launcher) in enumerate(launchers):
        row = common.Row(f"kills: {name}")
        rows.append(row)
        place = common.Place(program, scratch / f"kills{i}", samples=200)
        place.must(*place.train("whole"))
        place.expected = place.result("whole")
        begin = time.monotonic()
        undisturbed = start(place, place.train("timed"), launcher)
        _, error = undisturbed.communicate()
        took = time.monotonic() - begin
        if undisturbed.returncode != 0 or place.result("timed") != place.expected:
            row.count(f"undisturbed, it ended otherwise: {error[-200:]!r}", ended_well=False)
            continue
        deadline = common.Deadline(seconds / len(launchers))
        runs = 0
        while not deadline.passed():
            runs += run_with_kills(place, launcher, took, numbers, row, deadline)
        row.remark = f"{runs} runs of {took:.1f} s"
    return rows
