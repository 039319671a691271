"""One bit of a file is another one: whoever reads the file says so, or it made no difference."""

from __future__ import annotations

import io
import random
import shutil
from pathlib import Path

import common
import numpy


def flipped(content: bytes, numbers: random.Random) -> bytes:
    place = numbers.randrange(len(content) * 8)
    changed = bytearray(content)
    changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


def arrays_of(content: bytes) -> dict | None:
    """None where NumPy finds the archive damaged."""
    try:
        with numpy.load(io.BytesIO(content)) as archive:
            return {name: archive[name].tobytes() for name in archive.files}
    except Exception:  # whatever it is, an error message and no wrong number
        return None


def flip_file(row, place, path: Path, words, numbers, deadline, expected) -> None:
    """The command on the file with one flip after the other; `expected` is what it tells otherwise."""
    content = path.read_bytes()
    while not deadline.passed():
        changed = flipped(content, numbers)
        path.write_bytes(changed)
        done = place.run(*words)
        problem = common.refusal_problem(done)
        if done.code == 0 and not expected():
            problem = "taken silently"
        where = next(i for i, byte in enumerate(content) if byte != changed[i])
        row.count(f"{path.name} at byte {where}: {problem}" if problem else "", done.code == 0)
    path.write_bytes(content)


def run(program: Path, faults: Path, scratch: Path, seconds: float) -> list[common.Row]:
    place = common.Place(program, scratch / "flips", samples=40)
    numbers = random.Random(4)
    rows = []
    parts = 5

    # A run that goes on: its checkpoint and what it has logged so far.
    place.half_done(faults, "begun")
    place.must(*place.train("whole"))
    whole = place.result("whole")
    for name in ("checkpoint", "metrics.csv", "samples.csv"):
        row = common.Row(f"flips: {name} of a run that goes on")
        rows.append(row)
        deadline = common.Deadline(seconds / parts / 2)
        content = (place.folder / "begun" / name).read_bytes()
        while not deadline.passed():
            place.clear("run")
            shutil.copytree(place.folder / "begun", place.folder / "run")
            (place.folder / "run" / name).write_bytes(flipped(content, numbers))
            done = place.run(*place.train("run"))
            problem = common.refusal_problem(done)
            if done.code == 0 and place.result("run") != whole:
                problem = "taken silently"
            row.count(problem, done.code == 0)

    # A finished run, read by `report`.
    page = place.folder / "page.html"
    report = ("report", "whole", "--out", str(page))
    place.must(*report)
    expected_page = page.read_bytes()
    names = ("config.toml", "metrics.csv", "manifest.json", "summary.json")
    for name in names:
        row = common.Row(f"flips: {name} of a finished run")
        rows.append(row)
        deadline = common.Deadline(seconds / parts / len(names))
        path = place.folder / "whole" / name
        flip_file(
            row, place, path, report, numbers, deadline, lambda: page.read_bytes() == expected_page
        )

    # Weights, read by the program.
    place.must("train", "run.toml", "--init-only", "--export-weights", "w.npz")
    again = place.folder / "again.npz"
    words = ("train", "run.toml", "--init-only", "--init", "w.npz", "--export-weights", "again.npz")
    place.must(*words)
    expected_weights = again.read_bytes()
    row = common.Row("flips: weights.npz")
    rows.append(row)
    flip_file(
        row, place, place.folder / "w.npz", words, numbers, common.Deadline(seconds / parts),
        lambda: again.read_bytes() == expected_weights,
    )  # fmt: skip

    # Results, read by NumPy.
    place.must("sweep", "--rule", "sgdm", "--delay", "1", "--momenta", "0.5,0.9", "--rates",
               "log:1e-3:1:64", "--out", "map.npz")  # fmt: skip
    content = (place.folder / "map.npz").read_bytes()
    arrays = arrays_of(content)
    row = common.Row("flips: map.npz, read by NumPy")
    rows.append(row)
    for _ in range(2000):
        read = arrays_of(flipped(content, numbers))
        lost = read is not None and read != arrays
        # An array that is missing is seen by whoever asks for it.
        lost = lost and any(read.get(name, value) != value for name, value in arrays.items())
        row.count("taken silently" if lost else "", read is not None)
    return rows
