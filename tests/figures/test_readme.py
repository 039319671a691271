"""The README's table of accuracies is that of the results which are kept with the sources."""

import statistics
import unittest
from pathlib import Path

from figures.lib import study
from figures.lib.statistics import Differences
from figures.lib.tables import Table

RESULTS = [Path(f"experiments/results/{study}/results.csv") for study in ("resnet20_pb", "controls")]
REFERENCE = "SGDM, N = 128"
LEFT_OUT = "direct"  # other kernels for the same method


def table() -> list[str]:
    accuracies: dict[str, dict[float, float]] = {}
    for path in RESULTS:
        for name, runs in study.rows(Table.read(path)).items():
            of_seed = zip(runs["seed"], study.accuracies(runs), strict=True)
            accuracies.setdefault(name, {}).update(of_seed)
    reference = accuracies[REFERENCE]
    lines = []
    for name, of_seed in accuracies.items():
        if name.endswith(LEFT_OUT):
            continue
        difference = ""
        if name != REFERENCE:
            found = Differences(tuple(of_seed[seed] - reference[seed] for seed in reference))
            low, high = found.interval()
            difference = f" {found.mean:+.2f} ({low:+.2f} to {high:+.2f})"
        lines.append(f"| {name} | {statistics.mean(of_seed.values()):.2f} |{difference} |")
    return lines


class Accuracies(unittest.TestCase):
    def test_the_readme_shows_them(self):
        expected = table()
        self.assertEqual(len(expected), 12)
        readme = Path("README.md").read_text(encoding="utf-8")
        self.assertIn("\n" + "\n".join(expected) + "\n\n", readme)
