"""Fetching weights: verified, resumable, cancellable, and nothing half-written is ever used."""

import threading
import time

import numpy as np
import pytest

from napari_maskinversion.base.errors import Cancelled, ModelError, OfflineError
from napari_maskinversion.engine.models.registry import get_spec, model_state
from napari_maskinversion.engine.models.weights_download import (
    cache_folder,
    fetch,
    is_offline,
    model_folder,
)

NAME = "ViT-B-16/openai"
SPEC = get_spec(NAME)
FILE = "open_clip_model.safetensors"
CONTENT = np.random.default_rng(0).bytes(3_000_000)


@pytest.fixture
def stocked(hub):
    hub.files[(SPEC.source, FILE)] = CONTENT
    return hub


def leftovers():
    return sorted(p.name for p in model_folder(SPEC).glob("*") if not p.name.startswith(".lock"))


def test_a_fetch_puts_the_verified_file_into_the_cache_folder(stocked):
    assert model_state(SPEC) == "to fetch"
    path = fetch(NAME)
    assert path.read_bytes() == CONTENT
    assert cache_folder() in path.parents
    assert model_state(SPEC) == "on disk"
    assert leftovers() == [FILE, "source.json"]


def test_a_second_fetch_asks_the_network_nothing(stocked):
    path = fetch(NAME)
    stocked.requests.clear()
    reports = []
    assert fetch(NAME, on_progress=lambda *state: reports.append(state)) == path
    assert stocked.requests == []
    assert reports == [(len(CONTENT), len(CONTENT))]


def test_progress_rises_to_the_full_size(stocked):
    stocked.pause = 0.01
    reports = []
    fetch(NAME, on_progress=lambda done, total: reports.append((done, total)))
    assert {total for _, total in reports} == {len(CONTENT)}
    done = [done for done, _ in reports]
    assert done == sorted(done)
    assert done[-1] == len(CONTENT)
    assert len(done) > 2


def test_progress_is_reported_at_most_ten_times_a_second(stocked):
    times = []
    fetch(NAME, on_progress=lambda done, total: times.append(time.monotonic()))
    duration = times[-1] - times[0]
    assert len(times) <= 3 + 10 * duration


def test_a_cancelled_fetch_stops_at_once_and_leaves_nothing_loadable(stocked):
    stocked.pause = 0.02
    seen = []
    with pytest.raises(Cancelled, match="goes on from there"):
        fetch(
            NAME,
            on_progress=lambda done, total: seen.append(done),
            cancelled=lambda: bool(seen),
        )
    assert len(seen) == 1
    assert seen[0] < len(CONTENT) / 2
    assert model_state(SPEC) == "to fetch"
    assert FILE not in leftovers()


def test_a_fetch_goes_on_where_the_cancelled_one_stopped(stocked):
    stocked.pause = 0.02
    seen = []
    with pytest.raises(Cancelled):
        fetch(NAME, on_progress=lambda *s: seen.append(s), cancelled=lambda: len(seen) > 1)
    assert fetch(NAME).read_bytes() == CONTENT
    first, second = (wanted for _, _, wanted in stocked.gets())
    assert first is None
    assert int(second.removeprefix("bytes=").rstrip("-")) >= seen[0][0]
    assert leftovers() == [FILE, "source.json"]


def test_a_broken_connection_is_taken_up_again(stocked):
    stocked.cut_after, stocked.cuts_left = 1_000_000, 2
    assert fetch(NAME).read_bytes() == CONTENT
    assert [wanted is None for _, _, wanted in stocked.gets()] == [True, False, False]


def test_a_connection_that_keeps_breaking_is_given_up_with_one_clear_line(stocked):
    stocked.cut_after, stocked.cuts_left = 1000, 99
    with pytest.raises(OfflineError, match=r"connection broke off.*'demo'") as error:
        fetch(NAME)
    assert "\n" not in str(error.value)
    assert model_state(SPEC) == "to fetch"


def test_a_server_that_ignores_ranges_is_read_from_the_beginning(stocked):
    stocked.cut_after, stocked.cuts_left, stocked.ranges = 1_000_000, 1, False
    assert fetch(NAME).read_bytes() == CONTENT
    assert len(stocked.gets()) == 2


def test_what_differs_from_the_announced_checksum_is_thrown_away(stocked):
    stocked.checksum = "a" * 64
    with pytest.raises(ModelError, match="checksum differs"):
        fetch(NAME)
    assert leftovers() == []
    stocked.checksum = None
    assert fetch(NAME).read_bytes() == CONTENT


def test_weights_without_a_checksum_are_refused(stocked):
    stocked.announce_checksum = False
    with pytest.raises(ModelError, match="no checksum"):
        fetch(NAME)
    assert leftovers() == []


def test_a_damaged_file_is_found_and_fetched_again(stocked):
    path = fetch(NAME)
    path.write_bytes(b"x" * len(CONTENT))
    assert fetch(NAME).read_bytes() == CONTENT


def test_a_truncated_file_counts_as_absent(stocked):
    path = fetch(NAME)
    path.write_bytes(CONTENT[:-1])
    assert model_state(SPEC) == "to fetch"
    assert fetch(NAME).read_bytes() == CONTENT


def test_torch_weights_are_taken_where_there_are_no_safetensors(hub):
    hub.files[(SPEC.source, "open_clip_pytorch_model.bin")] = CONTENT
    assert fetch(NAME).name == "open_clip_pytorch_model.bin"


def test_a_repository_without_weights_is_named(hub):
    with pytest.raises(ModelError, match=r"timm/vit_base_patch16_clip_224\.openai holds no"):
        fetch(NAME)


@pytest.mark.parametrize("status", [401, 403, 500])
def test_a_refusal_of_the_hub_is_one_line(stocked, status):
    stocked.status = status
    with pytest.raises(ModelError) as error:
        fetch(NAME)
    assert SPEC.source in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("variable", ["NAPARI_MASKINVERSION_OFFLINE", "HF_HUB_OFFLINE"])
def test_offline_mode_asks_nothing_and_names_the_bundled_model(stocked, monkeypatch, variable):
    monkeypatch.setenv(variable, "1")
    assert is_offline()
    with pytest.raises(OfflineError, match=r"599 MB.*offline.*'demo'") as error:
        fetch(NAME)
    assert "\n" not in str(error.value)
    assert stocked.requests == []


def test_without_a_network_one_line_names_the_bundled_model(hub, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(OfflineError, match=r"cannot be reached.*'demo'") as error:
        fetch(NAME)
    assert "\n" not in str(error.value)


def test_the_bundled_model_needs_no_fetch(no_network):
    assert fetch("demo").is_file()


def test_an_unknown_model_is_not_asked_for(hub):
    with pytest.raises(ModelError, match="no model called"):
        fetch("ViT-B-17")
    assert hub.requests == []


def test_a_full_disk_is_noticed_before_the_first_byte(stocked, monkeypatch):
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    with pytest.raises(ModelError, match=r"needs 3 MB more.*NAPARI_MASKINVERSION_CACHE"):
        fetch(NAME)
    assert stocked.gets() == []


def test_a_cache_folder_that_cannot_be_written_is_named(stocked, monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("NAPARI_MASKINVERSION_CACHE", str(blocked))
    with pytest.raises(ModelError, match="NAPARI_MASKINVERSION_CACHE"):
        fetch(NAME)


def test_two_fetches_at_once_download_once(stocked):
    stocked.pause = 0.005
    paths = []
    threads = [threading.Thread(target=lambda: paths.append(fetch(NAME))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert paths[0] == paths[1]
    assert paths[0].read_bytes() == CONTENT
    assert len(stocked.gets()) == 1
