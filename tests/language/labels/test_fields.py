"""The field of an image, guessed from its file, its prompts and its words."""

import pytest

from napari_maskinversion.engine.models.specs import DEMO
from napari_maskinversion.language.labels.fields import field_of, models_for
from napari_maskinversion.language.labels.presets import presets

NOTHING = {"file": "holiday.png", "georeferenced": False, "names": ["dog", "cat"]}


@pytest.mark.parametrize(
    ("known", "field"),
    [
        ({}, None),
        ({"file": None}, None),
        ({"georeferenced": True}, "aerial"),
        ({"file": "slide.SVS"}, "pathology"),
        ({"file": "cells.nd2"}, "microscopy"),
        ({"names": ["nucleus", "background"]}, "microscopy"),
        ({"names": ["tumor", "stroma", "cells"]}, "pathology"),
        ({"names": ["DAPI"]}, "microscopy"),
        ({"names": ["dog", "roof", "car", "tree"]}, None),  # one word of four
        ({"names": ["excellent", "cellar"]}, None),
    ],
)
def test_what_tells_a_field(known, field):
    found = field_of(**{**NOTHING, **known})
    assert (found and found[0]) == field


def test_presets_of_a_field_suggest_it():
    fields = {}
    for one in presets():
        words = one.vocabulary
        found = field_of(
            file=None, georeferenced=False, names=words.labels, templates=words.templates
        )
        fields[one.name] = found and found[0]
    assert fields["dota"] == fields["isaid"] == "aerial"
    assert fields["blood-cells"] == fields["cell-biology"] == "microscopy"
    assert fields["coco"] is fields["voc"] is None


def test_the_line_names_models_until_one_of_the_field_is_chosen():
    found = "aerial", "The image has map coordinates"
    line = models_for(found, DEMO)
    assert line.startswith("The image has map coordinates: models trained on aerial are Remote")
    assert models_for(found, "FarSLIP-B-16") == models_for(None, DEMO) == ""
    assert models_for(found, "/a/file.pt") == ""  # whose field is unknown
