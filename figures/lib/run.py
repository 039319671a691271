"""Runs a figure's command lines and writes data files and manifest.json beside them.

    python3 -m figures.lib.run FIGURE --tier quick|paper --program build/bin/batchless

The files appear under their own names only when they are complete; the manifest comes last. A figure
on a study runs the study first, and takes the results that are kept with the sources; one on kept
results takes these. JOBS is the number of processors, those of the machine where not given.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

from figures.lib import spec as specs

STUDIES = Path("build/studies")


class RunError(RuntimeError):
    """A command line that failed, with what it said."""


def cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def call(command: list[str]) -> str:
    """Standard output of a command; its own words where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise RunError(f"{shlex.join(command)}: {error.strerror}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise RunError(
            f"{shlex.join(command)}\n  exit {done.returncode}: "
            + ("\n  ".join(said[-5:]) or "without a word")
        )
    return done.stdout


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def program_version(program: str) -> dict:
    text = call([program, "version", "--json"])
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise RunError(f"{program} version --json: not JSON: {error}") from error


def output(made: Path, command: str, seconds: float) -> dict:
    """What the manifest says about one data file."""
    return {
        "command": command,
        "output": made.name,
        "bytes": made.stat().st_size,
        "sha256": sha256(made),
        "seconds": round(seconds, 4),
    }


def run_commands(
    spec: specs.Spec, tier: str, program: str, threads: int, scratch: Path
) -> list[dict]:
    runs = []
    for command in spec.commands(tier, threads):
        made = scratch / command.out
        start = time.monotonic()
        call(command.words(program, made))
        seconds = time.monotonic() - start
        if not made.is_file() or made.stat().st_size == 0:
            raise RunError(f"{program} {command.arguments[0]}: wrote no {command.out}")
        words = shlex.join(command.words(program, spec.data / command.out))
        runs.append(output(made, words, seconds))
    return runs


def take_results(
    spec: specs.Spec, tier: str, program: str, data: str, threads: int, scratch: Path
) -> tuple[list[dict], dict]:
    """Results of a study, those made now and those kept with the sources, and by file what is said of them."""
    runs, manifests = [], {}
    for file in spec.study_files(tier, data):
        of_tier = Path(file).stem
        made = scratch / file
        start = time.monotonic()
        if of_tier == tier and spec.trains(tier, data):
            out = STUDIES / spec.study / tier
            if tier == "quick":
                # Another program has runs of its own: figures show what this one computes. The long
                # runs on real data go on where they stopped, whatever was built meanwhile.
                out /= sha256(Path(program))[:12]
                for other in out.parent.glob("*"):
                    if other != out:
                        shutil.rmtree(other)
            command = [sys.executable, "experiments/run_study.py", spec.study, "--tier", tier]
            command += ["--out", str(out), "--program", program, "--jobs", str(threads)]
            if data and tier == "paper":
                command += ["--data", data]
            # Runs of days: their progress is there to be read while they last.
            log = STUDIES / spec.study / f"{tier}.log"
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("w", encoding="utf-8") as file:
                done = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False)
            if done.returncode != 0:
                said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
                raise RunError("\n  ".join([f"{shlex.join(command)}: failed", *said[-5:]]))
            folder, words = out, shlex.join(["python3", *command[1:]])
        else:
            folder = spec.kept_results.parent
            words = f"cp {spec.kept_results} {spec.data / file}"
        shutil.copy(folder / "results.csv", made)
        runs.append(output(made, words, time.monotonic() - start))
        manifests[of_tier] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return runs, manifests


def run_figure(
    spec: specs.Spec, tier: str, program: str, threads: int = 1, data: str = ""
) -> dict:
    """Runs everything, moves the results into place and returns the manifest."""
    spec.data.mkdir(parents=True, exist_ok=True)
    started = datetime.now(timezone.utc)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(dir=spec.data.parent, prefix=f".{spec.name}-") as scratch:
        runs, origins = take_results(spec, tier, program, data, threads, Path(scratch))
        runs += run_commands(spec, tier, program, threads, Path(scratch))
        manifest = {
            "figure": spec.name,
            "tier": tier,
            "program": program_version(program),
            "machine": {
                "cpu": cpu_model(),
                "processors": len(os.sched_getaffinity(0)),
                "system": f"{platform.system()} {platform.machine()}",
            },
            "date": started.isoformat(timespec="seconds"),
            "seconds": round(time.monotonic() - begin, 4),
            "runs": runs,
        }
        if origins:
            manifest |= {"studies": origins} if spec.study else {"kept": origins["results"]}
        text = Path(scratch) / "manifest.json"
        text.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        for name in [run["output"] for run in runs] + [text.name]:
            os.replace(Path(scratch) / name, spec.data / name)
    return manifest


def clear_leftovers(spec: specs.Spec, keep: set[str]) -> None:
    """Data files of an earlier specification would be read by nobody and mislead whoever looks."""
    for path in spec.data.iterdir():
        if path.name not in keep | {"manifest.json"}:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(prog="figures.lib.run", description=__doc__)
    parser.add_argument("figure")
    parser.add_argument("--tier", choices=specs.TIERS, default="quick")
    parser.add_argument("--program", default="build/bin/batchless")
    parser.add_argument("--data", default="", help="folder with the data sets")
    options = parser.parse_args()
    # Whatever stops it takes its unfinished files along.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    processors = int(os.environ.get("JOBS") or len(os.sched_getaffinity(0)))
    try:
        spec = specs.load(options.figure)
        threads = min(spec.threads, processors)
        run_figure(spec, options.tier, options.program, threads, options.data)
        clear_leftovers(spec, set(spec.files(options.tier, options.data)))
    except (specs.SpecError, RunError, OSError) as error:
        print(f"figures: {options.figure}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
