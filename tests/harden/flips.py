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


def flip_file(about, place, path: Path, words, numbers, seconds, expected, begin=lambda: None) -> common.Row:
    """The command on the file with one flip after the other, each after `begin`; `expected` says whether it made
    what it makes otherwise."""
    row, deadline = common.Row(f"flips: {about}"), common.Deadline(seconds)
    content = path.read_bytes()
    while not deadline.passed():
        changed = flipped(content, numbers)
        begin()
        path.write_bytes(changed)
        done = place.run(*words)
        problem = common.refusal_problem(done)
        if done.code == 0 and not expected():
            problem = "taken silently"
        where = next(i for i, byte in enumerate(content) if byte != changed[i])
        row.count(f"{path.name} at byte {where}: {problem}" if problem else "", done.code == 0)
    path.write_bytes(content)
    return row


def run(program: Path, faults: Path, scratch: Path, seconds: float) -> list[common.Row]:
    place = common.Place(program, scratch / "flips", samples=40)
    numbers = random.Random(4)
    rows = []
    parts = 5

    # A run that goes on: its checkpoint and what it has logged so far.
    place.half_done(faults, "begun")
    place.must(*place.train("whole"))
    whole = place.result("whole")

    def begin() -> None:
        place.clear("run")
        shutil.copytree(place.folder / "begun", place.folder / "run")

    for name in ("checkpoint", "metrics.csv", "samples.csv"):
        begin()
        rows.append(flip_file(
            f"{name} of a run that goes on", place, place.folder / "run" / name, place.train("run"), numbers,
            seconds / parts / 2, lambda: place.result("run") == whole, begin,
        ))  # fmt: skip

    # A finished run, read by `report`.
    page = place.folder / "page.html"
    report = ("report", "whole", "--out", str(page))
    place.must(*report)
    expected_page = page.read_bytes()
    names = ("config.toml", "metrics.csv", "manifest.json", "summary.json")
    for name in names:
        rows.append(flip_file(
            f"{name} of a finished run", place, place.folder / "whole" / name, report, numbers,
            seconds / parts / len(names), lambda: page.read_bytes() == expected_page,
        ))  # fmt: skip

    # Weights, read by the program.
    place.must("train", "run.toml", "--init-only", "--export-weights", "w.npz")
    again = place.folder / "again.npz"
    words = ("train", "run.toml", "--init-only", "--init", "w.npz", "--export-weights", "again.npz")
    place.must(*words)
    expected_weights = again.read_bytes()
    rows.append(flip_file(
        "weights.npz", place, place.folder / "w.npz", words, numbers, seconds / parts,
        lambda: again.read_bytes() == expected_weights,
    ))  # fmt: skip

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
