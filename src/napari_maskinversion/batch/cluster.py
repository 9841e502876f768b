"""A Dask cluster that does the tasks of a batch: on this machine, or one that others started."""

from __future__ import annotations

import logging
import os
from asyncio import CancelledError
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from importlib.metadata import version
from threading import Lock
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from ..base.errors import Cancelled, InputError, MaskInversionError
from ..base.progress import listening
from .executors import BEGUN, THREADS, ClusterLost, TaskExecutor, Work, WorkerDied, share_of
from .gpus import gpus_for, take_gpu
from .image_task import ImageTask, Report

if TYPE_CHECKING:
    from distributed import Client

LOCAL: Final = "local"
PATIENCE: Final = 60.0  # seconds that a scheduler may be away
_FIRST: Final = 10.0  # seconds for its first answer
_ALLOWED_FAILURES: Final = 0  # `run_batch` counts the workers that died with a task
_TOLD: Final = 0.5  # seconds between two messages of a worker
_ASKED: Final = 2.0  # seconds between two questions about the workers
_PAUSE: Final = 0.1
_PACKAGE: Final = "napari-maskinversion"


def check_dask(place: str) -> None:
    """Refuse a cluster that cannot be used: Dask is missing, or the address makes no sense."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise InputError(
            '--dask needs Dask: pip install "napari-maskinversion[batch]"; or use --workers 2, '
            "which needs nothing else."
        ) from None
    if place != LOCAL and "://" not in place:
        raise InputError(
            f"--dask takes local, or the address of a scheduler such as tcp://host:8786; got "
            f"{place!r}."
        )


class DaskCluster(TaskExecutor):
    """Workers of Dask; each loads the model once."""

    def __init__(
        self, place: str, count: int = 1, *, device: str = "cpu", patience: float | None = None
    ) -> None:
        check_dask(place)
        from distributed import Client

        _quiet()
        patience = PATIENCE if patience is None else patience
        self._place, self._patience, self._device = place, patience, device
        self._cluster = _local(count) if place == LOCAL else None
        self._topic = f"maskinversion-{uuid4().hex}"
        self._shares: dict[str, float] = {}
        self._open: dict[str, Any] = {}  # futures of Dask by name of the image
        self._lock = Lock()
        self._lost = False
        self._asked = 0.0
        self._workers = count
        self._resources: dict[str, float] = {}
        where = self._cluster if self._cluster is not None else place
        try:
            # The timeout of a client is also how long it waits for a scheduler that went away.
            Client(where, timeout=min(patience, _FIRST), set_as_default=False).close()
            self._client: Client = Client(where, timeout=patience, set_as_default=False)
        except (OSError, ValueError) as error:
            self._close_cluster()
            raise InputError(
                f"There is no Dask scheduler at {place} ({_first_line(error)}); start one by 'dask "
                "scheduler', or use --dask local."
            ) from None
        try:
            self._prepare()
        except BaseException:
            self._client.close()
            self._close_cluster()
            raise

    def _prepare(self) -> None:
        client = self._client
        try:
            client.wait_for_workers(1, timeout=self._patience)
        except TimeoutError:
            raise InputError(
                f"The Dask scheduler at {self._place} has no workers; start some by 'dask worker "
                f"{self._place} --nthreads 1'."
            ) from None
        try:
            versions = set(client.run(_version).values())
        except Exception as error:
            raise InputError(
                f"The workers of {self._place} cannot import {_PACKAGE} ({_first_line(error)}); "
                "install the same version there."
            ) from None
        if versions != {_version()}:
            raise InputError(
                f"The workers of {self._place} have {_PACKAGE} {', '.join(sorted(versions))}, "
                f"and this is {_version()}; install the same version everywhere."
            )
        gpus = gpus_for(self._device) if self._cluster is not None else ()
        if gpus:
            client.register_plugin(_own_gpu(gpus))
        info = client.scheduler_info()["workers"].values()
        if self._device != "cpu" and any(one.get("resources", {}).get("GPU") for one in info):
            self._resources = {"GPU": 1}
        client.subscribe_topic(self._topic, self._hear)

    @property
    def about(self) -> str:  # type: ignore[override]
        """One line about the cluster: workers, and the page on which it shows what it does."""
        count = len(self._client.nthreads())
        where = "on this machine" if self._place == LOCAL else f"at {self._place}"
        workers = f"{count} worker{'s' * (count != 1)}"
        return f"Dask {where}: {workers}; dashboard: {self._client.dashboard_link}"

    @property
    def at_once(self) -> int:  # type: ignore[override]
        """Twice as many tasks as the workers do; they come and go."""
        self._look()
        return max(2, 2 * self._workers)

    def _look(self) -> None:
        now = monotonic()
        if now - self._asked < _ASKED or self._client.status != "running":
            return
        self._asked = now
        try:
            self._workers = sum(self._client.nthreads().values())
        except (OSError, TimeoutError):  # it has just gone away
            return

    def submit(self, work: Work, task: ImageTask) -> Future[Report]:
        """Begin a task when a worker is free; waits for a scheduler that is away."""
        self._wait()
        outer: Future[Report] = Future()
        inner = self._client.submit(
            do_on_worker,
            work,
            task.anywhere(),
            self._topic,
            key=f"{task.name}-{uuid4().hex}",
            pure=False,
            resources=self._resources or None,
        )
        with self._lock:
            self._open[task.name] = inner
        # Not by `add_done_callback`: one thread calls back for all futures, and each call waits.
        self._client.loop.add_callback(self._finish, outer, task.name, inner)
        return outer

    async def _finish(self, outer: Future[Report], name: str, inner: Any) -> None:
        from distributed import KilledWorker

        report: Report | None = None
        error: BaseException | None = None
        try:
            report = await self._client.gather(inner, asynchronous=True)
        except KilledWorker as killed:
            error = killed
        except (CancelledError, OSError):  # the scheduler went away
            error = self._away()
        except Exception as other:
            error = other if inner.status == "error" else self._away()
        with self._lock:
            self._open.pop(name, None)
            begun = self._shares.pop(name, None) is not None
        if isinstance(error, KilledWorker):
            error = WorkerDied(times=error.allowed_failures + 1 if begun else 0)
        if not outer.set_running_or_notify_cancel():
            return
        if report is None or report.stopped:  # stopped: its worker was closing
            outer.set_exception(error or self._away())
        else:
            outer.set_result(report)

    def _away(self) -> ClusterLost:
        self._lost = True
        return ClusterLost(
            f"The Dask scheduler at {self._place} went away; waiting up to {self._patience:.0f} s "
            "for it."
        )

    def _wait(self) -> None:
        """Wait until there is a scheduler again."""
        begun = monotonic()
        while self._client.status == "connecting" and monotonic() - begun < 2 * self._patience:
            sleep(_PAUSE)
        if self._client.status != "running":
            raise MaskInversionError(
                f"The Dask scheduler at {self._place} went away and did not come back within "
                f"{self._patience:.0f} s. Finished images are kept; "
                "run the same command to continue."
            )
        if self._lost:
            self._lost = False
            self._client.subscribe_topic(self._topic, self._hear)  # the new one has no subscribers

    def _hear(self, event: tuple[float, Any]) -> None:
        name, share = event[1]
        with self._lock:
            if name in self._open:
                self._shares[name] = share

    def underway(self) -> Mapping[str, float]:
        """Return the share that is done of each image that a worker has begun."""
        with self._lock:
            return dict(self._shares)

    def note(self) -> str:
        """Return one line if the cluster has no workers."""
        self._look()
        if not self._workers:
            return f"The Dask scheduler at {self._place} has no workers; waiting for one."
        return ""

    def __exit__(self, kind: Any, error: Any, where: Any) -> None:
        if kind is not None and self._client.status == "running":
            with self._lock:
                waiting = list(self._open.values())
            self._client.cancel(waiting, force=True)
        self._client.close()
        self._close_cluster()

    def _close_cluster(self) -> None:
        if self._cluster is not None:
            self._cluster.close()


def _local(count: int) -> Any:
    import dask
    from distributed import LocalCluster

    dask.config.set(
        {
            # A local cluster forgets a worker that is not back in time; by default after 15 s.
            "distributed.deploy.lost-worker-timeout": "1h",
            # With Dask's value each freed tensor goes back to the system: twice the time.
            "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
        }
    )
    threads = str(max(1, (os.cpu_count() or 1) // count))
    return LocalCluster(
        n_workers=count,
        env=dict.fromkeys(THREADS, threads),  # Dask's own default is one
        threads_per_worker=1,
        memory_limit=0,  # a share of the machine's would end workers that load a large model
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
        scheduler_kwargs={"allowed_failures": _ALLOWED_FAILURES},
    )


def _quiet() -> None:
    """Keep the tracebacks of Dask away: what it tells of lost workers and schedulers we say."""
    # Dask's configuration gives some of its loggers levels of their own.
    for name in ("distributed", *logging.root.manager.loggerDict):
        if name.split(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)


def _own_gpu(gpus: Sequence[str]) -> Any:
    """Return a plugin that gives each worker of this machine its GPU; it does not import torch."""
    from distributed import WorkerPlugin

    class OwnGpu(WorkerPlugin):  # type: ignore[misc]
        def setup(self, worker: Any) -> None:
            number = str(worker.name)
            take_gpu(int(number) if number.isdecimal() else 0, gpus)

    return OwnGpu()


def do_on_worker(work: Work, task: ImageTask, topic: str) -> Report:
    """Do a task in a worker of Dask, and tell how far it is."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()
    share, told = 0.0, 0.0
    worker.log_event(topic, (task.name, BEGUN))  # or its death would not count

    def step(news: Any) -> None:
        nonlocal share, told
        state = worker.state.tasks.get(key)
        if state is None or state.state != "executing" or worker.status.name != "running":
            raise Cancelled("The batch was stopped.")
        share = share_of(news, share)
        if monotonic() - told > _TOLD:
            told = monotonic()
            worker.log_event(topic, (task.name, share))

    with listening(step):
        return work(task)


def _version() -> str:
    """Return the version of this package, also on a worker."""
    return version(_PACKAGE)


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:200] if text else type(error).__name__
