"""A run repeated: the same weights pass, others are named, what is not there is refused."""

import sys
from pathlib import Path

from test_run_study import TRAINER, Folder

VERIFIER = Path("experiments/verify_row.py").resolve()


class VerifyRow(Folder):
    def setUp(self):
        super().setUp()
        status, said = self.call()
        self.assertEqual(status, 0, said)

    def verify(self, *words, results="out"):
        options = ["--tier", "quick", "--results", results, "--out", "again", "--program", "./batchless"]
        return self.run_script(VERIFIER, "probe.toml", *words, *options)

    def test_same_weights_pass_though_the_run_was_made_again(self):
        before = len(self.calls())
        status, shown, said = self.verify("first, of two", "2")
        self.assertEqual(status, 0, said)
        self.assertIn("repeated, with the same weights: " + "w" * 64, shown)
        self.assertIn("(c2, Some CPU, f)", shown)
        self.assertEqual(len(self.calls()), before + 1)

    def test_another_program_or_number_of_threads_repeats_it_anew(self):
        before = len(self.calls())
        for words, count in (((), 1), ((), 1), (("--workers", "3"), 2)):
            status, _, said = self.verify("second", "1", *words)
            self.assertEqual((status, len(self.calls())), (0, before + count), said)
        program = self.root / "batchless"
        program.write_text(program.read_text().replace('"w" * 64', '"v" * 64'))
        status, _, said = self.verify("second", "1")
        self.assertEqual(status, 1)
        self.assertIn("weights_sha256", said)

    def test_a_run_that_diverged_has_no_weights(self):
        self.trainer("lost = seed == 2")
        status, said = self.call("--out", "lost")
        self.assertEqual(status, 0, said)
        status, shown, said = self.verify("first, of two", "2", results="lost")
        self.assertEqual(status, 0, said)
        self.assertEqual(shown.splitlines()[-1], "repeated, with the same end")

    def test_other_weights_are_named(self):
        self.executable("batchless", TRAINER.format(python=sys.executable, rule="").replace('"w" * 64', '"v" * 64'))
        status, _, said = self.verify("second", "1")
        self.assertEqual(status, 1)
        self.assertIn(f"weights_sha256: got '{'v' * 64}', expected '{'w' * 64}'", said)
        self.assertEqual(len(self.results()), 3, "the results stay as they were")
        self.assertEqual({row["weights_sha256"] for row in self.results()}, {"w" * 64})

    def test_what_is_not_there_is_refused(self):
        for words, expected in (
            (("third", "1"), "verify_row: ROW: got 'third', accepted: first, of two; second"),
            (("second", "2"), "verify_row: SEED: got '2', accepted: an integer from 1 to 1"),
            (("second", "x"), "verify_row: SEED: got 'x', accepted: an integer from 1"),
        ):
            status, _, said = self.verify(*words)
            self.assertEqual((status, said.strip()), (2, expected))
        (self.root / "empty").mkdir()
        status, _, said = self.verify("second", "1", results="empty")
        self.assertEqual((status, len(said.splitlines())), (2, 1))
