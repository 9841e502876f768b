"""Files that people of this field met in public come in right.

Each folder holds one case: small files made anew, and `case.json` with the public reports and what
to expect. Each of its tries is an image, a file of regions, and what comes of them:

    {"source": ["owner/project #1"], "program": "CVAT", "tries": [
      {"image": "photo.png", "regions": "boxes.json", "settings": {"plane": "t=1"},
       "gives": {"1": {"box": [x, y, width, height], "area": 12, "label": "tree", "id": "a7",
                       "plane": "t=0", "values": {"height": 3}}},
       "says": ["a word of a note"], "names": ["tree", "house"]},
      {"image": "photo.png", "regions": "broken.json", "refused": ["a word of the error"]}]}

`gives` names all regions, each with as many of these values as matter. `says` lists words of the
notes; a try without it must be silent. `names` are the words of the file.
"""

import json
from pathlib import Path

import pytest

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.pipeline.inputs import open_inputs
from napari_maskinversion.results.settings import RunSettings

CASES = Path(__file__).parent
TRIES = [
    pytest.param(path.parent, one, id=f"{path.parent.name}-{one['regions']}-{number}")
    for path in sorted(CASES.glob("*/case.json"))
    for number, one in enumerate(json.loads(path.read_text("utf-8"))["tries"])
]


def read(folder, one):
    """Return the regions by id, the notes, and the names of the file."""
    settings = RunSettings(**one.get("settings", {}))
    notes = []
    image, regions = folder / one["image"], folder / one["regions"]
    inputs = open_inputs(image, regions, settings, notes.append)
    with inputs.stack:
        found = {}
        for task in inputs.tasks:
            plane = ",".join(f"{axis}={at}" for axis, at in task.position)
            for region in task.regions:
                found[str(region.id)] = (region, plane)
    text = " ".join([*notes, inputs.notes]).strip().replace(f"{folder}/", "")
    return found, text, list(inputs.names)


def seen(region, plane, expected):
    y0, x0, y1, x1 = region.bbox
    values = {
        "box": [x0, y0, x1 - x0, y1 - y0],
        "area": round(region.area),
        "label": region.name,
        "id": region.source_id,
        "plane": plane,
    }
    if "values" in expected:
        values["values"] = dict(region.values)
    return {key: values[key] for key in expected}


@pytest.mark.parametrize(("folder", "one"), TRIES)
def test_a_file_that_people_met_comes_in_right(folder, one):
    if "refused" in one:
        with pytest.raises(InputError) as error:
            read(folder, one)
        text = str(error.value)
        assert "\n" not in text
        assert [word for word in one["refused"] if word not in text] == []
        return
    found, notes, names = read(folder, one)
    expected = one["gives"]
    assert {key: seen(*found[key], expected.get(key, {})) for key in found} == expected
    assert [word for word in one.get("says", []) if word not in notes] == []
    assert one.get("says") or notes == ""
    if "names" in one:
        assert names == one["names"]


@pytest.mark.parametrize("path", sorted(CASES.glob("*/")), ids=lambda path: path.name)
def test_a_case_names_where_it_was_met(path):
    if path.name == "__pycache__":
        return
    case = json.loads((path / "case.json").read_text("utf-8"))
    assert case["source"]
    assert case["program"]
    assert case["tries"]
