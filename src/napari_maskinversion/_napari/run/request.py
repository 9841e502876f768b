"""The snapshot of the panel that a run works on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...language.ranking.uncertainty import UncertaintyConfig

if TYPE_CHECKING:
    from ...base.identity import RegionIdentity
    from ...base.units import Units
    from ...language.labels.vocabulary import Vocabulary
    from ...results.results import Results
    from ...results.settings import RunSettings
    from ..explore.caption_banks import BankChoice
    from ..layers.tasks import RunInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Everything one run needs, copied from the windows."""

    input: RunInput
    vocabulary: Vocabulary | None
    settings: RunSettings
    units: Units | None = None
    forming: bool = False  # pass on heatmaps as they form
    captions: BankChoice | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Seed:
    """What a run has found, and how."""

    settings: tuple[Any, ...]
    results: Results
    identities: tuple[RegionIdentity, ...]

    def fits(self, settings: tuple[Any, ...], model: Any) -> bool:
        """Whether live mode would find the same."""
        return settings == self.settings and self.results.info.fingerprint == model.fingerprint


def settings_of(request: Request, digest: str) -> tuple[Any, ...]:
    """Give what decides a region's answer, but for the region and the words."""
    same = request.settings.changed({"unsure": UncertaintyConfig()})
    return same, request.units, digest, request.input.view
