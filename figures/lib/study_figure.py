"""Picture and table of a study, for figures whose specification has a `[plot]` table:

    reference    row that the table compares the others with; none where not given
    pattern      regular expression over the names of rows with the groups `x` and `curve`: curves in
                 place of one line of dots for each row. A row without `curve` belongs to all of them
    axis         label of x
    scale        linear where not given, log, or delay
    value        accuracy where not given, or loss
    labels       curve = its label, in this order; curves that are not named here keep their names

Every run is drawn as it stands, however many are still to come.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from figures.lib import style, study
from figures.lib.tables import Data, DataError, Table

# The longest name that a row's name contains has its colour.
COLORS = {
    "SGDM": "#666666",
    "PB": "#000000",
    "SC_D": "#0072B2",
    "LWPv_D": "#E69F00",
    "LWPw_D": "#CC79A7",
    "LWPv_D+SC_D": "#009E73",
    "LWPw_D+SC_D": "#D55E00",
    "SpecTrain": "#E69F00",
    "weight stashing": "#56B4E9",
    "LWPv_33+SC_33": "#56B4E9",
    "LWPv_66+SC_66": "#0072B2",
}
DASHES = ("-", (0, (4, 1.5)), (0, (1.5, 1.2)), (0, (7, 1.5, 1.5, 1.5)))
MARKERS = "osD^v<>"


@dataclass(frozen=True)
class Layout:
    reference: str = ""
    pattern: str = ""
    axis: str = ""
    scale: str = "linear"
    value: str = "accuracy"
    labels: dict[str, str] = field(default_factory=dict)

    def measured(self, table: Table) -> np.ndarray:
        """A run's value; NaN for the loss of one that diverged."""
        if self.value == "accuracy":
            return study.accuracies(table)
        lost = study.diverged(table)
        return np.where(lost, np.nan, np.array(table["validation_loss"], dtype=float))

    @property
    def unit(self) -> str:
        return "validation accuracy (%)" if self.value == "accuracy" else "validation loss (nats)"

    def curves(self, table: Table) -> dict[str, dict[float, Table]]:
        """Runs by the label of their curve and by x."""
        found: dict[str, dict[float, Table]] = {label: {} for label in self.labels.values()}
        shared = {}
        for name, runs in study.rows(table).items():
            match = re.fullmatch(self.pattern, name)
            if not match:
                raise DataError(f"{table.source}: row '{name}' is not of the form {self.pattern}")
            x, curve = float(match["x"]), match["curve"]
            if curve is None:
                shared[x] = runs
            else:
                found.setdefault(self.labels.get(curve, curve), {})[x] = runs
        return {
            label: dict(sorted((shared | points).items()))
            for label, points in found.items()
            if points
        }


def color(name: str) -> str:
    return COLORS[max((key for key in COLORS if key in name), key=len, default="SGDM")]


def draw(data: Data, plot: dict):
    layout = Layout(**plot)
    found = study.panels(data)
    if layout.pattern:
        drawn = [layout.curves(table) if table else {} for table in found]
        labels = list(dict.fromkeys(label for curves in drawn for label in curves))
        height, legend = 2.6, 0.18 * ((len(labels) + 3) // 3) + 0.1
    else:
        height = max([0.2 * len(study.rows(table)) for table in found if table], default=1.5) + 0.7
        labels, legend = [], 0.0
    fig = style.plt.figure(figsize=(style.PAGE, height + legend))
    grid = fig.add_gridspec(2, len(found), height_ratios=[height, max(legend, 0.01)])
    looks = _looks(labels)
    for k, table in enumerate(found):
        ax = fig.add_subplot(grid[0, k])
        if table is None:
            study.absent(ax)
            continue
        if layout.pattern:
            _draw_curves(ax, layout, drawn[k], looks, str(table["data"][0]))
        else:
            _draw_rows(ax, layout, table)
        title = study.heading(data.manifest(), table)
        ax.set_title(f"({'ab'[k]}) {title}" if len(found) > 1 else title, loc="left")
    if labels:
        handles = [style.plt.Line2D([], [], label=subscripts(label), **looks[label]) for label in labels]
        style.legend_below(fig, grid[1, :], handles, 2 if len(labels) == 4 else min(3, len(labels)))
    return fig


def _looks(labels: list[str]) -> dict[str, dict]:
    """Curves of one colour differ by their dashes and markers."""
    looks, used = {}, {}
    for label in labels:
        k = used.get(color(label), 0)
        used[color(label)] = k + 1
        looks[label] = {
            "color": color(label),
            "linestyle": DASHES[k % len(DASHES)],
            "marker": MARKERS[(k + len(used)) % len(MARKERS)],
            "markerfacecolor": "white",
        }
    return looks


def _draw_rows(ax, layout: Layout, table: Table) -> None:
    rows = study.rows(table).items()
    style.dots(ax, {subscripts(name): (color(name), layout.measured(runs)) for name, runs in rows})
    ax.margins(x=0.08)
    ax.set_xlabel(layout.unit)


def _draw_curves(ax, layout: Layout, curves: dict, looks: dict, data: str) -> None:
    """Means over the seeds, a dot for each run where there are several, a cross where one diverged; the
    loss of guessing as a line."""
    if layout.value == "loss":
        ax.axhline(study.guessing_loss(data), color="#999999", linewidth=0.8, zorder=0)
    for label, points in curves.items():
        values = {x: layout.measured(runs) for x, runs in points.items()}
        means = [np.mean(v) for v in values.values()]
        ax.plot(list(values), means, **looks[label])
        own = looks[label]["color"]
        for x, mean in zip(values, means):
            if len(values[x]) > 1:
                ax.plot([x] * len(values[x]), values[x], ".", color=own, markersize=3)
            if study.diverged(points[x]).any():
                # A diverged run has no loss: its cross lies at the upper edge.
                missing = np.isnan(mean)
                ax.plot(
                    x, 1 if missing else mean, "x", color=own, markersize=7, clip_on=False,
                    transform=ax.get_xaxis_transform() if missing else ax.transData,
                )  # fmt: skip
    every = sorted({x for points in curves.values() for x in points})
    if layout.scale == "delay":
        style.delay_axis(ax, every[-1])
    elif layout.scale == "log":
        ax.set_xscale("log")
    style.ticks_at(ax, every)
    ax.set_xlabel(layout.axis)
    ax.set_ylabel(layout.unit)


def subscripts(name: str) -> str:
    return re.sub(r"_(\d+|D)", r"$_{\1}$", name)


def tables(data: Data, manifest: dict, plot: dict) -> list[study.ReportTable]:
    layout = Layout(**plot)
    build = by_curve if layout.pattern else by_row
    return study.tables(data, lambda table: build(table, manifest, layout))


def _table(
    table: Table, manifest: dict, layout: Layout, text: str, columns: list, rows: list
) -> study.ReportTable:
    caption = study.caption(manifest, table, text + study.losing(table, layout.value))
    return study.ReportTable(caption, tuple(columns), tuple(rows))


def by_row(table: Table, manifest: dict, layout: Layout) -> study.ReportTable:
    """Mean and spread of each row, and its difference from the reference, paired by seed."""
    found = {
        name: dict(zip(runs["seed"], layout.measured(runs)))
        for name, runs in study.rows(table).items()
    }
    reference = found.get(layout.reference, {})
    lines = []
    for name, values in found.items():
        every = np.array(list(values.values()))
        lost = int(study.diverged(table.where(row=name)).sum())
        pairs = [values[s] - reference[s] for s in values if s in reference and name != layout.reference]
        lines.append((name, *study.spread(every, lost), *study.difference(pairs)))
    columns = ["", "mean", "deviation", "seeds", f"minus {layout.reference}", "95 % interval"]
    text = f"Final {layout.unit}; differences are paired by seed."
    if not layout.reference:
        columns, lines = columns[:4], [line[:4] for line in lines]
        text = f"Final {layout.unit}."
    return _table(table, manifest, layout, text, columns, lines)


def by_curve(table: Table, manifest: dict, layout: Layout) -> study.ReportTable:
    curves = layout.curves(table)
    lines = []
    for x in sorted({x for points in curves.values() for x in points}):
        line = [f"{x:g}"]
        for points in curves.values():
            line.append(_cell(layout.measured(points[x]), points[x]) if x in points else "–")
        lines.append(tuple(line))
    text = f"Final {layout.unit}, means over the seeds; in brackets how many where not one."
    return _table(table, manifest, layout, text, [layout.axis.replace("$", ""), *curves], lines)


def _cell(values: np.ndarray, runs: Table) -> str:
    seeds = f" ({len(values)})" if len(values) > 1 else ""
    lost = " diverged" if study.diverged(runs).any() else ""
    return f"{study.text(float(np.mean(values)))}{seeds}{lost}"
