#!/usr/bin/env python3
"""What can go wrong, made to go wrong: harden.py --program P --faults LIBRARY --fuzz FOLDER --minutes N.

Prints a table: how often each thing was tried, how often the program ended as if nothing had been,
how often it said one line and then went on to the same bits, and what was lost.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import cluster
import common
import faults
import flips
import fuzz
import kills
import machines
import processes

# Shares of the time.
SHARES = {"fuzz": 0.4, "faults": 0.3, "kills": 0.1, "flips": 0.1, "processes": 0.1}
PARTS = (*SHARES, "machines", "cluster")


def rows_of(part: str, options, scratch: Path, seconds: float) -> list[common.Row]:
    if part == "fuzz":
        work = Path(options.work).resolve()
        return fuzz.run(options.program, Path(options.fuzz).resolve(), work, seconds)
    if part == "faults":
        return faults.run(options.program, options.faults, scratch, seconds)
    if part == "kills":
        return kills.run(options.program, scratch, seconds)
    if part == "flips":
        return flips.run(options.program, options.faults, scratch, seconds)
    if part == "processes":
        return processes.run(options.program, scratch, seconds)
    if part == "machines":
        return machines.run(options.program, scratch)
    return cluster.run(options.program, scratch)


def main() -> int:
    parser = argparse.ArgumentParser(prog="harden.py", description=__doc__.split("\n")[0])
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--faults", type=Path, required=True, help="the library to preload")
    parser.add_argument("--fuzz", required=True, help="folder of the fuzz targets")
    parser.add_argument("--work", default="build/harden", help="corpora and what was found")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--only", choices=PARTS, nargs="*", default=PARTS)
    options = parser.parse_args()
    options.program, options.faults = options.program.resolve(), options.faults.resolve()
    share = sum(SHARES.get(part, 0) for part in options.only) or 1
    rows = []
    with tempfile.TemporaryDirectory(
        prefix="batchless-harden-", ignore_cleanup_errors=True
    ) as scratch:
        for part in options.only:
            seconds = 60 * options.minutes * SHARES.get(part, 0) / share
            print(f"harden: {part}", file=sys.stderr, flush=True)
            rows += rows_of(part, options, Path(scratch), seconds)
    print(common.table(rows))
    return 1 if any(row.lost for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
