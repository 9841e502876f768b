"""The snapshot of the panel for one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...language.ranking.uncertainty import UncertaintyConfig

if TYPE_CHECKING:
    from ...base.identity import RegionIdentity
    from ...base.units import Units
    from ...language.captions.bank import CaptionBank
    from ...language.labels.vocabulary import Vocabulary
    from ...results.results import Results
    from ...results.settings import RunSettings
    from ..layers.tasks import RunInput


@dataclass(frozen=True, slots=True, eq=False)
class BankChoice:
    """The caption bank of a run, and the number of captions for each region."""

    bank: CaptionBank
    top: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Everything that one run needs, copied from the panel."""

    input: RunInput
    vocabulary: Vocabulary | None
    settings: RunSettings
    units: Units | None = None
    forming: bool = False  # pass on heatmaps as they form
    captions: BankChoice | None = None


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
    same = request.settings.changed({"unsure": UncertaintyConfig()})
    return same, request.units, digest, request.input.view
