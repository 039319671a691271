"""A figure's specification: spec.toml says what to run; nothing about it is written in code.

    order, title, caption, alt     place and text in the report
    threads                        processors that the run step uses at most, 1 where not given
    [tier.quick], [tier.paper]     values that `{name}` stands for below
    [[run]]                        one command line, or one for each combination of `each`
      command                      subcommand of the program
      words                        what comes after it, as it is; nothing where not given
      out                          data file, .csv or .npz; `{name}` as in `each`
      file                         option that takes the data file, "out" where not given; with
                                   another one, `--out` gets a folder that nobody keeps
      args                         option = value; a list is joined by commas, true is a flag;
                                   `{threads}` is the number of processors granted
      each                         name = list; the runs are all combinations
    study                          a study of experiments/studies, whose results become quick.csv or
                                   paper.csv, as the tier says; with [[run]] or without
    results                        in place of a study: a folder of experiments/results, whose
                                   results.csv is shown whatever the tier, where it is there
    [plot]                         in place of plot.py, for a study: see figures/lib/study_figure.py
"""

from __future__ import annotations

import itertools
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("figures")
OUTPUT = Path("build/figures")
# Results of long runs that are kept with the sources.
RESULTS = Path("experiments/results")
# Machine files, which `hardware = ...` names.
MACHINES = Path("hwmodel/machines")
TIERS = ("quick", "paper")
PLOT_KEYS = ("reference", "pattern", "axis", "scale", "value", "labels")


class SpecError(ValueError):
    """A specification that cannot be run; one line that names the file and the place."""


@dataclass(frozen=True)
class Command:
    """One call of the program, less the program's name and the data file."""

    arguments: tuple[str, ...]
    out: str
    file: str = "out"

    def words(self, program: str, out: Path) -> list[str]:
        """The whole command line; the data file is `out`."""
        words = [program, *self.arguments, f"--{self.file}", str(out)]
        return words if self.file == "out" else [*words, "--out", f"{out}.run"]


@dataclass(frozen=True)
class Spec:
    name: str
    order: int
    title: str
    caption: str
    alt: str
    tiers: dict[str, dict]
    runs: tuple[dict, ...]
    threads: int
    study: str = ""
    results: str = ""
    plot: dict | None = None

    @property
    def folder(self) -> Path:
        return ROOT / self.name

    @property
    def data(self) -> Path:
        return OUTPUT / "data" / self.name

    def commands(self, tier: str, threads: int = 1) -> list[Command]:
        constants = self.tiers.get(tier, {}) | {"threads": threads}
        commands = [c for run in self.runs for c in _expand(run, constants)]
        names = [c.out for c in commands]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise SpecError(f"{self.folder}/spec.toml: written twice: {', '.join(sorted(twice))}")
        return commands

    @property
    def kept_results(self) -> Path:
        """The study's results on real data, where the sources have them."""
        return ROOT.parent / RESULTS / (self.study or self.results) / "results.csv"

    @property
    def waits(self) -> bool:
        """Whether there is nothing to draw: a study's figure whose runs are all still to come."""
        return bool(self.results) and not self.runs and not self.kept_results.is_file()

    def trains(self, tier: str, data: str) -> bool:
        """Whether the run step runs the study; on real data it takes days."""
        return bool(self.study) and (tier == "quick" or bool(data))

    def files(self, tier: str, data: str = "") -> list[str]:
        """Names of the data files that the run step makes."""
        return self.study_files(tier, data) + [c.out for c in self.commands(tier)]

    def study_files(self, tier: str, data: str = "") -> list[str]:
        """Those of them that are a study's results."""
        if self.results:
            return [self.kept_results.name] if self.kept_results.is_file() else []
        made = [f"{tier}.csv"] if self.trains(tier, data) else []
        if self.study and "paper.csv" not in made and self.kept_results.is_file():
            made.append("paper.csv")
        return made

    def outputs(self, tier: str, data: str = "") -> list[str]:
        """The data files, as paths from the repository's root."""
        return [str(self.data / name) for name in self.files(tier, data)]

    def sources(self, tier: str, data: str = "") -> list[str]:
        """What the run step reads beside the specification and the program."""
        read = []
        if any("hardware" in run["args"] for run in self.runs):
            read += sorted(map(str, MACHINES.glob("*.toml")))
        if self.study:
            read += sorted(map(str, Path("experiments").glob("*.py")))
            read += sorted(map(str, Path("experiments/protocols").glob("*.toml")))
            read.append(f"experiments/studies/{self.study}.toml")
        if (self.study or self.results) and self.kept_results.is_file():
            read += [str(self.kept_results), str(self.kept_results.with_name("manifest.json"))]
        return read


def _expand(run: dict, constants: dict) -> list[Command]:
    each = run.get("each", {})
    commands = []
    for combination in itertools.product(*each.values()):
        values = constants | dict(zip(each, combination))
        arguments = [run["command"], *run.get("words", [])]
        for option, value in run["args"].items():
            if value is True:
                arguments.append(f"--{option}")
                continue
            parts = value if isinstance(value, list) else [value]
            arguments += [f"--{option}", ",".join(str(p).format(**values) for p in parts)]
        out = run["out"].format(**values)
        commands.append(Command(tuple(arguments), out, run.get("file", "out")))
    return commands


def load(name: str, root: Path = ROOT) -> Spec:
    path = root / name / "spec.toml"
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise SpecError(f"{path}: {error}") from error
    for key in ("order", "title", "caption", "alt"):
        if key not in table:
            raise SpecError(f"{path}: '{key}' is missing")
    if not table.keys() & {"run", "study", "results"}:
        raise SpecError(f"{path}: 'run', 'study' or 'results' is wanted")
    if "study" in table and "results" in table:
        raise SpecError(f"{path}: got 'study' beside 'results', accepted: one")
    for run in table.get("run", []):
        for key in ("command", "out", "args"):
            if key not in run:
                raise SpecError(f"{path}: a [[run]] lacks '{key}'")
        if Path(run["out"]).suffix not in (".csv", ".npz"):
            raise SpecError(f"{path}: out: got '{run['out']}', accepted: *.csv, *.npz")
    for key, known in (("tier", TIERS), ("plot", PLOT_KEYS)):
        unknown = set(table.get(key, {})) - set(known)
        if unknown:
            raise SpecError(f"{path}: {key}: got {', '.join(unknown)}, accepted: {', '.join(known)}")
    return Spec(
        name=name,
        order=table["order"],
        title=table["title"],
        caption=" ".join(table["caption"].split()),
        alt=" ".join(table["alt"].split()),
        tiers=table.get("tier", {}),
        runs=tuple(table.get("run", [])),
        threads=table.get("threads", 1),
        study=table.get("study", ""),
        results=table.get("results", ""),
        plot=table.get("plot"),
    )


def drawn() -> list[Spec]:
    """The figures that do not wait for runs."""
    return [spec for spec in load_all() if not spec.waits]


def load_all(root: Path = ROOT) -> list[Spec]:
    """Every figure that has a specification, in the report's order."""
    names = [path.parent.name for path in root.glob("*/spec.toml")]
    return sorted((load(name, root) for name in names), key=lambda spec: (spec.order, spec.name))
