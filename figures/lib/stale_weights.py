"""Figures of pipelined training with stale weights: accuracy against how deep the pipelining goes.

A study's row is plain training of its network where its name ends in PLAIN, else it has K pairs of
pipeline registers, in `schedule.placement` or, of hybrid training, in its first phase. Two numbers say
how deep the pipelining goes:

    degree of staleness     2K cycles: how late the first weights are. Those before register j, from 1
                            on, are 2(K - j + 1) cycles late
    stale weights           share of the weights that lie before the last register

Both are of Zhang and Abdelrahman, arXiv 1912.12675 (recalled). Data files NETWORK.csv, of `batchless
costs`, have the weights of each stage.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from figures.lib import style, study
from figures.lib.tables import Data, Table

PLAIN = "plain"
COLORS = {
    "lenet5": "#0072B2",
    "alexnet": "#E69F00",
    "vgg16": "#009E73",
    "resnet20": "#0072B2",
    "resnet56": "#D55E00",
}
DASHES = {"one": (0, (4, 1.5)), "several": "-", "hybrid": ":"}
KINDS = {"one": ("one pair", "o"), "several": ("several pairs", "s"), "hybrid": ("hybrid", "D")}
# Points of accuracy less plain training. The abstract of arXiv 1912.12675, whose losses are taken for
# those at the registers of table 9 (doi 10.1155/2021/3839543), and its table 5.
PUBLISHED = {
    "LeNet-5, (2)": -0.4,
    "AlexNet, (3)": -4,
    "VGG-16, (2)": -0.83,
    "ResNet-20, (7)": -1.45,
    "ResNet-56, (19)": 92.89 - 92.63,
    "ResNet-56, (19), hybrid": 92.75 - 92.63,
}
# The same abstract: what deeper pipelining costs at most, wherever its registers are.
DEEPER = {"vgg16": -12, "resnet20": -8.5}


@dataclass(frozen=True)
class Row:
    network: str
    name: str  # with its network
    placement: tuple[int, ...]  # stages before each register; none of plain training
    hybrid: bool
    synthetic: bool
    stale_percent: float
    accuracies: np.ndarray
    differences: np.ndarray  # from plain training with the same seed, points
    diverged: int

    @property
    def degree(self) -> int:
        return 2 * len(self.placement)

    @property
    def kind(self) -> str:
        return "hybrid" if self.hybrid else "one" if len(self.placement) == 1 else "several"

    @property
    def published(self) -> float | None:
        return None if self.synthetic else PUBLISHED.get(self.name)


def stale_percent(costs: Table, placement: tuple[int, ...]) -> float:
    """Share of the weights before the last register, percent."""
    weights = np.array(costs["parameters"], dtype=float)
    before = np.arange(len(weights)) < max(placement, default=0)
    return 100 * float(weights[before].sum() / weights.sum())


def rows(data: Data, table: Table) -> list[Row]:
    every = study.rows(table)
    plain = {
        str(runs["network"][0]): dict(zip(runs["seed"], study.accuracies(runs)))
        for name, runs in every.items()
        if name.endswith(PLAIN)
    }
    found = []
    for name, runs in every.items():
        network = str(runs["network"][0])
        phases = study.phases(runs)
        placement = tuple(phases[0]["schedule.placement"] if phases else study.placement(runs))
        of_seed = dict(zip(runs["seed"], study.accuracies(runs)))
        base = plain.get(network, {})
        label = study.NETWORKS[network]
        found.append(
            Row(
                network=network,
                name=name if name.startswith(label) else f"{label}, {name}",
                placement=placement,
                hybrid=bool(phases),
                synthetic=study.is_synthetic(runs),
                stale_percent=stale_percent(data.table(f"{network}.csv"), placement),
                accuracies=np.array(list(of_seed.values())),
                differences=np.array([of_seed[s] - base[s] for s in of_seed if s in base]),
                diverged=int(study.diverged(runs).sum()),
            )
        )
    return found


def draw(data: Data):
    panels = study.panels(data)
    fig = style.plt.figure(figsize=(style.PAGE, 2.5 * len(panels) + 0.4))
    grid = fig.add_gridspec(
        len(panels) + 1, 2, height_ratios=[2.5] * len(panels) + [0.4], width_ratios=[1, 1]
    )
    networks: list[str] = []
    for k, table in enumerate(panels):
        axes = [fig.add_subplot(grid[k, column]) for column in (0, 1)]
        if table is None:
            for ax in axes:
                study.absent(ax)
            continue
        found = rows(data, table)
        networks = list(dict.fromkeys([*networks, *(row.network for row in found)]))
        _draw(axes[0], found, lambda row: row.degree, "degree of staleness (cycles)")
        _draw(axes[1], found, lambda row: row.stale_percent, "stale weights (%)")
        progress = study.progress(data.manifest(), table)
        subject = study.subject(table).split(":")[0]
        style.panel(axes[0], "ac"[k], ", ".join(filter(None, (subject, progress))))
        style.panel(axes[1], "bd"[k], "the same by share")
    style.legend_below(fig, grid[-1, :], _handles(networks), 4)
    return fig


def _draw(ax, found: list[Row], x, label: str) -> None:
    ax.axhline(0, color="#666666", linewidth=1)
    stale = [row for row in found if row.placement and len(row.differences)]
    shown = [float(row.differences.mean()) for row in stale if not row.diverged]
    marks = [row.published for row in stale if row.published is not None]
    low = min([*shown, *marks], default=-1)
    high = max([*shown, *marks, 0], default=0)
    pad = 0.08 * (high - low)
    ax.set_ylim(low - 2 * pad, high + 2 * pad)
    for network in dict.fromkeys(row.network for row in stale):
        for kind, (_, marker) in KINDS.items():
            points = sorted(
                (r for r in stale if (r.network, r.kind) == (network, kind) and not r.diverged), key=x
            )
            color = COLORS[network]
            # Rows of one depth are no curve.
            dashes = "" if len({x(r) for r in points}) < len(points) else DASHES[kind]
            ax.plot(
                [x(r) for r in points], [r.differences.mean() for r in points], marker=marker,
                color=color, linestyle=dashes, linewidth=0.8,
                markerfacecolor="white" if kind == "hybrid" else color,
            )  # fmt: skip
            for row in points:
                ax.plot([x(row)] * len(row.differences), row.differences, ".", color=color, markersize=2)
    for row in stale:
        if row.published is not None:
            ax.plot(x(row), row.published, "x", color=COLORS[row.network], markersize=6)
        if row.diverged:
            # It lies at the lower edge, whatever guessing is worth.
            ax.plot(
                x(row), 0.03, "v", color=COLORS[row.network], transform=ax.get_xaxis_transform()
            )  # fmt: skip
    for network, loss in DEEPER.items():
        if any(row.network == network and not row.synthetic for row in stale):
            ax.axhline(loss, color=COLORS[network], linestyle=(0, (4, 3)), linewidth=0.8)
            ax.set_ylim(min(ax.get_ylim()[0], loss - 0.5), None)
    ax.set_xlabel(label)
    ax.set_ylabel("accuracy less plain (points)")


def _handles(networks: list[str]) -> list:
    line = style.plt.Line2D
    several = len(networks) > 1
    mark = COLORS[networks[0]] if len(networks) == 1 else "#404040"
    handles = [
        line(
            [], [], label=label, marker=marker, linestyle="", color=mark,
            markerfacecolor="white" if kind == "hybrid" else None,
        )  # fmt: skip
        for kind, (label, marker) in KINDS.items()
    ]
    handles.append(line([], [], label="published", marker="x", linestyle="", color=mark))
    if several:
        handles += [line([], [], label=study.NETWORKS[n], color=COLORS[n]) for n in networks]
    return handles


COLUMNS = (
    "",
    "pairs",
    "degree (cycles)",
    "stale weights (%)",
    "accuracy (%)",
    "deviation",
    "seeds",
    "less plain",
    "95 % interval",
    "published",
)


def tables(data: Data, manifest: dict) -> list[study.ReportTable]:
    return study.tables(data, lambda table: _table(data, table, manifest))


def _table(data: Data, table: Table, manifest: dict) -> study.ReportTable:
    lines = []
    for row in rows(data, table):
        lines.append(
            (
                row.name,
                str(len(row.placement)),
                str(row.degree),
                study.text(row.stale_percent),
                *study.spread(row.accuracies, row.diverged),
                *study.difference(row.differences if row.placement else ()),
                "–" if row.published is None else study.text(row.published),
            )
        )
    words = (
        "Final validation accuracy; differences from plain training, in points, are paired by seed. Hybrid "
        f"training has its registers in its first half, or quarter.{study.losing(table)}"
    )
    return study.ReportTable(study.caption(manifest, table, words), COLUMNS, tuple(lines))
