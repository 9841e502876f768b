"""The sample scenes that come with the package."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError

_LIST = "scenes.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A scene with its regions.

    Shapes: image (H, W, 3), uint8; regions (H, W), uint8.
    """

    name: str  # Identifier, and the name shown to users
    title: str
    image: npt.NDArray[np.uint8]
    regions: npt.NDArray[np.uint8]  # A label image, 0 is background
    vocabulary: tuple[str, ...]  # Labels to choose from
    truth: dict[int, str]  # Label of each region
    files: tuple[Path, Path]  # Image and regions


def sample_folder() -> Path:
    """Return the folder of the scenes: inside the package (a wheel), or next to ``src``."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "sample_data", package.parents[1] / "sample_data"):
        if (folder / _LIST).is_file():
            return folder
    raise InputError("The sample scenes are missing from this installation; install it again.")


def scene_names() -> list[str]:
    """Return the names of the scenes, in order."""
    return list(_listed())


def load_scene(name: str) -> Scene:
    """Read one scene."""
    from skimage.io import imread

    entry = _listed().get(name)
    if entry is None:
        raise InputError(f"There is no sample {name!r}; there are: {', '.join(scene_names())}.")
    files = (sample_folder() / entry["image"], sample_folder() / entry["regions"])
    image, regions = map(imread, files)
    return Scene(
        name=name,
        title=str(entry["title"]),
        image=np.asarray(image, dtype=np.uint8),
        regions=np.asarray(regions, dtype=np.uint8),
        vocabulary=tuple(map(str, entry["vocabulary"])),
        truth={int(key): str(value) for key, value in entry["truth"].items()},
        files=files,
    )


def _listed() -> dict[str, dict[str, Any]]:
    listed = json.loads((sample_folder() / _LIST).read_text("utf-8"))
    return {str(entry["name"]): entry for entry in listed["scenes"]}
