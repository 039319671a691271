"""The page: carries everything with it, and shows what it was given."""

import re
import tempfile
import tomllib
import unittest
from pathlib import Path

from experiments import study, study_results
from figures.lib import claims, findings, report, waiting
from figures.lib import spec as specs
from figures.lib.claims import ClaimError, Result
from figures.lib.study import ReportTable

MANIFEST = {
    "program": {"version": "1", "commit": "abc", "compiler": "gcc 12", "flags": ["-O2", "-g"]},
    "machine": {"cpu": "Some CPU", "processors": 2, "system": "Linux x86_64"},
    "tier": "quick",
    "date": "2026-01-02T03:04:05+00:00",
    "seconds": 1.25,
    "runs": [
        {
            "command": "batchless sweep",
            "output": "a.csv",
            "bytes": 1234,
            "sha256": "0" * 64,
            "seconds": 1.0,
        }
    ],
}


def page(found=(), **changes):
    figure = {
        "number": 1,
        "name": "fig",
        "title": "Title",
        "caption": "Half-life of LWP_2D & SC_D at 15 % by `a_D & b.py`",
        "alt": 'What can be "seen"',
        "manifest": MANIFEST | changes,
        "tables": [
            ReportTable("Accuracy & <more>", ("", "mean"), (("PB+SC_D", "90.1"),)),
            ReportTable("Nothing yet."),
        ],
        "picture": {"uri": "data:image/png;base64,AA==", "width": 1496, "height": 700},
    }
    results = [
        Result(
            "c", 7, "It <holds>", "Someone", "recalled", "measured", "q", "fig", "3·10^-5",
            "not reproduced", "within 15 %",
        ),
        Result("d", 0, "Ours", "this project", "derived", "measured", "q", "fig", "1", "reproduced"),
    ]  # fmt: skip
    return report.render([figure], results, [MANIFEST, MANIFEST | changes], found=found)


class Waiting(unittest.TestCase):
    """What the queue has still to run, without results and with those that are there."""

    def lines(self, results):
        self.queue = waiting.Queue(lambda network: 1e6 if network == "resnet20" else 4e6, Path(results))
        table = self.queue.table()
        return table, {name: (int(runs), hours) for name, runs, _, hours in table.rows}

    def test_every_run_is_to_come_once_where_none_is_there(self):
        with tempfile.TemporaryDirectory() as empty:
            _, lines = self.lines(empty)
        folders = {run.folder for one in study.queue("paper") for run in one.runs}
        total, hours = lines.pop("All of them")
        self.assertEqual((total, hours), (len(folders), "\N{EN DASH}"))
        self.assertEqual(sum(runs for runs, _ in lines.values()), total)

    def test_what_is_there_is_not_to_come_and_says_how_long_the_rest_takes(self):
        table, lines = self.lines("experiments/results")
        queue = study.queue("paper")
        runs, finished = {}, {}
        for one in queue:
            finished |= study_results.read_kept(one, Path("experiments/results", one.name))
            for run in one.runs:
                runs.setdefault(run.folder, run)
        total, hours = lines.pop("All of them")
        planned = study_results.planned(list(runs.values()), finished)
        self.assertEqual(total, planned - len(finished))
        self.assertEqual(sum(runs for runs, _ in lines.values()), total)
        self.assertAlmostEqual(sum(float(hours) for _, hours in lines.values()), float(hours), delta=6)
        # In the same epochs a network of some three times the work takes some three times as long.
        full = {one.name: lines[one.title] for one in queue if one.title in lines}
        small, large = (full[f"full_length{name}"] for name in ("", "_resnet56"))
        ratio = float(large[1]) / large[0] / (float(small[1]) / small[0])
        self.assertTrue(2 < ratio < 5, ratio)

    def test_a_claim_waits_for_its_own_runs_or_shorter_ones(self):
        self.lines("experiments/results")
        queue = self.queue
        one = {"check": "paired_above", "figure": "full_length", "seeds": 5, "higher": ["PB"], "lower": ["PB"]}
        both = one | {"higher": ["SGDM, N = 128"]}
        self.assertAlmostEqual(queue.hours_of(both), 2 * queue.hours_of(one))
        self.assertAlmostEqual(queue.hours_of(one | {"seeds": 1}) * 5, queue.hours_of(one))
        quarter = one | {"interim": {"figure": "short", "seeds": 5, "rows": {"PB": "delay 8, stashing true, sgdm"}}}
        # That is 163.84 epochs of whole mini-batches of 128.
        self.assertAlmostEqual(queue.hours_of(quarter) / queue.hours_of(one), 6.4 / 163.84)
        # Whose runs are there, or which is not about runs of the queue, waits for nothing.
        self.assertEqual(queue.hours_of(one | {"figure": "resnet20_pb", "seeds": 3}), 0)
        self.assertEqual(queue.hours_of({"id": "imagenet", "needs": "years"}), 0)

    def test_the_page_has_the_table_at_its_end_and_links_to_it(self):
        self.assertNotIn("waiting", page())
        table = ReportTable("To come", waiting.COLUMNS, (("A study", "3", "4", "12"),))
        html = report.render([], [], [MANIFEST], to_come=table)
        self.assertIn('<th scope="row">A study</th><td>3</td><td>4</td><td>12</td>', html)
        self.assertLess(html.index('id="claims"'), html.index('id="waiting"'))
        self.assertIn('href="#waiting"', html)


class Findings(unittest.TestCase):
    """Sentences stand as long as the ledger bears them out."""

    TEXT = """
[[part]]
title = "Does it?"
figure = "fig"

[[part.sentence]]
text = "Of {planned} claims {waiting} wait. It loses {a}, the other way {-a}, its second case {b:2}, a count {c}."
holds = { a = "reproduced", b = "not reproduced", c = "not tested" }
"""

    def result(self, name, verdict, measured):
        words = ("s of " + name, "source", "printed", "measured", "q", "fig")
        return Result(name, 4, *words, measured, verdict)

    def results(self, verdict="reproduced"):
        return [
            self.result("a", verdict, "X less Y: +1.80 points, 95 % from -0.73 to +2.86, p = 0.1"),
            self.result(
                "b", "not reproduced",
                "Z: +1.00 nats, 95 % from +0.5 to +2; W: -2.00 nats, 95 % from -3 to -1, p = 1",
            ),
            self.result("c", "not tested", "2 of 3 runs."),
        ]  # fmt: skip

    def load(self, results, text=TEXT):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "findings.toml")
            path.write_text(text)
            return findings.load(results, path)

    def test_numbers_are_the_ledgers(self):
        (part,) = self.load(self.results())
        minus = "\N{MINUS SIGN}"
        self.assertEqual(
            part.sentences[0].text,
            f"Of 3 claims 1 wait. It loses 1.80 points ({minus}0.73 to 2.86), the other way "
            f"{minus}1.80 points ({minus}2.86 to 0.73), its second case {minus}2.00 nats ({minus}3.00 to "
            f"{minus}1.00), a count 2 of 3 runs.",
        )

    def test_another_verdict_puts_the_ledgers_words_in_its_place(self):
        (part,) = self.load(self.results("not reproduced"))
        text = part.sentences[0].text
        self.assertNotIn("It loses", text)
        self.assertIn("s of a Not reproduced: X less Y: +1.80 points", text)
        self.assertIn("s of c Not tested: 2 of 3 runs.", text)

    def test_mistakes_are_named(self):
        for old, new, message in (
            ('a = "rep', 'd = "rep', "got claim 'd', accepted: one of figures/claims"),
            ('"not tested"', '"open"', "c: got 'open', accepted: reproduced"),
            ("{a}", "{d}", "got '{d}', accepted: a claim of the sentence's `holds`"),
            ("{a}", "{a:3}", "got '{a:3}', accepted: a case from 1 to 1"),
            ("{a}", "{a:0}", "got '{a:0}', accepted: a case from 1 to 1"),
        ):
            with self.assertRaisesRegex(ClaimError, re.escape(message)):
                self.load(self.results(), self.TEXT.replace(old, new))

    def test_the_real_page_speaks_of_claims_that_there_are_and_is_one(self):
        results = [
            self.result(claim["id"], "not tested", "") for claim in claims.load(Path("figures/claims"))
        ]
        findings.load(results)
        text = findings.PATH.read_text()
        words = re.findall(r'^text = "(.*)"$', text, re.MULTILINE)
        self.assertLess(sum(len(line.split()) for line in words), 600)
        drawn = {spec.name for spec in specs.drawn()}
        pictures = re.findall(r'^figure = "(.*)"$', text, re.MULTILINE)
        self.assertEqual(len(pictures), 4)
        self.assertLessEqual(set(pictures), drawn)

    def test_a_number_of_a_publication_that_was_not_read_is_called_recalled(self):
        recalled = {
            claim["id"]
            for claim in claims.load(Path("figures/claims"))
            if claim["provenance"] == "recalled"
        }
        for part in tomllib.loads(findings.PATH.read_text(encoding="utf-8"))["part"]:
            for sentence in part["sentence"]:
                if "publication" in sentence["text"] and recalled & set(sentence.get("holds", {})):
                    self.assertIn("recalled", sentence["text"])

    def test_the_page_comes_first_and_leads_to_the_ledger(self):
        html = page(found=self.load(self.results()))
        self.assertLess(html.index('id="found"'), html.index('id="fig"'))
        self.assertIn('<sup><a href="#claim-a" title="s of a">4</a></sup>', html)
        self.assertEqual(html.count("data:image/png;base64,AA=="), 2)


class Page(unittest.TestCase):
    def test_needs_no_network(self):
        html = page()
        for source in re.findall(r'(?:src|href)="([^"]*)"', html):
            self.assertRegex(source, r"^(data:|#|fig\.pdf|fig\.png|data/fig/manifest\.json)")
        self.assertNotRegex(html, r"@import|<script|url\(")

    def test_links_to_the_explorer_where_there_is_one(self):
        link = 'href="explorer.html"'
        self.assertNotIn(link, page())
        self.assertIn(link, report.render([], [], [MANIFEST], has_explorer=True))

    def test_reads_on_a_phone_and_aloud(self):
        html = page()
        self.assertIn('name="viewport"', html)
        self.assertIn('<html lang="en">', html)
        for tag in re.findall(r"<img[^>]*>", html):
            self.assertRegex(tag, r'alt="[^"]{10,}"')

    def test_text_is_escaped_and_set(self):
        html = page()
        self.assertIn("It &lt;holds&gt;", html)
        self.assertIn("LWP<sub>2D</sub> &amp; SC<sub>D</sub>", html)
        self.assertIn("3·10<sup>\N{MINUS SIGN}5</sup>", html)

    def test_shows_where_the_numbers_come_from(self):
        html = page(program=MANIFEST["program"] | {"commit": "def"})
        for text in ("abc; def", "gcc 12", "-O2 -g", "Some CPU", "2026-01-02", "2.5 s", "1.2 kB"):
            self.assertIn(text, html)

    def test_tables_and_what_stands_for_them(self):
        html = page()
        self.assertIn('<th scope="row">PB+SC<sub>D</sub></th><td>90.1</td>', html)
        self.assertIn('<p class="soft">Nothing yet.</p>', html)

    def test_a_wide_table_leaves_its_caption_in_place(self):
        # What scrolls holds the table alone; its caption names it all the same.
        caption = '<p class="about" id="fig-table-1">Accuracy &amp; &lt;more&gt;</p>'
        before, inside = page().split('<div class="scroll"')
        self.assertIn(caption, before)
        self.assertIn('aria-labelledby="fig-table-1"', inside.split("</table>")[0])
        self.assertNotIn("<caption>", inside)

    def test_quoted_names_are_code(self):
        self.assertIn("at 15\N{NO-BREAK SPACE}% by <code>a_D &amp; b.py</code>", page())
        self.assertNotIn("`", page())

    def test_the_ledger_and_its_counts(self):
        html = page()
        self.assertLess(html.index('id="claim-c"'), html.index('id="claim-d"'))
        numbers = re.findall(r'<td data-label="No\.">(.*?)</td>', html)
        self.assertEqual(numbers, ["7", "\N{EN DASH}"])
        counts = re.search(r'<table class="counts">.*?</table>', html, re.DOTALL)[0]
        rows = re.findall(r'<th scope="row">([a-z, ]+)</th>(.*?)</tr>', counts)
        found = {kind: re.findall(r">(\d+)<", cells) for kind, cells in rows}
        self.assertEqual(
            found, {"recalled, measured": ["0", "1", "0"], "derived, measured": ["1", "0", "0"]}
        )

    def test_a_verdict_says_how_near_counts(self):
        self.assertRegex(page(), "not reproduced<span[^>]*>within 15\N{NO-BREAK SPACE}%</span>")

    def test_subscripts_leave_names_alone(self):
        self.assertEqual(str(report.mathematics("a sgdm_d0 file_name")), "a sgdm_d0 file_name")
        self.assertEqual(
            str(report.mathematics("LWPv_D+SC_D")), "LWPv<sub>D</sub>+SC<sub>D</sub>"
        )
        self.assertEqual(
            str(report.mathematics("SC_33, λ_max, w_fwd")),
            "SC<sub>33</sub>, λ<sub>max</sub>, w<sub>fwd</sub>",
        )

    def test_powers_are_raised(self):
        minus = "\N{MINUS SIGN}"
        self.assertEqual(
            str(report.mathematics("3·10^-5, z^{-D}, z^D, 10^6")),
            f"3·10<sup>{minus}5</sup>, z<sup>{minus}D</sup>, z<sup>D</sup>, 10<sup>6</sup>",
        )
