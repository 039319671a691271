"""What the parts of `make harden` share: the program under test, the runs that it is tried on, the table."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# What takes longer hangs: undisturbed it takes a second, on a slow and busy machine a minute.
HANG_SECONDS = 600

NETWORK = """name = "tiny"
input = [3, 32, 32]
classes = 10
stage = [
  { name = "conv", layers = [{ kind = "convolution", channels = 4, kernel = 3, stride = 4 }] },
  { name = "pool", layers = ["average_pool"] },
  { name = "fc", layers = [{ kind = "linear", features = 10 }] },
  { name = "loss", layers = ["loss"] },
]
"""
CONFIGURATION = """[network]
file = "net.toml"
[data]
name = "cifar10"
root = "data"
[schedule]
kind = "pb"
workers = 2
balance = "flops"
[rule]
name = "lwp-v+sc"
[optimizer]
batch = 1
lr = 0.01
[run]
epochs = 2
checkpoint_every_samples = 30
log_every_samples = 20
log_samples = true
watchdog_seconds = 20
"""


@dataclass
class Row:
    """One line of the table."""

    name: str
    tried: int = 0
    survived: int = 0  # ended as an undisturbed one does
    refused: int = 0  # one line and exit 1 or 2, and the same command then ended so
    lost: list[str] = field(default_factory=list)  # what happened instead
    remark: str = ""

    def count(self, problem: str, ended_well: bool) -> None:
        self.tried += 1
        if problem:
            self.lost.append(problem)
        elif ended_well:
            self.survived += 1
        else:
            self.refused += 1


def table(rows: list[Row]) -> str:
    lines = [("", "tried", "survived", "refused", "lost", "")]
    for row in rows:
        numbers = (row.tried, row.survived, row.refused, len(row.lost))
        lines.append((row.name, *map(str, numbers), row.remark))
    widths = [max(len(line[i]) for line in lines) for i in range(5)]
    text = [
        f"{line[0]:{widths[0]}}"
        + "".join(f"  {line[i]:>{widths[i]}}" for i in range(1, 5))
        + (f"  {line[5]}" if line[5] else "")
        for line in lines
    ]
    for row in rows:
        text += [f"LOST {row.name}: {problem}" for problem in row.lost[:20]]
    text.append(f"lost: {sum(len(row.lost) for row in rows)}")
    return "\n".join(text)


@dataclass
class Outcome:
    code: int  # negative: the signal that ended it; None became -9 after HANG_SECONDS
    out: str
    error: str
    hung: bool = False


def start(command: list[str], folder: Path, stdout: int = subprocess.PIPE, **environment: str) -> subprocess.Popen:
    return subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=os.environ | environment,
        start_new_session=True,
    )


def call(command: list[str], folder: Path, **environment: str) -> Outcome:
    process = start(command, folder, **environment)
    try:
        out, error = process.communicate(timeout=HANG_SECONDS)
        return Outcome(process.returncode, out, error)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        out, error = process.communicate()
        return Outcome(-9, out, error, hung=True)


def refusal_problem(outcome: Outcome, speaker: str = "batchless") -> str:
    """What is wrong with the way in which a command failed; empty where it said one line, or did not fail."""
    if outcome.code == 0:
        return ""
    if outcome.hung:
        return f"hung for {HANG_SECONDS} s"
    if outcome.code not in (1, 2):
        return f"exit {outcome.code}: {outcome.error[-200:]!r}"
    lines = [line for line in outcome.error.splitlines() if line.startswith(f"{speaker}: ")]
    if len(lines) != 1 or outcome.error.splitlines()[-1] != lines[0]:
        return f"exit {outcome.code} said {outcome.error[-300:]!r}"
    return ""


class Place:
    """A folder with a small data set and a network, and what an undisturbed run in it leaves."""

    def __init__(self, program: Path, folder: Path, samples: int = 60):
        self.program, self.folder = str(program), folder
        folder.mkdir(parents=True)
        (folder / "net.toml").write_text(NETWORK, encoding="utf-8")
        (folder / "run.toml").write_text(CONFIGURATION, encoding="utf-8")
        self.must("data", "synth", "--out", "data", "--train-size", str(samples),
                  "--validation-size", "20")  # fmt: skip

    def run(self, *words: str, **environment: str) -> Outcome:
        return call([self.program, *words], self.folder, **environment)

    def must(self, *words: str) -> str:
        done = self.run(*words)
        if done.code != 0:
            raise SystemExit(f"harden: {' '.join(words)}: exit {done.code}: {done.error}")
        return done.out

    def train(self, out: str, *more: str) -> tuple[str, ...]:
        return ("train", "run.toml", "--resume", "--out", out, *more)

    def half_done(self, faults: Path, out: str) -> None:
        """A run whose later checkpoints could not be put in their place."""
        self.run(*self.train(out), LD_PRELOAD=str(faults), BATCHLESS_FAULT="rename:5+")

    def result(self, out: str) -> tuple:
        """What has to be the same however often a run was disturbed."""
        folder = self.folder / out
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        return (
            summary["weights_sha256"],
            summary["validation_loss"],
            (folder / "metrics.csv").read_bytes(),
            (folder / "samples.csv").read_bytes(),
        )

    def clear(self, *names: str) -> None:
        for name in names:
            path = self.folder / name
            if path.is_dir():
                # A rank whose launcher was killed may still be at its last write.
                deadline = Deadline(HANG_SECONDS)
                while path.exists():
                    shutil.rmtree(path, ignore_errors=not deadline.passed())
            else:
                path.unlink(missing_ok=True)


def checkpoint_problem(path: Path) -> str:
    """Whether a checkpoint's last line is the digest of what is before it."""
    if not path.exists():
        return ""
    content = path.read_bytes()
    digest = hashlib.sha256(content[:-65]).hexdigest().encode() + b"\n"
    return "" if content[-65:] == digest else "the checkpoint is damaged"


def folder_problem(folder: Path) -> str:
    """Whether a file in a run's folder is half written, or a temporary one was left."""
    if not folder.is_dir():
        return ""
    for name in ("summary.json", "manifest.json"):
        path = folder / name
        if path.exists():
            try:
                json.loads(path.read_text(encoding="utf-8"))
            except ValueError:
                return f"{name} is half written"
    left = [path.name for path in folder.iterdir() if path.name.endswith(".partial")]
    if left:
        return f"{left[0]} was left behind"
    return checkpoint_problem(folder / "checkpoint")


class Deadline:
    def __init__(self, seconds: float):
        self.end = time.monotonic() + seconds

    def left(self) -> float:
        return self.end - time.monotonic()

    def passed(self) -> bool:
        return self.left() <= 0


def spread(count: int, most: int, numbers: random.Random) -> list[int]:
    """Numbers from 1 to count: all, or the first ones and a random choice of the others."""
    if count <= most:
        return list(range(1, count + 1))
    first = most // 4
    return list(range(1, first + 1)) + sorted(
        numbers.sample(range(first + 1, count + 1), most - first)
    )
