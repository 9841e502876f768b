"""open_clip's own vision transformer with a class token."""

from __future__ import annotations

from collections.abc import Generator

from torch import Tensor

from ...encode.image_encoding import ImageEncoding, check_layers, encode_steps
from ...settings import EXPLAINERS
from .openclip_vit import OpenClipVit


class ClassTokenTower(OpenClipVit):
    """An `ImageTower`; see there.

    Parameters
    ----------
    visual : open_clip VisionTransformer
        With a class token among its tokens, whether it pools by it or by the mean of the others.
    """

    family = "class-token ViT"
    explainers = EXPLAINERS
    corrected = False

    def encode_steps(
        self, image: Tensor, layers: int
    ) -> Generator[tuple[int, int], None, ImageEncoding]:
        """As in `ImageTower`."""
        check_layers(layers, self.num_layers)
        return encode_steps(self._visual, image, layers)
