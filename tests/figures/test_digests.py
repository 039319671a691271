"""Weights of short runs, bit for bit those of the program that the first rows of the studies come from.

Rows of several commits are one study because of that. digests.json has the digests by processor, since
other instructions may round otherwise; a processor that it has no digests of is skipped, and gets some by

    python3 tests/figures/test_digests.py --record NAME      NAME is the processor's, "Zen 4"

with $BATCHLESS_PROGRAM built from a commit whose digests hold on a processor that it has.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = Path(os.environ.get("BATCHLESS_PROGRAM", "build/bin/batchless")).resolve()
DIGESTS = Path(__file__).with_name("digests.json")


def processor():
    """Vendor, family and model, and vectors; many processors share the name that they show."""
    text = Path("/proc/cpuinfo").read_text()
    fields = dict(re.findall(r"^(\S[^\t:]*?)\s*: (.*)$", text, re.MULTILINE))
    flags = fields.get("flags", "").split()
    vectors = next((name for name in ("avx512f", "avx2") if name in flags), "none")
    names = [fields.get(name, "unknown") for name in ("vendor_id", "cpu family", "model")]
    return f"{names[0]} {names[1]}/{names[2]} {vectors}"


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
        golden = json.loads(DIGESTS.read_text())
        expected = golden["weights_sha256"].get(processor())
        if expected is None:
            self.skipTest(f"no digests for {processor()}; --record adds them")
        for name, own in golden["runs"].items():
            self.assertEqual(digest(golden["base"] | own), expected[name], name)


def record(name):
    golden = json.loads(DIGESTS.read_text())
    found = {"processor": name}
    found |= {run: digest(golden["base"] | own) for run, own in golden["runs"].items()}
    golden["weights_sha256"][processor()] = found
    DIGESTS.write_text(json.dumps(golden, indent=1) + "\n")
    print(f"{processor()}: {len(golden['runs'])} digests")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--record"] and len(sys.argv) == 3:
        record(sys.argv[2])
    else:
        unittest.main()
