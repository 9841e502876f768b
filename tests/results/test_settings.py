"""Settings of a run: one model for the command line, the panel and the files."""

import json

import pytest
from pydantic import Field

from napari_maskinversion.base.errors import ConfigError
from napari_maskinversion.engine.methods.registry import Method
from napari_maskinversion.engine.settings import InversionConfig
from napari_maskinversion.images.windows import WindowConfig
from napari_maskinversion.results.settings import GROUPS, RunSettings, fields_of

OTHER = RunSettings(
    device="cpu",
    method="crop",
    inversion=InversionConfig(steps=3, alpha=5),
    chunk_size=2,
    window="512",
    merge=("1,2",),
    unsure={"overlap": 0.5},
)


def test_settings_come_back_from_json():
    again = RunSettings(**json.loads(OTHER.model_dump_json()))
    assert again == OTHER
    assert hash(again) == hash(OTHER)
    assert OTHER.window == WindowConfig(mode="fixed", side=512)
    assert OTHER.method == Method("crop")


def test_settings_are_changed_by_key_and_leave_the_original_alone():
    changed = OTHER.changed({"inversion.steps": 7, "window": "whole", "window.context": 3})
    assert (changed.inversion.steps, changed.inversion.alpha) == (7, 5)
    assert changed.window == WindowConfig(mode="whole", context=3)
    assert (OTHER.inversion.steps, OTHER.window.side) == (3, 512)
    assert OTHER.changed({key: OTHER.get(key) for key in ("window", "inversion.alpha")}) == OTHER


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"chunk_size": 0}, r"^chunk_size must be .* 1; got 0\.$"),
        ({"inversion.steps": 0}, "^steps.* 1; got 0"),
        ({"unsure.overlap": 2}, "^overlap.* 1; got 2"),
        ({"method": "crap"}, r"^There is no method 'crap'. Did you mean crop\?$"),
        ({"window": "x"}, "^A window is 'auto', 'whole' or .*; got 'x'.$"),
        ({"planes": "some"}, "^planes must be 'largest' or 'each'; got 'some'.$"),
        ({"nope": 1}, "^There is no setting 'nope'.$"),
        ({"inversion": {"stepz": 3}}, "^There is no setting 'stepz'.$"),
        ({"unsure": {"odd": 3}}, "^There is no setting 'odd'.$"),
        ({"method": {"name": "crop", "weight": "x"}}, "^There is no setting 'weight'.$"),
        ({"window": {"mode": "auto", "sides": 9}}, "^There is no setting 'sides'.$"),
        ({"window.context": 0.5}, "^context must be greater than or equal to 1; got 0.5.$"),
        ({"threshold": float("nan")}, "^threshold must be a finite number; got nan.$"),
        ({"inversion.nope": 1}, "^There is no setting 'inversion.nope'.$"),
    ],
)
def test_a_value_that_cannot_work_is_one_line_with_field_and_value(values, message):
    with pytest.raises(ConfigError, match=message) as caught:
        RunSettings().changed(values)
    assert "\n" not in str(caught.value)


def test_every_setting_has_a_group_a_title_and_help():
    settings = fields_of()
    assert {setting.group for setting in settings} <= set(GROUPS)
    assert all(setting.title and setting.help for setting in settings)
    assert [setting.key for setting in fields_of("window")] == ["window", "window.context"]
    assert all(RunSettings().get(setting.key) == setting.default for setting in settings)


def test_ranges_come_from_the_fields():
    settings = {setting.key: setting for setting in fields_of()}
    overlap, pixel_size = settings["unsure.overlap"], settings["pixel_size"]
    assert (overlap.minimum, overlap.maximum, overlap.above) == (0, 1, False)
    assert (pixel_size.minimum, pixel_size.above) == (0, True)


def test_a_field_more_is_a_setting_more():
    class More(RunSettings):
        blur: float = Field(
            0.5, title="Blur", description="Of it.", ge=0, json_schema_extra={"group": "input"}
        )

    assert [setting.key for setting in fields_of("input", model=More)][-1] == "blur"


@pytest.mark.parametrize(("device", "regions"), [("cpu", 16), ("cuda:0", 256), ("mps", 256)])
def test_a_gpu_takes_more_regions_in_one_call_unless_a_number_is_chosen(device, regions):
    assert RunSettings().at_once(device) == regions
    assert RunSettings(chunk_size=3).at_once(device) == 3
