"""Add captions from a bank to results, during a run or afterwards."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from ...language.captions.bank import TOP, CaptionBank, CaptionUse, check_top
from ...results.results import Results

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone

# Bank values compared in the time a small model takes for one region.
_A_REGION: Final = 20_000_000


@dataclass(frozen=True, slots=True)
class _Maker:
    """The model of a run, as its results describe it."""

    name: str
    fingerprint: str
    device: str


class Captioner:
    """Finds captions for the regions of a run.

    A search reads the whole bank, for one region or a hundred. Regions therefore wait until
    inverting them has taken as long as a search; with small banks none waits.

    Parameters
    ----------
    bank : CaptionBank
    model : Backbone
        The model that the bank was built with.
    top : int
        Captions per region.

    Raises
    ------
    InputError
        If the bank was built with another model.
    ConfigError
        If `top` is below 1.
    """

    def __init__(self, bank: CaptionBank, model: Backbone | _Maker, top: int = TOP) -> None:
        check_top(top)
        bank.check(model)
        self._bank, self._top, self._device = bank, top, model.device
        self._patience = max(1, len(bank) * bank.record.embed_dim // _A_REGION)

    def update(self, results: Results, *, last: bool) -> Results:
        """Return results with captions for the waiting regions, once enough wait or at the end."""
        waiting = [row for row, region in enumerate(results.regions) if region.captions is None]
        if not waiting or (len(waiting) < self._patience and not last):
            return results
        unit = np.stack([results.regions[row].embedding for row in waiting])
        matches = self._bank.search(unit, self._top, device=self._device)
        regions = list(results.regions)
        for row, captions_of_row in zip(waiting, matches, strict=True):
            regions[row] = replace(regions[row], captions=captions_of_row)
        return Results(results.info, tuple(regions))


def add_captions(
    results: Results,
    bank: CaptionBank,
    model: Backbone | None = None,
    top: int = TOP,
    *,
    again: bool = False,
) -> Results:
    """Return results with captions from a bank; nothing is inverted.

    Parameters
    ----------
    results : Results
    bank : CaptionBank
    model : Backbone, optional
        The model of the results; not needed, and need not be loaded.
    top : int
        Captions per region.
    again : bool
        Replace existing captions too.

    Raises
    ------
    MaskInversionError
        As `Captioner`.
    """
    info = results.info
    captioner = Captioner(bank, model or _Maker(info.model, info.fingerprint, info.device), top)
    use = CaptionUse(bank.record, top)
    regions = results.regions
    if again or results.info.captions != use:
        regions = tuple(replace(region, captions=None) for region in regions)
    return captioner.update(Results(replace(results.info, captions=use), regions), last=True)
