#!/usr/bin/env python3
"""Writes the module's type stubs, __init__.pyi: usage make_stubs.py OUT, with the module in PYTHONPATH.

Functions come from the program's table of commands, keywords of Trainer from its table of keys, and the
rest from the module as it is.
"""

import sys
from pathlib import Path

from batchless import _core, commands, trainer

HEADER = '''\
"""Staleness analysis and training for pipelined backpropagation."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Union

import numpy as np
import numpy.typing as npt

Number = Union[int, float, np.integer[Any], np.floating[Any]]
Value = Union[str, os.PathLike[str], Number, Sequence[Union[str, Number]], npt.NDArray[Any]]
Values = Mapping[str, Any]
Path = Union[str, os.PathLike[str]]
Progress = Callable[[int, int], object]

__version__: str

class Result:
    def __init__(self, values: Values) -> None: ...
    def __getitem__(self, name: str) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def keys(self) -> Any: ...
    def to_dict(self) -> dict[str, Any]: ...

class MetricsRow(Result):
    samples: int
    epoch: float
    learning_rate: float
    train_loss: float | None
    train_accuracy: float | None
    validation_loss: float | None
    validation_accuracy: float | None

class SampleResult(Result):
    sample: int
    label: int
    loss: float
    correct: float

class SampleResults(list[SampleResult]):
    @property
    def loss(self) -> float | None: ...

class Weights(dict[str, npt.NDArray[Any]]):
    def __call__(self) -> Weights: ...

class Evaluation(Result):
    samples: int
    loss: float
    accuracy: float

class Summary(Result): ...

class MemoryPrediction(Result):
    total_bytes: int
    peak_bytes: int
    allocated_bytes: int

class Trainer:
'''

METHODS = {
    "run": "(self, samples: int | None = None, progress: Progress | None = None) -> Iterator[MetricsRow]",
    "learn": "(self, x: npt.NDArray[np.float32], y: int | npt.ArrayLike) -> SampleResults",
    "finish": "(self) -> SampleResults",
    "evaluate": "(self, x: npt.NDArray[np.float32] | None = None, y: int | npt.ArrayLike | None = None)"
    " -> Evaluation",
    "save": "(self, path: Path) -> None",
    "load": "(self, path: Path) -> None",
    "summary": "(self) -> Summary",
    "predict_memory": "(self) -> MemoryPrediction",
}
PROPERTIES = {
    "weights": "Weights",
    "weights_sha256": "str",
    "delays": "npt.NDArray[np.int64]",
    "samples": "int",
    "total_samples": "int | None",
    "configuration": "str",
    "input_shape": "tuple[int, int, int]",
    "classes": "int",
}


def make_trainer():
    members = [name for name in vars(trainer.Trainer) if not name.startswith("_")]
    unknown = set(members) ^ {*METHODS, *PROPERTIES}
    if unknown:
        raise SystemExit(f"stubs: no type for {', '.join(sorted(unknown))}")
    text = "    def __init__(\n        self,\n        configuration: Values | Path | None = None,\n        *,\n"
    text += "        network: Values | Path | None = None,\n"
    for section in ("data", "schedule", "rule", "optimizer"):
        text += f"        {section}: Values | str = ...,\n"
    text += "        run: Values = ...,\n        out: Path | None = None,\n        resume: bool = False,\n"
    for name, key in trainer.FLAT_KEYS.items():
        text += f"        {name}: {key['type']} = ...,\n"
    text += "    ) -> None: ...\n"
    for name, signature in METHODS.items():
        text += f"    def {name}{signature}: ...\n"
    for name, kind in PROPERTIES.items():
        text += f"    @property\n    def {name}(self) -> {kind}: ...\n"
        if name == "weights":
            text += f"    @{name}.setter\n    def {name}(self, weights: Mapping[str, npt.ArrayLike]) -> None: ...\n"
    return text


def make_function(command):
    name = commands.python_name(command["name"])
    result = commands.result_class_name(command)
    text = f"class {result}(Result): ...\n\ndef {name}(\n"
    for place, option in enumerate(command["options"]):
        kind = "bool = False" if option["is_flag"] else "Value | None = None"
        text += f"    {commands.python_name(option['name'])}: {kind},\n"
        if place == 0:
            text += "    *,\n"
    if not command["options"]:
        text += "    *,\n"
    return text + f"    progress: Progress | None = None,\n) -> {result}: ...\n"


def main():
    parts = [HEADER + make_trainer()]
    parts += [
        make_function(command) for command in _core.describe_commands() if command["name"] not in commands.LEFT_OUT
    ]
    Path(sys.argv[1]).write_text("\n".join(parts), encoding="utf-8")


main()
