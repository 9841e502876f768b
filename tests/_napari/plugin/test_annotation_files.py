"""COCO, GeoJSON and VOC in napari's File menu."""

import json
import zipfile

import numpy as np
import pandas as pd
import pytest
from napari.components import ViewerModel
from napari.layers import Labels
from pycocotools.coco import COCO
from roifile import ImagejRoi

from napari_maskinversion._napari.plugin.annotation_files import get_reader, write_coco_layer
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.regions.annotations.annotation import Annotation, Annotations
from napari_maskinversion.regions.annotations.annotation_reading import FORMATS
from napari_maskinversion.regions.annotations.coco_writing import write_coco
from napari_maskinversion.regions.annotations.geojson import write_geojson
from tests.regions.annotations.shapes import RING, drawn

from .test_plugin import NAME, manifest, plugin  # noqa: F401

SHAPE = (7, 7)


@pytest.fixture
def viewer(plugin):  # noqa: F811
    return ViewerModel()


def save(tmp_path, *items, write=write_coco, name="a.json"):
    path = tmp_path / name
    write(Annotations(shape=SHAPE, items=items, image="a.png"), path)
    return path


@pytest.mark.parametrize(("write", "name"), [(write_coco, "a.json"), (write_geojson, "a.geojson")])
def test_files_open_as_labels_with_names(viewer, tmp_path, write, name):
    other = drawn(".......", "..###..", "..#.#..", region_id=9)
    items = (
        Annotation(region=RING, label="Äpfel", score=0.5),
        Annotation(region=other, label="車"),
    )
    path = save(tmp_path, *items, write=write, name=name)
    (layer,) = viewer.open(path, plugin=NAME)
    np.testing.assert_array_equal(layer.data == 9, _full(other))
    assert layer.name == "a"
    names = dict(zip(layer.features["index"], layer.features["label"], strict=True))
    assert (names[1], names[9]) == ("Äpfel", "車")
    # They overlap, and are written whole again.
    (again,) = layer.save(str(tmp_path / "b.json"), plugin=NAME)
    masks = COCO(again)
    for region, one in zip((RING, other), masks.loadAnns(masks.getAnnIds()), strict=True):
        np.testing.assert_array_equal(masks.annToMask(one), _full(region))


def test_regions_of_planes_open_as_a_stack(viewer, tmp_path):
    items = tuple(Annotation(region=RING, position=(("z", z),)) for z in (1, 3))
    (layer,) = viewer.open(save(tmp_path, *items), plugin=NAME)
    assert layer.data.shape == (4, 7, 7)
    assert layer.data.any(axis=(1, 2)).tolist() == [False, True, False, True]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("package.json", '{"name": "left-pad"}'),
        ("regions.json", '{"shapes": []}'),
        ("a.xml", "<svg></svg>"),
        ("gone.json", None),
        ("a.txt", '{"type": "FeatureCollection"}'),
    ],
)
def test_other_files_are_left_to_others(tmp_path, name, text):
    if text is not None:
        (tmp_path / name).write_text(text)
    assert get_reader(str(tmp_path / name)) is None
    assert get_reader([str(tmp_path / name)]) is None


def test_the_manifest_lists_the_suffixes_of_all_formats(manifest):  # noqa: F811
    (reader,) = manifest.contributions.readers
    shown = dict.fromkeys(end for form in FORMATS if form.in_viewer for end in form.suffixes)
    assert reader.filename_patterns == [f"*{suffix}" for suffix in shown]


def test_rois_and_segmentations_of_other_programs_open_as_labels(viewer, tmp_path):
    labels = _full(RING).astype(np.uint16)
    np.save(tmp_path / "cells_seg.npy", {"masks": labels}, allow_pickle=True)
    (layer,) = viewer.open(tmp_path / "cells_seg.npy", plugin=NAME)
    np.testing.assert_array_equal(layer.data, labels)
    ImagejRoi.frompoints(np.array([[1.0, 2], [4, 2], [4, 6], [1, 6]]), name="dog").tofile(
        tmp_path / "RoiSet.zip"
    )
    (layer,) = viewer.open(tmp_path / "RoiSet.zip", plugin=NAME)
    assert layer.data[2:6, 1:4].all()
    assert layer.features["label"].tolist() == ["dog"]
    np.save(tmp_path / "plain_seg.npy", labels)
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("readme.txt", "no ROI")
    assert get_reader(str(tmp_path / "plain_seg.npy")) is None
    assert get_reader(str(tmp_path / "other.zip")) is None


@pytest.mark.parametrize("name", ["b.json", "b.geojson"])
def test_labels_are_saved_and_opened_again(viewer, tmp_path, name):
    labels = np.zeros(SHAPE, int)
    labels[_full(RING)] = 4
    features = {"index": [0, 4], "label": ["", "Äpfel, rote"]}
    layer = Labels(labels, name="cells", features=features)
    written = layer.save(str(tmp_path / name), plugin=NAME)
    assert written == [str(tmp_path / name)]
    (again,) = viewer.open(tmp_path / name, plugin=NAME)
    np.testing.assert_array_equal(again.data, labels)
    assert again.features["label"].tolist() == ["Äpfel, rote"]


@pytest.mark.parametrize("index", [[np.nan, 4.0, 2.5], ["all", 4, ""]])
@pytest.mark.parametrize("name", ["b.json", "b.geojson"])
def test_rows_of_no_label_do_not_keep_the_others_from_being_saved(viewer, tmp_path, name, index):
    features = {"index": index, "label": ["nobody's", "apple", "half"]}
    layer = Labels(np.where(_full(RING), 4, 0), features=pd.DataFrame(features))
    layer.save(str(tmp_path / name), plugin=NAME)
    (again,) = viewer.open(tmp_path / name, plugin=NAME)
    assert again.features["label"].tolist() == ["apple"]


def test_a_file_that_nobody_was_asked_about_is_not_replaced(tmp_path):
    (tmp_path / "cells.json").write_text("kept")
    with pytest.raises(InputError, match=r"cells.json already exists"):
        write_coco_layer(str(tmp_path / "cells"), _full(RING).astype(int), {})
    assert (tmp_path / "cells.json").read_text() == "kept"


def test_numbers_of_categories_are_those_of_the_words_of_the_layer(plugin, tmp_path):  # noqa: F811
    features = {"index": [0, 3], "label": ["", "dog"]}
    words = {"vocabulary": ["car", "dog", "key"]}
    layer = Labels(_full(RING).astype(int) * 3, features=features, metadata=words)
    layer.save(str(tmp_path / "b.json"), plugin=NAME)
    page = json.loads((tmp_path / "b.json").read_text())
    assert [one["name"] for one in page["categories"]] == ["car", "dog", "key"]
    assert page["annotations"][0]["category_id"] == 2


def test_numbers_of_a_coco_file_are_kept(plugin, tmp_path):  # noqa: F811
    page = {
        "images": [{"id": 5, "file_name": "b.png", "height": 9, "width": 9}],
        "categories": [{"id": 18, "name": "dog"}, {"id": 3, "name": "car"}],
        "annotations": [
            {"id": number, "image_id": 5, "category_id": category, "bbox": [x, 1, 2, 2]}
            for number, category, x in ((7, 3, 1), (900100449500, 18, 5))
        ],
    }
    (tmp_path / "a.json").write_text(json.dumps(page))
    ((data, about, _),) = get_reader(str(tmp_path / "a.json"))(str(tmp_path / "a.json"))
    Labels(data, **about).save(str(tmp_path / "b.json"), plugin=NAME)
    again = json.loads((tmp_path / "b.json").read_text())
    assert {one["name"]: one["id"] for one in again["categories"]} == {"dog": 18, "car": 3}
    assert [(one["id"], one["category_id"]) for one in again["annotations"]] == [
        (7, 3),
        (900100449500, 18),
    ]


def test_the_save_dialog_offers_both_for_labels_alone(plugin):  # noqa: F811
    def offered(*types):
        return {
            extension
            for writer in plugin.iter_compatible_writers(types)
            if writer.command.startswith(NAME)
            for extension in writer.filename_extensions
        }

    assert offered("labels") == {".json", ".geojson"}
    assert offered("image") == set()


def _full(region):
    mask = np.zeros(SHAPE, bool)
    y0, x0, y1, x1 = region.bbox
    mask[y0:y1, x0:x1] = region.mask
    return mask
