import numpy as np

from figures.comparison.systems import TARGETS, systems
from figures.lib import study
from figures.lib.checks import text

COLUMNS = (
    "",
    "accuracy (%)",
    "deviation",
    "seeds",
    "samples to target",
    "memory (MB)",
    "predicted samples/s",
    "stable rate",
)


def tables(data, manifest):
    return study.tables(data, lambda table: one(data, table, manifest))


def one(data, table, manifest):
    lines = []
    for system in systems(data, table, manifest):
        lines.append(
            (
                system.name,
                *study.spread(system.accuracies, system.diverged),
                reached(system.samples_to_target),
                "–" if system.memory_bytes is None else f"{system.memory_bytes / 1e6:.1f}",
                "–" if system.samples_per_second is None else f"{system.samples_per_second:,.0f}",
                "–" if system.stable_rate is None else text(system.stable_rate),
            )
        )
    target = TARGETS[str(table["data"][0])]
    words = (
        "None was tuned: rate, momentum and decay are the reference's for mini-batches "
        "of 128, scaled to the row's; Adam's family and Muon have their usual ones, scaled likewise. Samples at "
        f"the first validation with {target:g} %, means over the seeds that reach it. Memory of weights, "
        "optimizer, versions and values in flight in this trainer, as predicted, of the last phase where there are several. Samples a second as predicted "
        "for a Cerebras WSE-2, whatever the rule. Largest stable rate on a quadratic at the first stage's "
        "delay, in units of undelayed SGDM's at the same momentum; none of what is not linear."
    )
    if system_lost := int(study.diverged(table).sum()):
        words += f" A diverged run counts as guessing, {study.CHANCE_PERCENT:g} % ({system_lost})."
    return study.ReportTable(study.caption(manifest, table, words), COLUMNS, tuple(lines))


def reached(samples):
    """Mean of those that reach the target, and how many do where not all."""
    there = [count for count in samples if count is not None]
    if not samples:
        return "–"
    if not there:
        return "not reached"
    of_all = "" if len(there) == len(samples) else f" ({len(there)} of {len(samples)})"
    return f"{np.mean(there):,.0f}{of_all}"
