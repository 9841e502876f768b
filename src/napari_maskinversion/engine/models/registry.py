"""Models by name, and where their weights are.

Imports neither torch nor open_clip, unless you look up a name that is not in the table.
"""

from __future__ import annotations

from typing import Literal

from .specs import MODELS, ModelSpec, unknown_model
from .weights_folder import weights_on_disk

ModelState = Literal["bundled", "on disk", "to fetch"]


def list_models() -> list[ModelSpec]:
    """Return the models known by name, the bundled one first.

    Any other ``"architecture/tag"`` of open_clip with a vision transformer works too.
    """
    return list(MODELS.values())


def get_spec(name: str) -> ModelSpec:
    """Return the spec of a model.

    Parameters
    ----------
    name : str
        A name in `list_models`, or another ``"architecture/tag"`` of open_clip; the latter imports
        open_clip, which takes seconds.

    Raises
    ------
    ModelError
        If there is no such model (the message names the nearest ones), or its image tower cannot
        be explained.
    """
    if name in MODELS:
        return MODELS[name]
    if "/" not in name:
        raise unknown_model(name, MODELS)
    from .openclip import tag_spec

    return tag_spec(name)


def model_state(spec: ModelSpec) -> ModelState:
    """Return where a model's weights are: in the package, in the cache folder, or on the hub.

    Reads only the file system, so it is fast enough for a list that is redrawn.
    """
    if spec.bundled:
        return "bundled"
    return "on disk" if weights_on_disk(spec) is not None else "to fetch"
