"""``results.npz``: everything comes back, and damaged files are refused."""

import io
import json
import math
import zipfile
import zlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.language.labels.label import Label
from napari_maskinversion.language.labels.learned import Learned
from napari_maskinversion.language.labels.vocabulary import NONE_OF_THESE, Vocabulary
from napari_maskinversion.language.ranking.ranking import Ranking
from napari_maskinversion.results.export.annotations import to_annotations
from napari_maskinversion.results.export.archive import open_archive, save_archive
from napari_maskinversion.results.export.bundle import Bundle
from napari_maskinversion.results.export.catalogue import FORMATS, write_results
from tests.scenes import demo_model, picture, regions, run

from .bundles import IMAGE


def test_the_archive_brings_everything_back(bundle, folder):
    again = open_archive(folder / "results.npz")
    pd.testing.assert_frame_equal(again.results.to_frame(), bundle.results.to_frame())
    assert again.results.info == bundle.results.info
    np.testing.assert_array_equal(again.results.raw_embeddings, bundle.results.raw_embeddings)
    np.testing.assert_array_equal(again.results.heatmap(2), bundle.results.heatmap(2))
    for one, other in zip(again.results.regions, bundle.results.regions, strict=True):
        assert (one.window, one.position, one.index) == (other.window, other.position, other.index)
        np.testing.assert_array_equal(one.losses, other.losses)
        np.testing.assert_array_equal(one.ranking.probabilities, other.ranking.probabilities)
    assert again.masks == bundle.masks
    assert (again.source, again.image, again.decisions) == (
        bundle.source,
        IMAGE,
        bundle.decisions,
    )
    assert again.columns == bundle.columns
    assert again.records == bundle.records


def test_the_archive_is_plain_numpy_for_others(bundle, folder):
    with np.load(folder / "results.npz", allow_pickle=False) as file:
        np.testing.assert_array_equal(file["embeddings"], bundle.results.raw_embeddings)
        assert file["ids"].tolist() == [1, 2, 3, 4]


def test_what_decisions_changed_comes_back_with_the_ranking_before(bundle, tmp_path):
    results = bundle.results
    words = results.info.vocabulary
    learned = Learned(name="unsaved", sha256="01", decisions=2, chosen=words.labels)
    more = Vocabulary.of([*words.full_labels, Label("boat")], words.templates, words.threshold)
    more = replace(more, learned=learned)
    rankings = [
        Ranking(
            more.labels[::-1],
            np.linspace(0.4, 0.1, len(more.labels), dtype=np.float32),
            np.full(len(more.labels), 0.2, np.float32),
            is_none=place == 1,
            unknown=frozenset({"boat"}),
            before=replace(region.ranking, unknown=frozenset(words.labels[:1])),
        )
        for place, region in enumerate(results.regions)
    ]
    changed = results.ranked(more, rankings)
    save_archive(replace(bundle, results=changed), tmp_path / "results.npz")
    again = open_archive(tmp_path / "results.npz").results
    pd.testing.assert_frame_equal(again.to_frame(), changed.to_frame())
    assert again.info.vocabulary == more
    assert again.regions[1].suggestion == NONE_OF_THESE
    assert [region.ranking.unknown for region in again.regions] == [{"boat"}] * 4
    back, expected = again.without_decisions(), changed.without_decisions()
    assert back.info.vocabulary == words
    pd.testing.assert_frame_equal(back.to_frame(), expected.to_frame())
    assert [region.ranking.unknown for region in back.regions] == [{words.labels[0]}] * 4


def test_results_without_words_or_masks_come_back_too(tmp_path):
    bare = run(demo_model(), picture(), regions(2), None, InversionConfig(steps=1))
    save_archive(Bundle(results=bare), tmp_path / "r.npz")
    again = open_archive(tmp_path / "r.npz")
    pd.testing.assert_frame_equal(again.results.to_frame(), bare.to_frame())
    with pytest.raises(InputError, match="pixels of region 1 are unknown"):
        to_annotations(again)


@pytest.mark.parametrize(
    "values", [["a", "1", None, ""], [True, False, None, True], [1, 2.5, None, -(2**62)]]
)
def test_a_column_of_texts_or_of_numbers_comes_back_and_into_every_format(bundle, tmp_path, values):
    save_archive(replace(bundle, columns={"note": values}), tmp_path / "r.npz")
    again = open_archive(tmp_path / "r.npz")
    assert again.columns == {"note": values}
    write_results(again, tmp_path / "out", tuple(FORMATS))
    column = pd.read_parquet(tmp_path / "out/regions.parquet")["note"]
    assert [None if pd.isna(one) else one for one in column] == values


NEWER = {"format": "napari-maskinversion results", "version": 99}


@pytest.fixture
def saved(folder, tmp_path):
    """A copy of the archive that a test may spoil."""
    path = tmp_path / "r.npz"
    path.write_bytes((folder / "results.npz").read_bytes())
    return path


def as_array(content):
    return np.frombuffer(content, np.uint8)


def damage(path, change=None, **changes):
    """Write other arrays, or the record after a function has changed it."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    if change is not None:
        record = json.loads(bytes(arrays["record"]))
        change(record)
        arrays["record"] = as_array(json.dumps(record).encode())
    np.savez_compressed(path, **{**arrays, **changes})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"masks": np.zeros(3, np.uint8)}, "is damaged"),
        ({"embeddings": np.zeros((1, 128), np.float32)}, "is damaged: embeddings has shape"),
        ({"grid_maps": np.zeros(2, np.float32)}, "is damaged: an array does not have the length"),
        ({"record": as_array(b'{"format": 1')}, "is damaged"),
        ({"record": as_array(b'{"format": "x"}')}, "holds no results of this"),
        ({"record": as_array(json.dumps(NEWER).encode())}, "was written by a newer version .*upda"),
        ({"record": np.array([object()])}, "is damaged"),
        ({"order": np.zeros((4, 2), np.int32)}, "is damaged: order has shape"),
        ({"grid_maps": np.zeros(60_000_000, np.float32)}, "is damaged, or needs more memory"),
    ],
)
def test_a_damaged_archive_is_refused_by_name(saved, changes, says):
    damage(saved, **changes)
    with pytest.raises(InputError, match=f"r.npz {says}"):
        open_archive(saved)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda record: record.update(windows=[]), ""),
        (lambda record: record["regions"][1].update(losses=-3), ".*regions.1.losses"),
        (lambda record: record["columns"]["decision"].pop(), ".*'decision'"),
        (lambda record: record["records"].pop(), ".*one record a region"),
        (lambda record: record["regions"][1].update(bbox=[0, 0, 5, 5000]), ".*outside the image"),
        (lambda record: record["regions"][1].update(area=math.inf), ".*regions.1.area"),
        (lambda record: record["regions"][1].update(id=1), ".*two regions of a plane"),
        (lambda record: record["windows"][0].update(input_size=[10**9, 1]), ".*window"),
    ],
)
def test_a_record_with_wrong_values_is_refused_by_file_and_field(saved, change, says):
    damage(saved, change)
    with pytest.raises(InputError, match=f"r.npz is damaged{says}"):
        open_archive(saved)


def test_a_mask_that_unpacks_to_more_than_its_box_is_refused(saved):
    bomb = zlib.compress(bytes(50_000_000))

    def change(record):
        for region in record["regions"]:
            region["mask"]["bytes"] = len(bomb)

    damage(saved, change, masks=as_array(4 * bomb))
    with pytest.raises(InputError, match="r.npz is damaged: its mask does not have"):
        open_archive(saved)


def test_flipped_bytes_are_refused_by_name(saved):
    content = bytearray(saved.read_bytes())
    with zipfile.ZipFile(saved) as file:
        member = max(file.infolist(), key=lambda one: one.compress_size)
    place = member.header_offset + 30 + len(member.filename) + member.compress_size // 2
    content[place : place + 8] = b"\xff" * 8
    saved.write_bytes(content)
    with pytest.raises(InputError, match="r.npz is damaged"):
        open_archive(saved)


def test_arrays_larger_than_any_memory_are_refused_by_name(tmp_path):
    header = io.BytesIO()
    said = {"descr": "|u1", "fortran_order": False, "shape": (999_999_999_999_999,)}
    np.lib.format.write_array_header_1_0(header, said)
    with zipfile.ZipFile(tmp_path / "r.npz", "w") as file:
        file.writestr("record.npy", header.getvalue())
    with pytest.raises(InputError, match="r.npz is damaged, or needs more memory than there is"):
        open_archive(tmp_path / "r.npz")


def test_what_is_no_archive_is_refused_by_name(folder, tmp_path):
    half = (folder / "results.npz").read_bytes()[:3000]
    for name, content in (("a.npz", b"PK half a zip"), ("b.npz", b""), ("c.npz", half)):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=name):
            open_archive(tmp_path / name)
    with pytest.raises(InputError, match="There is no file of results .*gone.npz"):
        open_archive(tmp_path / "gone.npz")
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    with pytest.raises(InputError, match="other.npz holds no results of this plugin"):
        open_archive(tmp_path / "other.npz")
