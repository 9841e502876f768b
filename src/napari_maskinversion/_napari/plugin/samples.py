"""File > Open Sample."""

from __future__ import annotations

from functools import partial
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


def open_photograph(function: str, title: str) -> list[LayerTuple]:
    """Return a photograph of scikit-image, without regions."""
    import skimage.data

    return [(getattr(skimage.data, function)(), {"name": title, "rgb": True}, "image")]


# The manifest names them.
everyday_1 = partial(open_scene, "everyday-1")
everyday_2 = partial(open_scene, "everyday-2")
everyday_3 = partial(open_scene, "everyday-3")
from_above = partial(open_scene, "from-above")
blood_smear = partial(open_scene, "blood-smear")
bccd_smear = partial(open_scene, "bccd-smear")
coffee = partial(open_photograph, "coffee", "Coffee")
astronaut = partial(open_photograph, "astronaut", "Astronaut")
ihc = partial(open_photograph, "immunohistochemistry", "Immunohistochemistry")
