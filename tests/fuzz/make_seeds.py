#!/usr/bin/env python3
"""Writes what each fuzz target begins with: make_seeds.py PROGRAM OUT makes OUT/TARGET/*.

The inputs are the project's own files, what the program writes, and the inputs in tests/fuzz/found/
that a target once failed on.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent.parent
COMMANDS_LEFT_OUT = ("train", "data", "calibrate", "design")


class Seeds:
    def __init__(self, program: str, out: Path):
        self.program, self.out = program, out

    def add(self, target: str, content: bytes) -> None:
        folder = self.out / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"seed_{len(list(folder.iterdir())):03}").write_bytes(content)

    def add_files(self, target: str, pattern: str) -> None:
        for path in sorted(ROOT.glob(pattern)):
            self.add(target, path.read_bytes())

    def run(self, folder: Path, line: str) -> str:
        done = subprocess.run(
            [self.program, *line.split()], cwd=folder, capture_output=True, text=True, check=True
        )
        return done.stdout


def add_schedules(seeds: Seeds, folder: Path) -> None:
    for kind in ("pb", "gpipe", "1f1b", "2bw", "zb-h1"):
        for extension in ("csv", "txt"):
            name = f"{kind}.{extension}"
            seeds.run(folder, f"schedule --kind {kind} --stages 3 --microbatches 6 --out {name}")
            seeds.add("schedule", (folder / name).read_bytes())


def add_arrays(seeds: Seeds, folder: Path) -> None:
    seeds.run(folder, "sweep --rule sgdm --delay 2 --momenta 0.5,0.9 --rates 0.1,0.2 --out s.npz")
    seeds.add("npz", (folder / "s.npz").read_bytes())
    values = numpy.arange(6.0).reshape(2, 3)
    for save, array in (
        (numpy.savez_compressed, values),
        (numpy.savez, numpy.asfortranarray(values)),
        (numpy.savez, values.astype("<i4")),
        (numpy.savez, values.astype(">f4")),
        (numpy.savez, numpy.float32(3)),
        (numpy.savez, numpy.zeros((0, 3))),
    ):
        file = io.BytesIO()
        save(file, a=array)
        seeds.add("npz", file.getvalue())


def add_weights(seeds: Seeds) -> None:
    entries = {
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "BF16", "shape": [1], "data_offsets": [24, 26]},
    }
    for header in (entries, {"__metadata__": {"format": "pt"}} | entries, {"a": entries["a"]}):
        text = json.dumps(header).encode()
        size = max(entry["data_offsets"][1] for entry in header.values() if "dtype" in entry)
        seeds.add("safetensors", struct.pack("<Q", len(text)) + text + bytes(size))


def message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """A message of Protocol Buffers, of integers below 128 and what is shorter than 16,384 bytes."""
    made = b""
    for number, value in fields:
        if isinstance(value, int):
            made += bytes([number << 3, value])
            continue
        content = value.encode() if isinstance(value, str) else value
        made += bytes([number << 3 | 2, len(content) & 127 | 128, len(content) >> 7]) + content
    return made


def pytorch_model() -> bytes:
    """A convolution and a GroupNorm as torch.onnx writes it: nodes of ONNX, constants among them."""

    def node(operator: str, inputs: str, output: str, *attributes: bytes) -> tuple[int, bytes]:
        ends = [(1, name) for name in inputs.split()] + [(2, output), (4, operator)]
        return 1, message(*ends, *((5, attribute) for attribute in attributes))

    def tensor(name: str, shape: list[int], kind: int = 1, raw: bytes = b"") -> bytes:
        return message(*((1, extent) for extent in shape), (2, kind), (8, name), (9, raw))

    def constant(name: str, shape: list[int], kind: int, raw: bytes) -> tuple[int, bytes]:
        return node("Constant", "", name, message((1, "value"), (5, tensor("", shape, kind, raw))))

    def value(name: str, shape: list[int]) -> bytes:
        extents = message(*((1, message((1, extent))) for extent in shape))
        return message((1, name), (2, message((1, message((2, extents))))))

    graph = message(
        node("Conv", "x c.weight c.bias", "1"),
        constant("apart", [3], 7, struct.pack("<3q", 0, 2, -1)),
        constant("ones", [2], 1, struct.pack("<2f", 1, 1)),
        constant("zeros", [2], 1, bytes(8)),
        node("Reshape", "1 apart", "2"),
        node("InstanceNormalization", "2 ones zeros", "3"),
        node("Shape", "1", "4"),
        node("Reshape", "3 4", "5"),
        node("Mul", "5 n.weight", "6"),
        node("Add", "6 n.bias", "7"),
        node("GlobalAveragePool", "7", "8"),
        node("Flatten", "8", "9"),
        node("Gemm", "9 f.weight f.bias", "y", message((1, "transB"), (3, 1))),
        *((5, tensor(f"c.{name}", shape)) for name, shape in (("weight", [4, 3, 3, 3]), ("bias", [4]))),
        *((5, tensor(f"n.{name}", [4, 1, 1])) for name in ("weight", "bias")),
        *((5, tensor(f"f.{name}", shape)) for name, shape in (("weight", [7, 4]), ("bias", [7]))),
        (11, value("x", [1, 3, 8, 8])),
        (12, value("y", [1, 7])),
    )
    return message((8, message((2, 17))), (7, graph))


def add_models(seeds: Seeds, folder: Path) -> None:
    seeds.add("onnx", pytorch_model())
    for name in ("lenet5", "resnet20-v1", "alexnet", "gpt"):
        seeds.run(folder, f"network --network {name} --out {name}.onnx")
        seeds.add("onnx", (folder / f"{name}.onnx").read_bytes())


def add_images(seeds: Seeds) -> None:
    numbers = random.Random(1)
    record = bytes([3]) + numbers.randbytes(3072)
    seeds.add("cifar10", record)
    seeds.add("cifar10", record[:100])
    seeds.add("cifar10", gzip.compress(record, mtime=0))
    labels = struct.pack(">II", 0x801, 2) + bytes([1, 9])
    images = struct.pack(">IIII", 0x803, 2, 28, 28) + numbers.randbytes(2 * 28 * 28)
    for first, second in ((labels, images), (labels, gzip.compress(images, mtime=0))):
        seeds.add("mnist", struct.pack("<H", len(first)) + first + second)
    pixels = numpy.frombuffer(numbers.randbytes(24 * 16 * 4), dtype="uint8").reshape(24, 16, 4)
    for mode, options in (
        ("RGB", {}),
        ("RGB", {"progressive": True}),
        ("RGB", {"restart_marker_rows": 1}),
        ("L", {}),
        ("CMYK", {}),
    ):
        array = {"RGB": pixels[:, :, :3], "L": pixels[:, :, 0], "CMYK": pixels}[mode]
        file = io.BytesIO()
        Image.fromarray(numpy.ascontiguousarray(array), mode).save(
            file, "JPEG", quality=30, **options
        )
        seeds.add("image_folder", file.getvalue())


def add_run(seeds: Seeds, folder: Path) -> None:
    (folder / "run.toml").write_text(
        '[network]\nname = "lenet5"\n[schedule]\nkind = "pb"\n[optimizer]\nbatch = 1\nlr = 0.01\n'
        "[data]\nlimit_train = 8\nlimit_validation = 4\n[run]\nlog_every_samples = 4\n",
        encoding="utf-8",
    )
    seeds.run(folder, "train run.toml --out run")
    names = ("config.toml", "metrics.csv", "manifest.json", "summary.json")
    parts = [(folder / "run" / name).read_bytes() for name in names]
    seeds.add("run_folder", b"\n----\n".join(parts))
    seeds.add("configuration", parts[0])


def add_command_lines(seeds: Seeds, folder: Path) -> None:
    """The examples of the commands' own help."""
    text = seeds.run(folder, "--help")
    for name in re.findall(r"^  ([a-z-]+) ", text.split("Commands:")[1], re.MULTILINE):
        if name in COMMANDS_LEFT_OUT:
            continue
        examples = seeds.run(folder, f"{name} --help").split("Examples:")[1]
        for line in re.findall(r"^ *batchless (.*)$", examples, re.MULTILINE):
            if "/" not in line:
                seeds.add("command_line", "\n".join(line.split()).encode())


def main() -> int:
    if len(sys.argv) != 3:
        print(f"make_seeds: got {len(sys.argv) - 1} arguments, accepted: PROGRAM OUT")
        return 2
    seeds = Seeds(str(Path(sys.argv[1]).resolve()), Path(sys.argv[2]))
    shutil.rmtree(seeds.out, ignore_errors=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seeds.add_files("configuration", "experiments/configs/*.toml")
        seeds.add_files("network_file", "experiments/networks/*.toml")
        seeds.add_files("machine_file", "hwmodel/machines/*.toml")
        seeds.add_files("quotients", "experiments/quotients/*.json")
        row = b'{"delay": 4, "numerator": [1, 0], "denominator": [1, -1, 0]}'
        seeds.add("quotients", b'{"rows": [' + row + b"]}")
        add_schedules(seeds, folder)
        add_arrays(seeds, folder)
        add_weights(seeds)
        add_models(seeds, folder)
        add_images(seeds)
        add_run(seeds, folder)
        add_command_lines(seeds, folder)
        # Changes of a checkpoint that the target makes itself: none, one byte.
        for changes in (b"", bytes([100, 0, 0, 255]), bytes([0, 4])):
            seeds.add("checkpoint", changes)
    for path in sorted((ROOT / "tests/fuzz/found").glob("*/*")):
        seeds.add(path.parent.name, path.read_bytes())
    return 0


if __name__ == "__main__":
    sys.exit(main())
