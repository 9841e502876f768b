"""Downloads: verified, resumed, cancellable, and nothing half-written gets the file's name."""

import hashlib
import re
import socket
import threading
from dataclasses import replace

import numpy as np
import pytest

from napari_maskinversion.base.cache_folder import MARKER
from napari_maskinversion.base.download import (
    Download,
    RemoteFile,
    Unreachable,
    download,
    size_text,
)
from napari_maskinversion.base.errors import ModelError, OfflineError
from napari_maskinversion.base.locks import Lock
from tests.disk import full_after
from tests.listeners import collect, stopped

CONTENT = np.random.default_rng(0).bytes(3_000_000)
SIZE = len(CONTENT)


@pytest.fixture
def server(hub):
    hub.files[("owner/project", "file.bin")] = CONTENT
    return hub


@pytest.fixture
def file(server, own_cache_folder):
    return RemoteFile(
        url=f"{server.url}/owner/project/resolve/main/file.bin",
        path=own_cache_folder / "files" / "file.bin",
        size=SIZE,
        sha256=hashlib.sha256(CONTENT).hexdigest(),
    )


def fetcher(file):
    wanted = Download(
        name="a file",
        size=file.size,
        lock=file.path.parent / ".lock",
        alternative="do without it",
        local=lambda: file,
        remote=lambda: file,
    )
    return lambda: download(wanted)


@pytest.fixture
def fetch(file):
    return fetcher(file)


def leftovers(file):
    return sorted(
        path.name for path in file.path.parent.glob("*") if path.name not in (".lock", MARKER)
    )


def test_the_verified_file_gets_its_name(fetch, file):
    assert not file.is_complete
    assert fetch() == file.path
    assert file.path.read_bytes() == CONTENT
    assert leftovers(file) == ["file.bin"]


def test_a_file_on_disk_is_not_downloaded_again(fetch, file, server):
    fetch()
    server.requests.clear()
    assert collect(fetch) == ([], file.path)
    assert server.requests == []


def test_a_second_download_says_whom_it_waits_for(fetch, file, caplog):
    file.path.parent.mkdir()
    with Lock(file.path.parent / ".lock") as first:
        first.acquire()
        stopped(fetch, 2)
    (line,) = [record.getMessage() for record in caplog.records]
    assert re.match(r"a file is in use by process \d+ on .*; waiting until it is done", line)


def test_progress_rises_to_the_full_size(fetch, server):
    server.pause = 0.01
    reports, _ = collect(fetch)
    done = [news.done for news in reports]
    assert {news.total for news in reports} == {SIZE}
    assert done == sorted(done)
    assert done[-1] == SIZE
    assert len(done) > 2


def test_a_cancelled_download_stops_at_once_and_leaves_no_file(fetch, file, server):
    server.pause = 0.02
    reports = stopped(fetch, 2)
    assert 0 < reports[1].done < SIZE / 2
    assert "file.bin" not in leftovers(file)


def test_a_download_resumes_where_the_cancelled_one_stopped(fetch, file, server):
    server.pause = 0.02
    reports = stopped(fetch, 3)
    assert fetch().read_bytes() == CONTENT
    first, second = (byte_range for _, _, byte_range in server.gets())
    assert first is None
    assert int(second.removeprefix("bytes=").rstrip("-")) >= reports[1].done
    assert leftovers(file) == ["file.bin"]


def test_a_broken_connection_is_resumed(fetch, server):
    server.cut_after, server.cuts_left = 1_000_000, 2
    assert fetch().read_bytes() == CONTENT
    assert [byte_range is None for _, _, byte_range in server.gets()] == [True, False, False]


def test_a_connection_that_keeps_breaking_is_one_clear_line(fetch, file, server):
    server.cut_after, server.cuts_left = 1000, 99
    with pytest.raises(OfflineError, match=r"a file .*connection broke off; do wit") as error:
        fetch()
    assert "\n" not in str(error.value)
    assert not file.path.exists()
    assert len(server.gets()) == 3


def test_a_server_that_ignores_ranges_is_read_from_the_beginning(fetch, server):
    server.cut_after, server.cuts_left, server.ranges = 1_000_000, 1, False
    assert fetch().read_bytes() == CONTENT
    assert len(server.gets()) == 2


def test_a_file_with_another_checksum_is_deleted(fetch, file, server):
    server.files[("owner/project", "file.bin")] = bytes(SIZE)
    with pytest.raises(ModelError, match=r"checksum of a file differs.*deleted.*again"):
        fetch()
    assert leftovers(file) == []
    server.files[("owner/project", "file.bin")] = CONTENT
    assert fetch().read_bytes() == CONTENT


def test_a_file_larger_than_announced_is_refused_without_its_rest(file, server):
    server.pause = 0.02
    with pytest.raises(ModelError, match="checksum of a file differs"):
        fetcher(replace(file, size=1_000_000))()
    assert leftovers(file) == []


@pytest.mark.parametrize("damage", [CONTENT[:-1], bytes(SIZE)], ids=["truncated", "damaged"])
def test_a_damaged_file_is_downloaded_again(fetch, file, damage):
    fetch().write_bytes(damage)
    assert not file.is_intact()
    assert fetch().read_bytes() == CONTENT


def test_the_part_of_an_older_version_is_deleted(fetch, file):
    file.path.parent.mkdir(parents=True)
    (file.path.parent / f".file.bin.{'0' * 16}.part").write_bytes(b"old")
    fetch()
    assert leftovers(file) == ["file.bin"]


@pytest.mark.parametrize("status", [401, 403, 500])
def test_a_refusal_is_one_line(fetch, server, status):
    server.status = status
    with pytest.raises(ModelError, match=f"server refuses a file: {status}") as error:
        fetch()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("variable", ["NAPARI_MASKINVERSION_OFFLINE", "HF_HUB_OFFLINE"])
def test_offline_mode_sends_no_request(fetch, server, monkeypatch, variable):
    monkeypatch.setenv(variable, "1")
    with pytest.raises(OfflineError, match=r"a file \(3 MB\).*offline mode is on; do wi") as error:
        fetch()
    assert "\n" not in str(error.value)
    assert server.requests == []


def test_a_server_that_cannot_be_reached_is_one_line(file):
    def refuse():
        raise Unreachable("the server is on holiday")

    wanted = Download(
        name="a file",
        size=0,
        lock=file.path.parent / ".lock",
        alternative="do without it",
        local=lambda: None,
        remote=refuse,
    )
    with pytest.raises(OfflineError, match=r"^a file is .* the server is on holiday; do without"):
        download(wanted)


def test_a_server_that_refuses_every_connection_is_one_line(file, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    wanted = Download(
        name="a file",
        size=3,
        lock=file.path.parent / ".lock",
        alternative="do without it",
        local=lambda: None,
        remote=lambda: replace(file, url=f"http://127.0.0.1:{port}/file.bin", size=3),
    )
    with pytest.raises(OfflineError, match=r"a file .*the connection broke off; do without it"):
        download(wanted)


def test_a_full_disk_is_noticed_before_the_first_byte(fetch, server, monkeypatch):
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    with pytest.raises(ModelError, match=r"a file needs 3 MB more.*NAPARI_MASKINVERSION_CACHE"):
        fetch()
    assert server.gets() == []


def test_a_disk_that_fills_is_named_and_the_next_download_resumes(fetch, file, server):
    with (
        full_after(1_000_000, file=0),
        pytest.raises(ModelError, match=r"Cannot write a file to .*[(].*NAPARI_MASKINVERSION_CACH"),
    ):
        fetch()
    assert not file.path.exists()
    assert fetch().read_bytes() == CONTENT
    assert server.gets()[-1][2] == "bytes=1000000-"


def test_a_folder_that_cannot_be_written_is_named(fetch, file):
    file.path.parent.write_text("")
    with pytest.raises(ModelError, match=f"to {file.path.parent} .*NAPARI_MASKINVERSION_CACHE"):
        fetch()


def test_two_downloads_at_once_download_once(fetch, server):
    server.pause = 0.005
    paths = []
    threads = [threading.Thread(target=lambda: paths.append(fetch())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert paths[0] == paths[1]
    assert paths[0].read_bytes() == CONTENT
    assert len(server.gets()) == 1


def test_sizes_are_readable():
    assert size_text(375_042_383) == "375 MB"
    assert size_text(2_564_550_879) == "2.6 GB"
