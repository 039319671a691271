import numpy as np
from matplotlib.patches import Patch

from figures.lib import style

# A backward updates most weights in passing; what is left of an update for afterwards takes too short a
# time to have a colour of its own.
LABELS = {"forward": "forward", "backward": "backward and update", "wait": "wait"}
KINDS = {"forward": ("forward",), "backward": ("backward", "update"), "wait": ("wait",)}
COLORS = style.PASSES | {"wait": "#CCCCCC"}
# Not the colours of the passes.
WORKERS = (("#000000", "o"), ("#CC79A7", "s"))
WINDOW = 10  # steps
DETAIL = (150, 154)  # steps


def draw(data):
    table = data.table("trace.csv")
    workers = range(int(np.max(table["worker"])) + 1)
    fig = style.plt.figure(figsize=(style.PAGE, 3.6))
    grid = fig.add_gridspec(3, 2, height_ratios=[1, 0.08, 1])
    fill = fig.add_subplot(grid[0, 0])
    detail = fig.add_subplot(grid[0, 1])
    share = fig.add_subplot(grid[2, :])
    handles = [Patch(color=COLORS[name], label=label) for name, label in LABELS.items()]
    style.legend_below(fig, grid[1, :], handles, 3)
    steps = step_times(table)
    bars(fill, table, workers, steps[0], steps[70])
    bars(detail, table, workers, steps[DETAIL[0]], steps[DETAIL[1]])
    for worker in workers:
        starts = np.arange(0, len(steps) - WINDOW, WINDOW)
        found = [waiting(table, worker, steps[k], steps[k + WINDOW]) for k in starts]
        color, marker = WORKERS[worker]
        share.plot(
            starts + WINDOW / 2, found, color=color, marker=marker, markerfacecolor="white",
            label=f"worker {worker}", clip_on=False,
        )
    share.set_xlabel("step")
    share.set_ylabel("share of waiting")
    share.set_ylim(0, 1)
    share.legend()
    names = ("the first 70 steps", f"steps {DETAIL[0]} to {DETAIL[1]}", "waits")
    style.titles((fill, detail, share), *names)
    return fig


def step_times(table):
    """When the first stage began each forward: step k starts with sample k."""
    first = (table["stage"] == 0) & (table["kind"] == "forward")
    order = np.argsort(table["microbatch"][first])
    return table["start_us"][first][order] / 1e3


def bars(ax, table, workers, begin, end):
    for worker in workers:
        own = table["worker"] == worker
        for name in LABELS:
            kind = np.array([str(k).split("-")[0] in KINDS[name] for k in table["kind"]])
            start, stop = (table[c][own & kind] / 1e3 for c in ("start_us", "end_us"))
            seen = (stop > begin) & (start < end)
            spans = joined(start[seen] - begin, stop[seen] - begin, (end - begin) / 1000)
            ax.broken_barh(spans, (worker - 0.38, 0.76), color=COLORS[name], linewidth=0)
    ax.set_yticks(list(workers), [f"worker {w}" for w in workers])
    ax.invert_yaxis()
    ax.set_xlim(0, end - begin)
    ax.set_xlabel("time (ms)")


def joined(start, stop, gap):
    """(begin, length) of spans, those in one that no `gap` is between: too little to be seen."""
    apart = start[1:] - stop[:-1] > gap
    begins = start[np.concatenate([[True], apart])[: len(start)]]
    ends = stop[np.concatenate([apart, [True]])[: len(stop)]]
    return list(zip(begins, ends - begins))


def waiting(table, worker, begin, end):
    """Share of begin .. end (ms) that the worker's waits cover."""
    waits = np.array([str(k).startswith("wait") for k in table["kind"]])
    own = waits & (table["worker"] == worker)
    start, stop = (np.clip(table[c][own] / 1e3, begin, end) for c in ("start_us", "end_us"))
    return float(np.sum(stop - start) / (end - begin))
