"""MaskInversion at several sizes of the model's input, averaged."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import interpolate

from ...base.regions import as_array
from ...base.steps import drive, map_steps
from ..settings import InversionConfig, input_sides
from .inverter import FloatArray, MaskInverter, Masks, RegionEmbedder, regions_of
from .loop import InversionResult, StepState

if TYPE_CHECKING:
    from ..models.backbone import Backbone


@dataclass(frozen=True, slots=True, eq=False)
class _Image:
    """An inverter of the image at each scale; a call reads it once, so that threads can share."""

    inverters: tuple[MaskInverter, ...]
    plane: tuple[int, int]
    input_size: tuple[int, int]
    grid: tuple[int, int]


class MultiScaleInverter(RegionEmbedder):
    """Localized embeddings of masks: each the mean of MaskInversions at the sizes of `input_sides`.

    A small model sees the same thing differently at each size of the input; much of that averages
    out. Multi-scale testing is usual in segmentation (for example DeepLab, arXiv 1706.05587); the
    published MaskInversion uses one size. The work is that of all sizes.

    Parameters
    ----------
    model : Backbone
        From `load_model` or `wrap_open_clip`; never modified.
    memory_mb : int, optional
        As for `MaskInverter`, for all sizes together.

    Examples
    --------
    >>> inverter = MultiScaleInverter(load_model("demo"))
    >>> inverter.set_image(rgb)
    >>> embeddings = inverter.embed(masks)
    """

    def __init__(self, model: Backbone, *, memory_mb: int | None = None) -> None:
        super().__init__(model)
        self._memory_mb = memory_mb
        self._halved = 0
        MaskInverter(model, memory_mb=memory_mb)  # refuses a budget that cannot be

    def set_image_steps(
        self,
        image: npt.ArrayLike,
        *,
        resolution: int | None = None,
        keep_aspect: bool | None = None,
        config: InversionConfig | None = None,
    ) -> Generator[tuple[int, int], None, None]:
        """Do what `set_image` does; yield (blocks done, blocks in total). It can be closed."""
        array = as_array(image)
        side = self.model.working_resolution if resolution is None else resolution
        before: _Image | None = self._image
        for inverter in () if before is None else before.inverters:
            inverter.clear_cache()
        sizes = input_sides(side, self.model.patch_size)
        inverters = []
        for number, size in enumerate(sizes):

            def overall(done: tuple[int, int], first: int = number) -> tuple[int, int]:
                return (first * done[1] + done[0]) // len(sizes), done[1]

            inverter = MaskInverter(self.model, memory_mb=self.memory_mb // len(sizes))
            work = inverter.set_image_steps(
                array, resolution=size, keep_aspect=keep_aspect, config=config
            )
            yield from map_steps(overall, work)
            inverters.append(inverter)
        usual = inverters[0]
        plane = (array.shape[0], array.shape[1])
        self._image = _Image(tuple(inverters), plane, usual.input_size, usual.grid)

    def invert_steps(
        self,
        masks: Masks,
        config: InversionConfig | None = None,
        *,
        planned_masks: int | None = None,
    ) -> Generator[StepState, None, InversionResult]:
        """Do what `MaskInverter.invert_steps` does, at all sizes side by side.

        Returns
        -------
        InversionResult
            ``raw_embeddings`` are the mean of the unit embeddings of all sizes, at the length of
            the usual size's; ``grid_maps`` are those of `explain`, and overlaps and the last column
            of ``losses`` are theirs. The columns before it are of the usual size's own inversion.
        """
        config = InversionConfig.of(config)
        image: _Image = self._current()
        regions = regions_of(masks, image.plane)
        results = yield from _side_by_side(
            [
                inverter.invert_steps(regions, config, planned_masks=planned_masks)
                for inverter in image.inverters
            ],
            config.steps,
        )
        usual = results[0]
        raw = _mean([result.raw_embeddings for result in results])
        maps = yield from _mean_maps(image, raw, config, planned_masks)
        seen = image.inverters[0].evaluate(regions, raw, maps, config)
        return replace(
            seen,
            losses=np.concatenate([usual.losses[:, :-1], seen.losses], axis=1),
            last_step_grid_maps=usual.last_step_grid_maps,
            route=", ".join(filter(None, (usual.route, f"{len(results)} sizes"))),
        )

    def explain(
        self, embeddings: npt.ArrayLike, *, layers: int = 1, explainer: str = "legrad"
    ) -> FloatArray:
        """Compute maps of embeddings as `MaskInverter.explain` does, averaged over the sizes.

        Returns
        -------
        ndarray, shape (N, grid_h, grid_w), float32
            On the usual size's grid. Each size's map is resized (bilinear) and stretched to 0..1;
            their mean is put in the range of the usual size's map, or of the next one that is not
            constant.
        """
        config = InversionConfig(steps=1, layers=layers, explainer=explainer)
        return drive(_mean_maps(self._current(), embeddings, config))

    @property
    def image_embedding(self) -> FloatArray:
        """The whole image's embedding (e,), averaged as those of masks are, float32."""
        image: _Image = self._current()
        return _mean([inverter.image_embedding[None] for inverter in image.inverters]).ravel()

    @property
    def image_norm(self) -> float:
        """L2 norm of the whole image's embedding."""
        return float(np.linalg.norm(self.image_embedding))

    @property
    def memory_mb(self) -> int:
        """The memory budget of inversions at all sizes, in units of 2**20 bytes."""
        return MaskInverter(self.model, memory_mb=self._memory_mb).memory_mb >> self._halved

    def spare_memory(self) -> None:
        """Free the caches and use half as much memory from now on."""
        self._halved += 1
        image: _Image | None = self._image
        for inverter in () if image is None else image.inverters:
            inverter.spare_memory()


def inverter_class(multi_scale: bool) -> type[MaskInverter | MultiScaleInverter]:
    """Return the class that inverts at one size of the input, or at several."""
    return MultiScaleInverter if multi_scale else MaskInverter


def _side_by_side(
    works: Sequence[Generator[StepState, None, InversionResult]], steps: int
) -> Generator[StepState, None, list[InversionResult]]:
    """Take each step of all inversions before the next one; the maps are the first one's."""
    begun = StepState(0, steps, None)
    states = [begun] * len(works)
    results: dict[int, InversionResult] = {}
    with ExitStack() as opened:
        for work in works:
            opened.enter_context(closing(work))
        for wanted in range(1, steps + 2):  # one more lets them end
            for place, work in enumerate(works):
                while place not in results and (wanted > steps or states[place].step < wanted):
                    try:
                        states[place] = next(work)
                    except StopIteration as end:
                        results[place] = end.value
                    yield _joined(states, steps)
    return [results[place] for place in range(len(works))]


def _joined(states: Sequence[StepState], steps: int) -> StepState:
    """Return the state of all inversions; with embeddings only where all are equally far."""
    step = min(state.step for state in states)
    copies = [state.embeddings for state in states if state.embeddings and state.step == step]
    complete = len(copies) == len(states)
    embeddings = (lambda: _mean([copy() for copy in copies])) if complete else None
    return StepState(step, steps, states[0].grid_maps, embeddings)


def _mean_maps(
    image: _Image,
    embeddings: npt.ArrayLike,
    config: InversionConfig,
    planned_masks: int | None = None,
) -> Generator[StepState, None, FloatArray]:
    """Return the maps of `MultiScaleInverter.explain`."""
    every: list[FloatArray] = []
    for inverter in image.inverters:
        work = inverter.explain_steps(embeddings, config, planned_masks=planned_masks)
        maps = yield from map_steps(lambda _: StepState(config.steps, config.steps, None), work)
        every.append(_resized(maps, image.grid))
    low, high = (
        np.stack([find(maps, axis=(1, 2), keepdims=True) for maps in every])
        for find in (np.min, np.max)
    )
    spread = high - low
    # A map that is constant says nothing, and has no range.
    stretched = (np.stack(every) - low) / np.where(spread > 0, spread, 1.0)
    first = np.argmax(spread > 0, axis=0)[None]
    low, spread = (np.take_along_axis(part, first, axis=0)[0] for part in (low, spread))
    return np.asarray(low + spread * stretched.mean(axis=0), dtype=np.float32)


def _resized(maps: FloatArray, grid: tuple[int, int]) -> FloatArray:
    if maps.shape[1:] == grid:
        return maps
    rows = torch.from_numpy(maps)[:, None]
    return interpolate(rows, grid, mode="bilinear", antialias=True)[:, 0].numpy()


def _mean(raw_embeddings: Sequence[FloatArray]) -> FloatArray:
    """Return the mean (N, e) of the unit embeddings, at the lengths of the first ones."""
    lengths = [np.linalg.norm(raw, axis=1, keepdims=True) for raw in raw_embeddings]
    units = [raw / length for raw, length in zip(raw_embeddings, lengths, strict=True)]
    mean = np.mean(units, axis=0)
    mean *= lengths[0] / np.linalg.norm(mean, axis=1, keepdims=True)
    return np.asarray(mean, dtype=np.float32)
