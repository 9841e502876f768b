"""Which runs invert at several sizes of the model's input."""

from dataclasses import replace

import pytest

from napari_maskinversion.base.errors import ConfigError
from napari_maskinversion.engine.models.specs import MODELS
from napari_maskinversion.results.settings import RunSettings

DEMO, LARGE = MODELS["demo"], MODELS["ViT-B-16/openai"]


@pytest.mark.parametrize(
    ("multi_scale", "demo", "large", "wrapped"),
    [("auto", True, False, False), ("on", True, True, True), ("off", False, False, False)],
)
def test_the_demo_model_does_by_itself_and_others_when_asked(multi_scale, demo, large, wrapped):
    settings = RunSettings(multi_scale=multi_scale)
    assert [settings.multi_scale_with(spec) for spec in (DEMO, LARGE, None)] == [
        demo,
        large,
        wrapped,
    ]


def test_a_model_in_a_folder_does_not_whatever_its_name():
    settings = RunSettings()
    assert not settings.multi_scale_with(replace(DEMO, source="folder/demo"))


@pytest.mark.parametrize("method", ["crop", "maskinversion+crop"])
def test_only_maskinversion_alone_does(method):
    assert not RunSettings(method=method, multi_scale="on").multi_scale_with(DEMO)


def test_the_paper_uses_one_size():
    assert not RunSettings.paper().multi_scale_with(DEMO)


def test_embeddings_of_several_sizes_are_others():
    assert not RunSettings(multi_scale="on").same_embeddings(RunSettings(multi_scale="off"))


def test_other_words_are_refused():
    with pytest.raises(ConfigError, match="multi_scale"):
        RunSettings(multi_scale="three")
