"""The check of all images before the work, under a progress bar."""

from __future__ import annotations

from ...batch.executors import InThisProcess, TaskExecutor
from ...batch.image_run import check_task
from ...batch.image_task import Report
from ...batch.running import Plan
from .images import NO_REGIONS, say_first
from .progress import BatchProgress, follow


def problems_of(work: Plan, executor: TaskExecutor | None = None) -> dict[str, str]:
    """Read all images and regions; return by name why some cannot be run."""
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
    say_first([note for report in in_order for note in report.notes])
    return problems | {report.name: report.problem for report in in_order if report.problem}
