"""The cache folder: what is in it, and clearing it without touching anything that is not ours."""

import io
import json
import sys

import pytest
from filelock import FileLock

from napari_maskinversion.base.cache_folder import MARKER, is_marked, make_folder
from napari_maskinversion.base.download import RECORD, WeightsRecord
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.identity import RegionKey
from napari_maskinversion.engine.models.registry import (
    get_spec,
    model_folder,
)
from napari_maskinversion.engine.models.specs import WEIGHTS_FILE
from napari_maskinversion.language.captions import bank as caption_bank
from napari_maskinversion.language.text import TextCache
from napari_maskinversion.pipeline import cache_usage
from napari_maskinversion.pipeline.timings import known_speed, remember

MODEL = get_spec("ViT-B-16/openai")


class Terminal(io.StringIO):
    """Somebody who types."""

    def isatty(self):
        return True


def _put(path, size):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return path


@pytest.fixture
def filled(own_cache_folder):
    """A cache folder with something of every kind."""
    import numpy as np

    from napari_maskinversion.library.accepted_regions import AcceptedRegions

    for name in ("models", "sam", "text", "captions", "speed", "exemplars"):
        make_folder(own_cache_folder / name)
        assert is_marked(own_cache_folder / name)
    folder = model_folder(MODEL)
    _put(folder / WEIGHTS_FILE, 5000)
    record = WeightsRecord(
        repository="r", file="open_clip_model.safetensors", size=5000, sha256="0" * 64
    )
    values = {name: getattr(record, name) for name in ("repository", "file", "size", "sha256")}
    (folder / RECORD).write_text(json.dumps(values))
    _put(folder / f".open_clip_model.safetensors.{'0' * 16}.part", 300)
    _put(own_cache_folder / "sam" / "sam_vit_b_01ec64.pth", 100)
    _put(own_cache_folder / "sam" / f".sam_vit_b_01ec64.pth.{'0' * 16}.part", 10)
    TextCache(own_cache_folder / "text" / f"{'a' * 16}.sqlite", 4).write(
        {0: np.ones(4, np.float32)}, [["a dog"]]
    )
    bank = own_cache_folder / "captions" / ("b" * 16) / ("c" * 32)
    for name in (caption_bank.TEXTS, caption_bank.VECTORS):
        _put(bank / name, 700)
    remember("demo", "cpu", resolution=96, steps=10, encoding=1.0, region=0.5, last=True)
    store = AcceptedRegions("model", 2)
    store.write({("image", RegionKey(1)): (np.array([1, 0], np.float32), "dog")})
    return own_cache_folder


@pytest.fixture
def elsewhere(filled):
    """Files outside our stores, one of which a link in a store points to."""
    photograph = _put(filled.parent / "photographs" / "holiday.jpg", 10)
    (filled / "text" / f"{'d' * 16}.sqlite").symlink_to(photograph)
    return [
        photograph,
        _put(filled / "thesis.docx", 10),
        _put(filled / "review" / "image-0123.maskinversion.jsonl", 10),
    ]


def test_sizes_are_told_by_kind(filled):
    usage = cache_usage.usage()
    assert usage.folder == filled
    assert usage.sizes["weights"] == 5410 + (model_folder(MODEL) / RECORD).stat().st_size
    assert usage.sizes["captions"] == 1400
    assert usage.sizes["texts"] > 0
    assert usage.sizes["speeds"] > 0
    assert usage.sizes["exemplars"] > 50
    assert usage.other == 0
    assert usage.total == sum(
        file.stat().st_size for file in filled.rglob("*") if file.is_file() and file.name != MARKER
    )


def test_an_absent_folder_is_empty(monkeypatch, tmp_path):
    monkeypatch.setenv("NAPARI_MASKINVERSION_CACHE", str(tmp_path / "none"))
    assert cache_usage.usage().total == 0
    assert cache_usage.clear([kind.name for kind in cache_usage.KINDS]).freed == 0
    assert not (tmp_path / "none").exists()


def test_all_that_is_ours_goes_and_nothing_else(filled, elsewhere):
    expected = sum(cache_usage.usage().sizes.values())
    done = cache_usage.clear([kind.name for kind in cache_usage.KINDS])
    assert done == cache_usage.Cleared(expected, ())
    assert all(path.exists() for path in elsewhere)
    left = {path for path in filled.rglob("*") if path.is_file() and not path.is_symlink()}
    assert left == set(elsewhere[1:])
    assert known_speed("demo", "cpu", 96) is None


def test_a_folder_that_was_there_before_stays(own_cache_folder):
    """Somebody else's, with a name of ours."""
    foreign = _put(own_cache_folder / "models" / "mine" / WEIGHTS_FILE, 10)
    make_folder(own_cache_folder / "models" / "inside")
    assert cache_usage.usage().never_cleared == {"models": 10}
    cache_usage.clear([kind.name for kind in cache_usage.KINDS])
    assert foreign.exists()


def test_one_kind_goes_and_the_others_stay(filled):
    before = cache_usage.usage().sizes
    cache_usage.clear(["texts"])
    after = cache_usage.usage().sizes
    assert after == before | {"texts": 0}
    assert not (filled / "text").exists()
    with pytest.raises(InputError, match="weights, texts, captions, speeds, library, exemplars"):
        cache_usage.clear(["decisions"])


def test_weights_that_are_being_fetched_stay(filled):
    with FileLock(model_folder(MODEL) / ".lock"):
        done = cache_usage.clear(["weights"])
    assert "in use" in done.problems[0]
    assert cache_usage.usage().sizes["weights"] > 5000
    assert cache_usage.clear(["weights"]).problems == ()
    assert not (filled / "models").exists()


def test_only_a_store_that_is_new_is_marked(own_cache_folder, tmp_path):
    (own_cache_folder / "models").mkdir()
    for name in ("models", "speed"):
        make_folder(own_cache_folder / name / "inside")
    assert (own_cache_folder / "models" / "inside").is_dir()
    assert not is_marked(own_cache_folder / "models")
    assert is_marked(own_cache_folder / "speed")
    make_folder(tmp_path / "elsewhere" / "inside")
    assert not list(tmp_path.rglob(MARKER))
    (own_cache_folder / "speed" / MARKER).write_text("damaged")
    assert not is_marked(own_cache_folder / "speed")


def test_the_command_line_says_where_and_how_much(filled, call):
    code, out, err = call("models", "where")
    assert (code, out.strip()) == (0, str(filled))
    assert "model weights: 5.6 kB" in err
    assert "caption banks: 1.4 kB" in err


def test_clearing_says_what_goes_and_asks(monkeypatch, filled, call):
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    code, _, err = call("models", "clear")
    assert code == 1
    assert "model weights (5.6 kB)" in err
    assert "caption banks" in err
    assert cache_usage.usage().sizes["weights"] > 0
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    code, _, err = call("models", "clear", "--only", "weights")
    assert code == 0
    assert "Freed 5.6 kB" in err
    assert cache_usage.usage().sizes["weights"] == 0
    assert cache_usage.usage().sizes["captions"] > 0


def test_nothing_is_deleted_where_nobody_can_be_asked(monkeypatch, filled, call):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    code, _, err = call("models", "clear")
    assert code == 2
    assert "--yes" in err
    assert cache_usage.usage().sizes["weights"] > 0
    assert call("models", "clear", "--yes")[0] == 0
    assert cache_usage.usage().total == 0
    assert "nothing to clear" in call("models", "clear")[2]
