"""Results in the formats of other programs, and back."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import tifffile
from pycocotools.coco import COCO

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.regions import Region
from napari_maskinversion.regions.annotations.annotation import Annotation, Annotations
from napari_maskinversion.regions.annotations.annotation_reading import read_annotations
from napari_maskinversion.regions.annotations.label_maps import write_label_maps
from napari_maskinversion.regions.label_images import regions_of_labels
from napari_maskinversion.results.export.annotations import to_annotations
from napari_maskinversion.results.export.archive import open_archive
from napari_maskinversion.results.export.catalogue import FORMATS, export, write_results
from tests.scenes import label_image, regions

from .bundles import GEO


def labels_of(bundle):
    suggestions = [region.suggestion for region in bundle.results.regions]
    return ["Haus 家", "", *suggestions[2:]]


def test_what_was_accepted_is_the_label_and_what_was_rejected_has_none(bundle):
    annotations = to_annotations(bundle)
    assert [item.label for item in annotations.items] == labels_of(bundle)
    # No label of the run has this name, so nobody knows how probable it is.
    assert annotations.items[0].score is None
    assert annotations.items[2].score == pytest.approx(bundle.results.to_frame()["probability"][2])


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
    np.testing.assert_allclose(world.geometry.area, frame["area"], rtol=1e-6)
    np.testing.assert_allclose(world.geometry.centroid.x, frame["world_x"], rtol=1e-9)
    np.testing.assert_allclose(world.geometry.centroid.y, frame["world_y"], rtol=1e-9)
    page = json.loads((folder / "regions_pixels.geojson").read_text("utf-8"))
    assert page["napari-maskinversion"]["coordinates"] == "pixel"
    for name, geo in (("regions.geojson", GEO), ("regions_pixels.geojson", None)):
        annotations = read_annotations(folder / name, (60, 80), geo=geo)
        assert [item.label for item in annotations.items] == labels_of(bundle)
        for region, item in zip(regions(4), annotations.items, strict=True):
            assert region.bbox == item.region.bbox


def test_parquet_is_the_table_and_the_embeddings(bundle, folder):
    read = pd.read_parquet(folder / "regions.parquet")
    expected = bundle.results.to_frame().assign(**bundle.columns)
    pd.testing.assert_frame_equal(read.drop(columns="embedding"), expected, check_dtype=False)
    np.testing.assert_array_equal(np.stack(read["embedding"]), bundle.results.raw_embeddings)
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


def test_label_images_of_a_large_plane_are_made_tile_by_tile(tmp_path, monkeypatch):
    dot = Region(3, (8_000, 8_000, 8_004, 8_009), np.ones((4, 9), bool))
    whole = Region(5, (0, 0, 600, 600), np.ones((600, 600), bool))
    inner = Region(8, (500, 500, 530, 530), np.ones((30, 30), bool))
    items = tuple(Annotation(region=region, label="x") for region in (dot, inner, whole))
    annotations = Annotations(shape=(9_000, 9_000), items=items)
    real, sizes = np.zeros, []

    def zeros(shape, *more, **options):
        sizes.append(int(np.prod(shape)))
        return real(shape, *more, **options)

    monkeypatch.setattr(np, "zeros", zeros)
    write_label_maps(annotations, tmp_path / "labels.tif")
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


def test_coco_numbers_of_categories_are_those_of_the_vocabulary_whatever_is_used(bundle, tmp_path):
    words = list(bundle.results.info.vocabulary.labels)
    one = replace(bundle, columns={"decision": ["accepted"] * 4, "accepted_label": [words[2]] * 4})
    other = replace(bundle, columns={"decision": ["accepted"] * 4, "accepted_label": ["typed"] * 4})
    pages = []
    for number, exported in enumerate((one, other)):
        export(exported, tmp_path / f"{number}.json", "coco")
        pages.append(json.loads((tmp_path / f"{number}.json").read_text("utf-8")))
    names = [[(item["id"], item["name"]) for item in page["categories"]] for page in pages]
    assert names[0] == list(enumerate(words, 1))
    assert names[1][:-1] == names[0]
    assert {item["category_id"] for item in pages[0]["annotations"]} == {3}


def test_words_outside_the_vocabulary_have_one_number_in_all_files_of_its_images(bundle, tmp_path):
    words = list(bundle.results.info.vocabulary.labels)
    numbers = []
    for place, typed in enumerate((["new", "", words[0], "newer"], ["newer", "", "other", "new"])):
        decided = {"decision": ["accepted"] * 4, "accepted_label": typed}
        exported = replace(bundle, columns=decided)
        folder = tmp_path / str(place)
        folder.mkdir()
        export(exported, folder / "a.json", "coco")
        export(exported, folder / "b.tif", "masks")
        coco, maps = (json.loads((folder / f).read_text("utf-8")) for f in ("a.json", "b.json"))
        numbers.append({item["name"]: item["id"] for item in coco["categories"]})
        classes = {item["name"]: item["value"] for item in maps["labels"]}
        assert classes == {name: numbers[-1][name] for name in classes}
        values = set(np.unique(tifffile.imread(folder / "b_classes.tif")).tolist())
        assert values - {0} == {classes[name] for name in typed if name}
    first, second = numbers
    for name in ("new", "newer", "unlabelled", *words):
        assert first[name] == second[name]
    assert first["unlabelled"] == len(words) + 1
    assert len({*first.values(), *second.values()}) == len(words) + 4


def test_accepted_regions_can_be_exported_without_the_others(bundle, tmp_path):
    export(bundle.accepted(), tmp_path / "a.json", "coco")
    page = json.loads((tmp_path / "a.json").read_text("utf-8"))
    assert [item["attributes"]["accepted_label"] for item in page["annotations"]] == ["Haus 家"]
    export(bundle.accepted(), tmp_path / "a.csv", "csv")
    assert len((tmp_path / "a.csv").read_text("utf-8").splitlines()) == 2
    nobody = replace(bundle, columns={"decision": ["skipped"] * 4, "accepted_label": [""] * 4})
    with pytest.raises(InputError, match="No region is accepted"):
        nobody.accepted()


@pytest.mark.parametrize("name", FORMATS)
def test_texts_that_utf_8_cannot_encode_are_written_with_another_sign(bundle, tmp_path, name):
    """Names of files in another encoding have such halves of letters, and so do other texts."""
    found = [
        replace(one, source_label="car\udcff", source_id="7\ud83d")
        for one in bundle.results.regions
    ]
    strange = replace(
        bundle,
        results=replace(bundle.results, regions=tuple(found)),
        source={"image": {"file": "a\udcff.png"}},
        columns={**bundle.columns, "accepted_label": ["b\udcff", "", "", ""]},
    )
    FORMATS[name].write(strange, tmp_path / FORMATS[name].file)
    if name == "csv":
        assert pd.read_csv(tmp_path / "regions.csv")["accepted_label"][0] == "b\ufffd"


VALUES = (
    {"height_m": 6.5, "Area": "large", "parcel": 17, "code": 3, "tags": ["a", {"b": 1}]}
    | {"listed": True},
    {"height_m": 9.0, "Area": "small", "parcel": None, "code": "A3", "listed": False},
    {"listed": True},
    {"parcel": 3, "region": "Bavaria", "name": "Äcker", "GEOM": "flat", "listed": True},
)
COLUMNS = {  # one of this name is ours, or a file's, if it has "source_"
    "height_m": [6.5, 9.0, None, None],
    "source_Area": ["large", "small", None, None],
    "parcel": [17, None, None, 3],
    "code": ["3", "A3", None, None],
    "tags": ['["a", {"b": 1}]', None, None, None],
    "listed": ["True", "False", "True", "True"],
    "source_region": [None, None, None, "Bavaria"],
    "source_name": [None, None, None, "Äcker"],
    "source_GEOM": [None, None, None, "flat"],
}


def test_attributes_that_regions_bring_come_out_again(bundle, tmp_path):
    import anndata
    import geopandas

    regions = [
        replace(one, source_values=values)
        for one, values in zip(bundle.results.regions, VALUES, strict=True)
    ]
    brought = replace(bundle, results=replace(bundle.results, regions=tuple(regions)))
    names = ("npz", "csv", "coco", "geojson", "parquet", "geopackage", "anndata", "json")
    write_results(brought, tmp_path, names)
    files = [tmp_path / FORMATS[name].file for name in names]
    archive, csv, coco, geojson, parquet, geopackage, table, record = files
    assert [one.source_values for one in open_archive(archive).results.regions] == list(VALUES)
    frames = (
        pq.read_table(parquet).to_pandas(),
        pd.read_csv(csv),
        geopandas.read_file(geopackage),
    )
    for frame in frames:
        for name, values in COLUMNS.items():
            cells = frame[name].astype(str) if name == "listed" else frame[name]
            seen = [None if pd.isna(value) else value for value in cells]
            assert seen == values, name
    assert pq.read_schema(parquet).field("parcel").type == "int64"
    assert {*COLUMNS} < {*anndata.read_h5ad(table).obs}
    renamed = [
        {name if name in COLUMNS else f"source_{name}": value for name, value in values.items()}
        for values in VALUES
    ]
    attributes = json.loads(coco.read_text())["annotations"][3]["attributes"]
    assert renamed[3].items() <= attributes.items()
    assert json.loads(record.read_text("utf-8"))["regions"][0]["source"]["values"] == VALUES[0]
    assert geopandas.read_file(geojson)["source_Area"].tolist()[:2] == ["large", "small"]
    for file in (coco, geojson):  # results in files of ours are no attributes
        again = read_annotations(file, (60, 80), geo=GEO).items
        assert [dict(one.values) for one in again] == renamed
