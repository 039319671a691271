"""Figures of pipelined training with stale weights: depth of a placement, marks and tables."""

import json

from figures.lib import stale_weights, style
from figures.lib.tables import Data, Table
from folder import FolderTest

HEAD = (
    "row,seed,network,data,epochs,samples,validation_accuracy_percent,validation_loss,diverged,"
    "schedule.placement,phase\n"
)
HYBRID = json.dumps(
    [{"until": 0.5, "schedule.kind": "zhang", "schedule.placement": [1, 3]}, {"schedule.kind": "pb"}]
)


def cell(text):
    return '"' + text.replace('"', '""') + '"'


def line(row, seed, accuracy, placement="[]", phase="", data="mnist", lost="no"):
    loss = 0.1 if lost == "no" else ""
    fields = [cell(row), seed, "lenet5", data, 1, 100, accuracy, loss, lost, cell(placement), cell(phase)]
    return ",".join(map(str, fields)) + "\n"


class Figure(FolderTest):
    def setUp(self):
        super().setUp()
        (self.root / "lenet5.csv").write_text("stage,parameters\n0,10\n1,0\n2,30\n3,60\n")

    def write(self, name="paper.csv", data="mnist"):
        lines = [
            line("plain", 1, 99.0, data=data),
            line("plain", 2, 98.0, data=data),
            line("(2)", 1, 98.5, "[2]", data=data),
            line("(2)", 2, 98.0, "[2]", data=data),
            line("all", 1, 97.0, "[1, 2, 3]", data=data),
            line("hybrid", 1, 98.9, phase=HYBRID, data=data),
            line("lost", 1, "", "[1, 3]", data=data, lost="yes"),
        ]
        (self.root / name).write_text(HEAD + "".join(lines))

    def rows(self, name="paper.csv"):
        data = Data(self.root)
        return {row.name: row for row in stale_weights.rows(data, data.table(name))}

    def test_depth_of_a_placement(self):
        self.write()
        rows = self.rows()
        self.assertEqual(
            {name: (row.degree, row.stale_percent, row.kind) for name, row in rows.items()},
            {
                "LeNet-5, plain": (0, 0, "several"),
                "LeNet-5, (2)": (2, 10, "one"),
                "LeNet-5, all": (6, 40, "several"),
                "LeNet-5, hybrid": (4, 40, "hybrid"),
                "LeNet-5, lost": (4, 40, "several"),
            },
        )
        self.assertEqual(list(rows["LeNet-5, (2)"].differences), [-0.5, 0])
        self.assertEqual(rows["LeNet-5, lost"].diverged, 1)

    def test_all_weights_but_those_behind_the_last_register(self):
        costs = Table.read(self.root / "lenet5.csv")
        self.assertEqual(stale_weights.stale_percent(costs, ()), 0)
        self.assertEqual(stale_weights.stale_percent(costs, (1,)), 10)
        self.assertEqual(stale_weights.stale_percent(costs, (3, 1)), 40)

    def test_published_numbers_stand_beside_real_data_alone(self):
        self.write()
        self.write("quick.csv", "synthetic")
        self.assertEqual(self.rows()["LeNet-5, (2)"].published, -0.4)
        self.assertIsNone(self.rows("quick.csv")["LeNet-5, (2)"].published)
        self.assertIsNone(self.rows()["LeNet-5, all"].published)

    def test_table(self):
        self.write()
        (table,) = stale_weights.tables(Data(self.root), {})
        found = {row[0]: row[1:] for row in table.rows}
        self.assertEqual(found["LeNet-5, plain"][:5], ("0", "0", "0.00", "98.50", "0.71"))
        self.assertEqual(found["LeNet-5, plain"][6:], ("–", "–", "–"))
        self.assertEqual(found["LeNet-5, (2)"][6], "\N{MINUS SIGN}0.25")
        self.assertEqual(found["LeNet-5, (2)"][8], "\N{MINUS SIGN}0.40")
        self.assertEqual(found["LeNet-5, lost"][5], "1, 1 diverged")
        self.assertIn("A diverged run counts as guessing", table.caption)

    def test_drawn_with_results_and_without(self):
        for files, axes in ((), 2), (("paper.csv",), 2), (("paper.csv", "quick.csv"), 4):
            for name in files:
                self.write(name, "synthetic" if name == "quick.csv" else "mnist")
            fig = stale_weights.draw(Data(self.root))
            # And one for the legend.
            self.assertEqual(len(fig.axes), axes + 1)
            style.plt.close(fig)
