"""The table of explainability maps. To add one, write its file and add an entry to the table.

A map's factory reads ``encoding.layers`` for open_clip's own class-token ViT, and
``encoding.general`` for other towers, where ``layers`` is empty.

The table imports no map (and no torch): a map's module is loaded when the map is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from ..encode.image_encoding import ImageEncoding
    from .protocol import ExplainabilityMap

Need = Literal["class query", "block inputs"]
NEEDS: Final[dict[Need | None, str]] = {
    None: "it needs another image tower",
    "class query": "it needs a class token",
    "block inputs": "it needs the channels that enter the last block of open_clip's own ViT",
}
"""What a map may need of an image tower, besides attention gradients, and how errors say it."""


@dataclass(frozen=True, slots=True)
class MapSpec:
    """An explainability map that can be matched with masks."""

    name: str
    title: str
    # ``"module:function"`` in this package; the function takes an `ImageEncoding` and the bytes
    # that the tensors of one group may take, and returns an `ExplainabilityMap`
    factory: str
    about: str  # One line for people who choose
    # What the image tower must offer, besides attention gradients
    needs: Need | None = field(default=None, kw_only=True)
    last_layer_only: bool = field(default=False, kw_only=True)  # It explains the last layer alone
    # It does so in towers that pool by attention
    last_layer_if_pooled: bool = field(default=False, kw_only=True)


# fmt: off
_TABLE: Final = (
    MapSpec("legrad", "LeGrad", "legrad:make_legrad",
        "Positive attention gradients; the paper's choice and its best."),
    MapSpec("gradcam", "GradCAM", "gradcam:make_gradcam",
        "Weighted channels of the last block's input: what speaks for the region.",
        needs="block inputs", last_layer_only=True),
    MapSpec("gradcam-no-relu", "GradCAM without ReLU", "gradcam:make_gradcam_without_relu",
        "GradCAM with what speaks against the region, too.",
        needs="block inputs", last_layer_only=True),
    MapSpec("chefer", "CheferCAM", "chefer:make_chefer",
        "Where [CLS] looks, weighted by the gradient; quick, loses detail.",
        needs="class query", last_layer_if_pooled=True),
)
# fmt: on

MAPS: Final[Mapping[str, MapSpec]] = MappingProxyType({spec.name: spec for spec in _TABLE})


def maps_for(*offered: Need) -> tuple[str, ...]:
    """Return the names of the maps for a tower that offers this."""
    return tuple(spec.name for spec in MAPS.values() if spec.needs in (None, *offered))


def make_map(name: str, encoding: ImageEncoding, memory_bytes: int) -> ExplainabilityMap:
    """Make the map of an encoded image; it explains the layers of the encoding.

    Where the tower's maps need it, they are corrected by the map of an "empty" prompt.
    """
    import torch

    from .protocol import WithoutEmpty

    module, _, function = MAPS[name].factory.partition(":")
    with torch.no_grad():
        explained: ExplainabilityMap = getattr(import_module(f".{module}", __package__), function)(
            encoding, memory_bytes
        )
        if encoding.empty is None:
            return explained
        return WithoutEmpty(explained, encoding.empty)
