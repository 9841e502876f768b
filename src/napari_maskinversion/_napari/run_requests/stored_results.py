"""Results of an archive as those of layers: what reopening and the images of a project share."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...engine.models.registry import own_model, recorded_name
from ..layers.label_layers import label_type
from ..session import NOTHING, ResultRecord, Snapshot

if TYPE_CHECKING:
    import pandas as pd

    from ...base.identity import Position, RegionIdentity
    from ...base.regions import Region
    from ...results.export.bundle import Bundle
    from ..layers.tasks import PlaneFinder


def stored_record(
    now: Snapshot,
    image: Any,
    regions: Any,
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
        where = {"model": chosen.model, "architecture": chosen.architecture}
        settings = settings.changed(where)
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


def painted(
    regions: Sequence[tuple[Position, Region]], shape: tuple[int, ...], axes: tuple[int, int]
) -> npt.NDArray[Any]:
    """Return regions as labels of an array whose rows and columns lie on two axes."""
    highest = max((region.id for _, region in regions), default=0)
    labels = np.zeros(shape, label_type(shape, highest))
    others = [axis for axis in range(len(shape)) if axis not in axes]
    # Largest first, so that regions inside stay visible.
    for place, region in sorted(regions, key=lambda item: -item[1].area):
        key: list[Any] = [0] * len(shape)
        for axis, (_, at) in zip(others, place, strict=True):
            key[axis] = min(at, shape[axis] - 1)
        y0, x0, y1, x1 = region.bbox
        key[axes[0]], key[axes[1]] = slice(y0, y1), slice(x0, x1)
        mask = region.mask if axes[0] < axes[1] else region.mask.T
        labels[tuple(key)][mask > 0] = region.id
    return labels
