"""A record that makes no sense is left out with a note that names it, and the rest is read."""

import base64
import io
import json
import re

import numpy as np
import pytest
from PIL import Image

from napari_maskinversion.base.errors import InputError, NoRegionsError
from tests.fuzz.kinds import COCO, GEOJSON, LABELME, PANOPTIC, VOC
from tests.scenes import label_image

from .files import POLYGON, box, coco, cvat, feature, geojson, labelme, shape, voc

SHAPE = (20, 30)
SOUND = {
    "coco": {"id": 1, "bbox": [2, 3, 6, 6]},
    "geojson": feature(),
    "labelme": shape(),
    "voc": box("dog", 3, 4, 8, 9),
    "cvat": POLYGON.format(""),
}
PAGES = {
    "coco": lambda *records: coco(*records, size=SHAPE),
    "geojson": geojson,
    "labelme": labelme,
    "voc": voc,
    "cvat": cvat,
}


def runs(counts, size=SHAPE):
    return {"id": 2, "segmentation": {"size": size, "counts": counts}}


def png(points, size=(2, 2)):
    file = io.BytesIO()
    Image.fromarray(np.full(size, 255, np.uint8)).save(file, "PNG")
    return shape(points, "mask", mask=base64.b64encode(file.getvalue()).decode())


def cvat_shape(tag, **members):
    about = " ".join(f'{name}="{value}"' for name, value in members.items())
    return f'<{tag} label="dog" {about}/>'


FAR = [[0, 0], [1e308, 0], [1e308, 1e308], [-1e308, 5], [0, 0]]
LOOSE = [
    ("coco", runs([7, 3, 11]), "annotation 2 is broken .*add up to 21 px of 600"),
    ("coco", runs([607, -7]), "annotation 2 is broken .*run lengths"),
    ("coco", runs("X"), "not COCO's compressed text"),
    ("coco", runs([0, 600], (30, 20)), "its mask has 30 x 20 px"),
    ("coco", runs([600]), "annotation 2 covers no pixel of the image"),
    ("coco", runs(5), "annotation 2 has no mask or box that can be read"),
    ("coco", {"id": 2, "segmentation": [[1, 1, 2, None, 2, 3]]}, "no mask or box"),
    ("coco", {"id": 2, "segmentation": [[3, 3, 3, 3, 3, 3]]}, "has no area"),
    ("coco", {"id": 2, "bbox": [0, 0, 0, 0]}, "covers no pixel of the image, 20 x 30 px"),
    ("geojson", 5, "feature 2 has no geometry"),
    ("geojson", feature([], "MultiPolygon"), "feature 2 is empty"),
    ("geojson", feature([2, 2], "Point"), "feature 2 is a Point"),
    ("geojson", feature([[1, "a"], [2, 2], [3, 3]]), "feature 2 is broken"),
    ("geojson", feature([[1, 1], [5, 1], [1, 1], [1, 1]]), "feature 2 covers no pixel"),
    ("geojson", feature(FAR), r"feature 2 .*its corners lie beyond 1e\+09"),
    ("geojson", feature([[90, 90], [95, 90], [95, 95], [90, 90]]), "read as pixels"),
    ("labelme", 5, "shape 2 is broken .*points"),
    (
        "labelme",
        shape([[1, 1], [2, 2]]),
        r"shape 2 \(dog\) is broken .its outline has 2 corners",
    ),
    ("labelme", shape([[1, "a"], [2, 2], [3, 3]]), "not pairs of coordinates"),
    (
        "labelme",
        shape([[1, 1]], "rectangle"),
        "it is a rectangle of 1 points; save it as a polygon",
    ),
    ("labelme", shape([[5, 5], [5, 5]], "circle"), "its radius is 0"),
    ("labelme", shape(kind="blob"), "it is a blob of .* points; save it as a polygon"),
    ("labelme", shape([[1, 1], [5, 5]], "line"), r"shape 2 \(dog\) is a line"),
    ("labelme", shape([[1, 1], [2, 2]], "mask", mask="AAAA"), "cannot identify image file"),
    ("labelme", png([[1, 1], [9, 9]]), "its mask has"),
    ("voc", box("cat", 1, 1, "wide", 4), r"object 2 \(cat\) is broken .*its xmax is 'wide'"),
    ("voc", "<object><name>cat</name></object>", r"object 2 \(cat\) is broken"),
    ("voc", box("cat", 40, 5, 45, 8), r"object 2 \(cat\) covers no pixel"),
    ("cvat", cvat_shape("polyline", points="1,1;5,5"), r"polyline 2 \(dog\) is a polyline"),
    ("cvat", cvat_shape("polygon", points="1,1;2,2"), "its outline has 2 corners"),
    ("cvat", cvat_shape("polygon"), r"a.png, polygon 2 \(dog\).*not pairs of numbers"),
    ("cvat", cvat_shape("ellipse", cx=1, cy=1, rx=1), "its ry is None"),
    ("cvat", cvat_shape("mask", rle="1,2", left=1, top=1, width=2, height=2), "add up to 3 px"),
    ("cvat", cvat_shape("mask", rle="1", left=1, top=1, width=10**8, height=10**4), "too large"),
    ("cvat", cvat_shape("blob"), "of an unknown kind"),
]


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(("kind", "record", "says"), LOOSE)
def test_a_record_that_cannot_be_read_is_left_out_and_named(read, kind, record, says):
    result = read(PAGES[kind](SOUND[kind], record))
    (item,) = result.items
    assert (item.region.bbox, item.region.area) == ((3, 2, 9, 8), 36)
    (note,) = (note for note in result.notes if note.endswith("left out."))
    assert re.search(rf"theirs\.(xml|json), .*{says}", note)
    assert "\n" not in note
    with pytest.raises(InputError, match="contains no region.* left out") as error:
        read(PAGES[kind](record))
    lost = "is broken" in note or "covers no pixel" in note
    assert isinstance(error.value, NoRegionsError) is not lost  # a data set has such files


def test_a_record_is_not_left_out_where_memory_ran_out(read, monkeypatch):
    def full(*_):
        raise MemoryError("no room")

    monkeypatch.setattr("napari_maskinversion.regions.annotations.annotation_building.fill", full)
    with pytest.raises(MemoryError):
        read(PAGES["coco"](SOUND["coco"]))


READ = [
    ([[]], (5, 1, 9, 4)),  # its box
    ([1, 5, 4, 5, 4, 9, 1, 9], (5, 1, 9, 4)),  # one polygon without a list around it
    ([[1, 5, 4, 5, 4, 9, 1, 9], [20, 2, 21, 2]], (5, 1, 9, 4)),  # two corners have no area
    (None, (5, 1, 9, 4)),
]


@pytest.mark.parametrize(("drawn", "bbox"), READ)
def test_outlines_of_coco_are_read_as_far_as_they_mean_something(read, drawn, bbox):
    loose = {"id": 2, "segmentation": drawn, "bbox": [1, 5, 3, 4], "category_id": "3"}
    result = read(PAGES["coco"](SOUND["coco"], loose))
    assert [(item.region.bbox, item.label) for item in result.items][1] == (bbox, "dog")


STRANGE = ("\\ud800x", "\\u001b[31mcar", "car\\u0007")


@pytest.mark.parametrize("written", STRANGE)
@pytest.mark.parametrize(
    ("content", "place"),
    [
        (COCO, '"name": "car"'),
        (LABELME, '"label": "car"'),
        (PANOPTIC, '"name": "dog"'),
        (GEOJSON, '"label": "car"'),
    ],
    ids=["coco", "labelme", "panoptic", "geojson"],
)
def test_signs_that_cannot_be_shown_are_replaced_in_labels(read, tmp_path, content, place, written):
    labels = label_image(2)
    (tmp_path / "theirs").mkdir()
    ids = np.stack([labels, 0 * labels, 0 * labels], -1).astype(np.uint8)
    Image.fromarray(ids).save(tmp_path / "theirs/image.png")
    key, _ = place.split(":")
    text = json.dumps(content).replace(place, f'{key}: "{written}"')
    result = read(text, (60, 80), "image.png")
    wanted = json.loads(f'"{written}"')
    label = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in wanted)
    assert label in result.labels
    assert "signs that cannot be shown were replaced or left out in labels" in result.notes_text
    assert all(text.isprintable() for text in result.labels)


@pytest.mark.parametrize("word", ["Zelle größer 細胞 🧫", "ماهی\u200cها", "👩\u200d👧"])
def test_letters_of_all_languages_stay(read, word):
    result = read(VOC.replace("car", word), (60, 80), "image.png")
    assert result.items[0].label == word
    assert not result.notes


def test_labels_that_look_the_same_are_one(read):
    """An accent may be a sign of its own, and some signs have no width."""
    names = ("Äpfel", "A\u0308pfel", "Ä\u200bpfel")
    categories = [{"id": n, "name": name} for n, name in enumerate(names)]
    boxes = [{"id": n + 1, "category_id": n, "bbox": [1, 1, 3, 3]} for n in range(3)]
    result = read(coco(*boxes, size=SHAPE, categories=categories))
    assert [item.label for item in result.items] == ["Äpfel"] * 3
    assert result.labels == ("Äpfel",)
    assert any("labels that look the same" in note for note in result.notes)
