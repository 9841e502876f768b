"""Turn images and regions into results; panel and command line both call this."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError, MaskShapeError
from ..base.progress import tell
from ..base.regions import Region, Regions
from ..base.units import Units
from ..images.plane_source import ArrayPlane, PlaneSource
from ..images.windows import plan_windows
from ..language.captions.bank import CaptionBank, CaptionUse
from ..language.labels.presets import unknown_to
from ..language.labels.vocabulary import Vocabulary
from ..language.ranking.ranking import Ranking
from ..language.ranking.uncertainty import UncertaintyConfig
from ..learning.classifier_ranking import Ranker
from ..learning.features import Measured
from ..regions.measures import measure
from ..results.calibrations import calibration_of
from ..results.recipe import weights_sha256
from ..results.region_result import RegionResult
from ..results.results import Results
from ..results.run_info import Machine, RunInfo
from ..results.settings import RunSettings
from .caption_ranking import Captioner
from .run_progress import RegionChunk

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone
    from ..results.region_result import WindowRecord
    from .encoded_windows import EncodedWindows
    from .window_runner import Inverted, WindowRunner, WindowWork


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneTask:
    """One plane and its regions."""

    source: PlaneSource  # Read window by window
    regions: Regions
    # The plane's place in a stack: ``(("t", 3), ("z", 12))``
    position: tuple[tuple[str, int], ...] = ()


def check_tasks(tasks: Sequence[PlaneTask]) -> None:
    """Refuse planes and regions that cannot be run on, before a model is loaded.

    Of many planes of one image only the first one's pixels are read.
    """
    for place, task in enumerate(tasks):
        if isinstance(task.source, ArrayPlane) or place == 0:
            task.source.check()
    if not any(len(task.regions) for task in tasks):
        raise InputError("There are no regions; draw at least one on the image.")
    for task in tasks:
        shape = task.source.shape
        if task.regions.shape != shape:
            raise MaskShapeError(
                f"The regions lie on a plane of {task.regions.shape[0]} x {task.regions.shape[1]} "
                f"px but the image is {shape[0]} x {shape[1]} px; use regions drawn on this image."
            )


def run_planes(
    model: Backbone,
    tasks: Sequence[PlaneTask],
    vocabulary: Vocabulary | None,
    settings: RunSettings,
    *,
    units: Units | None = None,
    bank: CaptionBank | None = None,
    encoded: EncodedWindows | None = None,
) -> Results:
    """Encode planes of one image, invert their regions chunk by chunk, rank the labels.

    Tells each `Progress` and `RegionChunk`.

    ``encoded`` keeps windows encoded for later runs with the same image, model and method.
    """
    words = ranker_of(vocabulary, settings)
    image = ImageRun(tasks=tasks, words=words, units=units, bank=bank)
    ((_, results),) = run_images(model, [image], settings, encoded=encoded)
    return results


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRun:
    """Planes of one image and what their regions get."""

    tasks: Sequence[PlaneTask]
    words: Ranker | None
    units: Units | None = None
    bank: CaptionBank | None = None


def ranker_of(vocabulary: Vocabulary | None, settings: RunSettings) -> Ranker | None:
    """Return what ranks the labels of a run; None without any."""
    if vocabulary is None:
        return None
    if settings.threshold is not None:
        vocabulary = replace(vocabulary, threshold=settings.threshold)
    return Ranker(vocabulary)


def run_images(
    model: Backbone,
    images: Sequence[ImageRun],
    settings: RunSettings,
    *,
    encoded: EncodedWindows | None = None,
) -> Generator[tuple[int, Results]]:
    """Run images with the same settings; yield each one's place and results when it is done.

    Windows of several images may be encoded and inverted together.
    """
    method = settings.method
    config = settings.inversion
    resolution = settings.resolution
    method.check()
    for image in images:
        check_tasks(image.tasks)
    from ..engine.methods.factory import inverter_maker
    from .window_runner import WindowRunner

    if method.uses_inversion:
        model.check(config)
    side = _side(model, settings)
    model.input_size(1, 1, side, settings.keep_aspect)
    if method.uses_inversion:
        model.check_attention(side)
    windows = _windows(model, images, settings, side)
    runner = WindowRunner(
        model,
        config,
        windows,
        at_once=settings.at_once(str(model.device)),
        resolution=side,
        keep_aspect=settings.keep_aspect,
        make=inverter_maker(method, config, resolution),
        # More windows than it keeps go together instead.
        encoded=encoded if encoded is None or len(windows) <= encoded.most else None,
    )
    runs = [_Run(model, image, settings) for image in images]
    with runner:
        while runner.left:
            start = perf_counter()
            seen = runner.encode()
            encoding = perf_counter() - start
            for work, record in seen:
                runs[work.image].begin(record, runner)
            ready = perf_counter()
            # These may be fewer, or from a smaller input, if memory runs out.
            while inverted := runner.invert():
                for inverted_window in inverted:
                    runner.done += len(inverted_window.members)
                    place = inverted_window.work.image
                    if (results := runs[place].add(inverted_window)) is not None:
                        yield place, results
            runner.remember_seconds(encoding, perf_counter() - ready, method)


def runs_together(model: Backbone, settings: RunSettings) -> bool:
    """Return whether windows of several images are inverted together.

    Not on a CPU: an image's last bits would hang on the images that a batch has left.
    """
    from ..engine.invert.inverter import MaskInverter
    from ..engine.invert.several import masks_at_once

    if model.device.type == "cpu" or not settings.method.inverts:
        return False
    side = _side(model, settings)
    memory = MaskInverter(model).memory_mb << 20
    return masks_at_once(model, settings.inversion, side, memory) > 1


def _side(model: Backbone, settings: RunSettings) -> int:
    from ..engine.methods.factory import default_resolution

    if settings.resolution is not None:
        return settings.resolution
    return default_resolution(settings.method, model)


def _windows(
    model: Backbone, images: Sequence[ImageRun], settings: RunSettings, side: int
) -> list[WindowWork]:
    from .window_runner import WindowWork

    native = None
    if settings.uses_native_windows:
        native = model.native_resolution
    works: list[WindowWork] = []
    for place, image in enumerate(images):
        for task, offset in zip(image.tasks, _offsets(image.tasks), strict=True):
            planned = plan_windows(
                task.regions,
                task.source.levels,
                resolution=side,
                patch=model.patch_size,
                config=settings.window,
                native=native,
            )
            for window in planned:
                about = task.source, task.position, window, task.regions, offset
                works.append(WindowWork(*about, len(works), place))
    return works


class _Run:
    """The results of one image, while its regions are inverted."""

    def __init__(self, model: Backbone, image: ImageRun, settings: RunSettings) -> None:
        words = image.words
        self._model = model
        self._image = image
        self._settings = settings
        self._measures = settings.measure or (words is not None and bool(words.measures))
        if words is not None:  # refused now, not after the first regions
            named = settings.changed({"model": model.name})
            words.check_space(named, model.fingerprint)
            first = next(task for task in image.tasks if len(task.regions))
            words.check_measures([self._measured(first.source, first.regions[0])])
        self._left = sum(len(task.regions) for task in image.tasks)
        self._captioner = None
        if image.bank is not None:
            self._captioner = Captioner(image.bank, model, settings.top_captions, model.device)
        self._vocabulary = None if words is None else words.vocabulary
        self._unknown = unknown_to(model, self._vocabulary)
        self._text: npt.NDArray[np.float32] | None = None
        self._results: Results | None = None

    def begin(self, record: WindowRecord, runner: WindowRunner) -> None:
        """Embed the labels when the first window is encoded."""
        if self._results is not None:
            return
        model = self._model
        image = self._image
        settings = self._settings
        if self._vocabulary is not None:
            self._text = runner.labels(self._vocabulary)
        bank = image.bank
        self._results = Results(
            RunInfo(
                fingerprint=model.fingerprint,
                settings=settings.changed({"model": model.name}),
                vocabulary=self._vocabulary,
                image_shape=image.tasks[0].regions.shape,
                input_size=record.input_size,
                grid=record.grid,
                embed_dim=model.embed_dim,
                device=record.device,
                units=image.units,
                axes=tuple(name for name, _ in image.tasks[0].position),
                machine=Machine.of(model.device, runner.memory_mb),
                calibration=calibration_of(model.fingerprint, settings),
                method_sha256=weights_sha256(settings.method),
                captions=None if bank is None else CaptionUse(bank.record, settings.top_captions),
            )
        )

    def add(self, inverted: Inverted) -> Results | None:
        """Rank the labels of inverted regions and tell of them; return all with the last ones."""
        words = self._image.words
        ranking = None
        drawn = inverted.work.plane_regions
        source = inverted.work.source
        regions = [self._measured(source, drawn[member]) for member in inverted.members]
        if words is not None and self._text is not None:
            embeddings = inverted.result.embeddings
            about = (self._text, self._unknown, regions)
            ranking = words.rank(self._model, embeddings, *about)
        assert self._results is not None
        limits = self._results.info.limits
        cut_out = self._settings.method.cut_out
        finished = _results(inverted, ranking, regions, limits, cut_out=cut_out)
        self._left -= len(finished)
        self._results = self._results.extended(finished)
        if self._captioner is not None:
            self._results = self._captioner.update(self._results, last=not self._left)
        tell(RegionChunk(self._results.regions[-len(finished) :], self._results))
        if self._left:
            return None
        return self._results.in_order()

    def _measured(self, source: PlaneSource, region: Region) -> Measured:
        measures: Mapping[str, float] = {}
        if self._measures:
            y0, x0, _, x1 = region.bbox
            measures = measure(
                region.mask, lambda top, bottom: source.values((y0 + top, x0, y0 + bottom, x1))
            )
        return Measured(region.area, region.bbox, measures)


def _offsets(tasks: Sequence[PlaneTask]) -> list[int]:
    counts = [len(task.regions) for task in tasks]
    return [sum(counts[:place]) for place in range(len(counts))]


def _results(
    inverted: Inverted,
    rankings: list[Ranking] | None,
    measured: list[Measured],
    limits: UncertaintyConfig,
    *,
    cut_out: bool,
) -> tuple[RegionResult, ...]:
    inversions = inverted.result
    rows = []
    for place, member in enumerate(inverted.members):
        region = inverted.work.plane_regions[member]
        rows.append(
            RegionResult(
                id=region.id,
                bbox=region.bbox,
                area=measured[place].area,
                raw_embedding=inversions.raw_embeddings[place],
                grid_map=inversions.grid_maps[place],
                losses=inversions.losses[place],
                ranking=None if rankings is None else rankings[place],
                iou=float(inversions.mask_ious[place]),
                low_resolution=bool(inversions.low_resolution[place]),
                window=inverted.record,
                index=inverted.work.offset + member,
                position=inverted.work.position,
                centroid=region.centroid,
                members=region.members,
                limits=limits,
                cut_out=cut_out,
                source_label=region.name,
                source_id=region.source_id,
                source_values=region.values,
                measures=measured[place].measures,
            )
        )
    return tuple(rows)
