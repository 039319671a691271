"""What the scripts that run `batchless train` many times share: errors, files, the command line."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from experiments import study as studies


class UsageError(ValueError):
    """One line that names the argument, its value and what is accepted."""


class RunError(RuntimeError):
    """Runs that failed, one line each."""


class Interrupted(RuntimeError):
    def __init__(self, number: int, line: str):
        super().__init__(line)
        self.number = number


class Parser(argparse.ArgumentParser):
    def parse_args(self, args=None, namespace=None):
        words = sys.argv[1:] if args is None else args
        # Results and manifests get these names, long after the work began.
        for what, text in [("argument", word) for word in words] + [("folder", os.getcwd())]:
            name = os.fsencode(text)
            shown = name.decode("utf-8", "backslashreplace")
            if shown.encode() != name:
                raise UsageError(f"{what}: got '{shown}', accepted: text in UTF-8")
        return super().parse_args(words, namespace)

    def error(self, message: str):
        raise UsageError(f"{message}; --help lists what is accepted")


def processors() -> int:
    return len(os.sched_getaffinity(0))


def positive(name: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{name}: got '{text}', accepted: an integer from 1")
    return int(text)


def existing_folder(name: str, text: str) -> str:
    if not text or not Path(text).is_dir():
        raise UsageError(f"{name}: got '{text}', accepted: a folder that exists")
    return text


def no_program(text: str, why: str) -> UsageError:
    return UsageError(f"--program: got '{text}', accepted: the program batchless ({why})")


def trainer(text: str) -> str:
    """Path of the program."""
    if not os.access(text, os.X_OK) or not Path(text).is_file():
        raise no_program(text, "make build")
    return str(Path(text).resolve())


def output_folder(name: str, text: str) -> Path:
    folder = Path(text)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{name}: got '{folder}', accepted: a folder")
    return folder


def comparison_folder(out: Path, configuration: str) -> None:
    """Makes the folder, with what every run in it is told; runs told otherwise are another comparison."""
    out.mkdir(parents=True, exist_ok=True)
    config = out / "config.toml"
    if config.exists() and config.read_text(encoding="utf-8") != configuration:
        raise UsageError(f"--out: got '{out}', accepted: a folder of the same comparison")
    replace(config, configuration)


def replace(path: Path, text: str) -> None:
    """The file appears whole or not at all, whatever happens meanwhile."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with scratch.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
        # The name is in the folder, which has to reach the disk, too.
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        scratch.unlink(missing_ok=True)


def stop_at_signals() -> None:
    """SIGINT and SIGTERM end the work at once. What is under way is not kept; whatever had ended is."""

    def stop(number: int, _frame) -> None:
        raise Interrupted(number, "interrupted; the same command goes on from there")

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def exit_code_of(name: str, work: Callable[[], None]) -> int:
    """Failures of the work become one line that starts with the name."""
    try:
        work()
    except (UsageError, studies.StudyError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except Interrupted as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 128 + error.number
    except (RuntimeError, OSError, ValueError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    return 0
