"""The networks in PyTorch, written from their definition and not from the C++.

`named_parameters` runs through the parameters in the order of the stages, and within a stage norm
before convolution and weight before bias. `stages` yields every stage's name and result; the loss,
which is the last stage, is not part of the module. Flat results have the shape (batch, features).

Pre-activation ResNets: He et al., arXiv 1603.05027; VGG: Simonyan and Zisserman, arXiv 1409.1556;
group norm: Wu and He, arXiv 1803.08494; LeNet-5: LeCun et al. 1998, with ReLU and max-pool.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch.nn.functional as F
from torch import Tensor, nn

EPSILON = 1e-5
RESNET_BLOCKS = {"resnet20": 3, "resnet32": 5, "resnet44": 7, "resnet56": 9, "resnet110": 18}
VGG_CONVOLUTIONS = {
    "vgg11": (1, 1, 2, 2, 2),
    "vgg13": (2, 2, 2, 2, 2),
    "vgg16": (2, 2, 3, 3, 3),
}
GROUPS = {"resnet": 8, "vgg": 32}  # half of the first width

Stages = Iterator[tuple[str, Tensor]]


class StagedNetwork(nn.Module):
    """A network that can tell what each of its stages computes."""

    def stages(self, x: Tensor) -> Stages:
        """Name and result of each stage, in order; the last one is the logits."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        for _, x in self.stages(x):
            pass
        return x


def make_norm(norm: str, channels: int, groups: int) -> nn.Module:
    """`norm` is group, batch or none."""
    if norm == "group":
        return nn.GroupNorm(groups, channels, eps=EPSILON)
    return nn.BatchNorm2d(channels, eps=EPSILON) if norm == "batch" else nn.Identity()


class Block(nn.Module):
    """h = relu(norm1(x)); result = conv2(relu(norm2(conv1(h)))) + x, or + shortcut(h)."""

    def __init__(self, inputs: int, width: int, norm: str, groups: int) -> None:
        super().__init__()
        stride = 1 if inputs == width else 2
        bias = norm == "none"
        self.norm1 = make_norm(norm, inputs, groups)
        self.conv1 = nn.Conv2d(inputs, width, 3, stride=stride, padding=1, bias=bias)
        self.shortcut = None
        if inputs != width:
            self.shortcut = nn.Conv2d(inputs, width, 1, stride=stride, bias=bias)
        self.norm2 = make_norm(norm, width, groups)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=bias)

    def stages(self, x: Tensor) -> Stages:
        h = F.relu(self.norm1(x))
        y = self.conv1(h)
        yield "conv1", y
        if self.shortcut is not None:
            x = self.shortcut(h)
            yield "shortcut", x
        z = self.conv2(F.relu(self.norm2(y)))
        yield "conv2", z
        yield "sum", z + x


class ResNet(StagedNetwork):
    """ResNet-(6n + 2) for 32x32 images: three groups of n blocks."""

    WIDTHS = (16, 32, 64)

    def __init__(self, blocks: int, norm: str, groups: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, self.WIDTHS[0], 3, padding=1, bias=norm == "none")
        inputs = self.WIDTHS[0]
        self.blocks: list[tuple[str, Block]] = []
        for g, width in enumerate(self.WIDTHS, start=1):
            group = nn.Module()
            for b in range(blocks):
                block = Block(inputs, width, norm, groups)
                group.add_module(f"block{b}", block)
                self.blocks.append((f"group{g}.block{b}", block))
                inputs = width
            self.add_module(f"group{g}", group)
        self.norm = make_norm(norm, inputs, groups)
        self.fc = nn.Linear(inputs, 10)

    def stages(self, x: Tensor) -> Stages:
        x = self.conv1(x)
        yield "conv1", x
        for name, block in self.blocks:
            for stage, x in block.stages(x):
                yield f"{name}.{stage}", x
        x = F.relu(self.norm(x))
        yield "norm", x
        x = F.adaptive_avg_pool2d(x, 1)
        yield "pool", x
        yield "fc", self.fc(x.flatten(1))


class Convolution(nn.Conv2d):
    """A convolution with its norm, whose parameters come after the convolution's own."""

    def __init__(self, inputs: int, width: int, kernel: int, padding: int, norm: nn.Module) -> None:
        bias = isinstance(norm, nn.Identity)
        super().__init__(inputs, width, kernel, padding=padding, bias=bias)
        self.norm = norm


class ConvNet(StagedNetwork):
    """Convolution, norm and ReLU, some followed by a max-pool; then linear layers with ReLU."""

    def __init__(
        self,
        features: list[Convolution],
        pooled: set[int],
        widths: tuple[int, ...],
        dropout: float | None,
    ) -> None:
        """`pooled`: convolutions that a pool follows; `dropout`: None without such stages."""
        super().__init__()
        self.features = nn.ModuleList(features)
        self.pooled = pooled
        pairs = zip(widths, widths[1:])
        self.classifier = nn.ModuleList(nn.Linear(inputs, outputs) for inputs, outputs in pairs)
        self.dropout = dropout

    def stages(self, x: Tensor) -> Stages:
        pool = 0
        for k, convolution in enumerate(self.features):
            x = convolution(x)
            yield f"features.{k}", x
            x = F.relu(convolution.norm(x))
            yield f"features.{k}.relu", x
            if k in self.pooled:
                x = F.max_pool2d(x, 2)
                yield f"pool{pool}", x
                pool += 1
        last = len(self.classifier) - 1
        for j, linear in enumerate(self.classifier):
            if self.dropout is not None and j < last:
                x = F.dropout(x, self.dropout, self.training)
                yield f"classifier.{j}.dropout", x
            x = linear(x.flatten(1))
            yield f"classifier.{j}", x
            if j < last:
                x = F.relu(x)
                yield f"classifier.{j}.relu", x


def make_vgg(convolutions: tuple[int, ...], norm: str, groups: int, dropout: float) -> ConvNet:
    features: list[Convolution] = []
    pooled = set()
    inputs = 3
    for width, count in zip((64, 128, 256, 512, 512), convolutions):
        for _ in range(count):
            features.append(Convolution(inputs, width, 3, 1, make_norm(norm, width, groups)))
            inputs = width
        pooled.add(len(features) - 1)
    return ConvNet(features, pooled, (512, 512, 512, 10), dropout)


def make_lenet5() -> ConvNet:
    features = [Convolution(1, 6, 5, 2, nn.Identity()), Convolution(6, 16, 5, 0, nn.Identity())]
    return ConvNet(features, {0, 1}, (400, 120, 84, 10), None)


def default_groups(name: str, norm: str) -> int:
    """Number of groups of every group norm; 0 where there is none."""
    return GROUPS[name.rstrip("0123456789")] if norm == "group" else 0


def input_shape(name: str) -> tuple[int, int, int]:
    return (1, 28, 28) if name == "lenet5" else (3, 32, 32)


def make_network(name: str, norm: str, dropout: float = 0.5) -> StagedNetwork:
    """A name of the tables, or lenet5; `norm` is group, batch or none, and none for lenet5."""
    groups = default_groups(name, norm)
    if name in RESNET_BLOCKS:
        return ResNet(RESNET_BLOCKS[name], norm, groups)
    if name in VGG_CONVOLUTIONS:
        return make_vgg(VGG_CONVOLUTIONS[name], norm, groups, dropout)
    return make_lenet5()
