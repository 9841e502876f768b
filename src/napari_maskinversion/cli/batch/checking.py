"""The check of all images before the work, under a progress bar."""

from __future__ import annotations

from typing import Final

from ...batch.executors import InThisProcess, TaskExecutor
from ...batch.image_run import check_task
from ...batch.image_task import Report
from ...batch.running import Plan
from ..console import say
from .images import NO_REGIONS
from .progress import BatchProgress, follow

_SAID: Final = 3  # notes in full


def problems_of(work: Plan, executor: TaskExecutor | None = None) -> dict[str, str]:
    """Read all images and regions; return by name why some cannot be run.

    Parameters
    ----------
    work : Plan
    executor : TaskExecutor, optional
        What will do the work, where it reads the files; by default this process.
    """
    problems = dict.fromkeys(work.bare, NO_REGIONS)
    reports: dict[str, Report] = {}

    def keep(report: Report, _: BatchProgress) -> None:
        reports[report.name] = report

    if executor is not None:
        follow(work.tasks, executor, check_task, keep, title="Checked")
    else:
        with InThisProcess() as own:
            follow(work.tasks, own, check_task, keep, title="Checked")
    in_order = [reports[task.name] for task in work.tasks]
    notes = [note for report in in_order for note in report.notes]
    for note in notes[:_SAID]:
        say(note)
    if len(notes) > _SAID:
        say(f"The same holds of other images: {len(notes) - _SAID} more lines like these.")
    return problems | {report.name: report.problem for report in in_order if report.problem}
