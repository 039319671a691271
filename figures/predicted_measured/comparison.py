"""The trainer against the hardware model: each network and number of workers, medians over repeats."""

from dataclasses import dataclass

import numpy as np

NETWORKS = {"resnet20": "ResNet-20", "resnet56": "ResNet-56", "vgg11": "VGG-11"}
ABSENT = "Not measured yet"
# What counts as predicted, of speed and memory; of idle time, in points of a share.
TOLERANCE = 0.15


@dataclass(frozen=True)
class Pair:
    """Predicted and measured, one of each for every repeat."""

    predicted: np.ndarray
    measured: np.ndarray

    @property
    def middle(self) -> tuple[float, float]:
        return float(np.median(self.predicted)), float(np.median(self.measured))

    @property
    def off(self) -> float:
        """How much too high the prediction is, relative; each with the measurement that it was for."""
        return float(np.median(self.predicted / self.measured)) - 1


@dataclass(frozen=True)
class Case:
    network: str
    workers: int
    speed: Pair  # samples a second
    idle: tuple[Pair, ...]  # share of the time, by worker
    trainer: Pair  # bytes that the trainer keeps
    peak: Pair  # bytes of the process, program and data with them

    @property
    def label(self) -> str:
        return f"{NETWORKS.get(self.network, self.network)}, {self.workers}"

    @property
    def within(self) -> bool:
        relative = [self.speed.off, self.trainer.off, self.peak.off]
        idle = [predicted - measured for predicted, measured in (p.middle for p in self.idle)]
        return max(map(abs, relative + idle)) <= TOLERANCE


def cases(table) -> list[Case]:
    found = dict.fromkeys(
        (str(network), int(workers))
        for network, workers in zip(table["network"], table["workers"], strict=True)
    )
    return [case(table.where(network=n, workers=w), n, w) for n, w in found]


def case(rows, network: str, workers: int) -> Case:
    def pair(predicted: str, measured: str) -> Pair:
        return Pair(rows[predicted], rows[measured])

    return Case(
        network,
        workers,
        pair("predicted_samples_per_second", "samples_per_second"),
        tuple(pair(f"predicted_idle_{w}", f"idle_{w}") for w in range(workers)),
        pair("predicted_memory_bytes", "trainer_memory_bytes"),
        pair("predicted_peak_memory_bytes", "peak_memory_bytes"),
    )
