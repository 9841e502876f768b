"""Weights from the model hub: which file, its record, and one line where the hub says no.

How the file itself arrives is tested in ``tests/base/test_download.py``.
"""

import numpy as np
import pytest

from napari_maskinversion.base.cache_folder import cache_folder
from napari_maskinversion.base.errors import ModelError, OfflineError
from napari_maskinversion.engine.models.registry import fetch, get_spec, model_folder, model_state

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


def test_weights_without_a_checksum_are_refused(stocked):
    stocked.announce_checksum = False
    with pytest.raises(ModelError, match="no checksum"):
        fetch(NAME)
    assert leftovers() == []


def test_a_truncated_file_counts_as_absent(stocked):
    fetch(NAME).write_bytes(CONTENT[:-1])
    assert model_state(SPEC) == "to fetch"


def test_torch_weights_are_used_where_there_are_no_safetensors(hub):
    hub.files[(SPEC.source, "open_clip_pytorch_model.bin")] = CONTENT
    assert fetch(NAME).name == "open_clip_pytorch_model.bin"


def test_a_repository_without_weights_is_named(hub):
    with pytest.raises(ModelError, match=r"timm/vit_base_patch16_clip_224\.openai has no"):
        fetch(NAME)


@pytest.mark.parametrize("status", [401, 403, 500])
def test_a_refusal_of_the_hub_is_one_line(stocked, status):
    stocked.status = status
    with pytest.raises(ModelError) as error:
        fetch(NAME)
    assert SPEC.source in str(error.value)
    assert "\n" not in str(error.value)


def test_offline_mode_sends_no_request_and_names_the_bundled_model(stocked, monkeypatch):
    monkeypatch.setenv("NAPARI_MASKINVERSION_OFFLINE", "1")
    with pytest.raises(OfflineError, match=r"599 MB.*offline.*'demo'"):
        fetch(NAME)
    assert stocked.requests == []


def test_without_a_network_one_line_names_the_bundled_model(hub, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(OfflineError, match=r"cannot be reached.*'demo'") as error:
        fetch(NAME)
    assert "\n" not in str(error.value)
    assert f"models fetch {NAME}' on a machine with a network" in str(error.value)
    assert str(model_folder(get_spec(NAME))) in str(error.value)
    assert "/install/#offline" in str(error.value)


def test_the_bundled_model_needs_no_fetch(no_network):
    assert fetch("demo").is_file()


def test_an_unknown_model_sends_no_request(hub):
    with pytest.raises(ModelError, match="no model called"):
        fetch("ViT-B-17")
    assert hub.requests == []
