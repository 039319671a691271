"""Drawing: the same bytes every time, TrueType fonts, one look per rule."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

# Draws and saves one figure; run twice, with hash seeds that differ, as two separate programs.
DRAW = """
from pathlib import Path
from figures.lib import style
fig, ax = style.plt.subplots(figsize=(style.COLUMN, 2))
for rule in ("sgdm", "sc", "lwp-v+sc"):
    style.curve(ax, [0, 1, 2, 3], [1, 2, 1, 2], rule)
style.delay_axis(ax, 3)
ax.set_ylabel("$|r_{max}|$")
ax.legend()
style.save(fig, Path(%r), "probe")
"""


class Bytes(unittest.TestCase):
    def test_same_data_same_bytes(self):
        made = []
        for _ in range(2):
            with tempfile.TemporaryDirectory() as folder:
                environment = os.environ | {"SOURCE_DATE_EPOCH": "0", "PYTHONHASHSEED": "0"}
                subprocess.run([sys.executable, "-c", DRAW % folder], env=environment, check=True)
                made.append({p.name: p.read_bytes() for p in Path(folder).iterdir()})
        self.assertEqual(sorted(made[0]), ["probe.pdf", "probe.png"])
        self.assertEqual(made[0], made[1])
        self.assertIn(b"/Subtype /Type0", made[0]["probe.pdf"])
        self.assertNotIn(b"/Subtype /Type3", made[0]["probe.pdf"])
        self.assertNotIn(b"CreationDate", made[0]["probe.pdf"])


class Looks(unittest.TestCase):
    def test_no_two_rules_look_alike(self):
        from figures.lib.style import LOOKS

        # Nesterov is the same rule with and without delay, and keeps its look.
        rules = {name: look for name, look in LOOKS.items() if name != "nesterov"}
        self.assertEqual(len({look.color for look in rules.values()}), len(rules))
        self.assertEqual(len({look.marker for look in rules.values()}), len(rules))


if __name__ == "__main__":
    unittest.main()
