"""A study as data: many runs of `batchless train`, written down in experiments/studies/NAME.toml.

    title                            what the study asks
    protocol                         file of experiments/protocols whose base and tiers the study's own
                                     add to; a protocol is fixed before its runs
    priority                         place in the queue of experiments/run_campaign.py, 1 first;
                                     without one, the study is not in it
    [base.SECTION]                   configuration of every run, keys as in experiments/configs
    [tier.quick.SECTION]             what the tier puts in place of it, or adds; a study has the tiers
    [tier.paper.SECTION]             that it or its protocol names
    [[row]]                          one line of the results, or one for each combination of `each`
      name                           `{section.key}` stands for a value of `each`
      set     { section.key = value }         what is the row's own
      each    { "section.key" = [values] }    the rows are all combinations
      phase   [{ until = 0.5, section.key = value }, ...]    phases of the row's runs, as the trainer
              takes them
      unset   ["section.key"]    what the row takes from neither base nor tier
      from    { study = NAME, row = NAME }    in place of these: a row of another study, whose runs
              count for both. Beside `set`, which then says the same, where that study lacks a tier
      like    { study = NAME, rows = [PATTERN, ...] }    in place of a name: the rows of another study
              whose names match, but for what base and tier of this file say, and then `set`
      seeds   how many, from 1 on; a number, or { quick = number, paper = number }
      best    a key of `each`: of the rows that differ in it alone, only the one whose first seed ends at
              the least validation loss has the other seeds

Files that a study names (optimizer.file, schedule.delays) are found from the folder that `experiments`
is in. Their content counts as settings do: with another content it is another run.

A row's own values win over the tier's, and those over the base. Which keys and values there are is
the trainer's business: it refuses what it does not know before it reads any data.
"""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import hashlib
import itertools
import json
import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

FOLDER = Path(__file__).parent / "studies"
PROTOCOLS = Path(__file__).parent / "protocols"
TIERS = ("quick", "paper")
ROW_DEFAULTS = {"set": {}, "each": {}, "unset": [], "from": None, "like": None, "seeds": 1, "best": ""}

# Key of the settings that holds a run's phases, a list of flat tables; the others are section.key.
PHASES = "phase"

# Where the data lie, how many threads share the work and how: no result depends on these.
WITHOUT_EFFECT = ("data.root", "schedule.workers", "schedule.balance", "schedule.machine", "schedule.pin")


class StudyError(ValueError):
    """A study that cannot be read; one line that names the file, the place and what is accepted."""


@dataclass(frozen=True, eq=False)
class Run:
    """One training run: a row of the study with one seed."""

    row: str
    seed: int
    settings: dict  # section.key -> value, and PHASES where there are any
    # The study that the run belongs to, and its row there: those of another study for a row `from` it.
    study: str
    origin: str
    # What the rows have in common of which only the best by the first seed has other seeds.
    choice: str = ""

    @property
    def label(self) -> str:
        return f"{self.origin}, seed {self.seed}"

    @property
    def folder(self) -> str:
        """The run's name in the file system. Changed settings make another run of it."""
        settings = {k: v for k, v in self.settings.items() if k not in WITHOUT_EFFECT}
        if files := self.files():
            settings["files"] = files
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
        return f"{slug(self.origin)}-seed{self.seed}-{digest[:8]}"

    def files(self, digest_of=None) -> dict[str, str]:
        """SHA-256 of each file that the settings name, by its key; as it was when first asked for, or by
        `digest_of`."""
        tables = {"": self.settings}
        tables |= {f"{PHASES}.{p}.": table for p, table in enumerate(self.settings.get(PHASES, []), 1)}
        return {
            prefix + key: (digest_of or _digest_before)(located(value))
            for prefix, table in tables.items()
            for key, value in table.items()
            if names_file(key, value)
        }

    def changed_file(self) -> str:
        """The key of a file that has changed since; empty where none has."""
        before = self.files()
        return next((key for key, now in self.files(digest).items() if now != before[key]), "")

    def configuration(self) -> str:
        """The settings as TOML for the trainer."""
        sections: dict[str, list[str]] = {}
        for key, value in self.settings.items():
            if key != PHASES:
                section, name = key.split(".")
                sections.setdefault(section, []).append(_toml(name, value))
        tables = [(f"[{name}]", lines) for name, lines in sections.items()]
        for phase in self.settings.get(PHASES, []):
            tables.append((f"[[{PHASES}]]", [_toml(key, value) for key, value in phase.items()]))
        return "\n".join(head + "\n" + "\n".join(lines) + "\n" for head, lines in tables)


@dataclass(frozen=True)
class Study:
    name: str
    title: str
    tier: str
    rows: tuple[str, ...]
    runs: tuple[Run, ...]  # each row's first seed first: an unfinished study has all rows early
    varied: tuple[str, ...]  # keys that a row sets for itself, or has from its own study
    priority: int = 0  # 0 where the study is not in the queue

    @property
    def workers(self) -> int:
        return max(int(run.settings.get("schedule.workers", 1)) for run in self.runs)

    def in_table_order(self) -> list[Run]:
        return sorted(self.runs, key=lambda run: (self.rows.index(run.row), run.seed))


def _toml(key: str, value: object) -> str:
    """A line for the trainer's configuration."""
    if names_file(key, value):
        value = located(value)
    # A JSON number, text, truth value or list of them is written the same in TOML.
    return f"{key} = {json.dumps(value, ensure_ascii=False)}"


def names_file(key: str, value: object) -> bool:
    """Whether a setting is the name of a file whose content counts; delays are written out, or in one."""
    if not isinstance(value, str) or key in WITHOUT_EFFECT:
        return False
    name = key.split(".")[-1]
    return (name == "file" and value != "") or (name == "delays" and value.endswith(".csv"))


def located(value: str) -> str:
    """The path of a file that a study names."""
    return str(FOLDER.parent.parent / value)


def digest(path: str | Path) -> str:
    """SHA-256 of a file; empty where nothing can be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


_digest_before = functools.cache(digest)


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def available() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def queue(tier: str) -> list[Study]:
    """The studies that have a priority, the most urgent first."""
    _check_tier(tier)
    studies = [load(name, tier) for name in available() if tier in tiers_of(name)]
    return sorted((s for s in studies if s.priority), key=lambda s: (s.priority, s.name))


def flatten(where: str, tables: object) -> dict:
    """{section: {key: value}} as {section.key: value}."""
    flat = {}
    for section, table in _table(where, tables).items():
        for key, value in _table(f"{where}.{section}", table).items():
            if isinstance(value, dict):
                raise StudyError(f"{where}.{section}.{key}: got a table, accepted: a value")
            flat[f"{section}.{key}"] = value
    return flat


def load(name: str, tier: str) -> Study:
    """The study of that name, or in a file whose name ends in .toml."""
    path = _path(name)
    _check_tier(tier)
    with _naming(path):
        return _study(path.stem, tier, _read(path))


def tiers_of(name: str) -> list[str]:
    """The tiers that the study, or its protocol, has."""
    path = _path(name)
    with _naming(path):
        return list(_settings(_read(path))[1])


def _check_tier(tier: str) -> None:
    if tier not in TIERS:
        raise StudyError(f"tier: got '{tier}', accepted: {', '.join(TIERS)}")


def _path(name: str) -> Path:
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    if not path.is_file():
        raise StudyError(
            f"study: got '{name}', accepted: {', '.join(available())}, or a file *.toml"
        )
    return path


def _read(path: Path) -> dict:
    return tomllib.loads(path.read_text(encoding="utf-8"))


@contextlib.contextmanager
def _naming(path: Path):
    try:
        yield
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, StudyError) as error:
        raise StudyError(f"{path}: {error}") from error


def _settings(text: dict) -> tuple[dict, dict[str, dict]]:
    """What all runs share, and what each tier adds; the protocol's below the study's own."""
    shared, by_tier = {}, {}
    protocol = text.get("protocol")
    if protocol is not None:
        names = sorted(path.stem for path in PROTOCOLS.glob("*.toml"))
        if protocol not in names:
            raise StudyError(f"protocol: got '{protocol}', accepted: {', '.join(names)}")
        below = _read(PROTOCOLS / f"{protocol}.toml")
        _known(f"protocol {protocol}", below, ("base", "tier"))
        shared, by_tier = _settings(below)
    shared |= flatten("base", text.get("base", {}))
    tiers = _table("tier", text.get("tier", {}))
    _known("tier", tiers, TIERS)
    for tier, table in tiers.items():
        by_tier[tier] = by_tier.get(tier, {}) | flatten(f"tier.{tier}", table)
    return shared, by_tier


def _study(name: str, tier: str, text: dict) -> Study:
    _known("the file", text, ("title", "protocol", "priority", "base", "tier", "row"))
    if not isinstance(text.get("title"), str):
        raise StudyError("title: missing, accepted: a text")
    priority = text.get("priority", 0)
    if not isinstance(priority, int) or isinstance(priority, bool) or priority < 0:
        raise StudyError(f"priority: got '{priority}', accepted: an integer from 1")
    shared, by_tier = _settings(text)
    if by_tier and tier not in by_tier:
        raise StudyError(f"tier: got '{tier}', accepted: {', '.join(by_tier)}")
    common = shared | by_tier.get(tier, {})
    rows = text.get("row")
    if not isinstance(rows, list) or not rows:
        raise StudyError("row: missing, accepted: one [[row]] or more")

    runs: list[Run] = []
    names: list[str] = []
    varied: list[str] = []
    for row in (expanded for entry in rows for expanded in _expand(entry)):
        varied += [key for key in [*row["set"], *row["unset"]] if key not in varied]
        settings = {k: v for k, v in common.items() if k not in row["unset"]} | row["set"]
        lines = [Run(row["name"], 1, settings, name, row["name"], row["choice"])]
        if row["like"]:
            own = _own(text, tier) | row["set"]
            lines = [replace(run, settings=run.settings | own, study=name) for run in _alike(row, tier)]
        elif row["from"] and (lent := _borrowed(row, tier)):
            lines = [replace(lent, row=row["name"], choice=row["choice"])]
        for line in lines:
            if slug(line.row) in map(slug, names):
                raise StudyError(f"row: '{line.row}' is there twice")
            names.append(line.row)
            varied += [
                key
                for key in dict.fromkeys([*line.settings, *common])
                if line.settings.get(key) != common.get(key) and key not in ("run.seed", *varied)
            ]
            for seed in range(1, _seeds(row, tier) + 1):
                runs.append(replace(line, seed=seed, settings=line.settings | {"run.seed": seed}))
    if not runs:
        raise StudyError(f"seeds: none in the tier {tier}, accepted: one run or more")
    return Study(
        name=name,
        title=text["title"],
        tier=tier,
        rows=tuple(names),
        runs=tuple(sorted(runs, key=lambda run: run.seed)),
        varied=tuple(varied),
        priority=priority,
    )


def _borrowed(row: dict, tier: str) -> Run | None:
    """The first run of a row of another study; none of one that lacks the tier, where the row says the same."""
    where = f"row '{row['name']}': from"
    source = _table(where, row["from"])
    _known(where, source, ("study", "row"))
    study, name = (str(source.get(key)) for key in ("study", "row"))
    if row["set"] and tier not in tiers_of(study):
        return None
    lender = load(study, tier)
    run = next((run for run in lender.runs if run.row == name), None)
    if run is None:
        raise StudyError(f"{where}: got '{name}', accepted: {', '.join(lender.rows)}")
    for key, value in row["set"].items():
        if run.settings.get(key) != value:
            raise StudyError(
                f"row '{row['name']}': set: got {key} = {json.dumps(value)}, accepted: "
                f"{json.dumps(run.settings.get(key))}, as in the row that it is from"
            )
    return run


def _alike(row: dict, tier: str) -> list[Run]:
    """The first runs of the rows of another study that match a pattern."""
    source = _table("like", row["like"])
    _known("like", source, ("study", "rows"))
    lender = load(str(source.get("study")), tier)
    patterns = source.get("rows")
    if not isinstance(patterns, list) or not patterns:
        raise StudyError(f"like: rows: got {json.dumps(patterns)}, accepted: a list of patterns")
    for pattern in patterns:
        if not fnmatch.filter(lender.rows, str(pattern)):
            raise StudyError(f"like: got '{pattern}', accepted: {', '.join(lender.rows)}")
    return [
        replace(run, choice="")
        for run in lender.in_table_order()
        if run.seed == 1 and any(fnmatch.fnmatch(run.row, pattern) for pattern in patterns)
    ]


def _own(text: dict, tier: str) -> dict:
    """What the file itself says of all runs, without its protocol."""
    shared, by_tier = _settings({key: value for key, value in text.items() if key != "protocol"})
    return shared | by_tier.get(tier, {})


def _expand(entry: object) -> list[dict]:
    row = _table("row", entry)
    if "like" in row:
        _known("row: like", row, ("like", "set", "seeds"))
        row = row | {"name": "like"}
    if not isinstance(row.get("name"), str) or not slug(row["name"]):
        raise StudyError("row: 'name' is missing, accepted: a text with a letter or digit in it")
    where = f"row '{row['name']}'"
    _known(where, row, ("name", "set", "each", "phase", "unset", "from", "like", "seeds", "best"))
    if "from" in row and row.keys() & {"each", "phase", "unset"}:
        raise StudyError(f"{where}: got 'from' beside 'each', 'phase' or 'unset', accepted: one")
    row = ROW_DEFAULTS | row
    unset = row["unset"]
    if not isinstance(unset, list) or not all(isinstance(key, str) for key in unset):
        raise StudyError(f"{where}: unset: got '{unset}', accepted: [\"section.key\"]")
    own = flatten(f"{where}: set", row["set"])
    if "phase" in row:
        own[PHASES] = _phases(f"{where}: phase", row["phase"])
    each = _table(f"{where}: each", row["each"])
    for key, values in each.items():
        if not isinstance(values, list) or not values or key.count(".") != 1:
            raise StudyError(f"{where}: each: got '{key}', accepted: \"section.key\" = [values]")
    best = row["best"]
    if best != "" and (not isinstance(best, str) or best not in each):
        raise StudyError(f"{where}: best: got '{best}', accepted: a key of 'each'")
    if "run.seed" in own | each:
        raise StudyError(f"{where}: got run.seed, accepted: a number of seeds")
    expanded = []
    for values in itertools.product(*each.values()):
        chosen = dict(zip(each, values))
        name = row["name"]
        for key, value in chosen.items():
            name = name.replace(f"{{{key}}}", value if isinstance(value, str) else json.dumps(value))
        shared = {key: value for key, value in chosen.items() if key != best}
        choice = f"{row['name']} {json.dumps(shared)}" if best else ""
        expanded.append(row | {"name": name, "set": own | chosen, "choice": choice})
    return expanded


def _phases(where: str, tables: object) -> list[dict]:
    """Each phase as {section.key: value}, beside `until`."""
    if not isinstance(tables, list) or not tables:
        raise StudyError(f"{where}: got '{tables}', accepted: a list of tables")
    phases = []
    for table in tables:
        keys = _table(where, table)
        sections = {key: value for key, value in keys.items() if key != "until"}
        until = {"until": keys["until"]} if "until" in keys else {}
        phases.append(until | flatten(where, sections))
    return phases


def _seeds(row: dict, tier: str) -> int:
    seeds = row["seeds"]
    if isinstance(seeds, dict):
        _known(f"row '{row['name']}': seeds", seeds, TIERS)
        seeds = seeds.get(tier, 0)
    if not isinstance(seeds, int) or isinstance(seeds, bool) or seeds < 0:
        raise StudyError(
            f"row '{row['name']}': seeds: got '{seeds}', accepted: an integer from 0, "
            "or one for each tier"
        )
    return seeds


def _table(where: str, value: object) -> dict:
    if not isinstance(value, dict):
        raise StudyError(f"{where}: got '{value}', accepted: a table")
    return value


def _known(where: str, table: dict, names: tuple[str, ...]) -> None:
    for name in table:
        if name not in names:
            raise StudyError(f"{where}: got '{name}', accepted: {', '.join(names)}")
