"""Settings: metadata that interfaces are made from, and one check of each value."""

import numpy as np
import pytest
from pydantic import ValidationError

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.errors import ConfigError


@pytest.mark.parametrize("about", InversionConfig.model_fields.values())
def test_each_field_says_what_a_form_needs(about):
    assert about.title
    assert about.description.endswith(".")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"steps": 0}, r"^steps must be greater than or equal to 1; got 0\.$"),
        ({"steps": 1.5}, r"^steps must be a valid integer; got 1.5\.$"),
        ({"learning_rate": "0.1"}, "^learning_rate must be a valid number"),
        ({"alpha": True}, "^alpha must be a valid number"),
        ({"fast": 1}, "^fast must be a valid bool"),
        ({"weight_decay": -1}, "^weight_decay must be greater than or equal to 0; got -1"),
        ({"alpha": float("nan")}, r"^alpha must be a finite number; got nan\.$"),
        ({"explainer": "rollout"}, "^explainer 'rollout' cannot be inverted.* choose legrad"),
        ({"explainer": "gradcam", "layers": 2}, "layers must be 1; got 2"),
        ({"stepz": 3}, r"^There is no setting 'stepz'; use steps, learning_rate"),
    ],
)
def test_a_value_that_cannot_work_is_refused_with_name_rule_and_value(values, message):
    for make in (InversionConfig, InversionConfig().changed, InversionConfig.of):
        with pytest.raises(ConfigError, match=message):
            make(**values)


def test_settings_are_frozen_and_a_checked_copy_is_a_call():
    config = InversionConfig(alpha=2)
    assert config.changed(steps=3) == InversionConfig.of(config, steps=3)
    assert (config.changed(steps=3).alpha, config.steps) == (2, 10)
    with pytest.raises(ValidationError):
        config.steps = 3


def test_saved_settings_come_back():
    config = InversionConfig(steps=np.int64(5), alpha=np.float32(0.5), fast=True)
    assert InversionConfig.model_validate_json(config.model_dump_json()) == config
    assert hash(config) == hash(InversionConfig(steps=5, alpha=0.5, fast=True))
    assert type(config.steps) is int
    assert type(config.alpha) is float
