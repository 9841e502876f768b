"""Settings: metadata that interfaces are made from, and names of earlier versions."""

from dataclasses import fields
from typing import get_type_hints

import numpy as np
import pytest
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.errors import ConfigError

HINTS = get_type_hints(InversionConfig, include_extras=True)
SAVED = TypeAdapter(InversionConfig)


@pytest.mark.parametrize("name", [field.name for field in fields(InversionConfig)])
def test_each_field_says_what_a_form_needs(name):
    (about,) = (part for part in HINTS[name].__metadata__ if isinstance(part, FieldInfo))
    assert about.title
    assert about.description.endswith(".")
    assert {"group", "unit"} <= set(about.json_schema_extra)


def test_a_value_that_cannot_work_is_refused_with_name_rule_and_value():
    with pytest.raises(ConfigError, match=r"^steps must be greater than or equal to 1; got 0\.$"):
        InversionConfig(steps=0)
    with pytest.raises(ConfigError, match=r"^alpha must be a finite number; got nan\.$"):
        InversionConfig(alpha=float("nan"))


@pytest.mark.parametrize(("stride", "fast"), [(1, False), ("auto", True), (3, True)])
@pytest.mark.parametrize("settle", [None, 0.01])
def test_settings_saved_by_earlier_versions_open_without_a_warning(stride, fast, settle):
    saved = {"steps": 5, "alpha": 2, "query_stride": stride, "settle": settle}
    assert SAVED.validate_python(saved) == InversionConfig(steps=5, alpha=2.0, fast=fast)


def test_saved_settings_come_back():
    config = InversionConfig(steps=np.int64(5), alpha=np.float32(0.5), fast=True)
    assert SAVED.validate_json(SAVED.dump_json(config)) == config
    assert type(config.steps) is int
    assert type(config.alpha) is float
