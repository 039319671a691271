#!/usr/bin/env python3
"""A large map of `batchless sweep`, by the program and by the Python module: usage
python_sweep.py PROGRAM, with the module in PYTHONPATH.

Each runs in turn, several times; the least wall time of each counts. The program's has its start and the
file that it writes in it, the module's the arrays that it returns.
"""

import subprocess
import sys
import tempfile
import time

import batchless

REPEATS = 7
GRID = {"momenta": "log1m:-5:0:1024", "rates": "log:1e-6:10:1024"}


def seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        words = [program, "sweep", "--rule", "lwp-v+sc", "--delay", "4", "--threads", "1"]
        words += ["--out", f"{folder}/map.npz", "--json"]
        words += [word for name, value in GRID.items() for word in (f"--{name}", value)]
        by_program, by_python = [], []
        for _ in range(REPEATS):
            by_program.append(seconds(lambda: subprocess.run(words, check=True, capture_output=True)))
            by_python.append(seconds(lambda: batchless.sweep("lwp-v+sc", delay=4, threads=1, **GRID)))
    best_program, best_python = min(by_program), min(by_python)
    print(f"sweep: program {best_program:.3f} s, Python {best_python:.3f} s, ratio {best_python / best_program:.3f}")


main()
