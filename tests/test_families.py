"""The page that lists every family of open_clip."""

import importlib.util
import sys
from pathlib import Path

import pytest
from open_clip import factory

from napari_maskinversion.core.support import why_not_vision

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("families", ROOT / "scripts" / "families.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def rows(script):
    page = (ROOT / "docs" / "backbones.md").read_text("utf-8")
    table = page.split(script.BEGIN)[1].split(script.END)[0].strip().splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_the_page_lists_every_architecture_once(rows):
    listed = [name for row in rows for name in row[1].split(", ")]
    assert sorted(listed) == sorted(factory._MODEL_CONFIGS)


def test_the_page_says_no_where_the_package_does(rows):
    for family, members, explained, *_ in rows:
        refused = {bool(why_not_vision(factory._MODEL_CONFIGS[m])) for m in members.split(", ")}
        assert refused == {explained.startswith("**no**")}, family


@pytest.mark.parametrize("name", ["PE-Core", "ConvNeXt"])
def test_a_family_is_examined_by_building_one_of_it(script, name):
    row = next(row for row in script.families() if row.name == name)
    script.examine(row)
    assert row.built in row.members
    if name == "PE-Core":
        assert row.explainers == ("legrad", "chefer")
        assert row.losses[1] < row.losses[0]
        assert not row.reason
    else:
        assert "convolutional" in row.reason
    assert row.built in script.table([row]) or row.reason in script.table([row])
