"""A Dask cluster that does the tasks of a batch: on this machine, or one that others started."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from importlib.metadata import version
from time import monotonic
from typing import Any, Final
from uuid import uuid4

from ..base.errors import Cancelled, InputError
from ..base.progress import listening
from ..base.wording import counted, first_line
from .executors import BEGUN, THREADS, TaskExecutor, Work, gpus_for, share_of, take_gpu
from .image_task import ImageTask, Report

LOCAL: Final = "local"
PATIENCE: Final = 10.0  # seconds for the first answer of a scheduler, and for its first worker
_TOLD: Final = 0.5  # seconds between two messages of a worker
_GRACE: Final = 0.6  # seconds for a worker's step when a batch is stopped; Dask kills it then
_PACKAGE: Final = "napari-maskinversion"


def check_dask() -> None:
    """Refuse a cluster without Dask."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise InputError(
            '--dask needs Dask: pip install "napari-maskinversion[batch]"; or use --workers 2, '
            "which needs nothing else."
        ) from None


class DaskCluster(TaskExecutor):
    """Workers of Dask; each loads the model once."""

    def __init__(self, place: str, count: int = 1, *, device: str = "cpu") -> None:
        check_dask()
        from distributed import Client, KilledWorker

        # What Dask tells of lost workers and schedulers, we say in a line. Its configuration gives
        # some of its loggers levels of their own.
        for name in ("distributed", *logging.root.manager.loggerDict):
            if name.split(".")[0] == "distributed":
                logging.getLogger(name).setLevel(logging.CRITICAL)
        self.died = (KilledWorker,)
        self._place = place
        self._topic = f"maskinversion-{uuid4().hex}"
        self._shares: dict[str, float] = {}
        self._open: dict[str, Future[Report]] = {}  # by name of the image
        with ExitStack() as stack:
            # The workers of this machine; None in a cluster that others started
            self._here = None
            if place == LOCAL:
                self._here = stack.enter_context(_local(count))
            try:
                client = Client(self._here or place, timeout=PATIENCE, set_as_default=False)
            except (OSError, ValueError) as error:
                raise InputError(
                    f"There is no Dask scheduler at {place} ({first_line(error)}); start one by "
                    "'dask scheduler', or use --dask local."
                ) from None
            self._client = stack.enter_context(client)
            self._check_workers()
            self._gpus = gpus_for(device) if place == LOCAL else ()
            workers = client.scheduler_info()["workers"].values()
            has_gpus = device != "cpu" and any(worker["resources"].get("GPU") for worker in workers)
            # Twice the same image is not the same work: it may have been killed.
            self._pool = client.get_executor(pure=False, resources={"GPU": 1} if has_gpus else None)
            client.subscribe_topic(self._topic, self._hear)
            self._stack = stack.pop_all()

    def _check_workers(self) -> None:
        try:
            self._client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise InputError(
                f"The Dask scheduler at {self._place} has no workers; start some by 'dask worker "
                f"{self._place} --nthreads 1'."
            ) from None
        try:
            versions = set(self._client.run(_version).values())
        except Exception as error:
            raise InputError(
                f"The workers of {self._place} cannot import {_PACKAGE} ({first_line(error)}); "
                "install the same version there."
            ) from None
        if versions != {_version()}:
            raise InputError(
                f"The workers of {self._place} have {_PACKAGE} {', '.join(sorted(versions))}, "
                f"and this is {_version()}; install the same version everywhere."
            )

    @property
    def about(self) -> str:  # type: ignore[override]
        """One line about the cluster: workers, and the page on which it shows what it does."""
        if self._place == LOCAL:
            where = "on this machine"
        else:
            where = f"at {self._place}"
        workers = counted(self._count, "worker")
        return f"Dask {where}: {workers}; dashboard: {self._client.dashboard_link}"

    @property
    def at_once(self) -> int:  # type: ignore[override]
        """Twice as many tasks as the workers do; they come and go."""
        return max(2, 2 * self._count)

    @property
    def _count(self) -> int:
        try:
            return sum(self._client.nthreads().values())
        except (OSError, TimeoutError, AttributeError):  # the scheduler has just gone away
            return 0

    def submit(self, work: Work, task: ImageTask) -> Future[Report]:
        """Begin a task when a worker is free."""
        key = f"{task.name}-{uuid4().hex}"
        self._shares.pop(task.name, None)
        arguments = (work, task.anywhere(), self._topic, self._gpus)
        future: Future[Report] = self._pool.submit(do_on_worker, *arguments, key=key)
        self._open[task.name] = future
        return future

    def _hear(self, event: tuple[float, Any]) -> None:
        name, share = event[1]
        self._shares[name] = share

    def underway(self) -> Mapping[str, float]:
        """Return the share that is done of each image that a worker has begun."""
        self._open = {name: future for name, future in self._open.items() if not future.done()}
        return {name: self._shares[name] for name in self._open if name in self._shares}

    def note(self) -> str:
        """Return one line if the cluster has no workers."""
        if self._count:
            return ""
        return f"The Dask scheduler at {self._place} has no workers; waiting for one."

    def __exit__(self, kind: Any, error: Any, where: Any) -> None:
        # Once its scheduler is gone, Dask cannot close a connection that it still waits for.
        with suppress(RuntimeError), self._stack:
            if kind is not None and self._client.status == "running":
                for future in self._open.values():
                    future.cancel()
                if self._here is not None:
                    self._here.sync(_end_workers, self._here)


def _local(count: int) -> Any:
    import dask
    from distributed import LocalCluster

    # With Dask's value each freed tensor goes back to the system: twice the time.
    dask.config.set({"distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None})
    # It forgets a worker that is not back in time; by default after 15 s.
    dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"})
    threads = str(max(1, (os.cpu_count() or 1) // count))
    return LocalCluster(
        n_workers=count,
        env=dict.fromkeys(THREADS, threads),  # Dask's own default is one
        threads_per_worker=1,
        memory_limit=0,  # a share of the machine's would end workers that load a large model
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
        scheduler_kwargs={"allowed_failures": 0},  # `run_batch` counts them
    )


async def _end_workers(cluster: Any) -> None:
    """End the workers of this machine soon, also those whose step takes long."""
    ends = [worker.close(timeout=_GRACE) for worker in cluster.workers.values()]
    await asyncio.gather(*ends, return_exceptions=True)


def do_on_worker(work: Work, task: ImageTask, topic: str, gpus: Sequence[str]) -> Report:
    """Do a task in a worker of Dask, and tell how far it is."""
    from distributed import get_worker

    worker = get_worker()
    take_gpu(str(worker.name), gpus)
    key = worker.get_current_task()
    share = 0.0
    last_event = 0.0
    worker.log_event(topic, (task.name, BEGUN))

    def step(news: Any) -> None:
        nonlocal share, last_event
        state = worker.state.tasks.get(key)
        if state is None or state.state != "executing" or worker.status.name != "running":
            raise Cancelled("The batch was stopped.")
        share = share_of(news, share)
        if monotonic() - last_event > _TOLD:
            last_event = monotonic()
            worker.log_event(topic, (task.name, share))

    with listening(step):
        return work(task)


def _version() -> str:
    """Return the version of this package, also on a worker."""
    return version(_PACKAGE)
