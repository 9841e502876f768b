"""Caption banks: embedded once, kept, gone on with, searched exactly."""

import hashlib
import os
import shutil
from itertools import islice

import numpy as np
import pytest
import torch

from napari_maskinversion.base.errors import (
    ConfigError,
    InputError,
    ModelError,
    NotEnoughMemoryError,
)
from napari_maskinversion.base.steps import drive
from napari_maskinversion.language.captions import bank as module
from napari_maskinversion.language.captions.bank import open_bank
from napari_maskinversion.language.captions.building import (
    build_bank,
    build_bank_steps,
    continue_bank_steps,
)
from napari_maskinversion.language.captions.caption_files import Captions
from napari_maskinversion.language.captions.store import CaptionStore, VectorFile
from tests.scenes import collect, demo_model

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


def stop_after(work, captions):
    for done, _ in work:
        if done >= captions:
            work.close()
            return done
    raise AssertionError("it was not stopped")


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


def test_pieces_and_groups_change_nothing(model, monkeypatch):
    """The limit makes three pieces of the bank and a group of each region."""
    bank = build_bank(model, numbered_captions())
    whole = bank.search(regions(40), 9)
    monkeypatch.setattr(module, "_MAX_BYTES", 4 * WIDTH * 1024)
    read = []
    original = VectorFile.read

    def noted(self, first, last):
        read.append((first, last))
        return original(self, first, last)

    monkeypatch.setattr(VectorFile, "read", noted)
    parts = bank.search(regions(40), 9)
    assert read == [(0, 1024), (1024, 2048), (2048, 3000)]
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
    with pytest.raises(ConfigError, match="at least one caption .* got 0"):
        bank.search(regions(1), 0)
    with pytest.raises(InputError, match=r"\(regions, 16\); got \(2, 8\)"):
        bank.search(np.zeros((2, 8), np.float32))


def test_the_bundled_model_finds_the_caption_of_its_own_words(own_cache_folder):
    model = demo_model()
    bank = build_bank(model, Captions.of(["a photo of a car.", "an apple", "a house by the sea"]))
    (match,) = bank.search(model.encode_text(["an apple"]), 1)
    assert match.captions == ("an apple",)
    assert match.similarities[0] == pytest.approx(1, abs=1e-3)
    assert bank.folder.is_relative_to(own_cache_folder / "captions" / model.fingerprint)
    bank.check(model)


def test_captions_are_embedded_once(model):
    said, first = collect(build_bank_steps(model, numbered_captions()))
    assert said[0] == (0, 3000)
    assert said[-1] == (3000, 3000)
    assert [done for done, _ in said] == sorted({done for done, _ in said})
    # Often enough for Cancel.
    assert max(np.diff([done for done, _ in said])) <= 64
    assert sorted(model.asked) == sorted(numbered_captions().texts)
    said, again = collect(build_bank_steps(model, numbered_captions()))
    assert said == []
    assert len(model.asked) == 3000
    assert again.folder == first.folder
    assert open_bank(first.folder).record.source == "many.txt"


def test_where_memory_runs_short_fewer_are_embedded_at_once(model, monkeypatch):
    encode, asked, notes = HashModel.encode_text, [], []

    def encode_text(self, texts):
        asked.append(len(texts))
        if len(texts) > 4:
            raise MemoryError
        return encode(self, texts)

    monkeypatch.setattr(HashModel, "encode_text", encode_text)
    bank = build_bank(model, numbered_captions(1030), on_note=notes.append)
    assert notes == [
        "Not enough memory for captions: 16 sentences at once",
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
    said, _ = collect(continue_bank_steps(model, tmp_path / "bank"))
    assert said[0] == (192, 1030)


def test_other_captions_and_other_models_have_banks_of_their_own(model):
    one = build_bank(model, numbered_captions(10))
    two = build_bank(model, numbered_captions(11))
    three = build_bank(HashModel("f2"), numbered_captions(10))
    assert len({one.folder, two.folder, three.folder}) == 3
    with pytest.raises(InputError, match=r"built with the model words \(other weights\)"):
        one.check(HashModel("f2"))
    with pytest.raises(InputError, match="built with the model words, not with demo"):
        one.check(demo_model())


@pytest.mark.parametrize("stop", [1, 700, 1500, 2900])
def test_what_is_embedded_before_a_stop_is_kept(model, stop, tmp_path):
    done = stop_after(build_bank_steps(model, numbered_captions(), tmp_path / "bank"), stop)
    assert len(model.asked) <= done + 64
    with pytest.raises(InputError, match=f"half built .{done:,} of 3,000 captions.*captions build"):
        open_bank(tmp_path / "bank")
    before = len(model.asked)
    said, bank = collect(build_bank_steps(model, numbered_captions(), tmp_path / "bank"))
    assert said[0] == (done, 3000)
    assert len(model.asked) == 3000
    assert before >= done
    assert_search_is_exact(bank, numbered_captions().texts)


def test_a_half_built_bank_resumes_without_its_file(model, tmp_path):
    stop_after(build_bank_steps(model, numbered_captions(), tmp_path / "bank"), 1200)
    with pytest.raises(InputError, match="other weights"):
        next(continue_bank_steps(HashModel("f2"), tmp_path / "bank"))
    _, bank = collect(continue_bank_steps(model, tmp_path / "bank"))
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


def test_a_build_stopped_at_any_byte_is_resumed(model, tmp_path):
    """As a power cut leaves it: the record ends anywhere, the vectors may be short."""
    build_bank(model, numbered_captions(2100), tmp_path / "whole")
    record = (tmp_path / "whole" / "bank.jsonl").read_bytes()
    head = record.index(b"\n") + 1
    for length in range(head, len(record), 5):
        folder = tmp_path / f"cut{length}"
        shutil.copytree(tmp_path / "whole", folder)
        (folder / "bank.jsonl").write_bytes(record[:length])
        bank = build_bank(model, numbered_captions(2100), folder)
        assert len(open_bank(folder)) == 2100
        shutil.rmtree(folder)
    assert_search_is_exact(
        build_bank(model, numbered_captions(2100)), numbered_captions(2100).texts
    )
    assert bank.record.count == 2100


def damage(file, at, data=b"\xff\xff\xff\xff"):
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(data)


def test_damaged_vectors_are_refused_and_only_they_are_embedded_again(model, tmp_path):
    build_bank(model, numbered_captions(), tmp_path)
    model.asked.clear()
    damage(tmp_path / "vectors.npy", 128 + 1030 * WIDTH * 2)
    with pytest.raises(InputError, match="Captions 1,025 to 2,048 of the bank .* damaged"):
        open_bank(tmp_path).search(regions())
    bank = build_bank(model, numbered_captions(), tmp_path)
    assert model.asked == list(numbered_captions().texts[1024:2048])
    assert_search_is_exact(bank, numbered_captions().texts)


@pytest.mark.parametrize("size", [0, 50, 128, 128 + 1500 * WIDTH * 2])
def test_vectors_cut_short_are_embedded_again(model, tmp_path, size):
    build_bank(model, numbered_captions(), tmp_path)
    content = (tmp_path / "vectors.npy").read_bytes()
    (tmp_path / "vectors.npy").write_bytes(content[:size])
    with pytest.raises(InputError, match="damaged"):
        open_bank(tmp_path).search(regions())
    _, bank = collect(continue_bank_steps(model, tmp_path))
    assert_search_is_exact(bank, numbered_captions().texts)


def test_missing_vectors_are_reported_and_made_again(model, tmp_path):
    build_bank(model, numbered_captions(), tmp_path)
    (tmp_path / "vectors.npy").unlink()
    with pytest.raises(InputError, match=r"vectors\.npy cannot be read"):
        open_bank(tmp_path).search(regions())
    assert_search_is_exact(
        build_bank(model, numbered_captions(), tmp_path), numbered_captions().texts
    )


OTHER = (
    "".join(f"{text}\n" for text in numbered_captions().texts).replace("n 77\n", "m 77\n").encode()
)


@pytest.mark.parametrize("content", [None, b"caption 0\n", b"x" * 40_000, OTHER])
def test_damaged_captions_are_refused_and_come_back_from_their_file(model, tmp_path, content):
    build_bank(model, numbered_captions(), tmp_path)
    file = tmp_path / "captions.txt"
    file.unlink() if content is None else file.write_bytes(content)
    for use in (open_bank, lambda folder: next(continue_bank_steps(model, folder))):
        with pytest.raises(InputError, match=r"captions\.txt are damaged; .* what is embedded"):
            use(tmp_path)
    bank = build_bank(model, numbered_captions(), tmp_path)
    assert len(model.asked) == 3000  # nothing was embedded twice
    assert_search_is_exact(bank, numbered_captions().texts)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xfe\n", b'{"format": 1}', b"[1]\n[0,1,2]"])
def test_a_record_that_cannot_be_read_is_made_again(model, tmp_path, content):
    build_bank(model, numbered_captions(), tmp_path)
    (tmp_path / "bank.jsonl").write_bytes(content)
    with pytest.raises(InputError, match=r"bank\.jsonl is damaged or no caption bank"):
        open_bank(tmp_path)
    assert_search_is_exact(
        build_bank(model, numbered_captions(), tmp_path), numbered_captions().texts
    )
    # Not where the folder may be somebody else's.
    (tmp_path / "bank.jsonl").write_bytes(content)
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="damaged or no caption bank"):
        build_bank(model, numbered_captions(), tmp_path)


def test_a_file_of_the_user_with_the_name_of_a_record_stays(model, tmp_path):
    (tmp_path / "bank.jsonl").write_text("mine\n")
    with pytest.raises(InputError, match="choose another folder, or delete the file"):
        build_bank(model, numbered_captions(10), tmp_path)
    assert (tmp_path / "bank.jsonl").read_text() == "mine\n"
    (tmp_path / "bank.jsonl").unlink()
    (tmp_path / "bank.jsonl").symlink_to("nowhere")
    with pytest.raises(InputError, match=r"bank\.jsonl is a link to nothing"):
        build_bank(model, numbered_captions(10), tmp_path)


@pytest.mark.parametrize("step", ["write_texts", "lay_out"])
def test_a_bank_whose_beginning_was_stopped_is_begun_again(model, tmp_path, monkeypatch, step):
    folder = tmp_path / "bank"
    with monkeypatch.context() as patch:
        patch.setattr(CaptionStore, step, lambda *_: exec("raise KeyboardInterrupt"))
        with pytest.raises(KeyboardInterrupt):
            build_bank(model, numbered_captions(10), folder)
    bank = build_bank(model, numbered_captions(10), folder)
    assert_search_is_exact(bank, numbered_captions(10).texts)


def test_a_bank_of_a_newer_version_is_left_as_it_is(model, tmp_path):
    build_bank(model, numbered_captions(10), tmp_path)
    record = tmp_path / "bank.jsonl"
    record.write_bytes(record.read_bytes().replace(b'"format": 1', b'"format": 2'))
    before = record.read_bytes()
    for use in (open_bank, lambda folder: build_bank(model, numbered_captions(10), folder)):
        with pytest.raises(InputError, match=r"newer version of this program \(format 2\)"):
            use(tmp_path)
    assert record.read_bytes() == before


def test_a_folder_with_only_what_macos_adds_is_empty(model, tmp_path):
    for name in (".DS_Store", "._.DS_Store"):
        (tmp_path / name).write_bytes(b"x")
    assert len(build_bank(model, numbered_captions(10), tmp_path)) == 10


def test_a_folder_that_holds_something_else_is_left_as_it_is(model, tmp_path):
    with pytest.raises(InputError, match="There is no caption bank in"):
        open_bank(tmp_path)
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match=r"contains other files \(thesis.txt\)"):
        build_bank(model, numbered_captions(10), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(InputError, match="cannot be written to"):
        build_bank(model, numbered_captions(10), tmp_path / "thesis.txt" / "below")
    build_bank(model, numbered_captions(10), tmp_path / "bank")
    for other, captions in (
        (model, numbered_captions(11)),
        (HashModel("f2"), numbered_captions(10)),
    ):
        with pytest.raises(InputError, match=r"bank of other captions or of another model \(10 ca"):
            build_bank(other, captions, tmp_path / "bank")
    assert len(open_bank(tmp_path / "bank")) == 10


def test_a_second_program_waits_for_the_bank_and_says_for_whom(model, tmp_path):
    first = build_bank_steps(model, numbered_captions(), tmp_path)
    next(first)
    notes = []
    other = HashModel()
    second = build_bank_steps(other, numbered_captions(), tmp_path, notes.append)
    assert [next(second), next(second)] == [(0, 3000), (0, 3000)]
    assert notes == [notes[0]]
    assert f"The caption bank in {tmp_path} is in use by process {os.getpid()} on " in notes[0]
    assert "waiting until it is done" in notes[0]
    bank = drive(first, None)
    assert len(drive(second, None)) == len(bank) == 3000
    assert other.asked == []


def test_a_disk_that_fills_keeps_what_is_embedded(model, tmp_path, monkeypatch):
    work = build_bank_steps(model, numbered_captions(), tmp_path)
    list(islice(work, 40))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match=r"could not be written \(No space left.*are kept"):
        collect(work)
    monkeypatch.undo()
    said, bank = collect(build_bank_steps(model, numbered_captions(), tmp_path))
    assert said[0] == (2048, 3000)
    assert_search_is_exact(bank, numbered_captions().texts)


def test_a_disk_without_room_is_refused_before_the_work(model, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=90_000)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(InputError, match=r"takes 0.0 GB and .*--out"):
        build_bank(model, numbered_captions(), tmp_path / "bank")
    assert model.asked == []
    build_bank(model, numbered_captions(1000), tmp_path / "small")


def test_the_vectors_are_a_plain_array_for_other_programs(model, tmp_path):
    build_bank(model, numbered_captions(), tmp_path)
    vectors = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    assert (vectors.shape, vectors.dtype) == ((3000, WIDTH), np.float16)
    np.testing.assert_allclose(
        vectors, model.encode_text(list(numbered_captions().texts)), atol=5e-4
    )
    assert (tmp_path / "captions.txt").read_text("utf-8").splitlines() == list(
        numbered_captions().texts
    )
