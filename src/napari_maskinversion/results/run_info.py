"""How results were computed: model, settings, vocabulary, image."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..base.units import Units
from ..engine.methods.registry import Method
from ..engine.settings import InversionConfig
from ..images.windows import WindowConfig
from ..language.captions.bank import CaptionUse
from ..language.labels.vocabulary import Vocabulary
from ..language.ranking.uncertainty import UncertaintyConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """How results came to be.

    Attributes
    ----------
    model, fingerprint : str
        Name of the model; hash of name, weights and use.
    config : InversionConfig
    vocabulary : Vocabulary or None
    image_shape : tuple of int
        Pixels (H, W) of the plane.
    input_size, grid : tuple of int
        Pixels (H, W) and tokens of what the model saw; of the first window, if there are more.
    embed_dim : int
    keep_aspect : bool
        False where the plane was squeezed into a square.
    device : str
        Of the first region; regions finished after memory ran out may have another.
    window : WindowConfig
        How regions were put into windows.
    units : Units or None
    axes : tuple of str
        Names of the axes in the regions' positions.
    captions : CaptionUse or None
        Where captions come from.
    unsure : UncertaintyConfig
        When an answer counts as unsure.
    method : Method
        How regions were embedded.
    """

    model: str
    fingerprint: str
    config: InversionConfig
    vocabulary: Vocabulary | None
    image_shape: tuple[int, int]
    input_size: tuple[int, int]
    grid: tuple[int, int]
    embed_dim: int
    keep_aspect: bool
    device: str
    window: WindowConfig = field(default_factory=lambda: WindowConfig(mode="whole"))
    units: Units | None = None
    axes: tuple[str, ...] = ()
    captions: CaptionUse | None = None
    unsure: UncertaintyConfig = field(default_factory=UncertaintyConfig)
    method: Method = field(default_factory=Method)

    @property
    def space(self) -> str:
        """Tells embeddings that may be compared from others: of one model and one method."""
        return self.fingerprint if self.method.inverts else f"{self.fingerprint}/{self.method.name}"
