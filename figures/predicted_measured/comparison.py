"""The trainer against the hardware model: each network and number of workers, every repeat.

Each repeat has a calibration of its own, so a measurement belongs to the prediction of its repeat;
medians over the repeats, taken of either alone, would compare what does not belong together.
"""

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
    def off(self) -> np.ndarray:
        """How much too high the predictions are, relative."""
        return self.predicted / self.measured - 1


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
    def times_within(self) -> np.ndarray:
        """Whether speed and all idle times are as predicted, by repeat."""
        off = [self.speed.off, *(pair.predicted - pair.measured for pair in self.idle)]
        return np.max(np.abs(off), axis=0) <= TOLERANCE

    @property
    def memory_within(self) -> np.ndarray:
        return np.max(np.abs([self.trainer.off, self.peak.off]), axis=0) <= TOLERANCE


def cases(table) -> list[Case]:
    return [case(own, str(n), int(w)) for (n, w), own in table.by("network", "workers").items()]


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
