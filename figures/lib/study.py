"""Results of a study, as its plots, its tables and the claims see them.

`results.csv` is kept with the sources. Of a study that the figure runs itself, `quick.csv` is what a
short run has just made and `paper.csv` what it is on real data. Any of them may be missing or
unfinished. What was trained on the built-in synthetic set is called so wherever it is shown.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from figures.lib.statistics import Differences
from figures.lib.tables import Data, Table

# Real data first: they are what counts.
FILES = ("results.csv", "paper.csv", "quick.csv")
NETWORKS = {
    "resnet20": "ResNet-20",
    "resnet56": "ResNet-56",
    "resnet110": "ResNet-110",
    "lenet5": "LeNet-5",
    "alexnet": "AlexNet",
    "vgg16": "VGG-16",
}
SYNTHETIC = "synthetic"
DATA_SETS = {"cifar10": "CIFAR-10", "mnist": "MNIST", SYNTHETIC: "synthetic set"}
ABSENT = "No results on real data yet"
FIRST_SEED = 1
# What guessing one of ten classes reaches. A run that diverged has learnt no more than that.
CHANCE_PERCENT = 10.0
# Equally likely answers; the images have ten classes. Of other data nobody knows.
CLASSES = 10
ANSWERS = {"markov": 64, "cifar10": CLASSES, "mnist": CLASSES, SYNTHETIC: CLASSES}


@dataclass(frozen=True)
class ReportTable:
    """A table of the report; without rows its caption alone is shown."""

    caption: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def accuracies(table: Table) -> np.ndarray:
    """Validation accuracy in percent, one for each run."""
    found = np.array(table["validation_accuracy_percent"], dtype=float)
    return np.where(diverged(table), CHANCE_PERCENT, found)


def guessing_loss(data: str) -> float:
    """In nats."""
    return math.log(ANSWERS[data])


def losses(table: Table) -> np.ndarray:
    """Validation loss in nats, one for each run; of one that diverged, that of guessing."""
    found = np.array(table["validation_loss"], dtype=float)
    guessing = [guessing_loss(str(data)) for data in table["data"]]
    return np.where(diverged(table), guessing, found)


def cell(runs: Table, column: str, absent: str = "") -> str:
    """What the runs of a row have in common; a column without any entry is one of numbers that do not exist."""
    found = str(runs[column][0]) if column in runs.columns else ""
    return absent if found in ("", "nan") else found


def phases(runs: Table) -> list[dict]:
    return json.loads(cell(runs, "phase", "[]"))


def placement(runs: Table) -> list[int]:
    """Stages before each register of a pipeline over groups of stages; none of any other."""
    return json.loads(cell(runs, "schedule.placement", "[]"))


def diverged(table: Table) -> np.ndarray:
    """Which runs ended at a number that is none, in the weights or, with finite weights, in the loss."""
    lost = np.isnan(np.array(table["validation_loss"], dtype=float))
    return (table["diverged"] == "yes") | lost


def rows(table: Table) -> dict[str, Table]:
    """The runs of each row, rows in the study's order."""
    return {str(name): table.where(row=str(name)) for name in dict.fromkeys(table["row"])}


def is_synthetic(table: Table) -> bool:
    return bool(np.any(table["data"] == SYNTHETIC))


def _each(values, names: dict[str, str]) -> str:
    return ", ".join(names.get(str(value), str(value)) for value in dict.fromkeys(values))


def _span(table: Table) -> str:
    """How long the runs were, from the shortest to the longest; those that diverged have ended early."""
    ended = ~diverged(table)
    whole = table.keep(ended) if ended.any() else table

    def between(column: str, form: str) -> str:
        ends = dict.fromkeys(format(float(end(whole[column])), form) for end in (np.min, np.max))
        return " to ".join(ends)

    length = f"{between('samples', ',.0f')} samples"
    if np.max(whole["epochs"]) < 1:
        return length
    epochs = between("epochs", ".3g")
    return f"{length}, {epochs} {'epoch' if epochs == '1' else 'epochs'}"


def subject(table: Table) -> str:
    """'CIFAR-10: ResNet-20'"""
    network, data = _each(table["network"], NETWORKS), _each(table["data"], DATA_SETS)
    return f"{data[0].upper()}{data[1:]}: {network}"


def panels(data: Data) -> list[Table | None]:
    """A table for each file of results, None in front where there are none on real data."""
    found = [data.table(name) for name in FILES if data.has(name)]
    return found if any(not is_synthetic(table) for table in found) else [None, *found]


def absent(ax) -> None:
    ax.set_axis_off()
    ax.text(
        0.5, 0.5, ABSENT, ha="center", va="center", transform=ax.transAxes, color="#5b6169"
    )  # fmt: skip


def about(manifest: dict, table: Table) -> dict:
    """What is known about the origin of a table's runs."""
    of_tiers = manifest.get("studies", {}).get(Path(table.source).stem, {})
    return of_tiers or manifest.get("kept", {})


def losing(table: Table, value: str = "accuracy") -> str:
    """What is made of a table's runs that diverged, of which a value is shown."""
    if not diverged(table).any():
        return ""
    if value == "accuracy":
        return f" A diverged run counts as guessing, {CHANCE_PERCENT:g} %."
    return " Where a run diverged there is no mean."


def progress(manifest: dict, table: Table) -> str:
    """'7 of 16 runs' while there are some to come."""
    finished, planned = (about(manifest, table).get(f"runs_{k}") for k in ("finished", "planned"))
    return f"{finished} of {planned} runs" if finished != planned else ""


def heading(manifest: dict, table: Table) -> str:
    """'CIFAR-10: ResNet-20, 7 of 16 runs'"""
    return ", ".join(filter(None, (subject(table), progress(manifest, table))))


def origin(manifest: dict, table: Table) -> str:
    """Which program made the results; they may be older than the rest of the report."""
    known = about(manifest, table)
    program, machine = known.get("program", {}), known.get("machine", {})
    commits = ", ".join(map(short, every(program.get("commit", "unknown"))))
    processors = ", ".join(every(machine.get("cpu", "unknown")))
    seconds = known.get("training_seconds", 0)
    time = f"{seconds / 3600:.1f} processor hours" if seconds >= 3600 else f"{seconds:.0f} s"
    return f" Commit {commits}, {processors}, {time}."


def every(value: str | list[str]) -> list[str]:
    """What a manifest says that runs have in common, or differ in."""
    return value if isinstance(value, list) else [value]


def short(commit: str) -> str:
    """Twelve digits of the hash, and whether there were changes on top."""
    digits, *changed = str(commit).split("-", 1)
    return "-".join([digits[:12], *changed])


def title(table: Table) -> str:
    name = f"{subject(table)}, {_span(table)}"
    if is_synthetic(table):
        return f"{name} (synthetic images: not comparable with published numbers)"
    return name


def caption(manifest: dict, table: Table, words: str) -> str:
    """What a table of the report says of the runs that it is made from; `words` say what it shows."""
    runs = progress(manifest, table)
    return f"{title(table)}. {words}{f' So far {runs}.' if runs else ''}{origin(manifest, table)}"


def tables(data: Data, made: Callable[[Table], ReportTable]) -> list[ReportTable]:
    """What is made of each file of results."""
    return [made(table) if table else ReportTable(f"{ABSENT}.") for table in panels(data)]


def spread(values: np.ndarray, lost: int) -> list[str]:
    """Cells of mean, standard deviation, and number of runs, of which some diverged."""
    return [
        text(values.mean()),
        text(values.std(ddof=1)) if len(values) > 1 else "–",
        f"{len(values)}, {lost} diverged" if lost else f"{len(values)}",
    ]


def difference(pairs: Sequence[float]) -> list[str]:
    """Cells of the mean of differences and its 95 % interval."""
    if len(pairs) < 2:
        return [text(float(np.mean(pairs))) if len(pairs) else "–", "–"]
    found = Differences(tuple(map(float, pairs)))
    low, high = found.interval()
    return [text(found.mean), f"{text(low)} to {text(high)}"]


def text(value: float, digits: int = 2) -> str:
    if not np.isfinite(value):
        return "–"
    # A zero has no sign, whatever it was rounded from.
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "\N{MINUS SIGN}")
