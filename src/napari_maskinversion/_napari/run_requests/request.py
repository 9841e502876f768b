"""The snapshot of the panel for one run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...images.file_units import with_georeference

if TYPE_CHECKING:
    from ...base.units import Units
    from ...engine.models.backbone import Backbone
    from ...language.captions.bank import CaptionBank
    from ...language.labels.vocabulary import Vocabulary
    from ...pipeline.live import LiveRun
    from ...results.settings import RunSettings
    from ..layers.image_fingerprint import ImageFingerprint
    from ..layers.tasks import RunInput
    from ..session import ResultRecord


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
    units: Units | None = None  # Of the image's layer; `located` adds what its file says
    file: Path | None = None  # Of the image
    forming: bool = False  # Pass on heatmaps as they form
    captions: BankChoice | None = None
    before: ResultRecord | None = None  # Results whose unchanged regions are kept

    def located(self) -> Request:
        """Return the request with the place of a GeoTIFF on earth; for a worker."""
        finder = self.input.finder
        rows, columns = finder.axes
        shape = finder.image.shape[rows], finder.image.shape[columns]
        return replace(
            self, file=None, units=with_georeference(self.units, self.file, shape, finder.axes)
        )

    def continued(self, model: Backbone, pixels: ImageFingerprint) -> LiveRun | None:
        """Return a run that goes on with the results of before; None if they would differ."""
        before = self.before
        if before is None or before.fingerprint != pixels:
            return None
        info, now = before.results.info, self.settings.changed({"model": model.name})
        same = info.fingerprint == model.fingerprint and info.units == self.units
        if not (same and now.same_embeddings(info.settings)):
            return None
        from ...pipeline.live import LiveRun

        live = LiveRun(model, self.settings, units=self.units)
        live.adopt(before.results, before.identities)
        live.judge(self.settings.unsure)
        return live
