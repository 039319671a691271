"""What table 9 of Zhang and Abdelrahman prints, and the same from the program's data."""

from __future__ import annotations

from dataclasses import dataclass

MEBIBYTE = 2**20
SCHEMES = {"pipedream": "PipeDream", "stale": "stale training"}


@dataclass(frozen=True)
class Row:
    """A row of doi 10.1155/2021/3839543, table 9: MB of 2^20 bytes and percent."""

    minibatch: int
    activations: float  # of a sample
    weights: float
    pipedream: float
    stale: float

    @property
    def weight_copies(self):
        """What four further copies of the weights are of the row's own memory, percent."""
        return 400 * self.weights / (self.minibatch * self.activations + self.weights)


LENET5 = Row(128, 0.06, 0.24, 109, 97)
ALEXNET = Row(128, 0.88, 88.87, 214, 37)
RESNET20 = Row(128, 3.84, 1.03, 61, 60)
VGG16 = Row(128, 3.30, 58.16, 124, 75)
IMAGENET = Row(32, 218.59, 527.79, 105, 77)


@dataclass(frozen=True)
class Case:
    label: str
    file: str
    published: Row
    register: int  # after so many weight layers
    printed: bool = True  # that register, for that network

    @property
    def place(self):
        return f"{self.register}" if self.printed else f"{self.register}, not as printed"


CASES = (
    Case("LeNet-5", "lenet5.csv", LENET5, 2),
    Case("AlexNet", "alexnet.csv", ALEXNET, 3),
    Case("ResNet-20", "resnet20-v1.csv", RESNET20, 7),
    Case("ResNet-20, pre-activation", "resnet20.csv", RESNET20, 7),
    Case("VGG-16, CIFAR-10", "vgg16_2.csv", VGG16, 2),
    Case("VGG-16, CIFAR-10", "vgg16_6.csv", VGG16, 6, False),
    Case("VGG-16, ImageNet", "vgg16-imagenet_2.csv", IMAGENET, 2),
    Case("VGG-16, ImageNet", "vgg16-imagenet_6.csv", IMAGENET, 6, False),
)


def increase(data, case, scheme):
    """(published, predicted), percent."""
    predicted = data.table(case.file).one("increase_percent", scheme=scheme)
    return getattr(case.published, scheme), predicted


def megabytes(data, case, column):
    return data.table(case.file).one(column, scheme="stale") / MEBIBYTE
