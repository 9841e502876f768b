"""Results in the formats of other programs, and back."""

import io
import json
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import tifffile
from pycocotools.coco import COCO

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.compressed_region import CompressedRegion
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.regions import Region, Regions
from napari_maskinversion.base.units import Georeference, Units
from napari_maskinversion.language.labels.vocabulary import Vocabulary
from napari_maskinversion.pipeline.run import RegionChunk, run
from napari_maskinversion.regions.annotations.annotation import Annotation, Annotations
from napari_maskinversion.regions.annotations.label_maps import write_label_maps
from napari_maskinversion.regions.annotations.reading import read_annotations
from napari_maskinversion.regions.masks.label_images import PlaneRegions, regions_of_labels
from napari_maskinversion.results.export.annotations import to_annotations
from napari_maskinversion.results.export.archive import open_archive, save_archive
from napari_maskinversion.results.export.bundle import Bundle, compress_masks
from napari_maskinversion.results.export.catalogue import FORMATS, write_results
from tests.scenes import demo_model, label_image, picture, regions

IMAGE = {"name": "bild ä.png", "shape": [60, 80, 3], "dtype": "uint8", "content": "00ff"}
GEO = Georeference(transform=(0.5, 0, 4e5, 0, -0.5, 5.7e6), epsg=32632)


@pytest.fixture(scope="module")
def bundle():
    return make_bundle()


def make_bundle():
    words = Vocabulary(("Äpfel, rote", "car", 'a "key"'), colors=("#ff8000", "", ""), threshold=-1)
    units = Units(pixel=(0.5, 0.5), unit="m", geo=GEO)
    work = run(demo_model(), picture(), regions(4), words, InversionConfig(steps=2), units=units)
    results = [news for news in work if isinstance(news, RegionChunk)][-1].so_far
    return Bundle(
        results=results,
        masks=compress_masks([PlaneRegions((), regions(4))]),
        source={"image": {"file": "bild ä.png"}},
        image=IMAGE,
        columns={
            "decision": ["accepted", "rejected", "undecided", "skipped"],
            "accepted_label": ["Haus 家", "", "", ""],
        },
        records=[{"review": {"decision": name}} for name in ("accepted", "", "", "skipped")],
        decisions=b'{"kind": "run"}\n',
    )


@pytest.fixture(scope="module")
def folder(bundle, tmp_path_factory):
    out = tmp_path_factory.mktemp("formats")
    written = write_results(bundle, out, tuple(FORMATS))
    assert sorted(out.iterdir()) == sorted(written)
    return out


def labels_of(bundle):
    suggestions = [region.suggestion for region in bundle.results.regions]
    return ["Haus 家", "", *suggestions[2:]]


def test_what_was_accepted_is_the_label_and_what_was_rejected_has_none(bundle):
    found = to_annotations(bundle)
    assert [item.label for item in found.items] == labels_of(bundle)
    # No label of the run has this name, so nobody knows how probable it is.
    assert found.items[0].score is None
    assert found.items[2].score == pytest.approx(bundle.results.to_frame()["probability"][2])


def test_coco_is_read_by_pycocotools(bundle, folder, capsys):
    coco = COCO(folder / "coco.json")
    names = {one["id"]: one["name"] for one in coco.loadCats(coco.getCatIds())}
    for number, record in enumerate(coco.loadAnns(coco.getAnnIds())):
        np.testing.assert_array_equal(coco.annToMask(record), label_image(4) == number + 1)
        assert names[record["category_id"]] == (labels_of(bundle)[number] or "unlabelled")
        assert record["attributes"]["iou"] == bundle.results.regions[number].iou
    assert coco.imgs[1]["file_name"] == "bild ä.png"
    assert coco.dataset["info"]["provenance"]["model"]["name"] == "demo"


def test_geojson_is_in_the_world_where_the_image_is_and_in_pixels_for_qupath(bundle, folder):
    import geopandas

    world = geopandas.read_file(folder / "regions.geojson")
    assert world.crs.to_epsg() == 32632
    frame = bundle.results.to_frame()
    np.testing.assert_allclose(world.geometry.area, frame["area"])
    np.testing.assert_allclose(world.geometry.centroid.x, frame["world_x"])
    np.testing.assert_allclose(world.geometry.centroid.y, frame["world_y"])
    page = json.loads((folder / "regions_pixels.geojson").read_text("utf-8"))
    assert page["napari-maskinversion"]["coordinates"] == "pixel"
    for name, geo in (("regions.geojson", GEO), ("regions_pixels.geojson", None)):
        found = read_annotations(folder / name, (60, 80), geo=geo)
        assert [item.label for item in found.items] == labels_of(bundle)
        for region, item in zip(regions(4), found.items, strict=True):
            assert region.bbox == item.region.bbox


def test_parquet_is_the_table_and_the_embeddings(bundle, folder):
    read = pd.read_parquet(folder / "regions.parquet")
    expected = bundle.results.to_frame().assign(**bundle.columns)
    pd.testing.assert_frame_equal(read.drop(columns="embedding"), expected, check_dtype=False)
    np.testing.assert_array_equal(np.stack(read["embedding"]), bundle.results.embeddings)
    metadata = pq.read_schema(folder / "regions.parquet").metadata
    assert json.loads(metadata[b"napari-maskinversion"])["source"]["image"]["file"] == "bild ä.png"


def test_label_images_hold_regions_and_classes_and_name_them(bundle, folder):
    np.testing.assert_array_equal(tifffile.imread(folder / "labels.tif"), label_image(4))
    record = json.loads((folder / "labels.json").read_text("utf-8"))
    numbers = {one["name"]: one["value"] for one in record["labels"]} | {"": 0}
    classes = np.array([0, *(numbers[name] for name in labels_of(bundle))])[label_image(4)]
    np.testing.assert_array_equal(tifffile.imread(folder / "labels_classes.tif"), classes)
    assert [one["label"] for one in record["regions"]] == labels_of(bundle)
    with tifffile.TiffFile(folder / "labels.tif") as file:
        assert file.shaped_metadata[0]["names"]["1"] == "1 Haus 家"
    again = regions_of_labels(tifffile.imread(folder / "labels.tif"))
    assert [region.bbox for region in again] == [region.bbox for region in regions(4)]


def test_the_archive_brings_everything_back(bundle, folder):
    found = open_archive(folder / "results.npz")
    pd.testing.assert_frame_equal(found.results.to_frame(), bundle.results.to_frame())
    assert found.results.info == bundle.results.info
    np.testing.assert_array_equal(found.results.embeddings, bundle.results.embeddings)
    np.testing.assert_array_equal(found.results.heatmap(2), bundle.results.heatmap(2))
    for one, other in zip(found.results.regions, bundle.results.regions, strict=True):
        assert (one.window, one.position, one.index) == (other.window, other.position, other.index)
        np.testing.assert_array_equal(one.losses, other.losses)
        np.testing.assert_array_equal(one.ranking.probabilities, other.ranking.probabilities)
    assert found.masks == bundle.masks
    assert (found.source, found.image, found.decisions) == (
        bundle.source,
        IMAGE,
        bundle.decisions,
    )
    assert found.columns == bundle.columns
    assert found.records == bundle.records


def test_the_archive_is_plain_numpy_for_others(bundle, folder):
    with np.load(folder / "results.npz", allow_pickle=False) as file:
        np.testing.assert_array_equal(file["embeddings"], bundle.results.embeddings)
        assert file["ids"].tolist() == [1, 2, 3, 4]


def test_results_without_words_or_masks_come_back_too(tmp_path):
    work = run(demo_model(), picture(), regions(2), None, InversionConfig(steps=1))
    bare = [news for news in work if isinstance(news, RegionChunk)][-1].so_far
    save_archive(Bundle(results=bare), tmp_path / "r.npz")
    found = open_archive(tmp_path / "r.npz")
    pd.testing.assert_frame_equal(found.results.to_frame(), bare.to_frame())
    with pytest.raises(InputError, match="pixels of region 1 are unknown"):
        to_annotations(found)


NEWER = np.frombuffer(b'{"format": "napari-maskinversion results", "version": 99}', np.uint8)


def damage(path, **changes):
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    np.savez(path, **{**arrays, **changes})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"masks": np.zeros(3, np.uint8)}, "is damaged"),
        ({"embeddings": np.zeros((1, 128), np.float32)}, "is damaged: it has not as many regions"),
        ({"grid_maps": np.zeros(2, np.float32)}, "is damaged: an array is too short"),
        ({"record": np.frombuffer(b'{"format": 1', np.uint8)}, "is damaged"),
        ({"record": np.frombuffer(b'{"format": "x"}', np.uint8)}, "holds no results of this"),
        ({"record": NEWER}, "was written by a newer version of this plugin; update"),
        ({"record": np.array([object()])}, "is damaged"),
        ({"record": np.frombuffer(b"[" * 100_000, np.uint8)}, "is damaged"),
    ],
)
def test_a_damaged_archive_is_refused_by_name(folder, tmp_path, changes, says):
    path = tmp_path / "r.npz"
    path.write_bytes((folder / "results.npz").read_bytes())
    damage(path, **changes)
    with pytest.raises(InputError, match=f"r.npz {says}"):
        open_archive(path)


def test_records_that_point_nowhere_and_flipped_bytes_are_refused_by_name(folder, tmp_path):
    path = tmp_path / "r.npz"
    path.write_bytes((folder / "results.npz").read_bytes())
    with np.load(path) as file:
        record = json.loads(bytes(file["record"]))
    record["windows"] = []
    damage(path, record=np.frombuffer(json.dumps(record).encode(), np.uint8))
    with pytest.raises(InputError, match="r.npz is damaged"):
        open_archive(path)
    content = bytearray((folder / "results.npz").read_bytes())
    with zipfile.ZipFile(folder / "results.npz") as file:
        member = max(file.infolist(), key=lambda one: one.compress_size)
    place = member.header_offset + 30 + len(member.filename) + member.compress_size // 2
    content[place : place + 8] = b"\xff" * 8
    path.write_bytes(content)
    with pytest.raises(InputError, match="r.npz is damaged"):
        open_archive(path)


def encrypted(content):
    content[6] |= 1
    content[content.find(b"PK\x01\x02") + 8] |= 1


def packed_otherwise(content):
    content[8] = content[content.find(b"PK\x01\x02") + 10] = 99


def broken_lzma(content):
    content[60:75] = b"\xff" * 15


@pytest.mark.parametrize(
    ("method", "change", "says"),
    [
        (zipfile.ZIP_STORED, encrypted, "is damaged: .*encrypted"),
        (zipfile.ZIP_STORED, packed_otherwise, "is damaged"),
        (zipfile.ZIP_LZMA, broken_lzma, "is damaged"),
    ],
)
def test_a_zip_that_cannot_be_unpacked_is_refused_by_name(tmp_path, method, change, says):
    path = tmp_path / "r.npz"
    whole = io.BytesIO()
    np.save(whole, np.frombuffer(b'{"format": "napari-maskinversion results"}' * 9, np.uint8))
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("record.npy", whole.getvalue())
    content = bytearray(path.read_bytes())
    change(content)
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"r.npz {says}"):
        open_archive(path)


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
    with pytest.raises(InputError, match="gone.npz cannot be read"):
        open_archive(tmp_path / "gone.npz")
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    with pytest.raises(InputError, match="other.npz holds no results of this plugin"):
        open_archive(tmp_path / "other.npz")


def test_label_images_of_a_large_plane_are_made_tile_by_tile(tmp_path, monkeypatch):
    dot = Region(3, (8_000, 8_000, 8_004, 8_009), np.ones((4, 9), bool))
    whole = Region(5, (0, 0, 600, 600), np.ones((600, 600), bool))
    inner = Region(8, (500, 500, 530, 530), np.ones((30, 30), bool))
    items = tuple(Annotation(region=region, label="x") for region in (dot, inner, whole))
    given = Annotations(shape=(9_000, 9_000), items=items)
    real, sizes = np.zeros, []

    def zeros(shape, *more, **options):
        sizes.append(int(np.prod(shape)))
        return real(shape, *more, **options)

    monkeypatch.setattr(np, "zeros", zeros)
    write_label_maps(given, tmp_path / "labels.tif")
    assert max(sizes) <= 512 * 512
    with tifffile.TiffFile(tmp_path / "labels.tif") as file:
        page = file.pages[0]
        assert page.shape == (9_000, 9_000)
        assert page.dtype == np.uint8
    store = tifffile.imread(tmp_path / "labels.tif", aszarr=True)
    import zarr

    read = zarr.open(store, mode="r")
    assert (read[8_000:8_004, 8_000:8_009] == 3).all()
    # The smaller region lies above the larger one.
    assert [int(read[y, y]) for y in (499, 500, 529, 530, 599, 600)] == [5, 8, 8, 5, 5, 0]


def test_ids_that_are_no_labels_are_counted_and_listed(tmp_path):
    items = tuple(
        Annotation(region=Region(name, (0, name, 1, name + 1), np.ones((1, 1), bool)))
        for name in (0, 1)
    )
    write_label_maps(Annotations(shape=(2, 2), items=items), tmp_path / "l.tif")
    assert tifffile.imread(tmp_path / "l.tif")[0].tolist() == [1, 2]
    record = json.loads((tmp_path / "l.json").read_text())
    assert [(one["value"], one["region"]) for one in record["regions"]] == [(1, 0), (2, 1)]


def test_each_plane_is_a_page(tmp_path):
    items = tuple(
        Annotation(region=Region(4, (0, z, 1, z + 1), np.ones((1, 1), bool)), position=(("z", z),))
        for z in (0, 1)
    )
    write_label_maps(Annotations(shape=(2, 3), items=items), tmp_path / "l.tif")
    stack = tifffile.imread(tmp_path / "l.tif")
    assert stack.shape == (2, 2, 3)
    assert np.argwhere(stack == 4).tolist() == [[0, 0, 0], [1, 0, 1]]
    assert json.loads((tmp_path / "l.json").read_text())["planes"] == [{"z": 0}, {"z": 1}]


def test_packed_regions_come_back_bit_by_bit():
    for region in Regions.from_labels(label_image(5)):
        again = CompressedRegion.of(region).unpack()
        np.testing.assert_array_equal(again.mask, region.mask)
        assert (again.id, again.bbox) == (region.id, region.bbox)
    half = Region(1, (0, 0, 1, 3), np.array([[0.25, 0.5, 1]], np.float32))
    np.testing.assert_array_equal(CompressedRegion.of(half).unpack().mask, half.mask)
    with pytest.raises(ValueError, match="incorrect header"):
        replace(CompressedRegion.of(half), data=b"none").unpack()
