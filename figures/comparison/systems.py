"""A system of the comparison: a row of the study, beside what the models say of its configuration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from figures.lib import study
from figures.lib.checks import hybrid
from figures.lib.tables import Data, Table

# Validation accuracy in percent whose samples are counted.
TARGETS = {"cifar10": 80.0, study.SYNTHETIC: 15.0}
# The reference momentum, 0.9 at 128, at each batch.
MOMENTA = {1: 0.9991772096491905, 8: 0.9934366015836147, 128: 0.9}
# Rules, and the one that each is at a first stage: SpecTrain predicts its forwards by the delay, and does not
# predict its backwards, which are the last that a sample has.
RULES = {name: name for name in ("sgdm", "sc", "lwp-v", "lwp-w", "lwp-v+sc", "lwp-w+sc", "msnag")}
RULES["spectrain"] = "lwp-v"


@dataclass(frozen=True)
class System:
    name: str
    accuracies: np.ndarray
    diverged: int
    samples_to_target: list[int | None]  # by run; None where it was not reached
    memory_bytes: float | None
    samples_per_second: float | None  # predicted
    stable_rate: float | None  # on a quadratic, in units of undelayed SGDM's


def _entries(manifest: dict, table: Table) -> dict[tuple[str, int], dict]:
    runs = study.about(manifest, table).get("runs", [])
    return {(entry["row"], entry["seed"]): entry for entry in runs}


def _predicted(data: Data, network: str, kind: str, batch: int, column: str) -> float | None:
    """What is predicted for a schedule; None where it was not asked for."""
    name = f"{network}_{kind}_{batch}.csv"
    return data.table(name).one(column) if data.has(name) else None


def _predicted_speed(data: Data, runs: Table) -> float | None:
    # Of a pipeline over groups of stages no prediction was asked for.
    if study.placement(runs):
        return None
    network, batch = str(runs["network"][0]), int(runs["batch"][0])
    phases = study.phases(runs)
    if not phases:
        return _predicted(data, network, study.cell(runs, "schedule.kind"), batch, "samples_per_second")
    # A first phase up to `until`, and one for the rest.
    first, rest = (
        _predicted(data, network, phase["schedule.kind"], batch, "samples_per_second") for phase in phases
    )
    return rest * hybrid(first / rest, phases[0]["until"])


def _stable_rate(data: Data, runs: Table) -> float | None:
    kind, batch = study.cell(runs, "schedule.kind"), int(runs["batch"][0])
    rule = RULES.get(study.cell(runs, "rule.name", "sgdm"))
    delay = _predicted(data, str(runs["network"][0]), kind, batch, "largest_delay")
    is_linear = study.cell(runs, "optimizer.kind", "sgdm") == "sgdm" and rule is not None
    if not is_linear or study.placement(runs) or study.phases(runs) or delay is None or batch not in MOMENTA:
        return None
    momentum = MOMENTA[batch]
    undelayed = data.table("sgdm.csv").one("critical_rate", delay=0, momentum=momentum)
    return data.table(f"{rule}.csv").one("critical_rate", delay=delay, momentum=momentum) / undelayed


def _first_at(validations: list[list], target: float) -> int | None:
    return next((int(samples) for samples, found, *_ in validations if found >= target), None)


def systems(data: Data, table: Table, manifest: dict) -> list[System]:
    entries = _entries(manifest, table)
    found = []
    for name, runs in study.rows(table).items():
        mine = [entries.get((name, int(seed)), {}) for seed in runs["seed"]]
        target = TARGETS[str(runs["data"][0])]
        memory = [each["predicted_memory_bytes"] for each in mine if "predicted_memory_bytes" in each]
        found.append(
            System(
                name=name,
                accuracies=study.accuracies(runs),
                diverged=int(study.diverged(runs).sum()),
                samples_to_target=[
                    _first_at(each["validations"], target) for each in mine if "validations" in each
                ],
                memory_bytes=float(np.mean(memory)) if memory else None,
                samples_per_second=_predicted_speed(data, runs),
                stable_rate=_stable_rate(data, runs),
            )
        )
    return found
