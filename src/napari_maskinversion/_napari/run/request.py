"""The snapshot of the panel for one run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...engine.methods.registry import Method

if TYPE_CHECKING:
    from ...base.identity import RegionIdentity
    from ...base.units import Units
    from ...engine.settings import InversionConfig
    from ...images.windows import WindowConfig
    from ...language.labels.vocabulary import Vocabulary
    from ...language.ranking.uncertainty import UncertaintyConfig
    from ...results.results import Results
    from ..explore.caption_banks import BankChoice
    from ..layers.tasks import RunInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Everything that one run needs, copied from the panel."""

    input: RunInput
    vocabulary: Vocabulary | None
    config: InversionConfig
    model: str
    device: str = "auto"
    chunk_size: int | None = None
    keep_aspect: bool = True
    window: WindowConfig | None = None
    units: Units | None = None
    forming: bool = False  # pass on heatmaps as they form
    captions: BankChoice | None = None
    unsure: UncertaintyConfig | None = None
    method: Method = field(default_factory=Method)


@dataclass(frozen=True, slots=True, eq=False)
class Seed:
    """Results of a run and the settings that led to them."""

    settings: tuple[Any, ...]
    results: Results
    identities: tuple[RegionIdentity, ...]

    def fits(self, settings: tuple[Any, ...], model: Any) -> bool:
        """Return whether live mode would compute the same."""
        return settings == self.settings and self.results.info.fingerprint == model.fingerprint


def settings_of(request: Request, digest: str) -> tuple[Any, ...]:
    """Return everything an embedding depends on, except the region."""
    return (
        request.model,
        request.device,
        request.method,
        request.config,
        request.window,
        request.keep_aspect,
        request.units,
        request.chunk_size,
        digest,
        request.input.view,
    )
