"""What captions say of rows that are kept with the sources is what these rows say."""

import csv
import re
import unittest
from pathlib import Path

from figures.lib import spec as specs

RESULTS = Path("experiments/results")


class StableRate(unittest.TestCase):
    def test_the_crosses_are_the_rates_at_which_runs_diverged(self):
        diverged: dict[str, set[str]] = {}
        with (RESULTS / "stable_rate/results.csv").open(encoding="utf-8", newline="") as file:
            for run in csv.DictReader(file):
                method, rate = run["row"].rsplit(", rate ", 1)
                if run["diverged"] == "yes":
                    diverged.setdefault(method, set()).add(rate)
        self.assertEqual(set(diverged), {"PB", "PB+LWPv_D+SC_D"})
        (spec,) = (spec for spec in specs.load_all() if spec.name == "stable_rate")
        said = re.search(r"\(PB\) (.*), with mitigation (.*) alone", " ".join(spec.caption.split()))
        for method, words in zip(("PB", "PB+LWPv_D+SC_D"), said.groups()):
            self.assertEqual(set(words.split(" and ")), diverged[method])


if __name__ == "__main__":
    unittest.main()
