"""Values that other programs do not write, in files that parse: one line, or a note."""

import json

import numpy as np
import pytest
import skimage.io

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.regions.annotations.reading import read_annotations
from tests.fuzz.kinds import COCO, GEOJSON, LABELME, PANOPTIC, VOC
from tests.scenes import label_image


def shape_of(**changes):
    return json.dumps(LABELME | {"shapes": [LABELME["shapes"][0] | changes]})


def feature(coordinates=None, **geometry):
    first = GEOJSON["features"][0]
    ring = first["geometry"]["coordinates"] if coordinates is None else [coordinates]
    changed = first["geometry"] | {"coordinates": ring} | geometry
    return json.dumps(GEOJSON | {"features": [first | {"geometry": changed}]})


def at(**position):
    first = GEOJSON["features"][0]
    properties = first["properties"] | {"position": position}
    return json.dumps(GEOJSON | {"features": [first | {"properties": properties}]})


FAR = [[0, 0], [1e308, 0], [1e308, 1e308], [-1e308, 5], [0, 0]]
PLANE = {"c": -1, "z": -5, "t": 0}
REFUSED = {
    "far corners": ("a.geojson", feature(FAR), "its corners lie beyond 1e[+]09"),
    "a plane below 0": ("a.geojson", feature(plane=PLANE), "on a plane below 0"),
    "a position below 0": ("a.geojson", at(z=-3), "on a plane below 0"),
    "a circle without radius": (
        "a.json",
        shape_of(shape_type="circle", points=[[5, 5], [5, 5]]),
        r"shape 1 \(car\).* radius is 0",
    ),
    "two records of an image": (
        "panoptic.json",
        json.dumps(PANOPTIC | {"annotations": PANOPTIC["annotations"] * 2}),
        "annotation 2 is about the same image as .*annotation 1; keep one",
    ),
}


@pytest.fixture
def read(tmp_path):
    def read(name, content):
        (tmp_path / "panoptic").mkdir()
        labels = label_image(2)
        ids = np.stack([labels, 0 * labels, 0 * labels], -1).astype(np.uint8)
        skimage.io.imsave(tmp_path / "panoptic/image.png", ids, check_contrast=False)
        (tmp_path / name).write_text(content, encoding="utf-8")
        return read_annotations(tmp_path / name, (60, 80), image="image.png")

    return read


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("case", REFUSED)
def test_a_value_that_makes_no_sense_is_refused_in_one_line(read, case):
    name, content, message = REFUSED[case]
    with pytest.raises(InputError, match=message) as refusal:
        read(name, content)
    assert name in str(refusal.value)
    assert "\n" not in str(refusal.value)


STRANGE = ("\\ud800x", "\\u001b[31mcar", "car\\u0007")
CATEGORY = '"name": "car"'


@pytest.mark.parametrize("written", STRANGE)
@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("a.json", json.dumps(COCO), CATEGORY),
        ("b.json", json.dumps(LABELME), '"label": "car"'),
        ("panoptic.json", json.dumps(PANOPTIC), '"name": "dog"'),
        ("a.geojson", json.dumps(GEOJSON), '"label": "car"'),
    ],
    ids=["coco", "labelme", "panoptic", "geojson"],
)
def test_signs_that_cannot_be_shown_are_replaced_in_labels(read, name, content, place, written):
    key, _ = place.split(":")
    result = read(name, content.replace(place, f'{key}: "{written}"'))
    wanted = json.loads(f'"{written}"')
    label = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in wanted)
    assert label in result.labels
    assert wanted not in [item.label for item in result.items]
    assert "signs that cannot be shown were replaced or left out in labels" in result.notes_text
    assert all(text.isprintable() for text in result.labels)


@pytest.mark.parametrize("word", ["Zelle größer 細胞 🧫", "ماهی\u200cها", "👩\u200d👧"])
def test_letters_of_all_languages_stay(read, word):
    result = read("a.xml", VOC.replace("car", word))
    assert result.items[0].label == word
    assert not result.notes


def test_labels_that_look_the_same_are_one(read):
    """An accent may be a sign of its own."""
    categories = [{"id": 5, "name": "Äpfel"}, {"id": 7, "name": "A\u0308pfel"}]
    boxes = [
        {"id": n, "image_id": 1, "category_id": 5 + 2 * n, "bbox": [1, 1, 3, 3]} for n in (0, 1)
    ]
    result = read("a.json", json.dumps(COCO | {"categories": categories, "annotations": boxes}))
    assert [item.label for item in result.items] == ["Äpfel", "Äpfel"]
    assert result.labels == ("Äpfel",)
    assert any("labels that look the same" in note for note in result.notes)


def test_signs_without_a_width_are_left_out_of_labels(read):
    result = read("b.json", json.dumps(COCO).replace(CATEGORY, '"name": "c\\u200bar\\u200d"'))
    assert "car" in result.labels
    assert "signs that cannot be shown were replaced or left out" in result.notes_text
