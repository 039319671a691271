"""Makes every figure and the report: what is missing, or older than what it is made from.

    python3 -m figures.lib.workflow --tier quick|paper [--data DIR] [FIGURE...]

Writes build/figures/workflow/build.ninja and lets Ninja run it. Two steps a figure: figures.lib.run
calls the program, figures.lib.plot draws what it wrote; then come report and gate. A step runs again
where its command line, the program, the specification or the code that it reads has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

from figures.lib import spec as specs

OUT = specs.OUTPUT
FOLDER = OUT / "workflow"
LIBRARY = specs.ROOT / "lib"
REPORT = OUT / "report.html"
# What the program is, for the steps: one linked anew from the same code is no other program.
PROGRAM_HASH = FOLDER / "program.sha256"
IMPORT = re.compile(r"^\s*from figures\.(\S+) import (.+)$", re.MULTILINE)

HEAD = """\
ninja_required_version = 1.8
builddir = {folder}
python = {python}
rule step
  command = $python -m figures.lib.$words
  description = $what
"""


def escaped(text: str) -> str:
    """A variable's value in build.ninja."""
    return text.replace("$", "$$")


def path(name: object) -> str:
    """A path in a build line of build.ninja."""
    return re.sub(r"[$ :]", r"$\g<0>", str(name))


def build(outputs: list, inputs: list, words: list[str], what: str, pool: str = "") -> str:
    lines = [
        f"build {' '.join(map(path, outputs))}: step {' '.join(map(path, inputs))}",
        f"  words = {escaped(shlex.join(words))}",
        f"  what = {escaped(what)}",
    ]
    return "\n".join(lines + [f"  pool = {pool}"] * bool(pool)) + "\n"


def imported(*roots: Path) -> list[Path]:
    """The files, and those of this package that they import."""
    found: list[Path] = []
    waiting = list(roots)
    while waiting:
        file = waiting.pop()
        if file in found or not file.is_file():
            continue
        found.append(file)
        for module, names in IMPORT.findall(file.read_text(encoding="utf-8")):
            module = specs.ROOT / module.replace(".", "/")
            waiting.append(module.with_suffix(".py"))
            waiting += [module / f"{name}.py" for name in re.findall(r"\w+", names)]
    return sorted(found)


def pictures(spec: specs.Spec) -> list[Path]:
    return [OUT / f"{spec.name}.{kind}" for kind in ("pdf", "png")]


def figure(spec: specs.Spec, tier: str, data: str, program: str) -> str:
    """The two steps of a figure, and its name for both."""
    description = spec.folder / "spec.toml"
    made = [*spec.outputs(tier, data), spec.data / "manifest.json"]
    read = [PROGRAM_HASH, description, LIBRARY / "run.py", LIBRARY / "spec.py"]
    words = ["run", spec.name, "--tier", tier, "--program", program]
    if spec.study and data and tier == "paper":
        words += ["--data", data]
    if spec.plot is None:
        code = imported(*spec.folder.glob("*.py"))
    else:
        code = imported(LIBRARY / "study_figure.py")
    code += [LIBRARY / "plot.py", specs.ROOT / "batchless.mplstyle"]
    pool = f"threads_{spec.threads}" if spec.threads > 1 else ""
    return (
        build(made, read + spec.sources(tier, data), words, f"computing {spec.name}", pool)
        + build(pictures(spec), made + code, ["plot", spec.name], f"drawing {spec.name}")
        + f"build {path(spec.name)}: phony {' '.join(map(path, pictures(spec)))}\n"
    )


def text(tier: str, data: str, program: str, python: str, jobs: int) -> str:
    """build.ninja; figures that take few threads come first, most of which take seconds."""
    figures = specs.drawn()
    parts = [HEAD.format(folder=path(FOLDER), python=escaped(shlex.quote(python)))]
    for threads in sorted({spec.threads for spec in figures} - {1}):
        parts.append(f"pool threads_{threads}\n  depth = {max(1, jobs // threads)}\n")
    parts += [
        figure(spec, tier, data, program)
        for spec in sorted(figures, key=lambda spec: spec.threads)
    ]
    read = [name for spec in figures for name in spec.outputs(tier, data)]
    for spec in figures:
        read += [spec.data / "manifest.json", OUT / f"{spec.name}.png", spec.folder / "spec.toml"]
    read += sorted((specs.ROOT / "claims").glob("*.toml"))
    read.append(specs.ROOT / "findings.toml")
    read += [*sorted(Path("experiments/studies").glob("*.toml")), *sorted(specs.RESULTS.glob("*/manifest.json"))]
    tables = [spec.folder / "table.py" for spec in figures]
    read += [LIBRARY / "report.html.j2", *imported(LIBRARY / "report.py", *tables)]
    # The report links to it where it exists.
    read += OUT.glob("explorer.html")
    claims = OUT / "data/claims.json"
    gate = OUT / "data/gate.txt"
    what = "checking the claims and writing the report"
    words = ["report", "--program", program]
    parts.append(build([REPORT, claims], [PROGRAM_HASH, *read], words, what))
    what = "looking for claims that have to hold and do not"
    parts.append(build([gate], [claims, LIBRARY / "gate.py"], ["gate"], what))
    everything = [REPORT, gate, *(name for spec in figures for name in pictures(spec))]
    parts.append(f"build all: phony {' '.join(map(path, everything))}\ndefault all\n")
    return "\n".join(parts)


class Printer:
    """Ninja's output as it comes: a line a step, and what a step said, without its command line."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.steps = 0
        self.failed: list[str] = []
        self._what = ""
        self._skip = False

    def line(self, line: str) -> None:
        if self._skip or line.startswith("ninja: "):
            # Ninja's own errors are about files that are missing.
            if line.startswith("ninja: error: "):
                self.failed.append(line.removeprefix("ninja: error: "))
            self._skip = False
        elif line.startswith("FAILED: "):
            # The command follows in one line.
            self.failed.append(self._what)
            self._skip = True
        elif match := re.fullmatch(r"figures: \d+/\d+ (.*)", line):
            self.steps += 1
            self._what = match[1]
            print(f"{line} ({time.monotonic() - self.start:.0f} s)", flush=True)
        else:
            print(line, flush=True)


def ninja(targets: list[str], jobs: int) -> tuple[int, Printer]:
    """Its exit status, that of a shell where a signal stopped it, and what it printed."""
    command = ["ninja", "-f", str(FOLDER / "build.ninja"), "-j", str(jobs), "-k", "0", *targets]
    # Fonts are looked for once, wherever the user's home is and whether it can be written.
    fonts = {"MPLCONFIGDIR": str((FOLDER / "matplotlib").absolute())}
    settings = {"NINJA_STATUS": "figures: %f/%t ", "PYTHONUNBUFFERED": "1", "JOBS": str(jobs)}
    printer = Printer()
    stopped = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        env=fonts | os.environ | settings,
    ) as process:  # fmt: skip

        def stop(number: int, _: object) -> None:
            # Ninja ends its steps before it ends itself.
            stopped.append(number)
            process.send_signal(number)

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, stop)
        for line in process.stdout:
            printer.line(line.rstrip("\n"))
    return 128 + stopped[0] if stopped else process.returncode, printer


def main() -> int:
    about = __doc__.split("\n")[0]
    parser = argparse.ArgumentParser(prog="figures.lib.workflow", description=about)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help="all and the report, if none")
    parser.add_argument("--tier", default="quick", help="quick or paper")
    parser.add_argument("--data", default="", help="folder with the data sets")
    parser.add_argument("--program", default="build/bin/batchless")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()

    def refuse(why: str) -> int:
        print(f"figures: {why}", file=sys.stderr)
        return 2

    paths = {"data": options.data, "program": options.program, "python": sys.executable}
    for name, given in paths.items():
        shown = os.fsencode(given).decode("utf-8", "backslashreplace")
        if shown.encode() != os.fsencode(given):
            return refuse(f"{name}: got '{shown}', accepted: a path in UTF-8")
    if options.tier not in specs.TIERS:
        return refuse(f"tier: got '{options.tier}', accepted: {', '.join(specs.TIERS)}")
    if options.data and not Path(options.data).is_dir():
        return refuse(f"data: got '{options.data}', accepted: a folder that exists")
    if not Path(options.program).is_file():
        return refuse(f"no program '{options.program}'; build it first (make build)")
    try:
        known = {spec.name: spec for spec in specs.load_all()}
        made = text(options.tier, options.data, options.program, sys.executable, options.jobs)
    except specs.SpecError as error:
        return refuse(str(error))
    for name in options.figures:
        if name in known and known[name].waits:
            return refuse(f"figure: got '{name}', accepted: one with results; none of its runs is there yet")
        if name not in known:
            return refuse(f"figure: got '{name}', accepted: {', '.join(known)}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    built = hashlib.sha256(Path(options.program).read_bytes()).hexdigest()
    if not PROGRAM_HASH.is_file() or PROGRAM_HASH.read_text(encoding="utf-8") != built:
        PROGRAM_HASH.write_text(built, encoding="utf-8")
    (FOLDER / "build.ninja").write_text(made, encoding="utf-8")

    goals = [str(pictures(known[name])[1]) for name in options.figures] or [str(REPORT)]
    print(f"figures: on the way to {', '.join(goals)}", flush=True)
    status, printer = ninja(options.figures, options.jobs)
    if status > 128:
        print("figures: stopped; the same command goes on", file=sys.stderr)
        return status
    if status != 0 or printer.failed:
        print(f"figures: failed: {', '.join(printer.failed)}", file=sys.stderr)
        return 1
    if printer.steps:
        seconds = time.monotonic() - printer.start
        print(f"figures: {', '.join(goals)} ({printer.steps} steps, {seconds:.0f} s)")
    else:
        print(f"figures: up to date ({OUT})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
