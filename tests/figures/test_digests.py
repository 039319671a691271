"""Weights of short runs, bit for bit those of the program that the first rows of the studies come from.

Rows of several commits are one study because of that. digests.json has the digests by processor, since
other instructions may round otherwise; a processor that it has no digests of is skipped.
"""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

PROGRAM = Path(os.environ.get("BATCHLESS_PROGRAM", "build/bin/batchless")).resolve()
DIGESTS = Path(__file__).with_name("digests.json")


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


class Digests(unittest.TestCase):
    def test_they_are_those_of_before(self):
        golden = json.loads(DIGESTS.read_text())
        expected = golden["weights_sha256"].get(processor())
        if expected is None:
            self.skipTest(f"no digests for {processor()}")
        for name, own in golden["runs"].items():
            settings = golden["base"] | own
            words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "empty.toml").touch()
                done = subprocess.run(
                    [PROGRAM, "train", "empty.toml", "--out", "run", "--json", *words],
                    cwd=folder, capture_output=True, text=True, check=False,
                )  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["weights_sha256"], expected[name], name)


if __name__ == "__main__":
    unittest.main()
