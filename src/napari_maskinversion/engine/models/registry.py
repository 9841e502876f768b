"""Models by name: what is known about each, and where its weights are.

Loads neither torch nor open_clip, unless a name outside the table is looked up.
"""

from __future__ import annotations

from typing import Literal

from .specs import MODELS, ModelSpec, unknown_model
from .weights_folder import weights_on_disk

ModelState = Literal["bundled", "on disk", "to fetch"]


def list_models() -> list[ModelSpec]:
    """Return the models known by name, the bundled one first.

    Any other ``"architecture/tag"`` of open_clip with a vision transformer works as well.
    """
    return list(MODELS.values())


def get_spec(name: str) -> ModelSpec:
    """Return what is known about the model `name`.

    Parameters
    ----------
    name : str
        A name of `list_models`, or another ``"architecture/tag"`` of open_clip; the latter
        imports open_clip, which takes seconds.

    Raises
    ------
    ModelError
        If there is no such model (the message names the nearest ones), or if it is built in a way
        that this method cannot explain.
    """
    if name in MODELS:
        return MODELS[name]
    if "/" not in name:
        raise unknown_model(name, MODELS)
    from .openclip import tag_spec

    return tag_spec(name)


def model_state(spec: ModelSpec) -> ModelState:
    """Return where a model's weights are: in the package, in the cache folder, or on the hub.

    Looks at the file system only: quick enough for a list that is redrawn.
    """
    if spec.bundled:
        return "bundled"
    return "on disk" if weights_on_disk(spec) is not None else "to fetch"
