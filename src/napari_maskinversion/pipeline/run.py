"""Turn images and regions into a stream of results; panel and command line both drive this."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from ..base.errors import ConfigError, InputError, MaskShapeError
from ..base.regions import Region, Regions
from ..base.units import Units
from ..engine.methods.registry import Method
from ..engine.settings import InversionConfig
from ..images.plane_source import ArrayPlane, PlaneSource, as_source
from ..images.windows import WindowConfig, plan_windows, regions_in
from ..language.captions.bank import TOP, CaptionBank, CaptionUse
from ..language.labels.vocabulary import Vocabulary
from ..language.ranking.ranking import Ranking, rank
from ..language.ranking.uncertainty import UncertaintyConfig
from ..results.region_result import RegionResult, WindowRecord
from ..results.results import Results
from ..results.run_info import RunInfo
from .captioning import Captioner
from .progress import Progress, RegionChunk

if TYPE_CHECKING:
    from ..engine.invert.loop import InversionResult
    from ..engine.models.backbone import Backbone
    from .encoded_windows import EncodedWindows

__all__ = [
    "PlaneTask",
    "Progress",
    "RegionChunk",
    "RegionResult",
    "Results",
    "RunInfo",
    "check_inputs",
    "check_tasks",
    "run",
    "run_planes",
]

CHUNK: Final = 16  # regions inverted together, and the most that Cancel can lose
News = Generator[Progress | RegionChunk, None, Results]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneTask:
    """One plane and its regions.

    Parameters
    ----------
    source : PlaneSource
        Read window by window.
    regions : Regions
    position : tuple of (str, int)
        The plane's place in a stack: ``(("t", 3), ("z", 12))``.
    """

    source: PlaneSource
    regions: Regions
    position: tuple[tuple[str, int], ...] = ()


def check_inputs(
    image: npt.NDArray[Any] | PlaneSource,
    regions: Regions,
    vocabulary: Vocabulary | None,
    config: InversionConfig,
    *,
    chunk_size: int | None = None,
) -> None:
    """Refuse invalid input before anything heavy is loaded.

    Raises
    ------
    InputError
        If the image has no usable shape or type, is constant or contains NaN, or if there are no
        regions.
    MaskShapeError
        If the regions' plane and the image differ in size.
    ConfigError
        If the chunk size is below 1.
    """
    task = PlaneTask(source=as_source(image), regions=regions)
    check_tasks([task], vocabulary, config, chunk_size=chunk_size)


def check_tasks(
    tasks: Sequence[PlaneTask],
    vocabulary: Vocabulary | None,
    config: InversionConfig,
    *,
    chunk_size: int | None = None,
) -> None:
    """Refuse invalid planes of one image; only the first plane of many has its pixels checked.

    Raises
    ------
    MaskInversionError
        As `check_inputs`.
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
        if shape != tasks[0].source.shape or [name for name, _ in task.position] != [
            name for name, _ in tasks[0].position
        ]:
            raise InputError("The planes of one run must be planes of one image.")
    if chunk_size is not None and chunk_size < 1:
        raise ConfigError(f"The chunk size must be at least 1; got {chunk_size}.")


class RunOptions(TypedDict, total=False):
    """Optional settings of a run; see `run`."""

    chunk_size: int | None
    resolution: int | None
    keep_aspect: bool
    window: WindowConfig | None
    units: Units | None
    bank: CaptionBank | None
    top_captions: int
    threshold: float | None
    unsure: UncertaintyConfig | None
    method: str | Method | None


def run(
    model: Backbone,
    image: npt.NDArray[Any] | PlaneSource,
    regions: Regions,
    vocabulary: Vocabulary | None,
    config: InversionConfig,
    **options: Unpack[RunOptions],
) -> News:
    """Encode an image, invert its regions chunk by chunk, rank the labels.

    Parameters
    ----------
    model : Backbone
    image : ndarray, shape (H, W) or (H, W, 3), or PlaneSource
        An array: uint8, uint16, bool or float in 0..1.
    regions : Regions
        On the image's plane.
    vocabulary : Vocabulary or None
        None computes embeddings and maps without labels.
    config : InversionConfig
    chunk_size : int, optional
        Regions inverted together; 16 by default.
    resolution, keep_aspect
        As in `MaskInverter.set_image`.
    window : WindowConfig, optional
        The part of the plane that the model sees with each region; the whole plane by default.
    units : Units, optional
        Size of the plane's pixels, for the table.
    bank : CaptionBank, optional
        Adds the best captions to each region. With a large bank, several windows share a search:
        regions may get theirs in a later chunk's ``so_far``. The last chunk and the returned
        results have all of them.
    top_captions : int
        Captions per region.
    threshold : float, optional
        Replaces the vocabulary's: regions whose best label has a lower cosine get the suggestion
        "none of these".
    unsure : UncertaintyConfig, optional
        Limits below which a suggestion counts as unsure.
    method : str or Method, optional
        How regions are embedded, see `list_methods`; MaskInversion by default. Other methods have
        no heatmaps (empty), overlaps (NaN) or losses (empty).

    Yields
    ------
    Progress between steps, and `RegionChunk` after each chunk. Close the generator to stop: you
    keep the finished chunks.

    Returns
    -------
    Results, in the order of the regions.

    Raises
    ------
    MaskInversionError
        As `check_inputs`, at the first step.
    NotEnoughMemoryError
        If memory runs out even with one region at once, a smaller input and the CPU. The ``note``
        of the progress says which of these is used, and a region's window records input and
        device.
    """
    # In a generator of its own, so that nothing is refused before the first step.
    task = PlaneTask(source=as_source(image), regions=regions)
    result = yield from run_planes(model, [task], vocabulary, config, **options)
    return result


def run_planes(
    model: Backbone,
    tasks: Sequence[PlaneTask],
    vocabulary: Vocabulary | None,
    config: InversionConfig,
    *,
    chunk_size: int | None = None,
    resolution: int | None = None,
    keep_aspect: bool = True,
    window: WindowConfig | None = None,
    units: Units | None = None,
    bank: CaptionBank | None = None,
    top_captions: int = TOP,
    threshold: float | None = None,
    unsure: UncertaintyConfig | None = None,
    method: str | Method | None = None,
    encoded: EncodedWindows | None = None,
) -> News:
    """Run several planes of one image; see `run`.

    ``encoded`` keeps windows encoded for later runs with the same image, model and method.
    """
    method = Method.of(method)
    method.check()
    check_tasks(tasks, vocabulary, config, chunk_size=chunk_size)
    if threshold is not None and vocabulary is not None:
        vocabulary = replace(vocabulary, threshold=threshold)
    limits = unsure or UncertaintyConfig()
    captioner = None if bank is None else Captioner(bank, model, top_captions)
    from ..engine.encode.preprocessing import token_grid
    from ..engine.methods.adapter import default_resolution, inverter_maker
    from .window_runner import WindowRunner

    if method.uses_inversion:
        model.check(config)
    side = default_resolution(method, model) if resolution is None else resolution
    token_grid(1, 1, patch=model.patch_size, resolution=side, keep_aspect=keep_aspect)
    window = window or WindowConfig(mode="whole")
    work = [
        (task, offset, planned)
        for task, offset in zip(tasks, _offsets(tasks), strict=True)
        for planned in plan_windows(
            task.regions,
            task.source.levels,
            resolution=side,
            patch=model.patch_size,
            config=window,
        )
    ]
    runner = WindowRunner(
        model,
        config,
        at_once=chunk_size or CHUNK,
        resolution=side,
        keep_aspect=keep_aspect,
        total=sum(len(task.regions) for task in tasks),
        windows=len(work),
        make=inverter_maker(method, config, resolution),
        encoded=encoded,
    )
    text: npt.NDArray[np.float32] | None = None
    results: Results | None = None
    for number, (task, offset, planned) in enumerate(work, 1):
        if number > 1 and work[number - 2][0] is not task:
            # A plane caches tiles for its next window; a finished plane needs none.
            getattr(work[number - 2][0].source, "forget", lambda: None)()
        begun = perf_counter()
        record = yield from runner.encode(task.source, task.position, planned, number)
        if results is None:
            if vocabulary is not None:
                text = yield from runner.labels(vocabulary)
            results = Results(
                RunInfo(
                    model=model.name,
                    fingerprint=model.fingerprint,
                    config=config,
                    vocabulary=vocabulary,
                    image_shape=task.regions.shape,
                    input_size=record.input_size,
                    grid=record.grid,
                    embed_dim=model.embed_dim,
                    keep_aspect=keep_aspect,
                    device=record.device,
                    window=window,
                    units=units,
                    axes=tuple(name for name, _ in task.position),
                    captions=None if bank is None else CaptionUse(bank.record, top_captions),
                    unsure=limits,
                    method=method,
                )
            )
        ready = perf_counter()
        local = regions_in(planned, task.regions)
        start = 0
        while start < len(local):
            # These may be fewer, or from a smaller input, if memory runs out.
            inversions, record = yield from runner.invert(local, start, offset, record)
            members = planned.members[start : start + len(inversions)]
            start += len(inversions)
            rankings: list[Ranking] | list[None] = [None] * len(members)
            if vocabulary is not None and text is not None:
                unit = inversions.unit_embeddings
                rankings = rank(
                    unit,
                    text,
                    vocabulary.labels,
                    model.logit_scale,
                    owners=vocabulary.owners,
                    threshold=vocabulary.threshold,
                )
            finished = tuple(
                _result(
                    task.regions[member],
                    offset + member,
                    inversions,
                    place,
                    rankings[place],
                    record,
                    task.position,
                    limits,
                    cut_out=method.cut_out,
                )
                for place, member in enumerate(members)
            )
            runner.done += len(finished)
            results = results.extended(finished)
            if captioner is not None:
                results = captioner.update(results, last=runner.done == runner.total)
            yield RegionChunk(results.regions[-len(finished) :], results)
        if method.inverts:
            runner.remember_seconds(ready - begun, (perf_counter() - ready) / len(local))
    assert results is not None  # at least one region, so at least one window
    return results.in_order()


def _offsets(tasks: Sequence[PlaneTask]) -> list[int]:
    counts = [len(task.regions) for task in tasks]
    return [sum(counts[:place]) for place in range(len(counts))]


def _result(
    region: Region,
    index: int,
    inversions: InversionResult,
    place: int,
    ranking: Ranking | None,
    window: WindowRecord,
    position: tuple[tuple[str, int], ...],
    limits: UncertaintyConfig,
    *,
    cut_out: bool,
) -> RegionResult:
    return RegionResult(
        id=region.id,
        bbox=region.bbox,
        area=region.area,
        embedding=inversions.embeddings[place],
        grid_map=inversions.grid_maps[place],
        losses=inversions.losses[place],
        ranking=ranking,
        iou=float(inversions.mask_ious[place]),
        low_resolution=bool(inversions.low_resolution[place]),
        window=window,
        index=index,
        position=position,
        centroid=region.centroid,
        members=region.members,
        limits=limits,
        cut_out=cut_out,
    )
