"""The table of claims: well formed, about files that exist, and with verdicts of its own making."""

import unittest
from pathlib import Path

from experiments import study
from figures.lib import claims, study_checks
from figures.lib import spec as specs
from figures.lib.tables import Data
from figures.memory_increase.published import CASES
from figures.predicted_measured.comparison import TOLERANCE
from figures.published_runs.plot import LIMITS
from figures.published_speedups.published import SECONDS

import reference_half_lives as reference
from folder import FolderTest

PATH = Path("figures/claims")
CLAIM = """
[[claim]]
id = "one"
figure = "f"
statement = "s"
source = "o"
provenance = "{provenance}"
verification = "predicted"
quantity = "q"
check = "values"
tolerance = 0.1
case = [{{ label = "x", file = "t.csv", column = "y", expected = 2 }}]
"""


def sources(claim):
    """Everything in a claim that names a data file."""
    for entry in claim.values():
        for item in entry if isinstance(entry, list) else [entry]:
            if isinstance(item, dict) and "file" in item:
                yield item.get("figure", claim["figure"]), item["file"]
    for name in claim.get("files", [claim["file"]] if "file" in claim else []):
        yield claim["figure"], name


class Table(unittest.TestCase):
    def test_no_verdict_is_written_down(self):
        for claim in claims.load(PATH):
            self.assertFalse({"verdict", "passed", "measured"} & set(claim), claim["id"])

    def test_every_file_is_one_that_a_figure_makes(self):
        for tier in specs.TIERS:
            # Results of long runs may not be there yet; their name is known.
            made = {
                s.name: {*s.files(tier), *s.files("paper", "data"), *(["results.csv"] if s.results else [])}
                for s in specs.load_all()
            }
            for claim in claims.load(PATH):
                for figure, file in sources(claim):
                    self.assertIn(file, made.get(figure, ()), claim["id"])

    def test_what_no_publication_says_is_derived_here(self):
        for claim in claims.load(PATH):
            own = "this project" in claim["source"]
            self.assertEqual(claim["provenance"] == "derived", own, claim["id"])

    def test_every_statement_of_the_sources_is_there(self):
        self.assertEqual({c.get("row") for c in claims.load(PATH)} - {None}, {*claims.STATEMENTS})

    def test_tests_over_seeds_never_gate(self):
        gating = {c["id"] for c in claims.load(PATH) if claims.is_gating(c)}
        self.assertLess({"certified", "limit", "half-life-d4", "closed-form"}, gating)
        for claim in claims.load(PATH):
            if claim.get("check") in study_checks.CHECKS:
                self.assertEqual(claim["verification"], "measured", claim["id"])
                self.assertNotIn(claim["id"], gating)
                # What a margin allows has to be smaller than something that was seen.
                self.assertEqual("margin" in claim, "held_against" in claim, claim["id"])
        seeds = {"check": "paired_above", "verification": "equation checked"}
        self.assertFalse(claims.is_gating(seeds))

    def test_every_check_decides_a_claim(self):
        used = {claim.get("check") for claim in claims.load(PATH)}
        self.assertEqual(used - {None}, set(claims.CHECKS))


    def test_shorter_runs_have_all_rows_and_seeds_that_they_are_asked_for(self):
        asked = [claims.interim(claim) for claim in claims.load(PATH) if "interim" in claim]
        self.assertTrue(asked)
        for claim in asked:
            seeds = [run.row for run in study.load(claim["figure"], "paper").runs]
            for name in study_checks.names(claim):
                self.assertEqual(seeds.count(name), claim["seeds"], f"{claim['id']}: {name}")


class Expected(unittest.TestCase):
    """The numbers in the table are those of the generator beside this file."""

    def cases(self, name):
        (claim,) = [c for c in claims.load(PATH) if c["id"] == name]
        return {case["label"]: case["expected"] for case in claim["case"]}

    def test_closed_forms(self):
        cases = self.cases("half-life-undelayed")
        self.assertAlmostEqual(cases["SGDM"], reference.undelayed_sgdm(), delta=1e-3)
        self.assertAlmostEqual(cases["Nesterov"], reference.undelayed_nesterov(), delta=1e-3)

    def test_search(self):
        expected = self.cases("half-life-d1")["LWPw_D+SC_D"]
        rule = reference.RULES["LWPw_D+SC_D"]
        found = reference.best_half_life(rule, 1, rounds=9)
        self.assertAlmostEqual(found / expected, 1, delta=0.005)

    def test_every_rule_has_one(self):
        for delay in (1, 4):
            self.assertEqual(list(self.cases(f"half-life-d{delay}")), list(reference.RULES))

    def test_published_memory_is_what_the_figure_shows(self):
        published = {case.file: case.published for case in CASES}
        found = [c for c in claims.load(PATH) if c.get("figure") == "memory_increase"]
        self.assertEqual(sum(len(claim["case"]) for claim in found), 14)
        for case in (case for claim in found for case in claim["case"]):
            row = published[case["file"]]
            self.assertEqual(case["expected"], getattr(row, case["where"]["scheme"]))


    def test_published_speedups_are_those_of_the_printed_times(self):
        seconds = {name.replace("resnet", "ResNet-"): times for name, times in SECONDS.items()}
        for claim, column in (("zhang-pipelined", 1), ("zhang-pipelined-depth", 1), ("zhang-hybrid", 2)):
            for network, expected in self.cases(claim).items():
                times = seconds[network]
                self.assertEqual(expected, round(times[0] / times[column], 2), network)

    def test_predictions_are_held_to_the_figures_tolerance(self):
        found = {c["id"]: c["tolerance"] for c in claims.load(PATH) if c.get("check") == "predictions"}
        self.assertEqual(found["hardware-model-speed"], TOLERANCE)
        for claim, limit in zip(("published-step-times", "published-memory"), LIMITS, strict=True):
            self.assertEqual(100 * found[claim], limit)


class Verdicts(FolderTest):
    def setUp(self):
        super().setUp()
        self.path = self.root / "claims"
        self.path.mkdir()
        self.write(CLAIM.format(provenance="recalled"))

    def write(self, text):
        (self.path / "some.toml").write_text(text)

    def verdict(self):
        (claim,) = claims.load(self.path)
        return claims.evaluate([claim], lambda figure: Data(self.root))[0].verdict

    def test_follows_the_data(self):
        (self.root / "t.csv").write_text("y\n2.1\n")
        self.assertEqual(self.verdict(), "reproduced")
        (self.root / "t.csv").write_text("y\n3\n")
        self.assertEqual(self.verdict(), "not reproduced")

    def test_says_how_near_counts_where_it_was_tested(self):
        (claim,) = claims.load(self.path)
        for text, limit in (("y\n2.1\n", "within 10 %"), ("y\n3\n", "within 10 %"), (None, "")):
            if text:
                (self.root / "t.csv").write_text(text)
            else:
                (self.root / "t.csv").unlink()
            (result,) = claims.evaluate([claim], lambda figure: Data(self.root))
            self.assertEqual(result.limit, limit)

    def test_shorter_runs_stand_in_until_the_claims_own_are_there(self):
        text = """
[[claim]]
id = "one"
figure = "long"
statement = "s"
source = "o"
provenance = "printed"
verification = "measured"
quantity = "after 24 epochs"
check = "paired_above"
file = "results.csv"
seeds = 3
level = 0.05
case = [{ higher = ["20, A"], lower = ["20, B"] }, { higher = ["110, A"], lower = ["110, B"] }]
interim = { figure = "short", seeds = 4, quantity = "after 6 epochs", rows = { "110," = "20," } }
"""
        self.write(text)
        head = "row,seed,network,data,validation_accuracy_percent,validation_loss,diverged\n"

        def put(figure, higher, lower, seeds, names):
            lines = [
                f'"{name}, {row}",{seed},x,cifar10,{value + 0.1 * seed * (row == "A")},1,no\n'
                for name in names
                for row, value in (("A", higher), ("B", lower))
                for seed in range(1, seeds + 1)
            ]
            (self.root / figure).mkdir(exist_ok=True)
            (self.root / figure / "results.csv").write_text(head + "".join(lines))

        def result():
            read = claims.load(self.path)
            (found,) = claims.evaluate(read, lambda figure: Data(self.root / figure))
            return found

        put("long", 70, 60, 3, ["20"])
        put("short", 60, 50, 3, ["20"])
        self.assertEqual(result().verdict, "not tested")
        self.assertEqual(result().measured, "6 of 12 runs. Of the figure short: 6 of 8 runs.")
        put("short", 60, 50, 4, ["20"])
        found = result()
        self.assertEqual((found.verdict, found.figure), ("reproduced", "short"))
        self.assertEqual(found.quantity, "after 6 epochs")
        self.assertEqual(found.measured.count("20, A less 20, B"), 1)
        put("long", 50, 60, 3, ["20", "110"])
        found = result()
        self.assertEqual((found.verdict, found.figure), ("not reproduced", "long"))
        self.assertEqual(found.quantity, "after 24 epochs")
        # Nor do they where the claim's own runs say that they can test nothing.
        margin = 'margin = 5\nheld_against = { higher = ["20, A"], lower = ["20, B"] }\nlevel'
        self.write(text.replace("paired_above", "paired_not_below").replace("level", margin))
        found = result()
        self.assertEqual((found.verdict, found.figure), ("not tested", "long"))
        self.assertIn("the margin of 5 points is no smaller than the effect", found.measured)
        put("long", 50, 60, 3, ["20"])
        self.assertEqual((result().verdict, result().figure), ("reproduced", "short"))

    def test_each_kind_is_counted_for_itself(self):
        (self.root / "t.csv").write_text("y\n2.1\n")
        own = CLAIM.format(provenance="derived").replace('"one"', '"two"').replace("= 2 ", "= 9 ")
        self.write(CLAIM.format(provenance="recalled") + own)
        results = claims.evaluate(claims.load(self.path), lambda figure: Data(self.root))
        counts = claims.count(results)
        self.assertEqual(counts["printed"], {})
        self.assertEqual(list(counts["recalled"]["predicted"].values()), [1, 0, 0])
        self.assertEqual(list(counts["derived"]["predicted"].values()), [0, 1, 0])

    def test_claims_come_by_the_numbers_of_their_statements(self):
        one = CLAIM.format(provenance="recalled")
        two = one.replace('"one"', '"two"\nrow = 3')
        three = one.replace('"one"', '"three"\nrow = 2')
        self.write(one + two)
        (self.path / "other.toml").write_text(three)
        self.assertEqual([c["id"] for c in claims.load(self.path)], ["three", "two", "one"])

    def test_without_data_nothing_is_tested(self):
        self.assertEqual(self.verdict(), "not tested")

    def test_data_that_do_not_fit_are_an_error(self):
        (self.root / "t.csv").write_text("z\n2\n")
        with self.assertRaisesRegex(claims.ClaimError, "one: .*no column 'y'"):
            self.verdict()

    def test_a_key_that_the_check_takes_is_named_where_it_is_missing(self):
        (self.root / "t.csv").write_text("x,y\n1,2\n")
        self.write(CLAIM.format(provenance="recalled").replace("tolerance", "tolerence"))
        with self.assertRaisesRegex(claims.ClaimError, "^one: 'tolerance' is missing"):
            self.verdict()

    def test_bad_claims_are_named(self):
        good = CLAIM.format(provenance="recalled")
        for text, message in (
            (CLAIM.format(provenance="read"), "one: provenance: got 'read', accepted: printed, "),
            (good.replace("predicted", "seen"), "one: verification: got 'seen', accepted: "),
            (good.replace('"one"', '"one"\nrow = 35'), "one: row: got '35', accepted: 1 to 34"),
            (good.replace('"values"', '"none"'), "one: check: got 'none', accepted: values, "),
            (good.replace('quantity = "q"', ""), "one: 'quantity' is missing"),
            (good * 2, "one: the id is taken"),
            (good.replace('"values"', '"paired_above"'), "one: 'level' is missing"),
        ):
            self.write(text)
            with self.assertRaisesRegex(claims.ClaimError, message):
                claims.load(self.path)
