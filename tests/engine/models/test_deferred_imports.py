"""Imports that leave out what is not needed yet."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest

from napari_maskinversion.engine.models.deferred_imports import import_deferring


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Write modules, by name, into a folder that Python looks in; forget them afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def write(**sources):
        for name, source in sources.items():
            (tmp_path / f"{name}.py").write_text(source)

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_module_waits_until_something_of_it_is_called(packages):
    packages(slowpart="def double(x):\n    return 2 * x\n", user="from slowpart import double\n")
    user = import_deferring("user", {"slowpart": ["double"]})
    assert "slowpart" not in sys.modules
    assert user.double(4) == 8
    assert "slowpart" in sys.modules


def test_its_attributes_are_looked_up_when_they_are_used(packages):
    packages(slowpart="answer = 42\n", user="import slowpart\ndef ask(): return slowpart.answer\n")
    user = import_deferring("user", {"slowpart": []})
    assert "slowpart" not in sys.modules
    assert user.ask() == 42


@pytest.mark.parametrize(
    "source",
    [
        "from slowpart import answer\n",
        "try:\n    from slowpart import answer\nexcept ImportError:\n    answer = None\n",
    ],
)
def test_what_was_not_announced_is_imported_at_once(packages, source):
    packages(slowpart="answer = 42\n", user=source)
    assert import_deferring("user", {"slowpart": ["other"]}).answer == 42


def test_a_class_that_is_inherited_is_imported_at_once(packages):
    packages(
        slowpart="class Base:\n    size = 3\n",
        user="from slowpart import Base\nclass Own(Base):\n    pass\n",
    )
    assert import_deferring("user", {"slowpart": ["Base"]}).Own.size == 3


def test_what_is_loaded_stays(packages):
    packages(slowpart="answer = 42\n", user="import slowpart\n")
    import slowpart

    user = import_deferring("user", {"slowpart": ["answer"]})
    assert user.slowpart is slowpart
    assert sys.modules["slowpart"] is slowpart
    assert import_deferring("user", {}) is user


def test_a_part_that_is_loaded_stays(packages, monkeypatch):
    packages(user="from holder.part import answer\n")
    part = types.ModuleType("holder.part")
    part.answer = 42
    monkeypatch.setitem(sys.modules, "holder", types.ModuleType("holder"))
    monkeypatch.setitem(sys.modules, "holder.part", part)
    assert import_deferring("user", {"holder.part": ["answer"]}).answer == 42


def test_a_package_that_fails_says_so(packages):
    packages(user="raise ImportError('no such part')\n")
    with pytest.raises(ImportError, match="no such part"):
        import_deferring("user", {"slowpart": []})
    assert "slowpart" not in sys.modules
    assert not isinstance(sys.modules.get("user"), types.ModuleType)


def test_the_demo_model_names_a_region_without_pytorchs_compiler():
    code = """
import sys
import numpy as np
from napari_maskinversion import InversionConfig, MaskInverter, load_model

inverter = MaskInverter(load_model("demo"))
inverter.set_image(np.zeros((128, 128, 3), np.uint8))
mask = np.zeros((1, 128, 128), bool)
mask[0, 40:80, 40:80] = True
inverter.invert(mask, InversionConfig())
slow = {"torch._dynamo", "sympy", "timm"} & set(sys.modules)
assert not slow, slow
import open_clip.timm_model
assert open_clip.timm_model.to_2tuple(3) == (3, 3)  # there as soon as it is wanted
assert "timm" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
