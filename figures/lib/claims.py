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
    needs           what a test takes, in place of `check`
    interim         keys in place of the claim's own until its runs are there, of shorter runs; of these,
                    `rows` has other names for rows, or other beginnings, which end in a comma. Claims of
                    a figure stay one family whichever runs test them

`[default.FIGURE]` has what a file's claims on a figure share.

`expected` numbers are computed independently or printed in the source, never from memory of it.
Verdicts are computed when the report is written:

    reproduced       the check passed
    not reproduced   the check failed
    not tested       there is no check, or no data for it, or not enough
"""

from __future__ import annotations

import itertools
import tomllib
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from figures.lib import checks, slowdowns, stable_rates, study_checks, theory_checks
from figures.lib.checks import Outcome, Reader
from figures.lib.statistics import holm
from figures.lib.tables import Data, DataError, Incomplete

CHECKS = (
    checks.CHECKS | study_checks.CHECKS | theory_checks.CHECKS | stable_rates.CHECKS | slowdowns.CHECKS
)
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
    gates: bool = False  # figures/lib/gate.py fails where the claim does
    hours: float = 0  # of a processor, which the runs take that it waits for


def load(folder: Path) -> list[dict]:
    """The claims of all files, by the numbers of their statements; those without one come last."""
    claims, seen = [], set()
    for path in sorted(folder.glob("*.toml")):
        try:
            text = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise ClaimError(f"{path}: {error}") from error
        shared = text.get("default", {})
        found = [shared.get(claim.get("figure"), {}) | claim for claim in text.get("claim", [])]
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
    if claim.get("check") in study_checks.CHECKS and "level" not in claim:
        raise ClaimError("'level' is missing")
    if "check" not in claim and "needs" not in claim:
        raise ClaimError("without 'check', 'needs' says what a test takes")


def interim(claim: dict) -> dict:
    """The claim on the runs that stand in for its own."""
    keys = claim["interim"]

    def rename(entry):
        if isinstance(entry, dict):
            return {key: rename(item) for key, item in entry.items()}
        if isinstance(entry, list):
            # What differed in the replaced part alone is there once.
            renamed = [rename(item) for item in entry]
            return [item for k, item in enumerate(renamed) if item not in renamed[:k]]
        for old, new in keys.get("rows", {}).items():
            if entry == old or (old.endswith(",") and entry.startswith(old)):
                return new + entry.removeprefix(old)
        return entry

    renamed = {key: rename(claim[key]) for key in ("case", "higher", "lower", "held_against") if key in claim}
    return claim | renamed | {key: value for key, value in keys.items() if key != "rows"}


def tested(claim: dict, read: Reader) -> tuple[dict, Outcome | str]:
    """The claim on its own runs, or, where these are not there, on those of the interim."""
    found = outcome(claim, read)
    if isinstance(found, str) and "interim" in claim and not study_checks.has_runs(claim, read):
        shorter = interim(claim)
        first = outcome(shorter, read)
        if not isinstance(first, str):
            return shorter, first
        found = f"{found} Of the figure {shorter['figure']}: {first}"
    return claim, found


def outcome(claim: dict, read: Reader) -> Outcome | str:
    """What the check finds, or why there is nothing to check."""
    if "check" not in claim:
        return f"Needs {claim['needs']}."

    def own(figure: str | None) -> Data:
        """Cases take the claim's figure where they do not name one."""
        return read(figure or claim["figure"])

    try:
        return CHECKS[claim["check"]](claim, own)
    except FileNotFoundError as error:
        return f"No data: {Path(error.filename).name}."
    except Incomplete as error:
        return f"{error}."
    except DataError as error:
        raise ClaimError(f"{claim['id']}: {error}") from error
    except KeyError as error:
        raise ClaimError(f"{claim['id']}: {error} is missing, which its check takes") from error


def adjusted(claims: list[dict], outcomes: list[Outcome | str]) -> list[tuple[float, int] | None]:
    """Holm's p of each test over seeds, for all such claims of its figure, and how many of these do not
    pass. One that could not be tested yet counts as if it had failed: what is reproduced stays so when
    another row of the study has been finished."""
    families: dict[str, list[int]] = {}
    for k, claim in enumerate(claims):
        if claim.get("check") in study_checks.CHECKS:
            families.setdefault(claim["figure"], []).append(k)
    found: list[tuple[float, int] | None] = [None] * len(claims)
    for members in families.values():
        p = [getattr(outcomes[k], "p", None) for k in members]
        values = holm([1.0 if x is None else x for x in p])
        open_tests = sum(value >= claims[k]["level"] for k, value in zip(members, values))
        for k, value in zip(members, values):
            found[k] = value, open_tests
    return found


def is_gating(claim: dict) -> bool:
    """What follows from equations alone has to hold; runs and models may say otherwise."""
    checked = "check" in claim and claim["check"] not in study_checks.CHECKS
    return checked and claim["verification"] == "equation checked"


def result(claim: dict, found: Outcome | str, among: tuple[float, int] | None) -> Result:
    if isinstance(found, str):
        measured, limit, verdict = found, "", "not tested"
    else:
        measured, limit, passed = found.measured, found.limit, found.passed
        if among is not None:
            holm_p, open_tests = among
            passed &= holm_p < claim["level"]
            measured += f"; after Holm p = {holm_p:.2g}"
            measured += "" if passed else f"; {found.power(open_tests)}"
        verdict = "reproduced" if passed else "not reproduced"
    return Result(
        row=claim.get("row", 0),
        figure=claim.get("figure", ""),
        measured=measured,
        verdict=verdict,
        limit=limit,
        gates=is_gating(claim),
        **{key: " ".join(claim[key].split()) for key in REQUIRED},
    )


def evaluate(claims: list[dict], read: Reader) -> list[Result]:
    found = [tested(claim, read) for claim in claims]
    among = adjusted(claims, [each for _, each in found])
    return [result(*each, its) for each, its in zip(found, among)]


def count(results: list[Result]) -> dict[str, dict[str, dict[str, int]]]:
    """How many of each verdict, by provenance and then by verification, where there are any."""
    found = Counter((result.provenance, result.verification, result.verdict) for result in results)
    counts: dict[str, dict[str, dict[str, int]]] = {origin: {} for origin in PROVENANCES}
    for origin, kind in itertools.product(PROVENANCES, VERIFICATIONS):
        own = {verdict: found[origin, kind, verdict] for verdict in VERDICTS}
        if any(own.values()):
            counts[origin][kind] = own
    return counts


def as_json(results: list[Result]) -> dict:
    return {"counts": count(results), "claims": [asdict(result) for result in results]}
