"""Drawing: the same bytes every time, TrueType fonts, one look per rule."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

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
        for seed in ("1", "2"):
            with tempfile.TemporaryDirectory() as folder:
                environment = os.environ | {"SOURCE_DATE_EPOCH": "0", "PYTHONHASHSEED": seed}
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


class Panels(unittest.TestCase):
    """What plots compute before they draw."""

    def test_roots_are_joined_by_continuity(self):
        from figures.root_loci.plot import MOMENTUM, branches

        rates = np.geomspace(1e-4, 8, 400)
        # z^2 - (1 + m - x) z + m: a pair on the circle |z|^2 = m, which leaves the real axis and comes
        # back to it, at rates that are not among these.
        z = np.array([np.roots([1, x - 1 - MOMENTUM, MOMENTUM]) for x in rates])
        z[1::2] = z[1::2, ::-1]
        columns = {"rate": np.repeat(rates, 2), "real": z.real.ravel(), "imag": z.imag.ravel()}
        passed, joined = branches(columns)
        self.assertEqual(sorted(joined[0].real), [MOMENTUM, 1])
        self.assertEqual(len(joined), len(rates) + 1 + 2)
        self.assertTrue(np.all(np.diff(passed) >= 0))
        # Neither the order of the roots nor a double root between two rates tears a branch.
        self.assertLess(np.abs(np.diff(joined, axis=0)).max(), 0.4)
        for pair in joined:
            self.assertAlmostEqual(pair.sum().imag, 0)
        doubled = joined[joined[:, 0] == joined[:, 1]]
        np.testing.assert_allclose(
            sorted(doubled[:, 0].real), [-(MOMENTUM**0.5), MOMENTUM**0.5], rtol=0.02
        )

    def test_gaps_too_short_to_be_seen_are_closed(self):
        from figures.workers.plot import joined

        start, stop = np.array([0.0, 1.1, 4.0]), np.array([1.0, 2.0, 5.0])
        self.assertEqual(joined(start, stop, 0.5), [(0, 2), (4, 1)])
        self.assertEqual(len(joined(start, stop, 0.05)), 3)
        self.assertEqual(joined(start[:0], stop[:0], 0.5), [])

    def test_shades_tell_the_version_that_a_forward_reads(self):
        from figures.lib.tables import Table
        from figures.schedules.plot import versions

        # One stage, an update after every second backward: forwards and what they read.
        actions = ["F0", "B0", "F1", "B1", "U1", "F2", "B2", "F3", "B3", "U3"]
        columns = {
            "step": np.arange(len(actions), dtype=float),
            "stage": np.zeros(len(actions)),
            "kind": np.array([action[0] for action in actions]),
            "microbatch": np.array([float(action[1]) for action in actions]),
        }
        forward = columns["kind"] == "F"
        self.assertEqual(list(versions(Table(columns))[forward]), [0, 0, 0.5, 0.5])
        # 2BW is one mini-batch behind.
        columns["weights"] = np.array(["double-buffered"] * len(actions))
        self.assertEqual(list(versions(Table(columns))[forward]), [0, 0, 0, 0])
