"""Weights of short runs, bit for bit those of the program that the first rows of the studies come from.

Rows of several commits are one study because of that. Every processor that fuses products and sums, by AVX2 or
AVX-512, has the same; others are skipped. A digest that has to change gets its reason in the commit, and

    python3 tests/figures/test_digests.py --record

writes those of $BATCHLESS_PROGRAM.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = Path(os.environ.get("BATCHLESS_PROGRAM", "build/bin/batchless")).resolve()
DIGESTS = Path(__file__).with_name("digests.json")


def digest(settings):
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "empty.toml").touch()
        done = subprocess.run(
            [PROGRAM, "train", "empty.toml", "--out", "run", "--json", *words],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)["weights_sha256"]


class Digests(unittest.TestCase):
    def test_they_are_those_of_before(self):
        flags = Path("/proc/cpuinfo").read_text().split()
        if not {"avx2", "fma"} <= set(flags):
            self.skipTest("no digests for processors without AVX2")
        golden = json.loads(DIGESTS.read_text())
        for name, run in golden["runs"].items():
            self.assertEqual(digest(golden["base"] | run["set"]), run["weights_sha256"], name)


def record():
    golden = json.loads(DIGESTS.read_text())
    for run in golden["runs"].values():
        run["weights_sha256"] = digest(golden["base"] | run["set"])
    DIGESTS.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        record()
    else:
        unittest.main()
