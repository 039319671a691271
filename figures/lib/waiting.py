"""What the queue of studies has still to run, in hours: for the table at the report's end, and by claim."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable
from pathlib import Path

from experiments import study as studies
from experiments import study_results, study_runner
from figures.lib import claims, study_checks
from figures.lib.study import ReportTable

RESULTS = Path("experiments/results")
HOUR_SECONDS = 3600
COLUMNS = ("", "runs to come", "of", "processor hours")


class Queue:
    """Runs of all studies that have a priority, those that there are results of, and how long the others take.
    `flops_per_sample` says how many a network takes for a sample."""

    def __init__(self, flops_per_sample: Callable[[str], float], results: Path = RESULTS):
        self.studies = {study.name: study for study in studies.queue("paper")}
        finished: dict[str, study_results.Finished] = {}
        for study in self.studies.values():
            finished |= study_results.read_kept(study, results / study.name)
        runs = study_runner.unique_runs(self.studies.values())
        self.pace = study_runner.Pace(runs, finished, flops_per_sample)
        choices = study_results.Choices(list(runs.values()))
        to_come = runs.keys() - finished.keys()
        self.to_come = {
            folder: run for folder, run in runs.items()
            if folder in to_come and choices.is_needed(run, to_come, finished)
        }  # fmt: skip

    def hours(self, runs: Iterable[studies.Run]) -> float:
        """What is to come of them, in processor hours; 0 where nothing says how long a run takes."""
        left = {run.folder: run for run in runs if run.folder in self.to_come}
        seconds = (self.pace.seconds(run, study_runner.planned_samples(run)) for run in left.values())
        return sum(seconds) / HOUR_SECONDS

    def hours_of(self, claim: dict) -> float:
        """Until a claim on a study can be tested, by its own runs or by those of the interim."""
        either = [claim, *([claims.interim(claim)] if "interim" in claim else [])]
        return min(map(self._hours_of, either))

    def _hours_of(self, claim: dict) -> float:
        study = self.studies.get(claim.get("figure", ""))
        if study is None or claim.get("check") not in study_checks.CHECKS:
            return 0
        rows = study_checks.names(claim)
        return self.hours(
            run
            for run in study.runs
            if run.seed <= claim["seeds"] and any(fnmatch.fnmatchcase(run.row, row) for row in rows)
        )

    def table(self) -> ReportTable | None:
        """A line for each study with runs to come; a run that several studies have is the first one's."""
        lines, left = [], dict(self.to_come)
        for study in self.studies.values():
            own = [left.pop(run.folder) for run in study.runs if run.folder in left]
            planned = len({run.folder for run in study.runs})
            if own:
                lines.append((study.title, f"{len(own)}", f"{planned}", _rounded(self.hours(own))))
        if not lines:
            return None
        every = self.to_come.values()
        lines.append(("All of them", f"{len(every)}", "", _rounded(self.hours(every))))
        caption = (
            "Runs of the queue (`experiments/run_campaign.py`) that claims and figures wait for. A run that "
            "several studies share stands with the first of them; hours are at the median speed of the network's "
            "finished runs, or, where it has none, by floating-point operations. A study without any has no "
            "figure."
        )
        return ReportTable(caption, COLUMNS, tuple(lines))


def _rounded(hours: float) -> str:
    return f"{hours:.0f}" if hours else "–"
