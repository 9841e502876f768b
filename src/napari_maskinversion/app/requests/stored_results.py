"""Results of an archive as those of layers: what reopening and the images of a project share."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...base.identity import RegionIdentity
from ...engine.models.registry import own_model, recorded_name
from ...results.export.bundle import Bundle
from ..layer_input.viewer_protocols import ImageLayer, RegionsLayer
from ..session import NOTHING, ResultRecord, Snapshot

if TYPE_CHECKING:
    import pandas as pd

    from ..layer_input.run_input import PlaneFinder


def stored_record(
    now: Snapshot,
    image: ImageLayer,
    regions: RegionsLayer | None,
    bundle: Bundle,
    finder: PlaneFinder,
    *,
    identities: Sequence[RegionIdentity],
    table: pd.DataFrame,
    painted_as: Sequence[RegionIdentity] = (),
) -> ResultRecord:
    """Return a record from which the regions of an archive can be explained again."""
    info, chosen = bundle.results.info, now.settings
    settings = info.settings.changed({"device": chosen.device, "model": info.model})
    # An archive names a model of the user's own without the folder that it is in.
    if own_model(chosen.model) is not None and recorded_name(chosen.model) == info.model:
        settings = settings.changed({"model": chosen.model, "architecture": chosen.architecture})
    displayed = bundle.source.get("channels") == "as displayed"
    snapshot = replace(
        now,
        image_ref=weakref.ref(image),
        regions_ref=NOTHING if regions is None else weakref.ref(regions),
        settings=settings,
        scope=replace(now.scope, channels="displayed" if displayed else "layer"),
    )
    return ResultRecord(
        results=bundle.results,
        snapshot=snapshot,
        table=table,
        total=len(bundle.results),
        finder=finder,
        source=dict(bundle.source),
        identities=tuple(identities),
        painted_as=tuple(painted_as),
        masks=dict(bundle.masks),
        decisions=bundle.decisions,
        reopened=True,
        settled=regions is not None,
    )
