"""Claims of the literature, statements of this project, and what the data files say about both.

claims.toml states each claim, where it comes from and which check decides it. The verdict is
computed here and nowhere written down:

    reproduced       the check passed
    not reproduced   the check failed
    not tested       there is no check, or no data for it, or not enough
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from figures.lib.checks import CHECKS
from figures.lib.tables import Data, DataError, Incomplete

VERDICTS = ("reproduced", "not reproduced", "not tested")
OWN = "this project"
BASES = {
    "published": "number printed in the publication, beside what the model here predicts",
    "recalled": "recalled from the publication, not compared with the printed text",
    "equation checked": "follows from equations that were checked numerically against a literal "
    "simulation; expected numbers come from an independent computation",
    OWN: "no claim of a publication; stated here and tested on data of the same programs",
}
REQUIRED = ("id", "statement", "source", "basis", "quantity")


class ClaimError(ValueError):
    """A claim that cannot be read; one line that names it."""


@dataclass(frozen=True)
class Result:
    id: str
    statement: str
    source: str
    basis: str
    quantity: str
    figure: str
    measured: str
    verdict: str
    limit: str = ""


def load(path: Path) -> list[dict]:
    try:
        claims = tomllib.loads(path.read_text(encoding="utf-8"))["claim"]
    except (OSError, tomllib.TOMLDecodeError, KeyError) as error:
        raise ClaimError(f"{path}: {error}") from error
    seen = set()
    for claim in claims:
        name = claim.get("id", "a claim")
        for key in REQUIRED:
            if not claim.get(key):
                raise ClaimError(f"{path}: {name}: '{key}' is missing")
        if name in seen:
            raise ClaimError(f"{path}: {name}: the id is taken")
        seen.add(name)
        if claim["basis"] not in BASES:
            raise ClaimError(
                f"{path}: {name}: basis: got '{claim['basis']}', accepted: {', '.join(BASES)}"
            )
        if "check" in claim and claim["check"] not in CHECKS:
            raise ClaimError(
                f"{path}: {name}: check: got '{claim['check']}', accepted: {', '.join(CHECKS)}"
            )
        if "check" not in claim and "needs" not in claim:
            raise ClaimError(f"{path}: {name}: without 'check', 'needs' says what a test takes")
    return claims


def with_figure(claim: dict) -> dict:
    """Cases take the claim's figure where they do not name one."""

    def fill(entry):
        if isinstance(entry, list):
            return [fill(item) for item in entry]
        if isinstance(entry, dict):
            filled = {key: fill(item) for key, item in entry.items()}
            return {"figure": claim["figure"]} | filled if "file" in entry else filled
        return entry

    return {key: fill(entry) for key, entry in claim.items()}


def evaluate(claim: dict, read: Callable[[str], Data]) -> Result:
    limit = ""
    if "check" not in claim:
        measured, verdict = f"Needs {claim['needs']}.", "not tested"
    else:
        try:
            outcome = CHECKS[claim["check"]](with_figure(claim), read)
            measured, limit = outcome.measured, outcome.limit
            verdict = "reproduced" if outcome.passed else "not reproduced"
        except FileNotFoundError as error:
            missing = f"No data: {Path(error.filename).name}."
            measured = f"Needs {claim['needs']}." if "needs" in claim else missing
            verdict = "not tested"
        except Incomplete as error:
            measured, verdict = f"Not enough runs yet: {error}.", "not tested"
        except DataError as error:
            raise ClaimError(f"{claim['id']}: {error}") from error
    return Result(
        figure=claim.get("figure", ""),
        measured=measured,
        verdict=verdict,
        limit=limit,
        **{key: " ".join(claim[key].split()) for key in REQUIRED},
    )


def evaluate_all(path: Path, data: Path) -> list[Result]:
    return [evaluate(claim, lambda figure: Data(data / figure)) for claim in load(path)]


def count(results: list[Result]) -> dict[str, dict[str, int]]:
    """How many of each verdict, by basis: a number of one basis says nothing about another."""
    found = Counter((result.basis, result.verdict) for result in results)
    return {basis: {verdict: found[basis, verdict] for verdict in VERDICTS} for basis in BASES}


def as_json(results: list[Result]) -> dict:
    return {"counts": count(results), "claims": [asdict(result) for result in results]}
