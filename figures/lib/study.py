"""Results of a study, as its plots, its tables and the claims see them.

`quick.csv` is what a short run has just made, `paper.csv` the full protocol; either may be missing,
and either may be unfinished. What was trained on the built-in synthetic set is called so wherever it
is shown.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from figures.lib import statistics
from figures.lib.tables import Data, Table

# The full protocol first: it is what counts.
FILES = ("paper.csv", "quick.csv")
NETWORKS = {"resnet20": "ResNet-20", "lenet5": "LeNet-5"}
DATA_SETS = {"cifar10": "CIFAR-10", "synthetic": "synthetic set"}
ABSENT = "No results on CIFAR-10 yet"
COMMAND = "make figures TIER=paper DATA=folder"
# Of guessing one of ten classes. A run that diverged has learnt no more than that.
CHANCE_PERCENT = 10.0


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


def diverged(table: Table) -> np.ndarray:
    return table["diverged"] == "yes"


def rows(table: Table) -> dict[str, Table]:
    """The runs of each row, rows in the study's order."""
    return {str(name): table.where(row=str(name)) for name in dict.fromkeys(table["row"])}


def is_synthetic(table: Table) -> bool:
    return bool(np.any(table["data"] == "synthetic"))


def _each(values, names: dict[str, str]) -> str:
    return ", ".join(names.get(str(value), str(value)) for value in dict.fromkeys(values))


def _span(table: Table) -> str:
    """How long the runs were; those that diverged have ended early."""
    samples, epochs = float(np.max(table["samples"])), float(np.max(table["epochs"]))
    length = f"{samples:,.0f} samples"
    return f"{length}, {epochs:.3g} epochs" if epochs >= 1 else length


def subject(table: Table) -> str:
    """'CIFAR-10: ResNet-20'"""
    network, data = _each(table["network"], NETWORKS), _each(table["data"], DATA_SETS)
    return f"{data[0].upper()}{data[1:]}: {network}"


def results(data: Data) -> dict[str, Table | None]:
    """Tables by file; None where the full protocol has no results yet."""
    found = {name: data.table(name) if data.has(name) else None for name in FILES}
    return {name: table for name, table in found.items() if table or name == "paper.csv"}


def panels(data: Data) -> list[Table | None]:
    """A panel for each file of results; one that says so where there are none."""
    return [table for table in results(data).values() if table] or [None]


def absent(ax) -> None:
    ax.set_axis_off()
    ax.text(
        0.5, 0.5, f"{ABSENT}:\n{COMMAND}", ha="center", va="center", transform=ax.transAxes,
        color="#5b6169",
    )  # fmt: skip


def waiting() -> ReportTable:
    """What stands in a table's place until there are results for it."""
    return ReportTable(f"{ABSENT}: `{COMMAND}`.")


def count(manifest: dict, file: str) -> str:
    """How many of the runs there are, while there are some to come."""
    about = manifest.get("studies", {}).get(file.removesuffix(".csv"), {})
    finished, planned = about.get("runs_finished"), about.get("runs_planned")
    return f" So far {finished} of {planned} runs." if finished != planned else ""


def origin(manifest: dict, file: str) -> str:
    """Which program made the results; they may be older than the rest of the report."""
    about = manifest.get("studies", {}).get(file.removesuffix(".csv"), {})
    program, machine = about.get("program", {}), about.get("machine", {})
    commits = ", ".join(map(short, every(program.get("commit", "unknown"))))
    processors = ", ".join(every(machine.get("cpu", "unknown")))
    seconds = about.get("training_seconds", 0)
    time = f"{seconds / 3600:.1f} processor hours" if seconds >= 3600 else f"{seconds:.0f} s"
    return f" Commit {commits}, {processors}, {time}."


def every(value: str | list[str]) -> list[str]:
    """Of a manifest, what runs have in common, or what they differ in."""
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


def text(value: float, digits: int = 2) -> str:
    if not np.isfinite(value):
        return "–"
    # A zero has no sign, whatever it was rounded from.
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "\N{MINUS SIGN}")


def probability(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def comparison(file: str, table: Table, manifest: dict, reference: str) -> ReportTable:
    """Accuracy by row with Welch's t-test against one of them."""
    found = {name: accuracies(runs) for name, runs in rows(table).items()}
    lines = []
    for name, runs in rows(table).items():
        values = found[name]
        lost = int(diverged(runs).sum())
        line = [
            name,
            text(statistics.mean(values)),
            text(statistics.deviation(values)),
            f"{len(values)}, {lost} diverged" if lost else f"{len(values)}",
        ]
        others = found.get(reference, ())
        if name == reference or not len(others):
            line += ["–"] * 4
        elif min(len(values), len(others)) < 2:
            # A test takes two seeds on both sides.
            difference = statistics.mean(values) - statistics.mean(others)
            line += [text(difference), "–", "–", "–"]
        else:
            test = statistics.welch(values, others)
            difference = statistics.mean(values) - statistics.mean(others)
            line += [text(difference), text(test.t), text(test.df, 1), probability(test.p)]
        lines.append(tuple(line))
    caption = (
        f"{title(table)}. Final validation accuracy; the test is Welch's against {reference}, "
        "two-sided, not corrected for the number of rows."
    )
    if diverged(table).any():
        caption += f" A diverged run counts as guessing, {CHANCE_PERCENT:g} %."
    return ReportTable(
        caption=caption + count(manifest, file) + origin(manifest, file),
        columns=("", "mean %", "deviation", "seeds", f"minus {reference}", "t", "df", "p"),
        rows=tuple(lines),
    )
