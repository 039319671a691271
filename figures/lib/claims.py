"""Statements of the sources and of this project, and what the data files say about them.

The files in figures/claims state each claim, which no verdict is written into:

    id              name of the claim
    row             number of the source's statement that it tests, 1 to 34; none for others
    statement       read alone, without those beside it
    source          what was really read, or what is recalled
    provenance      a key of PROVENANCES
    verification    a key of VERIFICATIONS
    quantity        what is compared, and when the claim passes
    figure          whose data files it reads
    check           a function of figures/lib/checks.py, which defines the other keys
    needs           what a test takes; in place of `check`, or shown where there are no data

`expected` numbers are computed independently or printed in the source, never from memory of it.
Verdicts are computed when the report is written:

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
STATEMENTS = range(1, 35)
PROVENANCES = {
    "printed": "read in the source: an abstract, slides, a table of the publisher's page",
    "recalled": "from memory of the source, not compared with its text",
    "derived": "derived or stated here; no claim of a publication",
}
VERIFICATIONS = {
    "equation checked": "computed from equations that were checked against literal simulations",
    "measured": "measured in runs, over seeds or repeats",
    "predicted": "predicted by a model of machines and memory",
}
KINDS = {"provenance": PROVENANCES, "verification": VERIFICATIONS}
REQUIRED = ("id", "statement", "source", "provenance", "verification", "quantity")


class ClaimError(ValueError):
    """A claim that cannot be read; one line that names it."""


@dataclass(frozen=True)
class Result:
    id: str
    row: int  # 0 where the claim tests no numbered statement
    statement: str
    source: str
    provenance: str
    verification: str
    quantity: str
    figure: str
    measured: str
    verdict: str
    limit: str = ""


def load(folder: Path) -> list[dict]:
    """The claims of all files, by the numbers of their statements; those without one come last."""
    claims, seen = [], set()
    for path in sorted(folder.glob("*.toml")):
        try:
            found = tomllib.loads(path.read_text(encoding="utf-8"))["claim"]
        except (OSError, tomllib.TOMLDecodeError, KeyError) as error:
            raise ClaimError(f"{path}: {error}") from error
        for claim in found:
            try:
                _require(claim, seen)
            except ClaimError as error:
                raise ClaimError(f"{path}: {claim.get('id', 'a claim')}: {error}") from None
            seen.add(claim["id"])
        claims += found
    if not claims:
        raise ClaimError(f"{folder}: no claims")
    return sorted(claims, key=lambda claim: claim.get("row", STATEMENTS.stop))


def _require(claim: dict, seen: set[str]) -> None:
    for key in REQUIRED:
        if not claim.get(key):
            raise ClaimError(f"'{key}' is missing")
    if claim["id"] in seen:
        raise ClaimError("the id is taken")
    for key, accepted in {**KINDS, "check": CHECKS, "row": STATEMENTS}.items():
        if key in claim and claim[key] not in accepted:
            words = "1 to 34" if key == "row" else ", ".join(accepted)
            raise ClaimError(f"{key}: got '{claim[key]}', accepted: {words}")
    if "check" not in claim and "needs" not in claim:
        raise ClaimError("without 'check', 'needs' says what a test takes")


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
        row=claim.get("row", 0),
        figure=claim.get("figure", ""),
        measured=measured,
        verdict=verdict,
        limit=limit,
        **{key: " ".join(claim[key].split()) for key in REQUIRED},
    )


def evaluate_all(folder: Path, data: Path) -> list[Result]:
    return [evaluate(claim, lambda figure: Data(data / figure)) for claim in load(folder)]


def count(results: list[Result]) -> dict[str, dict[str, dict[str, int]]]:
    """How many of each verdict, by provenance and then by verification, where there are any."""
    found = Counter((result.provenance, result.verification, result.verdict) for result in results)
    counts = {
        origin: {
            kind: {verdict: found[origin, kind, verdict] for verdict in VERDICTS}
            for kind in VERIFICATIONS
        }
        for origin in PROVENANCES
    }
    return {
        origin: {kind: found for kind, found in kinds.items() if any(found.values())}
        for origin, kinds in counts.items()
    }


def as_json(results: list[Result]) -> dict:
    return {"counts": count(results), "claims": [asdict(result) for result in results]}
