"""State of a short training in PyTorch, for trainers to compare with.

    /usr/bin/python3 tests/training/golden/make_golden.py [--check] [FILE.json ...]

Needs PyTorch (made with 1.13 of Debian 12, package python3-torch), which nothing else needs: the
files are part of the checkout. `--check` compares with them instead of writing and exits 1 where
they differ by more than 1e-9. Everything is in double precision on the processor.

Neither weights nor images are stored. Both sides compute them, with unsigned 64-bit integers and
double precision, and round the result to float, so that trainers in float and in double start from
the same numbers:

    splitmix64(x):  x = x + 0x9E3779B97F4A7C15
                    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9
                    x = (x ^ x >> 27) * 0x94D049BB133111EB
                    x ^ x >> 31
    u(p, k) = (splitmix64(p * 2^32 + k) >> 11) * 2^-53 * 2 - 1        in [-1, 1)

    parameter tensor p, element k of its flat layout (out, in, kernel row, kernel column):
        convolution's weight   u sqrt(3) sqrt(2 / (out * kernel rows * kernel columns))
        linear weight          u sqrt(1 / in)
        norm's weight          1 + 0.1 u
        any bias               0.1 u
    sample i, element k of (channel, row, column): (b / 255 - 0.5) / 0.25 in single precision, with
        the byte b = splitmix64((1000000 + i) * 2^32 + k) >> 56
    label of sample i: splitmix64(2000000 * 2^32 + i) mod 10

Products run from the left. p counts the network's parameters from 0: stage by stage, norm before
convolution within a stage, weight before bias. In a ResNet block that is norm1, conv1, shortcut
(where there is one), norm2, conv2; in a VGG features.K.weight, features.K.bias or
features.K.norm.weight and .bias, features.K+1.weight.

Steps 0, 1, ... train on samples 0 .. batch - 1, batch .. 2 batch - 1, ... with the mean loss of the
mini-batch and PyTorch's SGD on every parameter: g = gradient + weight_decay w, v = momentum v + g,
w = w - lr v. There is no dropout; a batch norm takes its statistics from the mini-batch.

Rounding to float can turn a rectifier that is near zero, and gradients jump there. In twelve tries
with initial weights moved by 1e-7 of themselves, losses changed by up to 4e-4 with batch norm and
3e-6 without, parameters after ten steps by up to 3e-3 and 1e-4 of their norm.

Keys of a file:

    network, norm, groups (0 without group norm), classes, batch, steps, lr, momentum, weight_decay
    labels          of the first mini-batch
    input           tensor, the first mini-batch
    initial         tensors, the parameters before training
    stages          tensors, results of the first mini-batch's stages without the loss; of a stage
                    that hands on two values, the last layer's
    gradients       tensors, by parameter, of the first mini-batch's mean loss
    parameters      tensors, after all steps
    losses          by step, mean over its mini-batch before its update
    sample_losses   by step, by sample

A tensor is {name, shape, l2, sum, indices, samples}: samples[j] is the element at indices[j] of the
flat tensor, which are at most 16 evenly spaced from the first to the last element.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

import networks

FOLDER = Path(__file__).resolve().parent
TOLERANCE = 1e-9
CLASSES = 10
STEPS = 10
MOMENTUM = 0.9
WEIGHT_DECAY = 1e-4
SAMPLED = 16
FIRST_IMAGE = 1_000_000
LABELS = 2_000_000


@dataclass(frozen=True)
class Run:
    """What one file is about."""

    network: str
    norm: str
    batch: int
    lr: float


RUNS = {
    "resnet20.json": Run("resnet20", "group", 4, 0.05),
    "resnet20_batch_norm.json": Run("resnet20", "batch", 4, 0.005),
    "resnet20_single.json": Run("resnet20", "group", 1, 0.02),
    "vgg11.json": Run("vgg11", "group", 4, 0.02),
    "vgg11_no_norm.json": Run("vgg11", "none", 4, 0.02),
    "lenet5.json": Run("lenet5", "none", 4, 0.05),
}


def splitmix64(place: int, count: int) -> np.ndarray:
    """The numbers at place * 2^32 + k for k = 0 .. count - 1."""
    x = np.arange(count, dtype=np.uint64) + np.uint64(place << 32)
    x += np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)


def uniform(place: int, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers in [-1, 1), in double precision."""
    bits = splitmix64(place, math.prod(shape)) >> np.uint64(11)
    return (bits.astype(np.float64) * 2.0**-53 * 2.0 - 1.0).reshape(shape)


def rounded(values: np.ndarray) -> Tensor:
    """In double precision, but with the values of single precision."""
    return torch.from_numpy(values.astype(np.float32).astype(np.float64))


def initial_parameter(name: str, place: int, shape: tuple[int, ...]) -> Tensor:
    u = uniform(place, shape)
    if name.endswith("bias"):
        return rounded(0.1 * u)
    if len(shape) == 1:
        return rounded(1.0 + 0.1 * u)
    if len(shape) == 2:
        return rounded(u * math.sqrt(1.0 / shape[1]))
    return rounded(u * math.sqrt(3.0) * math.sqrt(2.0 / (shape[0] * shape[2] * shape[3])))


def image(place: int, shape: tuple[int, ...]) -> Tensor:
    pixels = (splitmix64(place, math.prod(shape)) >> np.uint64(56)).astype(np.float32)
    normalized = (pixels / np.float32(255) - np.float32(0.5)) / np.float32(0.25)
    return torch.from_numpy(normalized.astype(np.float64)).reshape(shape)


def make_samples(first: int, count: int, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Images and labels of samples first .. first + count - 1."""
    numbers = range(first, first + count)
    images = torch.stack([image(FIRST_IMAGE + i, shape) for i in numbers])
    labels = splitmix64(LABELS, first + count)[first:] % np.uint64(CLASSES)
    return images, torch.from_numpy(labels.astype(np.int64))


def describe(name: str, tensor: Tensor) -> dict[str, Any]:
    flat = tensor.detach().flatten()
    count = min(SAMPLED, flat.numel())
    indices = [j * (flat.numel() - 1) // (count - 1) for j in range(count)]
    return {
        "name": name,
        "shape": list(tensor.shape),
        "l2": flat.norm().item(),
        "sum": flat.sum().item(),
        "indices": indices,
        "samples": flat[indices].tolist(),
    }


def train(run: Run) -> dict[str, Any]:
    """The content of a file."""
    network = networks.make_network(run.network, run.norm, dropout=0.0).double()
    parameters = dict(network.named_parameters())
    with torch.no_grad():
        for p, (name, parameter) in enumerate(parameters.items()):
            parameter.copy_(initial_parameter(name, p, tuple(parameter.shape)))
    golden: dict[str, Any] = {
        "network": run.network,
        "norm": run.norm,
        "groups": networks.default_groups(run.network, run.norm),
        "classes": CLASSES,
        "batch": run.batch,
        "steps": STEPS,
        "lr": run.lr,
        "momentum": MOMENTUM,
        "weight_decay": WEIGHT_DECAY,
    }
    optimizer = torch.optim.SGD(
        parameters.values(), lr=run.lr, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY
    )
    losses: list[float] = []
    sample_losses: list[list[float]] = []
    for step in range(STEPS):
        shape = networks.input_shape(run.network)
        images, labels = make_samples(step * run.batch, run.batch, shape)
        stages = list(network.stages(images))
        each = F.cross_entropy(stages[-1][1], labels, reduction="none")
        mean = each.mean()
        optimizer.zero_grad()
        mean.backward()
        if step == 0:
            golden["labels"] = labels.tolist()
            golden["input"] = describe("input", images)
            golden["initial"] = [describe(name, w) for name, w in parameters.items()]
            golden["stages"] = [describe(name, result) for name, result in stages]
            golden["gradients"] = [describe(name, w.grad) for name, w in parameters.items()]
        optimizer.step()
        losses.append(mean.item())
        sample_losses.append(each.tolist())
    golden["parameters"] = [describe(name, w) for name, w in parameters.items()]
    golden["losses"] = losses
    golden["sample_losses"] = sample_losses
    return golden


def to_text(golden: dict[str, Any]) -> str:
    """JSON with a line for each tensor; numbers read back as they were."""

    def lines(value: Any) -> str:
        if isinstance(value, list) and isinstance(value[0], (dict, list)):
            return "[\n    " + ",\n    ".join(json.dumps(item) for item in value) + "\n  ]"
        return json.dumps(value)

    entries = [f"  {json.dumps(key)}: {lines(value)}" for key, value in golden.items()]
    return "{\n" + ",\n".join(entries) + "\n}\n"


def numbers_differ(expected: list[float], actual: list[float], scale: float) -> bool:
    """Whether any differs by more than the tolerance times `scale`; also where one is NaN."""
    pairs = zip(expected, actual)
    return len(expected) != len(actual) or not all(
        abs(a - b) <= TOLERANCE * scale for a, b in pairs
    )


def tensor_differs(expected: dict[str, Any], actual: dict[str, Any]) -> bool:
    if any(expected[key] != actual[key] for key in ("name", "shape", "indices")):
        return True
    l2 = expected["l2"]
    return (
        numbers_differ([l2], [actual["l2"]], l2)
        or numbers_differ(expected["samples"], actual["samples"], l2)
        or numbers_differ(
            [expected["sum"]], [actual["sum"]], l2 * math.sqrt(math.prod(expected["shape"]))
        )
    )


def differences(expected: dict[str, Any], actual: dict[str, Any]) -> list[str]:
    """Names of what is not the same to within the tolerance."""
    if expected.keys() != actual.keys():
        return ["keys"]
    found = []
    for key, old in expected.items():
        new = actual[key]
        if key == "losses":
            if numbers_differ(old, new, max(old)):
                found.append(key)
        elif key == "sample_losses":
            if numbers_differ(sum(old, []), sum(new, []), max(map(max, old))):
                found.append(key)
        elif isinstance(old, dict):
            if tensor_differs(old, new):
                found.append(key)
        elif isinstance(old, list) and isinstance(old[0], dict):
            if len(old) != len(new):
                found.append(key)
            found += [f"{key} {a['name']}" for a, b in zip(old, new) if tensor_differs(a, b)]
        elif old != new:
            found.append(key)
    return found


def check(file: str) -> bool:
    """Whether a new training agrees with the file; says where it does not."""
    expected = json.loads((FOLDER / file).read_text(encoding="utf-8"))
    found = differences(expected, train(RUNS[file]))
    for place in found:
        print(f"{file}: {place} differs", file=sys.stderr)
    return not found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help="default: all of them")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    unknown = set(arguments.files) - RUNS.keys()
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: not one of {', '.join(RUNS)}")
    # One order of additions whatever the machine's cores.
    torch.set_num_threads(1)
    files = arguments.files or list(RUNS)
    if arguments.check:
        return 0 if all([check(file) for file in files]) else 1
    for file in files:
        (FOLDER / file).write_text(to_text(train(RUNS[file])), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
