"""Options that say what does the work of a batch, and the executor that they choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from ...base.errors import InputError
from ...batch.cluster import LOCAL, DaskCluster, check_dask
from ...batch.executors import InThisProcess, TaskExecutor, Workers
from ...batch.gpus import gpus_for
from ...batch.image_task import ImageTask

WorkerCount = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        help="Processes on this machine; each loads the model and needs its memory. (default: 1)",
        show_default=False,
    ),
]
Dask = Annotated[
    str | None,
    typer.Option(
        help="Let Dask do the work: local (with --workers processes on this machine), or the "
        "address of a scheduler, such as tcp://host:8786, whose workers reach the same files."
    ),
]


def check_workers(workers: int | None, dask: str | None) -> None:
    """Refuse options that do not fit each other, or a cluster that cannot be used."""
    if dask is None:
        return
    check_dask(dask)
    if workers is not None and dask != LOCAL:
        raise InputError(
            f"--workers are processes of this machine; the cluster at {dask} has its own. Leave "
            "one of both options out."
        )


def executor_of(workers: int | None, dask: str | None, tasks: Sequence[ImageTask]) -> TaskExecutor:
    """Return what does the work: this process, others, or a cluster."""
    count = min(workers or 1, len(tasks))
    if count == 0:  # all is done
        return InThisProcess()
    device = tasks[0].settings.device
    if dask is not None:
        return DaskCluster(dask, count, device=device)
    return InThisProcess() if count == 1 else Workers(count, gpus_for(device))
