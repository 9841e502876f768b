"""Caption banks: embedded once, kept, gone on with, searched exactly."""

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pandas as pd
import pytest
import torch

from napari_maskinversion.base.errors import (
    Cancelled,
    InputError,
    ModelError,
    NotEnoughMemoryError,
)
from napari_maskinversion.base.progress import listening
from napari_maskinversion.language.captions import bank as module
from napari_maskinversion.language.captions.bank import open_bank
from napari_maskinversion.language.captions.bank_building import (
    build_bank,
    continue_bank,
)
from napari_maskinversion.language.captions.caption_files import Captions
from tests.listeners import at, collect
from tests.scenes import demo_model

WIDTH = 16


class HashModel:
    """A text tower that knows nothing: each text has a direction of its own."""

    name, embed_dim, device = "words", WIDTH, torch.device("cpu")

    def __init__(self, fingerprint="f1"):
        self.fingerprint = fingerprint
        self.asked = []

    def encode_text(self, texts):
        self.asked += texts
        rows = [
            np.frombuffer(hashlib.shake_128(text.encode()).digest(WIDTH), np.uint8)
            for text in texts
        ]
        vectors = np.stack(rows).astype(np.float32) - 128
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def model():
    return HashModel()


def numbered_captions(count=3000):
    return Captions.of((f"caption {number}" for number in range(count)), "many.txt")


def regions(count=5, seed=0):
    vectors = np.random.default_rng(seed).standard_normal((count, WIDTH)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def stop_after(captions, *build):
    """Stop the building of a bank; return how many captions were done."""

    def stop(news):
        if news.done >= captions:
            raise Cancelled(str(news.done))

    with pytest.raises(Cancelled) as stopped, listening(stop):
        build_bank(*build)
    return int(str(stopped.value))


def dones(news):
    return [(one.done, one.total) for one in news]


def assert_search_is_exact(bank, texts, k=5):
    unit = regions(7)
    similarities = unit @ HashModel().encode_text(list(texts)).T
    for match, row in zip(bank.search(unit, k), similarities, strict=True):
        best = np.argsort(-row, kind="stable")[: k + 1]
        np.testing.assert_allclose(match.similarities, row[best[:k]], atol=5e-4)
        assert list(match.captions) == [texts[place] for place in match.rows]
        np.testing.assert_allclose(row[list(match.rows)], row[best[:k]], atol=5e-4)


def test_a_search_finds_what_comparing_with_every_caption_finds(model):
    texts = numbered_captions().texts
    assert_search_is_exact(build_bank(model, numbered_captions()), texts)


def test_files_and_groups_change_nothing(model, monkeypatch, tmp_path):
    whole = build_bank(model, numbered_captions()).search(regions(40), 9)
    monkeypatch.setattr(module, "BLOCK", 700)
    monkeypatch.setattr(module, "_REGIONS", 7)
    bank = build_bank(model, numbered_captions(), tmp_path)
    assert len(list(tmp_path.glob("vectors-*.parquet"))) == 5
    parts = bank.search(regions(40), 9)
    assert [match.rows for match in parts] == [match.rows for match in whole]
    assert [match.captions for match in parts] == [match.captions for match in whole]
    for one, other in zip(parts, whole, strict=True):
        np.testing.assert_allclose(one.similarities, other.similarities, atol=1e-6)


def test_of_few_captions_all_are_returned_and_none_for_no_region(model):
    bank = build_bank(model, Captions.of(["one", "zwei Wölfe", "犬"]))
    (match,) = bank.search(regions(1), 5)
    assert set(match.captions) == {"one", "zwei Wölfe", "犬"}
    assert list(match.similarities) == sorted(match.similarities, reverse=True)
    assert bank.search(regions(0)) == []


def test_captions_are_embedded_once(model):
    said, first = collect(lambda: build_bank(model, numbered_captions()))
    said = dones(said)
    assert said[0] == (0, 3000)
    assert said[-1] == (3000, 3000)
    assert [done for done, _ in said] == sorted({done for done, _ in said})
    # Often enough for Cancel.
    assert max(np.diff([done for done, _ in said])) <= 64
    assert sorted(model.asked) == sorted(numbered_captions().texts)
    said, again = collect(lambda: build_bank(model, numbered_captions()))
    assert said == []
    assert len(model.asked) == 3000
    assert again.folder == first.folder
    assert open_bank(first.folder).record.source == "many.txt"


def test_where_memory_runs_short_fewer_are_embedded_at_once(model, monkeypatch):
    encode, asked = HashModel.encode_text, []

    def encode_text(self, texts):
        asked.append(len(texts))
        if len(texts) > 4:
            raise MemoryError
        return encode(self, texts)

    monkeypatch.setattr(HashModel, "encode_text", encode_text)
    said, bank = collect(lambda: build_bank(model, numbered_captions(1030)))
    assert list(dict.fromkeys(one.note for one in said if one.note)) == [
        "Not enough memory for captions: 4 sentences at once",
    ]
    assert sum(count > 4 for count in asked) == 2  # tried once, then not again
    monkeypatch.undo()
    assert_search_is_exact(bank, numbered_captions(1030).texts)


def test_where_not_one_fits_the_error_says_so_and_embedded_captions_stay(
    model, monkeypatch, tmp_path
):
    encode = HashModel.encode_text

    def encode_text(self, texts):
        if "caption 200" in texts:
            raise MemoryError
        return encode(self, texts)

    monkeypatch.setattr(HashModel, "encode_text", encode_text)
    with pytest.raises(NotEnoughMemoryError, match="for the captions, not even for one"):
        build_bank(model, numbered_captions(1030), tmp_path / "bank")
    monkeypatch.undo()
    said, _ = collect(lambda: continue_bank(model, tmp_path / "bank"))
    assert dones(said)[0] == (192, 1030)


def test_other_captions_and_other_models_have_banks_of_their_own(model):
    one = build_bank(model, numbered_captions(10))
    two = build_bank(model, numbered_captions(11))
    three = build_bank(HashModel("f2"), numbered_captions(10))
    assert len({one.folder, two.folder, three.folder}) == 3
    with pytest.raises(InputError, match=r"built with the model words \(other weights\)"):
        one.check(HashModel("f2"))
    with pytest.raises(InputError, match="built with the model words, not with demo"):
        one.check(demo_model())


@pytest.mark.parametrize("stop", [1, 1500])
def test_what_is_embedded_before_a_stop_is_kept(model, stop, tmp_path):
    done = stop_after(stop, model, numbered_captions(), tmp_path / "bank")
    assert len(model.asked) <= done + 64
    with pytest.raises(InputError, match=f"half built .{done:,} of 3,000 captions.*captions build"):
        open_bank(tmp_path / "bank")
    before = len(model.asked)
    said, bank = collect(lambda: build_bank(model, numbered_captions(), tmp_path / "bank"))
    assert dones(said)[0] == (done, 3000)
    assert len(model.asked) == 3000
    assert before >= done
    assert_search_is_exact(bank, numbered_captions().texts)


def test_a_half_built_bank_resumes_without_its_file(model, tmp_path):
    stop_after(1200, model, numbered_captions(), tmp_path / "bank")
    with pytest.raises(InputError, match="other weights"):
        continue_bank(HashModel("f2"), tmp_path / "bank")
    bank = continue_bank(model, tmp_path / "bank")
    assert len(model.asked) == 3000
    assert bank.record.source == "many.txt"
    assert_search_is_exact(bank, numbered_captions().texts)


def test_a_model_that_fails_or_gives_nonsense_costs_only_its_batch(model, tmp_path):
    good = model.encode_text

    def encode(texts):
        return good(texts) * (np.nan if "caption 1500" in texts else 1)

    model.encode_text = encode
    with pytest.raises(ModelError, match="not finite"):
        build_bank(model, numbered_captions(), tmp_path / "bank")
    model.encode_text = good
    kept = len(model.asked) - 64
    model.asked.clear()
    bank = build_bank(model, numbered_captions(), tmp_path / "bank")
    assert len(model.asked) == 3000 - kept
    assert_search_is_exact(bank, numbered_captions().texts)


@pytest.fixture
def bank_folder(model, tmp_path):
    """A finished bank of three files of vectors."""
    build_bank(model, numbered_captions(), tmp_path)
    model.asked.clear()
    return tmp_path


def damage(file, share):
    """Change a byte at a share of the file."""
    content = bytearray(file.read_bytes())
    content[int(share * len(content))] ^= 0xFF
    file.write_bytes(content)


def cut(file, share):
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])


@pytest.mark.parametrize(("how", "share"), [(damage, 0.1), (damage, 0.8), (cut, 0.5)])
def test_damaged_vectors_are_refused_and_only_they_are_embedded_again(
    model, bank_folder, how, share
):
    how(bank_folder / "vectors-00001024-00002048.parquet", share)
    with pytest.raises(InputError, match="Captions 1,025 to 2,048 of the bank .* damaged"):
        open_bank(bank_folder).search(regions())
    bank = build_bank(model, numbered_captions(), bank_folder)
    assert model.asked == list(numbered_captions().texts[1024:2048])
    assert_search_is_exact(bank, numbered_captions().texts)


def test_damaged_captions_are_refused_and_come_back_from_their_file(model, bank_folder):
    damage(bank_folder / "captions.parquet", 0.3)
    for use in (
        lambda folder: open_bank(folder).search(regions()),
        lambda folder: continue_bank(model, folder),
    ):
        with pytest.raises(InputError, match=r"captions\.parquet in .* damaged .* are kept"):
            use(bank_folder)
    bank = build_bank(model, numbered_captions(), bank_folder)
    assert model.asked == []  # nothing was embedded twice
    assert_search_is_exact(bank, numbered_captions().texts)
    (bank_folder / "captions.parquet").unlink()
    assert len(build_bank(model, numbered_captions(), bank_folder)) == 3000
    assert model.asked == []


@pytest.mark.parametrize("content", [b"", b"mine\n"])
def test_a_file_of_the_user_with_the_name_of_a_bank_stays(model, tmp_path, content):
    for name in ("captions.parquet", "bank.jsonl"):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        (folder / name).write_bytes(content)
        with pytest.raises(InputError, match=name):
            build_bank(model, numbered_captions(10), folder)
        assert (folder / name).read_bytes() == content
        assert len(list(folder.iterdir())) == 1


def test_vectors_of_another_bank_are_no_part_of_this_one(model, tmp_path):
    build_bank(model, numbered_captions(10), tmp_path)
    (tmp_path / "captions.parquet").unlink()
    with pytest.raises(InputError, match=r"contains other files \(vectors-"):
        build_bank(model, numbered_captions(11), tmp_path)


def test_a_bank_of_a_newer_version_is_left_as_it_is(model, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FORMAT", 3)
    build_bank(model, numbered_captions(10), tmp_path)
    monkeypatch.undo()
    before = (tmp_path / "captions.parquet").read_bytes()
    for use in (open_bank, lambda folder: build_bank(model, numbered_captions(10), folder)):
        with pytest.raises(InputError, match=r"newer version of this program \(format 3; "):
            use(tmp_path)
    assert (tmp_path / "captions.parquet").read_bytes() == before


def test_a_folder_that_holds_something_else_is_left_as_it_is(model, tmp_path):
    with pytest.raises(InputError, match="There is no caption bank in"):
        open_bank(tmp_path)
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match=r"contains other files \(thesis.txt\)"):
        build_bank(model, numbered_captions(10), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(InputError, match="could not be written .* choose another folder"):
        build_bank(model, numbered_captions(10), tmp_path / "thesis.txt" / "below")
    (tmp_path / "bank").mkdir()
    (tmp_path / "bank" / ".DS_Store").write_bytes(b"x")  # of macOS
    build_bank(model, numbered_captions(10), tmp_path / "bank")
    for other, captions in (
        (model, numbered_captions(11)),
        (HashModel("f2"), numbered_captions(10)),
    ):
        with pytest.raises(InputError, match=r"bank of other captions or of another model \(10 ca"):
            build_bank(other, captions, tmp_path / "bank")
    assert len(open_bank(tmp_path / "bank")) == 10


def test_a_second_program_waits_for_the_bank_and_says_for_whom(model, tmp_path):
    begun, waits, other = Event(), Event(), HashModel()
    with ThreadPoolExecutor() as threads:

        def first():
            with listening(at(2, lambda _: (begun.set(), waits.wait(20)))):
                return build_bank(model, numbered_captions(), tmp_path)

        building = threads.submit(first)
        assert begun.wait(20)
        said = []
        with listening(lambda news: (said.append(news.note), waits.set())):
            assert len(build_bank(other, numbered_captions(), tmp_path)) == 3000
        assert len(building.result()) == 3000
    assert f"The caption bank in {tmp_path} is in use by process {os.getpid()} on " in said[0]
    assert "waiting until it is done" in said[0]
    assert other.asked == []


def test_a_disk_that_fills_keeps_what_is_embedded(model, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    said = pytest.raises(InputError, match=r"could not be written \(No space left.*are kept")
    with said, listening(at(40, lambda _: monkeypatch.setattr("os.fsync", full))):
        build_bank(model, numbered_captions(), tmp_path)
    monkeypatch.undo()
    said, bank = collect(lambda: build_bank(model, numbered_captions(), tmp_path))
    assert dones(said)[0] == (2048, 3000)
    assert_search_is_exact(bank, numbered_captions().texts)


def test_a_bank_is_read_by_any_reader_of_parquet(model, tmp_path):
    build_bank(model, numbered_captions(), tmp_path)
    captions = pd.read_parquet(tmp_path / "captions.parquet")["caption"]
    assert list(captions) == list(numbered_captions().texts)
    parts = [pd.read_parquet(path)["vector"] for path in sorted(tmp_path.glob("vectors-*"))]
    vectors = np.frombuffer(b"".join(pd.concat(parts)), "<f2").reshape(3000, WIDTH)
    np.testing.assert_allclose(vectors, model.encode_text(list(captions)), atol=5e-4)
