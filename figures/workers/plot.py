import numpy as np

from figures.lib import style

COLORS = {"forward": "#0072B2", "backward": "#D55E00", "update": "#E69F00", "wait": "#CCCCCC"}
WINDOW = 10  # steps
DETAIL = (150, 154)  # steps


def draw(data):
    table = data.table("trace.csv")
    workers = range(int(np.max(table["worker"])) + 1)
    fig = style.plt.figure(figsize=(style.PAGE, 3.4))
    grid = fig.add_gridspec(2, 2, height_ratios=[1, 1])
    fill = fig.add_subplot(grid[0, 0])
    detail = fig.add_subplot(grid[0, 1])
    share = fig.add_subplot(grid[1, :])
    steps = step_times(table)
    bars(fill, table, workers, steps[0], steps[70])
    bars(detail, table, workers, steps[DETAIL[0]], steps[DETAIL[1]])
    style.panel(fill, "a", "the first 70 steps")
    style.panel(detail, "b", f"steps {DETAIL[0]} to {DETAIL[1]}")
    for worker in workers:
        starts = np.arange(0, len(steps) - WINDOW, WINDOW)
        found = [waiting(table, worker, steps[k], steps[k + WINDOW]) for k in starts]
        share.plot(starts + WINDOW / 2, found, label=f"worker {worker}")
    share.set_xlabel("step")
    share.set_ylabel("share of waiting")
    share.set_ylim(0, 1)
    share.legend()
    style.panel(share, "c", "waits")
    return fig


def step_times(table):
    """When the first stage began each forward: step k starts with sample k."""
    first = (table["stage"] == 0) & (table["kind"] == "forward")
    order = np.argsort(table["microbatch"][first])
    return table["start_us"][first][order] / 1e3


def bars(ax, table, workers, begin, end):
    for worker in workers:
        own = table["worker"] == worker
        for name, color in COLORS.items():
            kind = np.array([str(k).split("-")[0] == name for k in table["kind"]])
            start, stop = (table[c][own & kind] / 1e3 for c in ("start_us", "end_us"))
            seen = (stop > begin) & (start < end)
            spans = list(zip(start[seen] - begin, (stop - start)[seen]))
            ax.broken_barh(spans, (worker - 0.38, 0.76), color=color, linewidth=0)
    ax.set_yticks(list(workers), [f"worker {w}" for w in workers])
    ax.invert_yaxis()
    ax.set_xlim(0, end - begin)
    ax.set_xlabel("time (ms)")


def waiting(table, worker, begin, end):
    """Share of begin .. end (ms) that the worker's waits cover."""
    waits = np.array([str(k).startswith("wait") for k in table["kind"]])
    own = waits & (table["worker"] == worker)
    start, stop = (np.clip(table[c][own] / 1e3, begin, end) for c in ("start_us", "end_us"))
    return float(np.sum(stop - start) / (end - begin))
