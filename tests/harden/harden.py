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

# The parts: the share of the time that each has, 0 where it takes what it takes, and how it is run.
PARTS = {
    "fuzz": (0.4, lambda o, scratch, seconds: fuzz.run(o.program, o.fuzz, o.work, seconds)),
    "faults": (0.3, lambda o, scratch, seconds: faults.run(o.program, o.faults, scratch, seconds)),
    "kills": (0.1, lambda o, scratch, seconds: kills.run(o.program, scratch, seconds)),
    "flips": (0.1, lambda o, scratch, seconds: flips.run(o.program, o.faults, scratch, seconds)),
    "processes": (0.1, lambda o, scratch, seconds: processes.run(o.program, scratch, seconds)),
    "machines": (0, lambda o, scratch, seconds: machines.run(o.program, scratch)),
    "cluster": (0, lambda o, scratch, seconds: cluster.run(o.program, scratch)),
}


def path(text: str) -> Path:
    return Path(text).resolve()


def main() -> int:
    parser = argparse.ArgumentParser(prog="harden.py", description=__doc__.split("\n")[0])
    parser.add_argument("--program", type=path, required=True)
    parser.add_argument("--faults", type=path, required=True, help="the library to preload")
    parser.add_argument("--fuzz", type=path, required=True, help="folder of the fuzz targets")
    parser.add_argument("--work", type=path, default="build/harden", help="corpora and what was found")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--only", choices=PARTS, nargs="*", default=PARTS)
    options = parser.parse_args()
    share = sum(PARTS[part][0] for part in options.only) or 1
    rows = []
    with tempfile.TemporaryDirectory(
        prefix="batchless-harden-", ignore_cleanup_errors=True
    ) as scratch:
        for part in options.only:
            own_share, run = PARTS[part]
            print(f"harden: {part}", file=sys.stderr, flush=True)
            rows += run(options, Path(scratch), 60 * options.minutes * own_share / share)
    print(common.table(rows))
    return 1 if any(row.lost for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
