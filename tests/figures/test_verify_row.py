"""A run repeated: the same weights pass, others are named, what is not there is refused."""

import sys
from pathlib import Path

from test_run_study import TRAINER, Folder

VERIFIER = Path("experiments/verify_row.py").resolve()


class VerifyRow(Folder):
    def setUp(self):
        super().setUp()
        self.call()

    def verify(self, *words, results="out", code=0):
        options = ["--tier", "quick", "--results", results, "--out", "again", "--program", "./batchless"]
        return self.run_script(VERIFIER, "probe.toml", *words, *options, code=code)

    def test_same_weights_pass_though_the_run_was_made_again(self):
        before = len(self.lines_of("calls"))
        shown, _ = self.verify("first, of two", "2")
        self.assertIn("repeated, with the same weights: " + "w" * 64, shown)
        self.assertIn("(c2, Some CPU, f)", shown)
        self.assertEqual(len(self.lines_of("calls")), before + 1)

    def test_another_program_or_number_of_threads_repeats_it_anew(self):
        before = len(self.lines_of("calls"))
        for words, count in (((), 1), ((), 1), (("--workers", "3"), 2)):
            self.verify("second", "1", *words)
            self.assertEqual(len(self.lines_of("calls")), before + count)
        program = self.root / "batchless"
        program.write_text(program.read_text().replace('"w" * 64', '"v" * 64'))
        self.assertIn("weights_sha256", self.verify("second", "1", code=1)[1])

    def test_a_run_that_diverged_has_no_weights(self):
        self.trainer("lost = seed == 2")
        self.call("--out", "lost")
        shown, _ = self.verify("first, of two", "2", results="lost")
        self.assertEqual(shown.splitlines()[-1], "repeated, with the same end")

    def test_other_weights_are_named(self):
        self.executable("batchless", TRAINER.format(python=sys.executable, rule="").replace('"w" * 64', '"v" * 64'))
        _, said = self.verify("second", "1", code=1)
        self.assertIn(f"weights_sha256: got '{'v' * 64}', expected '{'w' * 64}'", said)
        self.assertIn("made on Some CPU, repeated on Some CPU", said)
        self.assertEqual(len(self.results()), 3, "the results stay as they were")
        self.assertEqual({row["weights_sha256"] for row in self.results()}, {"w" * 64})

    def test_what_is_not_there_is_refused(self):
        for words, expected in (
            (("third", "1"), "verify_row: ROW: got 'third', accepted: first, of two; second"),
            (("second", "2"), "verify_row: SEED: got '2', accepted: an integer from 1 to 1"),
            (("second", "x"), "verify_row: SEED: got 'x', accepted: an integer from 1"),
        ):
            self.assertEqual(self.verify(*words, code=2)[1].strip(), expected)
        (self.root / "empty").mkdir()
        self.assertEqual(self.verify("second", "1", results="empty", code=2)[1].count("\n"), 1)
