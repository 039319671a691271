"""What the queue of studies has still to run, for the table at the report's end."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

from experiments import study as studies
from experiments import study_results, study_runner
from figures.lib.study import ReportTable

RESULTS = Path("experiments/results")
HOUR_SECONDS = 3600
COLUMNS = ("", "runs to come", "of", "processor hours")


def table(flops_per_sample: Callable[[str], float], results: Path = RESULTS) -> ReportTable | None:
    """A line for each study with runs to come, in the order of the queue; a run that several studies have is
    the first one's. Hours are by floating-point operations, at the median speed of the runs that there are;
    `flops_per_sample` says how many a network takes for a sample."""
    queue = studies.queue("paper")
    finished: dict[str, study_results.Finished] = {}
    first: dict[str, studies.Study] = {}
    runs: dict[str, studies.Run] = {}
    for study in queue:
        finished |= study_results.read_kept(study, results / study.name)
        for run in study.runs:
            first.setdefault(run.folder, study)
            runs.setdefault(run.folder, run)
    networks = {run.settings["network.name"] for run in runs.values()}
    flops = {network: flops_per_sample(network) for network in networks}
    speeds = [
        int(item.cells["samples"]) * flops[item.cells["network"]] / item.entry["training_seconds"]
        for item in finished.values()
        if item.entry["training_seconds"]
    ]
    choices = study_results.Choices(list(runs.values()))
    to_come = runs.keys() - finished.keys()
    needed = [
        run for folder, run in runs.items()
        if folder in to_come and choices.is_needed(run, to_come, finished)
    ]  # fmt: skip
    lines, total, hours = [], 0, 0.0
    for study in queue:
        own = [run for run in needed if first[run.folder] is study]
        if not own:
            continue
        work = sum(study_runner.planned_samples(run) * flops[run.settings["network.name"]] for run in own)
        took = work / statistics.median(speeds) / HOUR_SECONDS if speeds else 0
        planned = len({run.folder for run in study.runs})
        lines.append((study.title, f"{len(own)}", f"{planned}", f"{took:.0f}" if took else "–"))
        total, hours = total + len(own), hours + took
    if not lines:
        return None
    lines.append(("All of them", f"{total}", "", f"{hours:.0f}" if hours else "–"))
    caption = (
        "Runs of the queue (`experiments/run_campaign.py`) that claims and figures wait for. A run that several "
        "studies share stands with the first of them; hours are by floating-point operations, at the median "
        "speed of the runs that have finished. A study without any has no figure."
    )
    return ReportTable(caption, COLUMNS, tuple(lines))
