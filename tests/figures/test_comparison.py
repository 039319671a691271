"""The comparison of systems: what is put beside each row."""

import json

from experiments import study as studies
from figures.comparison import plot, systems, table
from figures.lib import spec as specs
from figures.lib import style
from figures.lib.tables import Data
from folder import FolderTest

HEAD = (
    "row,seed,network,data,batch,epochs,samples,validation_accuracy_percent,validation_loss,diverged,"
    "schedule.kind,"
    "rule.name,optimizer.kind,schedule.placement,phase\n"
)
PHASES = [{"until": 0.25, "schedule.kind": "pb"}, {"schedule.kind": "sequential"}]


def line(row, seed, accuracy, kind="pb", rule="", optimizer="", placement="[]", phase="", batch=1):
    text = '"' + phase.replace('"', '""') + '"'
    fields = [row, seed, "lenet5", "synthetic", batch, 1, 100, accuracy, 0.5, "no", kind, rule, optimizer]
    return ",".join(map(str, [*fields, placement, text])) + "\n"


class Comparison(FolderTest):
    def setUp(self):
        super().setUp()
        lines = [
            line("plain", 1, 50, "sequential"),
            line("PB", 1, 40),
            line("PB", 2, 44),
            line("PB+SC_D", 1, 45, rule="sc"),
            line("AdamW", 1, 30, optimizer="adamw"),
            line("hybrid", 1, 48, "sequential", phase=json.dumps(PHASES)),
            line("2BW", 1, 42, "2bw", batch=128),
            line("PACI", 1, 43, "paci", batch=8),
            line("SpecTrain", 1, 46, rule="spectrain"),
            line("two parts", 1, 41, placement="[3]"),
        ]
        (self.root / "quick.csv").write_text(HEAD + "".join(lines))
        entries = [
            {"row": "PB", "seed": 1, "predicted_memory_bytes": 3e6, "validations": [[10, 14.9], [20, 15]]},
            {"row": "PB", "seed": 2, "predicted_memory_bytes": 3e6, "validations": [[10, 5.0]]},
            {"row": "PB+SC_D", "seed": 1, "validations": [[10, 5.0]]},
        ]
        manifest = {"studies": {"quick": {"runs": entries}}}
        (self.root / "manifest.json").write_text(json.dumps(manifest))
        for name, speed, delay in (("pb_1", 400, 22), ("sequential_1", 100, 0), ("2bw_128", 200, 1)):
            text = f"samples_per_second,largest_delay\n{speed},{delay}\n"
            (self.root / f"lenet5_{name}.csv").write_text(text)
        head = "delay,momentum,critical_rate\n"
        one, many = systems.MOMENTA[1], systems.MOMENTA[128]
        (self.root / "sgdm.csv").write_text(
            head + f"0,{one},4\n22,{one},0.5\n0,{many},3.8\n1,{many},0.95\n"
        )
        (self.root / "sc.csv").write_text(head + f"22,{one},1\n")
        (self.root / "lwp-v.csv").write_text(head + f"22,{one},2\n")
        self.data = Data(self.root)

    def systems(self):
        found = systems.systems(self.data, self.data.table("quick.csv"), self.data.manifest())
        return {system.name: system for system in found}

    def test_rates_are_those_of_the_first_stages_delay(self):
        found = {name: system.stable_rate for name, system in self.systems().items()}
        linear = {"plain": 1, "PB": 0.125, "PB+SC_D": 0.25, "2BW": 0.25, "SpecTrain": 0.5}
        self.assertEqual(found, linear | dict.fromkeys(("AdamW", "hybrid", "PACI", "two parts")))

    def test_hybrid_training_takes_the_time_of_both(self):
        found = {name: system.samples_per_second for name, system in self.systems().items()}
        self.assertAlmostEqual(found.pop("hybrid"), 1 / (0.25 / 400 + 0.75 / 100))
        self.assertEqual((found["plain"], found["PB"], found["2BW"]), (100, 400, 200))
        self.assertIsNone(found["two parts"])

    def test_samples_to_the_target(self):
        found = self.systems()
        self.assertEqual(found["PB"].samples_to_target, [20, None])
        self.assertEqual(table.reached([20, None]), "20 (1 of 2)")
        self.assertEqual(table.reached([20, 40]), "30")
        self.assertEqual(table.reached([None]), "not reached")
        self.assertEqual(table.reached([]), "–")

    def test_table_and_picture(self):
        absent, found = table.tables(self.data, self.data.manifest())
        self.assertEqual(absent.rows, ())
        rows = {row[0]: row[1:] for row in found.rows}
        self.assertEqual(rows["PB"], ("42.00", "2.83", "2", "20 (1 of 2)", "3.0", "400", "0.1250"))
        self.assertEqual(rows["AdamW"][3:], ("–", "–", "400", "–"))
        fig = plot.draw(self.data)
        self.assertEqual(len(fig.axes), 1 + 3)
        style.plt.close(fig)

    def test_the_studys_rows_have_what_the_models_are_asked_for(self):
        """Momenta, targets and schedules of the real study are known here, and recomputation is as there."""
        for tier in ("quick", "paper"):
            asked = {command.out: command.arguments for command in specs.load("comparison").commands(tier)}
            for run in studies.load("comparison", tier).runs:
                s = run.settings
                self.assertIn(s["data.name"], systems.TARGETS)
                self.assertIn(s["optimizer.batch"], systems.MOMENTA)
                for phase in s.get(studies.PHASES, [{}]):
                    kind = phase.get("schedule.kind") or s["schedule.kind"]
                    args = asked[f"{s['network.name']}_{kind}_{s['optimizer.batch']}.csv"]
                    self.assertEqual("--recompute" in args, "schedule.recompute" in s, run.label)
