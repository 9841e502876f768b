"""Drawing what an embedding shows, in a worker. Knows neither Qt nor napari."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ...base import progress_words as words
from ...base.errors import NotEnoughMemoryError
from ...base.progress import listening
from ...diffusion.pictures import Imagined, Picture, PictureStep
from ...images.plane_source import overview
from ...pipeline.imagining import ImagineRequest, draw, load_decoder, plan, record_of, targets
from ...results.region_result import RegionResult
from ...results.run_info import RunInfo
from ..layers.tasks import RunInput
from ..run_requests.run_source import RunSource, look_again
from ..workers.driver import hear, show
from ..workers.model_store import Kept, ModelStore
from ..workers.preload import start_torch

if TYPE_CHECKING:
    from ...diffusion.drawing import Drawer


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DrawRequest:
    """A region of results, and how to draw it."""

    request: ImagineRequest
    origin: RunSource
    run_input: RunInput  # The image of the region
    region: RegionResult
    info: RunInfo


def check(request: ImagineRequest, model: str, *, loaded: bool) -> str:
    """Return device and memory in one line; a task for a `Worker`."""
    start_torch()
    return plan(request, model, loaded=loaded).text


def draw_region(wanted: DrawRequest, store: ModelStore, kept: Kept[Drawer]) -> Imagined:
    """Draw a region and [CLS]; a task for a `Worker`, which shows each finished picture."""
    start_torch()
    origin, info = wanted.origin, wanted.info
    loaded = store.has(origin.model, origin.device)
    try:
        carried = plan(wanted.request, info.model, loaded=loaded)
    except NotEnoughMemoryError:
        kept.clear()  # what another decoder took
        carried = plan(wanted.request, info.model, loaded=loaded)
    model = origin.load(store)
    show(words.READING_IMAGE)
    seen = look_again(wanted.run_input, wanted.region, info, drawn=False)
    shown = targets(carried, model, [wanted.region], overview(seen.source), info.settings)
    key = (carried.folder, carried.device, carried.dtype)
    if not kept.has(key):
        show(words.LOADING_DECODER)
    with listening(_hear):
        pictures = draw(carried, kept.get(key, partial(load_decoder, carried)), shown)
    record = record_of(carried, info.model, info.fingerprint, info.settings, run_id=info.run_id)
    return Imagined(pictures=tuple(pictures), record=record)


def _hear(news: PictureStep | Picture) -> None:
    (show if isinstance(news, Picture) else hear)(news)
