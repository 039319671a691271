"""Training throughput of PyTorch on this machine, the peer of the trainer's benchmark.

    /usr/bin/python3 tests/bench/pytorch_peer.py [--network resnet20] [--norm group] [--batch 1]
                                                 [--threads 1] [--seconds 10]
                                                 [--device cpu|cuda|cuda-graph]

One step is forward, backward and SGDM update of one mini-batch of random images, or with gpt-L-D of
sequences of 128 tokens for a GPT of L blocks and width D, in single
precision. Prints one line of JSON; samples_per_second is the median over the repeats.

PyTorch takes convolutions of one small image to the BLAS library, which makes a batch of 1 four
times as slow with Debian's reference BLAS as with OpenBLAS: install libopenblas0-openmp, which
keeps to --threads, and see `blas` in the report. cuda-graph records a step once and repeats it, which
spares a GPU the waiting for Python. What a GPU rounds is left as PyTorch has it: convolutions by TF32,
products of matrices in single precision.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "training" / "golden"))
import networks  # noqa: E402

NAMES = ("resnet20", "resnet56", "resnet110", "vgg11", "vgg16", "gpt-6-128", "gpt-8-256")
CONTEXT = 128
VOCABULARY = 256
HEAD_WIDTH = 32
REPEATS = 5
WARM_UP_SHARE = 0.1  # of the seconds
STEPS_IN_FLIGHT = 16  # a GPU's steps that are asked for before the first is waited for


class Block(torch.nn.Module):
    """x + attention(norm(x)), then x + MLP(norm(x))."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.c_attn, self.attn_proj = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.c_fc = torch.nn.Linear(width, 4 * width)
        self.mlp_proj = torch.nn.Linear(4 * width, width)
        self.register_buffer("hidden", ~torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).tril())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, t, width = x.shape
        heads = self.c_attn(self.ln_1(x)).view(n, t, 3, width // HEAD_WIDTH, HEAD_WIDTH)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * HEAD_WIDTH**-0.5
        weights = scores.masked_fill(self.hidden, float("-inf")).softmax(-1)
        x = x + self.attn_proj((weights @ v).transpose(1, 2).reshape(n, t, width))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(torch.nn.Module):
    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.wte = torch.nn.Embedding(VOCABULARY, width)
        self.wpe = torch.nn.Parameter(0.02 * torch.randn(CONTEXT, width))
        self.blocks = torch.nn.Sequential(*(Block(width) for _ in range(layers)))
        self.ln_f = torch.nn.LayerNorm(width)
        self.lm_head = torch.nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        scores = self.lm_head(self.ln_f(self.blocks(self.wte(tokens) + self.wpe)))
        return scores.flatten(0, 1)


def make_network(name: str, norm: str, batch: int) -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    """A network with a mini-batch and its labels."""
    if name.startswith("gpt"):
        tokens = torch.randint(VOCABULARY, (2, batch, CONTEXT))
        return Gpt(*map(int, name.split("-")[1:])), tokens[0], tokens[1].flatten()
    network = networks.make_network(name, norm)
    return network, torch.randn(batch, *networks.input_shape(name)), torch.randint(10, (batch,))


def make_step(name: str, norm: str, batch: int) -> Callable[[], None]:
    """A function that trains on one mini-batch, the same one each time."""
    torch.manual_seed(1)
    network, images, labels = make_network(name, norm, batch)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(network(images), labels).backward()
        optimizer.step()

    return step


def on_gpu(step: Callable[[], None], recorded: bool) -> Callable[[], None]:
    """STEPS_IN_FLIGHT steps on the GPU, waited for."""
    if recorded:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):  # what is made in the first steps is there when they are recorded
                step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        step = graph.replay

    def steps() -> None:
        for _ in range(STEPS_IN_FLIGHT):
            step()
        torch.cuda.synchronize()

    return steps


def steps_per_second(step: Callable[[], None], seconds: float) -> float:
    """Over at least one step and at least `seconds`."""
    steps = 0
    start = time.perf_counter()
    while True:
        step()
        steps += 1
        elapsed = time.perf_counter() - start
        if elapsed >= seconds:
            return steps / elapsed


def blas_libraries() -> list[str]:
    """Files of the BLAS libraries that this process has loaded."""
    words = Path("/proc/self/maps").read_text(encoding="utf-8").split()
    names = (Path(word) for word in words if word.startswith("/"))
    return sorted({str(name) for name in names if re.match("lib(open)?blas|libmkl", name.name)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", choices=NAMES, default="resnet20")
    parser.add_argument("--norm", choices=("group", "batch", "none"), default="group")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10, help="for all repeats together")
    parser.add_argument("--device", choices=("cpu", "cuda", "cuda-graph"), default="cpu")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.device != "cpu":
        torch.set_default_device("cuda")  # PyTorch 1.13, which Debian 12 has, does not know it
    step = make_step(arguments.network, arguments.norm, arguments.batch)
    samples = arguments.batch
    if arguments.device != "cpu":
        step = on_gpu(step, arguments.device == "cuda-graph")
        samples *= STEPS_IN_FLIGHT
    steps_per_second(step, WARM_UP_SHARE * arguments.seconds)
    rates = [samples * steps_per_second(step, arguments.seconds / REPEATS) for _ in range(REPEATS)]
    report = {
        "network": arguments.network,
        "norm": arguments.norm,
        "batch": arguments.batch,
        "threads": arguments.threads,
        "device": arguments.device,
        "samples_per_second": statistics.median(rates),
        "repeats": rates,
        "torch": torch.__version__,
        "blas": blas_libraries(),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
