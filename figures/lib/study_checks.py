"""Checks over the runs of a study, paired by seed.

A claim on a study has these keys:

    file             results.csv, or paper.csv of a study that the figure runs itself
    seeds            how many seeds were planned; fewer of any row test nothing
    higher, lower    names of rows; a seed's value is the sum over `higher` less that over `lower`
    case             in place of them, a list of such pairs: all have to pass, and the largest p counts
    level            of the test, after Holm's adjustment over the claims of the study
    margin           in points: by how much the one may be worse, or the two may differ
    held_against     `higher` and `lower` of an effect that the margin has to be smaller than
    measure          accuracy where not given, or loss, or log2_stable_rate: of rows `NAME, rate *` the
                     largest rate up to which all train stably, in octaves
    rates            how many rows a name with a * stands for; of an accuracy and of a loss the best by
                     the first seed; what diverged counts as guessing and is not the best

Runs on the synthetic set do not count.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from figures.lib import study
from figures.lib.checks import Outcome, Reader
from figures.lib.statistics import POWER, Differences
from figures.lib.tables import DataError, Incomplete, Table

# What is above has learnt nothing.
GUESSING_LOSS = math.log(study.CLASSES)


@dataclass(frozen=True)
class Measure:
    """A number for each seed, from all runs that a name stands for."""

    unit: str
    resolution: float  # step that it is counted in
    values: Callable[[Table, str], dict[int, float]]
    runs: Callable[[dict, str], int]  # planned ones of a name
    finished: Callable[[dict, Table], int]  # how many of these its rows have
    # The row that a name stands for, where a run of it that diverged counts as guessing.
    row: Callable[[Table, str], Table | None] = lambda table, name: None


def _named(table: Table, pattern: str) -> Table | None:
    names = [name for name in dict.fromkeys(table["row"]) if fnmatch.fnmatchcase(name, pattern)]
    keep = np.isin(table["row"], names)
    return table.keep(keep) if keep.any() else None


def _best(table: Table, name: str, values: Callable[[Table], np.ndarray], sign: int) -> Table | None:
    """Of several rows, the one whose first seed has the largest `sign` times its value and has not
    diverged."""
    found = _named(table, name)
    if found is None:
        return None

    def first(row: Table) -> float:
        of_seed = (row["seed"] == study.FIRST_SEED) & ~study.diverged(row)
        return max(sign * values(row)[of_seed], default=-math.inf)

    return max(study.rows(found).values(), key=first)


def _rate(row: str) -> float:
    """Of a row `NAME, rate RATE`."""
    return float(row.rsplit(" ", 1)[1])


def _stable_rates(table: Table, name: str) -> dict[int, float]:
    found = _named(table, name)
    if found is None:
        return {}
    rates: dict[int, dict[float, bool]] = {}
    losses = np.array(found["validation_loss"], dtype=float)
    stable = ~study.diverged(found) & (losses < GUESSING_LOSS)
    for row, seed, good in zip(found["row"], found["seed"], stable):
        rates.setdefault(int(seed), {})[_rate(row)] = bool(good)
    largest = {}
    for seed, verdicts in rates.items():
        ordered = sorted(verdicts)
        first_bad = next((k for k, rate in enumerate(ordered) if not verdicts[rate]), None)
        if not first_bad:
            which = "the smallest rate diverges" if first_bad == 0 else "the largest rate is stable"
            raise Incomplete(f"'{name}', seed {seed}: {which}, so that the border is not among them")
        largest[seed] = math.log2(ordered[first_bad - 1])
    return largest


def _runs_of_one_row(claim: dict, name: str) -> int:
    # All rows to choose from have the first seed, and one has the others.
    return claim["seeds"] + (claim["rates"] - 1 if "*" in name else 0)


def _finished_of_one_row(claim: dict, found: Table) -> int:
    firsts = int(np.count_nonzero(found["seed"] == study.FIRST_SEED))
    others = found.keep((found["seed"] > study.FIRST_SEED) & (found["seed"] <= claim["seeds"]))
    return firsts + max(map(len, study.rows(others).values()), default=0)


def _of_best_row(unit: str, resolution: float, values: Callable[[Table], np.ndarray], sign: int) -> Measure:
    def row(table: Table, name: str) -> Table | None:
        return _best(table, name, values, sign)

    def by_seed(table: Table, name: str) -> dict[int, float]:
        best = row(table, name)
        return {} if best is None else dict(zip(map(int, best["seed"]), map(float, values(best))))

    return Measure(unit, resolution, by_seed, _runs_of_one_row, _finished_of_one_row, row)


MEASURES = {
    # 10,000 images make steps of 0.01 %.
    "accuracy": _of_best_row("points", 0.01, study.accuracies, 1),
    # In natural units, of a token or an image.
    "loss": _of_best_row("nats", 1e-4, study.losses, -1),
    "log2_stable_rate": Measure(
        "octaves", 1.0, _stable_rates, lambda claim, name: claim["seeds"] * claim["rates"],
        lambda claim, found: len(found),
    ),  # fmt: skip
}


def _measure(claim: dict) -> Measure:
    return MEASURES[claim.get("measure", "accuracy")]


def _cases(claim: dict) -> list[dict]:
    return claim.get("case", [claim])


def names(claim: dict) -> list[str]:
    """The rows that it is about, as it names them."""
    pairs = [*_cases(claim), *([claim["held_against"]] if "held_against" in claim else [])]
    return list(dict.fromkeys(name for pair in pairs for name in pair["higher"] + pair["lower"]))


def _runs(claim: dict, read: Reader) -> Table:
    """All runs that the claim is about, or Incomplete with how many of them there are."""
    measure = _measure(claim)
    planned = sum(measure.runs(claim, name) for name in names(claim))
    try:
        table = read(claim["figure"]).table(claim["file"])
    except (FileNotFoundError, DataError):
        raise Incomplete(f"0 of {planned} runs") from None
    table = table.keep(table["data"] != study.SYNTHETIC)
    finished = 0
    for name in names(claim):
        found = _named(table, name)
        runs = 0 if found is None else measure.finished(claim, found)
        finished += min(runs, measure.runs(claim, name))
    if finished < planned:
        raise Incomplete(f"{finished} of {planned} runs")
    return table


def has_runs(claim: dict, read: Reader) -> bool:
    """Whether all runs that the claim is about have finished."""
    try:
        _runs(claim, read)
    except Incomplete:
        return False
    return True


def _differences(claim: dict, pair: dict, table: Table) -> Differences:
    measure = _measure(claim)
    sides = [[measure.values(table, name) for name in pair[side]] for side in ("higher", "lower")]
    seeds = range(study.FIRST_SEED, study.FIRST_SEED + claim["seeds"])
    missing = [seed for seed in seeds if any(seed not in row for side in sides for row in side)]
    if missing:
        raise Incomplete(f"no run of seed {missing[0]} at the best rate")
    values = tuple(
        sum(row[seed] for row in sides[0]) - sum(row[seed] for row in sides[1]) for seed in seeds
    )
    return Differences(values, measure.resolution)


def _guessed(claim: dict, pair: dict, table: Table) -> str:
    """How many of the pair's runs diverged, in words; nothing where none did."""
    rows = [_measure(claim).row(table, name) for name in dict.fromkeys(pair["higher"] + pair["lower"])]
    lost = sum(
        int(np.count_nonzero(study.diverged(row) & (row["seed"] <= claim["seeds"])))
        for row in rows
        if row is not None
    )
    return f", {lost} {'run' if lost == 1 else 'runs'} diverged and counted as guessing" if lost else ""


def _at_an_end(pair: dict, measure: Measure, table: Table) -> str:
    """Which best rates are the first or last of those tried, in words: a rate beyond may be better."""
    words = ""
    for name in dict.fromkeys(pair["higher"] + pair["lower"]):
        row = measure.row(table, name) if "*" in name else None
        if row is None:
            continue
        own, tried = _rate(row["row"][0]), set(map(_rate, _named(table, name)["row"]))
        if len(tried) > 1 and own in (min(tried), max(tried)):
            end = "lowest" if own == min(tried) else "highest"
            words += f", '{row['row'][0]}' is the {end} tried"
    return words


def _in_units(claim: dict, number: float) -> str:
    return f"{number:g} {_measure(claim).unit}"


def _in_words(claim: dict, pair: dict, found: Differences, p: float, table: Table) -> str:
    unit = _measure(claim).unit
    low, high = found.interval()
    higher, lower = (" + ".join(pair[side]) for side in ("higher", "lower"))
    return (
        f"{higher} less {lower}: {found.mean:+.2f} {unit}, 95 % from {low:+.2f} to {high:+.2f}, "
        f"effect size {found.effect_size:.1f}, p = {p:.2g}{_guessed(claim, pair, table)}"
        f"{_at_an_end(pair, _measure(claim), table)}"
    )


def _tested(
    claim: dict,
    read: Reader,
    probability: Callable[[Differences], float],
    question: str,
    limit: str = "",
    power: float = POWER,
    tails: int = 1,
) -> Outcome:
    table = _runs(claim, read)
    if "held_against" in claim:
        effect = _differences(claim, claim["held_against"], table).mean
        guessed = _guessed(claim, claim["held_against"], table)
        if claim["margin"] >= effect:
            raise Incomplete(
                f"the margin of {_in_units(claim, claim['margin'])} is no smaller than the effect that it is "
                f"held against, {effect:.2f}"
            )
        limit += f"; against an effect of {effect:.2f}{guessed}"
    found = [(pair, _differences(claim, pair, table)) for pair in _cases(claim)]
    p = [probability(differences) for _, differences in found]
    worst = max(range(len(p)), key=lambda k: p[k])

    def shown(open_tests: int) -> str:
        # Holm's adjustment passes one more where its p is below this.
        level = claim["level"] / open_tests
        seen = found[worst][1].detectable(level / tails, power)
        return (
            f"{claim['seeds']} seeds show {question} {seen:.2f} {_measure(claim).unit} with a power of "
            f"{100 * POWER:g} % at Holm's level of {100 * level:.2g} %"
        )

    return Outcome(
        "; ".join(
            _in_words(claim, pair, differences, probability(differences), table)
            for pair, differences in found
        ),
        p[worst] < claim["level"],
        limit,
        p=p[worst],
        power=shown,
    )


def paired_above(claim: dict, read: Reader) -> Outcome:
    """`higher` is above `lower`: paired t-test, two-sided. The direction of a statement is no
    knowledge from before the runs, which a one-sided test would take for granted."""
    return _tested(
        claim, read, lambda found: min(1.0, 2 * found.above()), "a difference of", tails=2
    )


def paired_not_below(claim: dict, read: Reader) -> Outcome:
    """`higher` is less than `margin` below `lower`: paired t-test, one-sided. A large p of no
    difference would only say that there are few seeds."""
    margin = claim["margin"]
    return _tested(
        claim, read, lambda found: found.above(-margin),
        "no loss within a margin of", f"a loss of less than {_in_units(claim, margin)}",
    )  # fmt: skip


def paired_equivalent(claim: dict, read: Reader) -> Outcome:
    """`higher` and `lower` differ by less than `margin`: two one-sided tests."""
    margin = claim["margin"]
    return _tested(
        claim, read, lambda found: found.within(margin),
        "equality within a margin of", f"within {_in_units(claim, margin)}",
        # Where there is no difference, each of the two tests fails in half of the other cases at most.
        power=(1 + POWER) / 2,
    )  # fmt: skip


CHECKS: dict[str, Callable[[dict, Reader], Outcome]] = {
    check.__name__: check for check in (paired_above, paired_not_below, paired_equivalent)
}
