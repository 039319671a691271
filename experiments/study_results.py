"""Results of a study: from the folders of its runs to results.csv and manifest.json, and back.

    results.csv     a line for each finished run, in the study's order; nothing in it changes when a run
                    is repeated
    manifest.json   what made them: build, machine, data, settings, times; an entry for each run

Both are read again where a study goes on, so that a finished run is never run twice.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
import tomllib
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from experiments import study as studies
from experiments.command_line import RunError, UsageError, replace

# Digests of a run's files.
SUMS = "SHA256SUMS"
# A manifest whose table is about to be put in its place.
NEXT_MANIFEST = ".manifest.json.next"
# Written to results.csv in this order; the keys that rows vary come after them.
COLUMNS = (
    "row",
    "seed",
    "network",
    "data",
    "batch",
    "epochs",
    "samples",
    "validation_accuracy_percent",
    "validation_loss",
    "diverged",
    "weights_sha256",
    "convolution",
)
# Keys that one of those columns shows.
SHOWN = {
    "network.name": "network",
    "optimizer.batch": "batch",
    "run.convolution": "convolution",
}
# Values of before that are called otherwise now: all direct sums were oneDNN's.
EARLIER = {("run.convolution", "onednn"): "direct"}
# Parts of a run's manifest that the study's manifest has; the last one is of programs that had oneDNN.
PROGRAM = ("version", "commit", "compiler", "flags", "onednn")
MACHINE = ("cpu", "cpu_threads")
# Bytes: the weights and what training adds to them as the program predicts it, and as measured.
MEMORY = ("predicted_memory_bytes", "trainer_memory_bytes")
# Paths are the machine's own, and every seed is in the results.
NOT_SHARED = ("data.root", "schedule.machine", "run.seed")
# Sections whose keys decide results, but for those of studies.WITHOUT_EFFECT.
WITH_EFFECT = ("network", "data", "schedule", "rule", "optimizer")


@dataclass(frozen=True)
class Finished:
    """A run that reached its end, or a number that is none."""

    cells: dict  # column of COLUMNS -> text; the row's name is the study's that shows it
    entry: dict  # the run's own in the manifest
    program: dict
    machine: dict
    data: object
    settings: dict  # section.key -> value, as the trainer resolved them

    @property
    def diverged(self) -> bool:
        return self.cells["diverged"] == "yes"


def check_sums(folder: Path) -> None:
    """The files are those that the trainer left; a run without digests is taken as it is."""
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        digest, _, name = line.partition("  ")
        if studies.digest(folder / name) != digest:
            raise RunError(f"{folder / name}: not the file whose digest is in {folder / SUMS}")


def read_run(folder: Path, run: studies.Run) -> Finished | None:
    """A run's folder has a summary once the run has ended."""
    check_sums(folder)
    try:
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        resolved = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    # A phase's own keys are the study's; what the trainer adds to them follows from those.
    resolved.pop(studies.PHASES, None)
    settings = studies.flatten("config.toml", resolved)
    if studies.PHASES in run.settings:
        settings[studies.PHASES] = run.settings[studies.PHASES]
    # The study says where a file lies among the sources, the trainer where it lies on the machine.
    settings |= {k: v for k, v in run.settings.items() if studies.names_file(k, v)}
    diverged = summary["diverged"]
    accuracy, loss = summary["validation_accuracy"], summary["validation_loss"]
    # What was measured before a divergence is not the run's result.
    cells = {
        "row": run.origin,
        "seed": str(run.seed),
        "network": summary["network"],
        "data": summary["data"],
        "batch": str(settings["optimizer.batch"]),
        "epochs": format(summary["epochs"], ".10g"),
        "samples": str(summary["samples"]),
        "validation_accuracy_percent": (
            "" if diverged or accuracy is None else format(100 * accuracy, ".10g")
        ),
        "validation_loss": "" if diverged or loss is None else repr(loss),
        "diverged": "yes" if diverged else "no",
        "weights_sha256": summary["weights_sha256"] or "",
        "convolution": settings.get("run.convolution", ""),
    }
    entry = {
        "row": run.origin,
        "seed": run.seed,
        "samples_per_second": summary["samples_per_second"],
        "training_seconds": summary["training_seconds"],
        "started": manifest.get("started"),
        "finished": manifest.get("finished"),
        "commit": manifest.get("commit"),
        "cpu": manifest.get("cpu"),
    }
    entry |= {key: summary[key] for key in MEMORY if key in summary}
    if files := run.files():
        entry["files"] = files
    history = _validations(folder / "metrics.csv")
    if history:
        entry["validations"] = history
    if diverged:
        entry["diverged_at"] = diverged["sample"]
    return Finished(
        cells=cells,
        entry=entry,
        program={key: manifest.get(key) for key in PROGRAM},
        machine={key: manifest.get(key) for key in MACHINE},
        data=manifest.get("data"),
        settings={key: value for key, value in settings.items() if key not in NOT_SHARED},
    )


def _validations(path: Path) -> list[list]:
    """[samples, accuracy in percent, loss] of each validation on the way, the last one too."""
    try:
        lines = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    except FileNotFoundError:
        return []
    return [
        [
            int(line["samples"]),
            float(format(100 * float(line["validation_accuracy"]), ".10g")),
            float(line["validation_loss"]),
        ]
        for line in lines
        if line.get("validation_accuracy")
    ]


def _finish_writing(results: Path, digest: str) -> None:
    """Whoever wrote the table may have been killed before its manifest was in its place."""
    waiting = results / NEXT_MANIFEST
    if waiting.is_file() and json.loads(waiting.read_text(encoding="utf-8"))["results_sha256"] == digest:
        waiting.replace(results / "manifest.json")


def _refusal(name: str, results: Path, accepted: str, of: str = "") -> UsageError:
    return UsageError(f"{name}: got '{results}'{of}, accepted: {accepted}")


def read_kept(study: studies.Study, results: Path, name: str = "--results") -> dict[str, Finished]:
    """By folder of the run: the study's runs that RESULTS has from before, on whatever machine."""
    try:
        return _read_kept(study, results, name)
    except KeyError as error:
        # The results are of another experiment, or of a version that wrote less.
        missing = f"no {error} in results.csv or manifest.json"
        raise _refusal(name, results, f"a study's results ({missing})") from error


def _read_kept(study: studies.Study, results: Path, name: str) -> dict[str, Finished]:
    try:
        text = (results / "results.csv").read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise _refusal(name, results, f"a study's results ({error})") from error
    try:
        digest = hashlib.sha256(text.encode()).hexdigest()
        _finish_writing(results, digest)
        manifest = json.loads((results / "manifest.json").read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise _refusal(name, results, "a folder with manifest.json beside its results.csv") from error
    except ValueError as error:
        raise _refusal(name, results, f"a study's results ({error})") from error
    if manifest.get("results_sha256") != digest:
        raise _refusal(name, results, "a folder whose manifest.json was written with its results.csv")
    if (manifest["study"], manifest["tier"]) != (study.name, study.tier):
        of = f" of the study {manifest['study']}, tier {manifest['tier']}"
        raise _refusal(name, results, f"a folder for {study.name}, {study.tier}", of)
    lines = {(line["row"], line["seed"]): line for line in csv.DictReader(io.StringIO(text))}
    entries = {(entry["row"], str(entry["seed"])): entry for entry in manifest["runs"]}
    kept = {}
    for run in study.runs:
        line = lines.get((run.row, str(run.seed)))
        if line is None:
            continue
        settings = manifest["settings"] | _settings_of(line)
        entry = entries[run.row, str(run.seed)]
        # Entries of earlier versions do not say what was in the files.
        if is_of(run, settings) and entry.get("files", run.files()) == run.files():
            kept[run.folder] = Finished(
                {key: line[key] for key in COLUMNS},
                entry,
                # What differs between the runs is in each one's entry.
                program=manifest["program"] | {"commit": entry.get("commit")},
                machine=manifest["machine"] | {"cpu": entry["cpu"]},
                data=manifest["data"],
                settings=settings,
            )
    return kept


@dataclass
class Offer:
    """What other results of a study have for those here."""

    taken: dict[str, Finished] = field(default_factory=dict)  # by folder of the run
    there: int = 0
    refused: list[str] = field(default_factory=list)  # reasons


def compare(
    study: studies.Study, results: Path, finished: dict[str, Finished], before: set[str]
) -> Offer:
    """Which rows of the other results are the study's and go with the finished runs. Those that were
    there before count as there; studies share runs."""
    try:
        kept = read_kept(study, results, "--take")
        with (results / "results.csv").open(encoding="utf-8", newline="") as file:
            names = [(line["row"], line["seed"]) for line in csv.DictReader(file)]
    except (UsageError, OSError) as error:
        return Offer(refused=[str(error)])
    runs = {(run.row, str(run.seed)): run for run in study.runs}
    rows = [(run, finished[run.folder]) for run in study.runs if run.folder in finished]
    data = [row.data for _, row in rows]
    offer = Offer()
    for name in names:
        run = runs.get(name)
        item = kept.get(run.folder) if run else None
        here = finished.get(run.folder) if run else None
        reason = None
        if run is None:
            reason = "not a row of the study"
        elif item is None:
            reason = "other settings than the study's"
        elif not item.entry.get("commit"):
            reason = "no commit of the program"
        elif here and here.cells["weights_sha256"] != item.cells["weights_sha256"]:
            reason = "other weights than the row here"
        elif item.data not in (data or [item.data]):
            reason = "other data than the rows here"
        elif key := _other_default(run, item, rows):
            reason = f"{key} = {_cell(item.settings[key])}, which other seeds here have otherwise"
        elif run.folder in before:
            offer.there += 1
        else:
            offer.taken[run.folder] = item
        if reason:
            offer.refused.append(f"{name[0]}, seed {name[1]}: {reason}")
    return offer


def _other_default(run: studies.Run, item: Finished, rows: list[tuple[studies.Run, Finished]]) -> str:
    """A key of which the study says nothing, with another value than other seeds of the row have."""
    seeds = [row.settings for other, row in rows if other.row == run.row]
    return next(
        (
            key for key, value in item.settings.items()
            if (key.partition(".")[0] in WITH_EFFECT or key == "run.precision") and key not in run.settings
            and key not in studies.WITHOUT_EFFECT
            and any(other.get(key, value) != value for other in seeds)
        ),
        "",
    )  # fmt: skip


def _settings_of(line: dict) -> dict:
    """The keys that a line of results shows, as values."""
    shown = {key: line[column] for key, column in SHOWN.items()}
    shown |= {k: text for k, text in line.items() if k and ("." in k or k == studies.PHASES)}
    return {
        key: EARLIER.get((key, text), _value(text)) for key, text in shown.items() if text != ""
    }


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def is_of(run: studies.Run, settings: dict) -> bool:
    """Whether what was made with the settings was made as the run would be."""
    return all(
        settings.get(key) == value
        for key, value in ({studies.PHASES: None} | run.settings).items()
        if key not in ("run.seed", *studies.WITHOUT_EFFECT)
    )


def _cell(value: object) -> str:
    return json.dumps(value) if isinstance(value, (bool, list)) else str(value)


def write_table(folder: Path, columns: list[str], rows: list[dict], about: dict, runs: dict) -> None:
    """Writes results.csv, and manifest.json: `about`, the table's digest, and what is said of the runs."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    digest = hashlib.sha256(text.getvalue().encode()).hexdigest()
    manifest = json.dumps(about | {"results_sha256": digest} | runs, indent=2, ensure_ascii=False)
    # Lists of numbers in one line each.
    manifest = re.sub(
        r"\[\n\s*([^\[\]{}\"]+?)\n\s*\]", lambda numbers: f"[{' '.join(numbers[1].split())}]", manifest
    )
    folder.mkdir(parents=True, exist_ok=True)
    # Killed between the two, whoever reads them finds the manifest that goes with the table.
    replace(folder / NEXT_MANIFEST, manifest + "\n")
    replace(folder / "results.csv", text.getvalue())
    (folder / NEXT_MANIFEST).replace(folder / "manifest.json")


def made_by(parts: list[dict]) -> dict:
    """Programs and machines of runs, from their manifests or parts of them."""
    return {
        name: {
            key: common(values)
            for key in keys
            if (values := [part[key] for part in parts if part.get(key) is not None])
        }
        for name, keys in (("program", PROGRAM), ("machine", MACHINE))
    }


def made_on_one_set(manifests: list[dict]) -> dict:
    """The same of runs on one data set, with the set and the time from the first to the last."""
    return {
        **made_by(manifests),
        "data": manifests[0]["data"],
        "started": min(manifest["started"] for manifest in manifests),
        "finished": max(manifest["finished"] for manifest in manifests),
    }


def common(values: list) -> object:
    """What all have in common; the different values where they differ."""
    single = [one for value in values for one in (value if isinstance(value, list) else [value])]
    distinct = [value for k, value in enumerate(single) if value not in single[:k]]
    return distinct[0] if len(distinct) == 1 else distinct


class Choices:
    """Of which rows there are later seeds, where these are those of the best row alone."""

    def __init__(self, runs: Sequence[studies.Run]):
        self._firsts: dict[tuple[str, str], list[studies.Run]] = {}
        for run in runs:
            if run.choice and run.seed == 1:
                self._firsts.setdefault((run.study, run.choice), []).append(run)

    def rivals(self, run: studies.Run) -> list[studies.Run]:
        """The first seeds that the run's row has to be the best of."""
        return self._firsts.get((run.study, run.choice), []) if run.seed > 1 else []

    def is_open(self, run: studies.Run, to_come: Set[str]) -> bool:
        """Whether the choice waits for runs, given by their folders."""
        return any(rival.folder in to_come for rival in self.rivals(run))

    def is_needed(self, run: studies.Run, to_come: Set[str], finished: dict[str, Finished]) -> bool:
        """False once the choice has fallen on another row."""
        rivals = self.rivals(run)
        if not rivals or self.is_open(run, to_come):
            return True

        def loss(rival: studies.Run) -> float:
            done = finished.get(rival.folder)
            # What diverged, or failed, is no better than any.
            return float(done.cells["validation_loss"] or "inf") if done else math.inf

        return min(rivals, key=loss).row == run.row


def planned(runs: Sequence[studies.Run], finished: dict[str, Finished]) -> int:
    """How many there will be: those that choices leave, and what has finished all the same."""
    choices = Choices(runs)
    to_come = {run.folder for run in runs} - finished.keys()
    chosen = {(r.study, r.choice if r.seed > 1 and r.choice else r.row, r.seed) for r in runs}
    return len(chosen) + sum(
        run.folder in finished and not choices.is_needed(run, to_come, finished) for run in runs
    )


def write(study: studies.Study, finished: dict[str, Finished], results: Path) -> int:
    """Writes the study's results from the runs that have finished, and returns how many there are."""
    done = [(run, finished[run.folder]) for run in study.in_table_order() if run.folder in finished]
    if not done:
        return 0
    items = [item for _, item in done]
    # After COLUMNS, what rows vary and those do not show.
    own = [key for key in study.varied if key not in SHOWN]
    rows = [
        item.cells | {key: _cell(item.settings.get(key, "")) for key in own} | {"row": run.row}
        for run, item in done
    ]
    about = {
        "study": study.name,
        "title": study.title,
        "tier": study.tier,
        "runs_finished": len(done),
        "runs_planned": planned(study.runs, finished),
        **made_by([item.program | item.machine for item in items]),
        "data": common([item.data for item in items]),
        "settings": {
            key: value
            for key, value in items[0].settings.items()
            if key not in study.varied and all(item.settings.get(key) == value for item in items)
        },
    }
    runs = {
        "training_seconds": round(sum(item.entry["training_seconds"] for item in items), 1),
        "runs": [item.entry | {"row": run.row} for run, item in done],
    }
    write_table(results, [*COLUMNS, *own], rows, about, runs)
    return len(done)


def result(done: Finished) -> str:
    """The result of a run in a few words."""
    cells, speed = done.cells, f"{done.entry['samples_per_second'] or 0:.0f} samples/s"
    if done.diverged:
        return f"diverged at sample {done.entry['diverged_at']:,}, {speed}"
    # Weights may be finite and their loss no number.
    return (
        f"{float(cells['validation_accuracy_percent']):.2f} %, "
        f"loss {float(cells['validation_loss'] or 'nan'):.4f}, {int(cells['samples']):,} samples, {speed}"
    )
