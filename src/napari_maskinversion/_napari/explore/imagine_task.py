"""Drawing what an embedding shows, in a worker. Knows neither Qt nor napari."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...base import progress_words as words
from ...base.errors import NotEnoughMemoryError
from ...base.progress import listening
from ...diffusion.pictures import Imagined, Picture, PictureStep
from ...images.plane_source import overview
from ...pipeline.imagining import ImagineRequest, Plan, draw, load_decoder, plan, record_of, targets
from ..layers.tasks import RunInput
from ..run_requests.run_source import RunSource, look_again
from ..workers.driver import hear, show
from ..workers.model_store import ModelStore
from ..workers.preload import start_torch

if TYPE_CHECKING:
    from ...diffusion.drawing import Drawer
    from ...results.region_result import RegionResult
    from ...results.run_info import RunInfo


@dataclass(slots=True)
class KeptDecoder:
    """The decoder used last; it stays loaded until another one is used or the section closes."""

    _key: tuple[Any, ...] = ()
    _drawers: list[Drawer] = field(default_factory=list)

    def get(self, wanted: Plan) -> Drawer:
        """Load a plan's decoder, or return the loaded one."""
        key = (wanted.folder, wanted.device, wanted.dtype)
        if key != self._key or not self._drawers:
            self.release()  # room first
            self._drawers, self._key = [load_decoder(wanted)], key
        return self._drawers[0]

    def has(self, wanted: Plan) -> bool:
        """Return whether a plan's decoder is loaded."""
        return bool(self._drawers) and self._key == (wanted.folder, wanted.device, wanted.dtype)

    def release(self) -> None:
        """Forget it."""
        self._drawers.clear()


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


def draw_region(wanted: DrawRequest, store: ModelStore, kept: KeptDecoder) -> Imagined:
    """Draw a region and [CLS]; a task for a `Worker`, which shows each finished picture."""
    start_torch()
    origin, info = wanted.origin, wanted.info
    loaded = store.has(origin.model, origin.device)
    try:
        carried = plan(wanted.request, info.model, loaded=loaded)
    except NotEnoughMemoryError:
        kept.release()  # what another decoder took
        carried = plan(wanted.request, info.model, loaded=loaded)
    model = origin.load(store)
    show(words.READING_IMAGE)
    seen = look_again(wanted.run_input, wanted.region, info, drawn=False)
    shown = targets(carried, model, [wanted.region], overview(seen.source), info.settings)
    if not kept.has(carried):
        show(words.LOADING_DECODER)
    with listening(_hear):
        pictures = draw(carried, kept.get(carried), shown)
    record = record_of(carried, info.model, info.fingerprint, info.settings, run_id=info.run_id)
    return Imagined(pictures=tuple(pictures), record=record)


def _hear(news: PictureStep | Picture) -> None:
    (show if isinstance(news, Picture) else hear)(news)
