#!/usr/bin/env python3
"""Do the tests notice? Changes one place of the sources at a time, builds, and runs the room's tests.

    tests/harden/mutants.py --build build --count 20 [--seed 1] [--rooms analysis hwmodel ...]

A mutant is an operator, a constant or a bound that is another one, or a statement that is left out. It
is noticed where the build or a test of its room fails or a test takes too long. The file is put back
whatever happens. A mutant that survives is equivalent, or a test is missing: which of the two, a reader
has to say.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
ROOMS = {
    "analysis": "analysis/src",
    "hwmodel": "hwmodel/src",
    "training": "training/src",
    "program": "experiments/src",
}
# The programs of a room's tests.
PROGRAMS = {room: [f"{room}_test"] for room in ROOMS}
PROGRAMS["program"] = ["program_command_test", "program_run_test"]
TEST_SECONDS = 300

OPERATORS = {
    " + ": " - ", " - ": " + ", " * ": " / ", " < ": " <= ", " <= ": " < ", " > ": " >= ",
    " >= ": " > ", " == ": " != ", " != ": " == ", " && ": " || ", " || ": " && ", "++": "--",
    " += ": " -= ",
}  # fmt: skip
STATEMENT = re.compile(r"^\s+(?!return|throw|const|auto|using|case|static|if|for|while|else|break)"
                       r"[\w\[\]().>:*+-]+( [-+*]?= .*|\(.*\)|\+\+|--);$")  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    path: Path
    line: int  # from 0
    old: str
    new: str


def mutants_of(path: Path) -> list[Mutant]:
    all_of_them = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        code = line.split("//")[0]
        if not code.strip() or code.lstrip().startswith("#") or '"' in code or "template" in code:
            continue
        if "static_assert" in code or "operator" in code:
            continue
        for old, new in OPERATORS.items():
            for found in re.finditer(re.escape(old), code):
                changed = code[: found.start()] + new + code[found.end() :]
                all_of_them.append(Mutant(path, number, line, changed))
        for found in re.finditer(r"(?<![\w.])(\d+)(?![\w.'])", code):
            changed = code[: found.start()] + str(int(found[1]) + 1) + code[found.end() :]
            all_of_them.append(Mutant(path, number, line, changed))
        if STATEMENT.match(line):
            all_of_them.append(Mutant(path, number, line, ""))
    return all_of_them


def tests_of(build: Path, room: str) -> list[str]:
    words = ["ctest", "--test-dir", str(build), "--show-only=json-v1", "-L", "quick|slow"]
    listed = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    names = [test["name"] for test in listed["tests"]]
    if room == "program":
        return [name for name in names if name.startswith("program_")]
    return [name for name in names if (ROOT / f"tests/{room}/{name}.cpp").exists()]


def outcome_of(mutant: Mutant, build: Path, room: str) -> str:
    """How the mutant was noticed; empty where it was not."""
    text = mutant.path.read_text(encoding="utf-8")
    lines = text.split("\n")
    lines[mutant.line] = mutant.new
    try:
        mutant.path.write_text("\n".join(lines), encoding="utf-8")
        made = subprocess.run(
            ["cmake", "--build", str(build), "-j", "2", "--target", *PROGRAMS[room]], capture_output=True
        )
        if made.returncode != 0:
            return "does not compile"
        pattern = "^(" + "|".join(tests_of(build, room)) + ")$"
        words = ["ctest", "--test-dir", str(build), "-R", pattern, "--stop-on-failure"]
        words += ["--timeout", str(TEST_SECONDS)]
        done = subprocess.run(words, capture_output=True, text=True)
        failed = re.findall(r"- (\w+) \(", done.stdout)
        return f"by {failed[0] if failed else 'ctest'}" if done.returncode != 0 else ""
    finally:
        mutant.path.write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutants.py", description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rooms", nargs="*", choices=ROOMS, default=list(ROOMS))
    options = parser.parse_args()
    numbers = random.Random(options.seed)
    noticed = tried = 0
    while tried < options.count:
        room = numbers.choice(options.rooms)
        path = numbers.choice(sorted((ROOT / ROOMS[room]).rglob("*.cpp")))
        places = mutants_of(path)
        if not places:
            continue
        mutant = numbers.choice(places)
        how = outcome_of(mutant, options.build, room)
        # One that the compiler refuses says nothing about the tests.
        if how == "does not compile":
            continue
        tried += 1
        noticed += bool(how)
        where = f"{mutant.path.relative_to(ROOT)}:{mutant.line + 1}"
        print(f"{'noticed ' + how if how else 'SURVIVED'}  {where}\n  - {mutant.old.strip()}")
        print(f"  + {mutant.new.strip() or '(left out)'}", flush=True)
    print(f"mutants: {noticed} of {tried} noticed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
