"""The page "What we found": its sentences as long as the ledger bears them out.

figures/findings.toml says what they are made of.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from figures.lib.claims import VERDICTS, ClaimError, Result

PATH = Path("figures/findings.toml")
REFERENCE = re.compile(r"\{(-?)([a-z0-9-]+)(?::(\d))?\}")
# As figures/lib/study_checks.py writes a difference.
DIFFERENCE = re.compile(r"([+-][\d.]+) (\w+), 95 % from ([+-][\d.]+) to ([+-][\d.]+)")


@dataclass(frozen=True)
class Sentence:
    text: str
    claims: tuple[Result, ...] = ()  # that it rests on


@dataclass(frozen=True)
class Part:
    title: str
    figure: str  # may be empty
    sentences: tuple[Sentence, ...]


def load(results: list[Result], path: Path = PATH) -> list[Part]:
    """The page by the ledger as it stands. Throws ClaimError for a claim or a verdict that there is not."""
    by_id = {result.id: result for result in results}
    counts = {
        "planned": len(results),
        "waiting": sum(result.verdict == "not tested" for result in results),
    }
    return [
        Part(
            part["title"],
            part.get("figure", ""),
            tuple(_sentence(sentence, by_id, counts) for sentence in part["sentence"]),
        )
        for part in tomllib.loads(path.read_text(encoding="utf-8"))["part"]
    ]


def _sentence(sentence: dict, by_id: dict[str, Result], counts: dict[str, int]) -> Sentence:
    text, holds = sentence["text"], sentence.get("holds", {})
    for name, verdict in holds.items():
        if name not in by_id:
            raise ClaimError(f"{PATH}: got claim '{name}', accepted: one of figures/claims")
        if verdict not in VERDICTS:
            raise ClaimError(f"{PATH}: {name}: got '{verdict}', accepted: {', '.join(VERDICTS)}")
    for _, name, _ in REFERENCE.findall(text):
        if name not in counts and name not in holds:
            raise ClaimError(f"{PATH}: got '{{{name}}}', accepted: a claim of the sentence's `holds`")
    if any(by_id[name].verdict != verdict for name, verdict in holds.items()):
        found = [by_id[name] for name in holds]
        text = " ".join(f"{r.statement} {r.verdict.capitalize()}: {r.measured.rstrip('.')}." for r in found)
    else:
        text = REFERENCE.sub(lambda match: _value(match, by_id, counts), text)
    return Sentence(text, tuple(by_id[name] for name in holds))


def _value(match: re.Match, by_id: dict[str, Result], counts: dict[str, int]) -> str:
    minus, name, case = match.groups()
    if name in counts:
        return str(counts[name])
    measured = by_id[name].measured
    found = DIFFERENCE.findall(measured)
    if not found:
        return measured.rstrip(".")
    number = int(case or 1)
    if not 1 <= number <= len(found):
        raise ClaimError(f"{PATH}: got '{match.group()}', accepted: a case from 1 to {len(found)}")
    value, unit, low, high = found[number - 1]
    numbers = [float(value), float(low), float(high)]
    if minus:
        numbers = [-numbers[0], -numbers[2], -numbers[1]]
    shown = [f"{number:.2f}".replace("-", "\N{MINUS SIGN}") for number in numbers]
    return f"{shown[0]} {unit} ({shown[1]} to {shown[2]})"
