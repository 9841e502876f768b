"""Batches on a Dask cluster; its workers are threads of this process where that will do."""

import os
import sys
import threading
from concurrent.futures import Future
from dataclasses import replace

import numpy as np
import pytest
from distributed import KilledWorker, LocalCluster

from napari_maskinversion.base.errors import InputError, MaskInversionError
from napari_maskinversion.batch import cluster, image_run
from napari_maskinversion.batch.batch_running import Underway, run_batch
from napari_maskinversion.batch.cluster import DaskCluster
from napari_maskinversion.batch.image_task import Report

from .conftest import FAST
from .test_batch import archives
from .work import die_once, say_variable, task, wait_halfway, wait_silently

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def threads(port=0, workers=2):
    """Start a cluster whose workers are threads, which answers at an address."""
    return LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=False,
        protocol="tcp://",
        host="127.0.0.1",
        scheduler_port=port,
        dashboard_address=None,
        silence_logs=50,
        memory_limit=0,
    )


@pytest.fixture(scope="module")
def address():
    with threads() as running:
        yield running.scheduler_address


def names(news):
    return sorted(one.name for one in news if isinstance(one, Report))


def test_a_cluster_computes_the_same_bits_and_loads_the_model_once(
    project, call, fine, address, monkeypatch
):
    fine("batch", ".", "--out", "own")
    loads = []
    load = image_run._load.__wrapped__
    image_run._load.cache_clear()
    counted = image_run.lru_cache(maxsize=1)(lambda *about: loads.append(about) or load(*about))
    monkeypatch.setattr(image_run, "_load", counted)
    err = fine("batch", ".", "--out", "out", "--dask", address)
    assert f"Dask at {address}: 2 workers" in err
    assert "Wrote 2 images in out" in err
    assert len(loads) == 1
    own = archives(project / "own")
    for name, embeddings in archives(project / "out").items():
        np.testing.assert_array_equal(embeddings, own.pop(name))
    assert not own
    # Another executor goes on where the first one ended.
    err = call("batch", ".", "--out", "out")[2]
    assert "2 images of out are kept." in err


def test_what_workers_cannot_read_is_named_before_the_work(project, refused, address):
    (project / "images" / "cell-1.png").write_bytes(b"no picture")
    err = refused("batch", ".", "--out", "out", "--dask", address)
    assert "cell-1.png: " in err
    assert "1 image cannot be run" in err
    assert not (project / "out").exists()


def test_a_model_that_workers_cannot_load_is_one_line(project, refused, address):
    err = refused("batch", ".", "--out", "out", "--dask", address, "--model", "nothing")
    assert "nothing" in err.strip().splitlines()[-1]
    assert not (project / "out" / "archives").exists()


def test_a_worker_that_dies_while_it_loads_the_model_is_replaced(
    project, fine, address, monkeypatch
):
    submit, deaths = DaskCluster.submit, []

    def dying(self, work, task):
        if work is image_run.check_model and len(deaths) < 2:
            deaths.append(KilledWorker(task.name, None, 0))
            future = Future()
            future.set_exception(deaths[-1])
            return future
        return submit(self, work, task)

    monkeypatch.setattr(DaskCluster, "submit", dying)
    err = fine("batch", ".", "--out", "out", "--dask", address)
    assert len(deaths) == 2
    assert "A worker process ended suddenly. It is replaced." in err


def test_the_share_of_each_image_comes_from_the_workers(address, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "_TOLD", 0)
    shares = []
    with DaskCluster(address) as executor:
        for news in run_batch([task(0, tmp_path)], executor, wait_halfway):
            if isinstance(news, Underway) and news.shares:
                shares.append(news.shares["image 0"])
                if shares[-1] == 0.5 or len(shares) > 500:
                    (tmp_path / "go").touch()
    assert shares[-1] == 0.5


def test_an_image_is_under_way_before_its_first_step(address, tmp_path):
    # A worker's death counts only then: it may be the image that ends it.
    shares = []
    with DaskCluster(address) as executor:
        for news in run_batch([task(0, tmp_path)], executor, wait_silently):
            if isinstance(news, Underway):
                shares.append(dict(news.shares))
                if shares[-1] or len(shares) > 500:
                    (tmp_path / "go").touch()
    assert any("image 0" in one for one in shares)


def test_a_scheduler_that_goes_away_ends_the_batch_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE", 3)
    running = threads(workers=1)
    with DaskCluster(running.scheduler_address) as executor:
        work = run_batch([task(0, tmp_path)], executor, wait_halfway)
        next(work)
        running.close()
        with pytest.raises(MaskInversionError, match="went away.* run the same command"):
            list(work)


def test_a_local_cluster_replaces_a_worker_that_is_killed(tmp_path):
    with DaskCluster("local", 1) as executor:
        assert "Dask on this machine: 1 worker; dashboard: http://127.0.0.1:" in executor.about
        tasks = [task(n, tmp_path) for n in range(3)]
        news = list(run_batch(tasks, executor, die_once))
        assert names(news) == ["image 0", "image 1", "image 2"]
        assert not any(one.problem for one in news if isinstance(one, Report))
        assert len((tmp_path / "image 1").read_text()) == 2
        # It keeps the memory that tensors free: Dask's own threshold doubles the time of an image.
        one = replace(task(0), name="MALLOC_TRIM_THRESHOLD_")
        (report,) = (
            one for one in run_batch([one], executor, say_variable) if isinstance(one, Report)
        )
    assert report.regions != os.getpid()
    assert report.notes == ("",)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("here", "There is no Dask scheduler at here (missing port number"),
        ("tcp://127.0.0.1:1", "There is no Dask scheduler at tcp://127.0.0.1:1"),
    ],
)
def test_a_cluster_that_is_not_there_is_refused_in_one_line(
    project, refused, monkeypatch, place, message
):
    monkeypatch.setattr(cluster, "PATIENCE", 0.5)
    err = refused("batch", ".", "--out", "out", "--dask", place)
    assert message in err.strip().splitlines()[-1]
    assert not (project / "out").exists()


def test_a_cluster_without_workers_is_refused(monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE", 0.5)
    with threads(workers=0) as empty, pytest.raises(InputError, match="has no workers; start some"):
        DaskCluster(empty.scheduler_address)


def test_other_versions_on_the_workers_are_refused(address, monkeypatch):
    # The workers are threads of this process.
    is_ours = lambda: threading.current_thread() is threading.main_thread()  # noqa: E731
    monkeypatch.setattr(cluster, "version", lambda _: "9.9" if is_ours() else "0.0")
    with pytest.raises(InputError, match=r"have napari-maskinversion 0\.0, and this is 9\.9"):
        DaskCluster(address)


def test_without_dask_the_option_says_what_to_install(project, fine, refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    err = refused("batch", ".", "--out", "out", "--dask", "local")
    assert 'pip install "napari-maskinversion[batch]"; or use --workers 2' in err
    fine("batch", ".", "--out", "out", *FAST)


def test_a_cluster_has_its_own_workers(project, refused):
    err = refused("batch", ".", "--dask", "tcp://127.0.0.1:1", "--workers", 2)
    assert "Leave one of both options out" in err
