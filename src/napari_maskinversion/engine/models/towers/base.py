"""What the engine needs of an image tower."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Protocol

from torch import Tensor

from ....base.errors import ConfigError
from ...encode.image_encoding import ImageEncoding, check_layers
from ...settings import ExplainerName, InversionConfig


class ImageTower(Protocol):
    """A tower that can be explained; it is read only, whatever is asked of it.

    Attributes
    ----------
    family : str
        What to call towers of this build.
    explainers : tuple of str
        The maps it offers.
    patch_size, native_resolution : int
        Pixels of a token; side of the squares it was trained on.
    embed_dim, num_layers, num_heads : int
    corrected : bool
        Its maps need the correction by an "empty" prompt.
    """

    family: str
    explainers: tuple[ExplainerName, ...]
    patch_size: int
    native_resolution: int
    embed_dim: int
    num_layers: int
    num_heads: int
    corrected: bool

    @property
    def weight(self) -> Tensor:
        """A weight of its: says device and type."""

    def encode_steps(
        self, image: Tensor, layers: int
    ) -> Generator[tuple[int, int], None, ImageEncoding]:
        """Encode an image (1, 3, H, W) block by block; yields (blocks done, blocks)."""

    def attentions(self, image: Tensor) -> Iterator[Tensor]:
        """Yield the attention (h, n, n) of each block, the first one first."""


def check_config(tower: ImageTower, config: InversionConfig) -> None:
    """Refuse what a tower does not offer.

    Raises
    ------
    ConfigError
        If it has fewer layers, or not this map.
    """
    check_layers(config.layers, tower.num_layers)
    if config.explainer not in tower.explainers:
        why = {
            "gradcam": "it needs the channels that enter the last block of open_clip's own ViT",
            "chefer": "it needs a class token",
        }[config.explainer.split("-")[0]]
        raise ConfigError(
            f"explainer {config.explainer!r} is not there for this model ({tower.family}), since "
            f"{why}: choose {' or '.join(tower.explainers)}."
        )
    pooling = "pooled" in tower.family
    if config.explainer == "chefer" and pooling and config.layers != 1:
        raise ConfigError(
            "explainer 'chefer' explains the last layer only of a model that pools by attention: "
            f"layers must be 1; got {config.layers}."
        )
