"""Add captions from a bank to results, during a run or afterwards."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from ...language.captions.bank import TOP, CaptionBank, CaptionUse, ModelIdentity, check_top
from ...results.results import Results
from .generating import ModelOfRun

if TYPE_CHECKING:
    import torch

    from ...engine.models.backbone import Backbone

# Bank values compared in the time a small model takes for one region.
_A_REGION: Final = 20_000_000


class Captioner:
    """Finds captions for the regions of a run.

    A search reads the whole bank, for one region or a hundred. Regions therefore wait until
    inverting them has taken as long as a search; with small banks none waits.
    """

    def __init__(
        self, bank: CaptionBank, model: ModelIdentity, top: int, device: torch.device | str
    ) -> None:
        check_top(top)
        bank.check(model)
        self._bank, self._top, self._device = bank, top, device
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
    """Return results with captions from a bank; nothing is inverted."""
    info = results.info
    device = "cpu" if model is None else model.device
    captioner = Captioner(bank, model or ModelOfRun.of(info), top, device)
    use = CaptionUse(bank.record, top)
    regions = results.regions
    if again or results.info.captions != use:
        regions = tuple(replace(region, captions=None) for region in regions)
    return captioner.update(Results(replace(results.info, captions=use), regions), last=True)
