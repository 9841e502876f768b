"""File > Open Sample."""

from __future__ import annotations

from typing import Any

from ...images.sample_scenes import load_scene
from ..layers.placing import REGIONS_OPACITY

LayerTuple = tuple[Any, dict[str, Any], str]


def open_scene(name: str) -> list[LayerTuple]:
    """Return a scene as an image layer and a labels layer that brings its vocabulary."""
    scene = load_scene(name)
    metadata = {"vocabulary": list(scene.vocabulary)}
    return [
        (scene.image, {"name": scene.title, "rgb": True, "metadata": metadata}, "image"),
        (
            scene.regions.astype("int32"),
            {"name": f"{scene.title}: regions", "metadata": metadata, "opacity": REGIONS_OPACITY},
            "labels",
        ),
    ]


def everyday_1() -> list[LayerTuple]:
    """Return the first scene."""
    return open_scene("everyday-1")


def everyday_2() -> list[LayerTuple]:
    """Return the second scene."""
    return open_scene("everyday-2")


def everyday_3() -> list[LayerTuple]:
    """Return the third scene."""
    return open_scene("everyday-3")


def from_above() -> list[LayerTuple]:
    """Return the painted satellite image."""
    return open_scene("from-above")


def blood_smear() -> list[LayerTuple]:
    """Return the painted blood smear."""
    return open_scene("blood-smear")


def bccd_smear() -> list[LayerTuple]:
    """Return the real blood smear."""
    return open_scene("bccd-smear")


def coffee() -> list[LayerTuple]:
    """Return a photograph of a cup of coffee, without regions."""
    return _photograph("coffee", "Coffee")


def astronaut() -> list[LayerTuple]:
    """Return a photograph of an astronaut, without regions."""
    return _photograph("astronaut", "Astronaut")


def ihc() -> list[LayerTuple]:
    """Return a stained colon tissue section, without regions."""
    return _photograph("immunohistochemistry", "Immunohistochemistry")


def _photograph(function: str, title: str) -> list[LayerTuple]:
    import skimage.data

    return [(getattr(skimage.data, function)(), {"name": title, "rgb": True}, "image")]
