"""The check of all images before the work, under a progress bar."""

from __future__ import annotations

from ...batch.executors import InThisProcess, TaskExecutor
from ...batch.image_run import check_task
from ...batch.image_task import Report
from ...batch.running import Plan
from .images import NO_REGIONS
from .progress import BatchProgress, follow


def problems_of(work: Plan, executor: TaskExecutor | None = None) -> dict[str, str]:
    """Read all images and regions; return by name why some cannot be run.

    Parameters
    ----------
    work : Plan
    executor : TaskExecutor, optional
        What will do the work, where it reads the files; by default this process.
    """
    problems = dict.fromkeys(work.bare, NO_REGIONS)
    in_order: dict[str, str] = {}

    def note(report: Report, _: BatchProgress) -> None:
        in_order[report.name] = report.problem

    if executor is not None:
        follow(work.tasks, executor, check_task, note, title="Checked")
    else:
        with InThisProcess() as own:
            follow(work.tasks, own, check_task, note, title="Checked")
    checked = {task.name: in_order[task.name] for task in work.tasks}
    return problems | {name: problem for name, problem in checked.items() if problem}
