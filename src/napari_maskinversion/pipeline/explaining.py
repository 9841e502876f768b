"""Explain the result of one region: label maps, and the course of its optimisation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError
from ..base.progress import MAPS, Tick, telling, tick
from ..base.regions import Region, Regions
from ..engine.explain import interpolation
from ..images.plane_source import Level, PlaneSource
from ..images.windows import FloatBox, Window, regions_in, whole_window
from ..language.labels.vocabulary import Vocabulary
from ..results.region_result import RegionResult, WindowRecord
from ..results.run_info import RunInfo

if TYPE_CHECKING:
    from ..engine.invert.inverter import MaskInverter
    from ..engine.models.backbone import Backbone

FloatArray = npt.NDArray[np.float32]

# If a region's map and its repetition correlate less, the image has changed.
_SAME: Final = 0.99


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Seen:
    """A region's result and its plane."""

    source: PlaneSource
    result: RegionResult
    info: RunInfo  # Of the run
    region: Region | None = None  # On the plane; only `Explainer.course` needs it


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LabelMaps:
    """Maps of labels in the window of a region."""

    maps: FloatArray  # (labels, grid_h, grid_w), float32
    # For each label, its name or the synonym that is most similar to the region
    words: tuple[str, ...]
    same_image: bool  # False if the plane's pixels have changed since the run
    input_size: tuple[int, int]  # Pixels (H, W) of the model's input for the window
    box: FloatBox  # The window: ``(y0, x0, y1, x1)`` in plane pixels, counted at pixel edges

    def heatmap(self, index: int) -> FloatArray:
        """Return the heatmap (H, W) of a label in the window, 0..1, at the input's pixels."""
        return interpolation.heatmap(self.maps[index], self.input_size)

    def difference(self) -> FloatArray:
        """Return by how much the first label's heatmap (H, W) exceeds the second one's, -1..1."""
        return self.heatmap(0) - self.heatmap(1)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Course:
    """The optimisation of one region, step by step."""

    # (steps + 1, grid_h, grid_w), float32. Entry k: after k updates; 0 is the map of the image's
    # own embedding.
    grid_maps: FloatArray
    losses: FloatArray  # (steps + 1,), float32
    input_size: tuple[int, int]  # Pixels (H, W) of the model's input for the window
    same_image: bool  # False if the plane's pixels have changed since the run

    @property
    def steps(self) -> int:
        """Number of updates."""
        return len(self.losses) - 1

    def heatmap(self, step: int) -> FloatArray:
        """Return the heatmap (H, W) after a number of updates, 0..1, at the input's pixels."""
        return interpolation.heatmap(self.grid_maps[step], self.input_size)


class Explainer:
    """Explains the results of one model; keeps recently used windows encoded.

    Works on the device where the run ended, and on the CPU if memory runs out; one call at a time.
    """

    def __init__(self, model: Backbone) -> None:
        from .explained_windows import ExplainedWindows

        self.model = model
        self._windows = ExplainedWindows(model)

    def release(self) -> None:
        """Drop the windows."""
        self._windows.release()

    def labels(self, seen: Seen, names: Sequence[str], *, whole: bool = False) -> LabelMaps:
        """Compute maps of labels."""
        self._check(seen)
        return self._windows.as_fits(lambda: self._labels(seen, names, whole))

    def course(self, seen: Seen) -> Course:
        """Invert the region again with the settings of the run, and record every step.

        Maps are exact at every step, even for a fast run. The precision is float32 if the device
        lacks that of the run.
        """
        region = seen.region
        result = seen.result
        if (
            region is None
            or region.bbox != result.bbox
            or not math.isclose(region.area, result.area, rel_tol=1e-6)
        ):
            raise InputError(
                f"Region {result.id} is not as it was in the run; run again to see its steps."
            )
        self._check(seen)
        return self._windows.as_fits(lambda: self._course(seen, region))

    def _labels(self, seen: Seen, names: Sequence[str], whole: bool) -> LabelMaps:
        from ..language.text import embed_vocabulary

        inverter, same = self._look(seen)
        record = seen.result.window
        box = record.box
        if whole and not record.whole:
            side = seen.info.settings.resolution or self.model.working_resolution
            record = replace(record, resolution=side)
            plane = whole_window(seen.source.levels, resolution=side)
            inverter = self._windows.inverter(seen.source, plane, record, seen.info)
            box = plane.box
        vocabulary = seen.info.vocabulary
        assert vocabulary is not None  # a label was chosen
        labels = {label.name: label for label in vocabulary.full_labels}
        # A repeated label gets its map twice.
        chosen = Vocabulary.of(
            [labels[name] for name in dict.fromkeys(names)], vocabulary.templates
        )
        text = embed_vocabulary(self.model, chosen)
        near = (text * seen.result.embedding).sum(axis=1)
        owners = np.asarray(chosen.owners)
        best = []
        for place in (chosen.labels.index(name) for name in names):
            best.append(int(np.flatnonzero(owners == place)[near[owners == place].argmax()]))
        tick(MAPS, 0, len(best))
        maps = self._maps(inverter, text[best], seen.info)
        words = tuple(chosen.words[place] for place in best)
        return LabelMaps(
            maps=maps, words=words, same_image=same, input_size=inverter.input_size, box=box
        )

    def _course(self, seen: Seen, region: Region) -> Course:
        from ..engine.compute.matmul import has_precision
        from ..engine.invert.loop import StepState

        inverter, same = self._look(seen)
        config = seen.info.config
        if not has_precision(config.precision, inverter.model.device):
            config = config.changed(precision="float32")
        window = window_of(seen.result.window, seen.source.levels)
        local = regions_in(window, Regions(seen.source.shape, [region]))
        embeddings = np.tile(inverter.image_embedding, (config.steps + 1, 1))

        def follow(news: Tick) -> Tick:
            if isinstance(news, StepState) and news.embeddings is not None:
                embeddings[news.done] = news.embeddings()[0]
            return news

        with telling(follow):
            losses = inverter.invert(local, config).losses[0]
        maps = self._maps(inverter, embeddings, seen.info)
        return Course(
            grid_maps=maps, losses=losses, input_size=inverter.input_size, same_image=same
        )

    def _maps(self, inverter: MaskInverter, embeddings: FloatArray, info: RunInfo) -> FloatArray:
        maps = []
        step = self._windows.at_once
        for start in range(0, len(embeddings), step):
            maps.append(inverter.explain(embeddings[start : start + step], **_of(info)))
            tick("Map", min(start + step, len(embeddings)), len(embeddings))
        return np.concatenate(maps)

    def _look(self, seen: Seen) -> tuple[MaskInverter, bool]:
        """Encode the region's window; return whether its pixels are still those of the run."""
        info = seen.info
        record = seen.result.window
        window = window_of(record, seen.source.levels)
        inverter = self._windows.inverter(seen.source, window, record, info)
        if inverter.grid != record.grid:
            return inverter, False
        again = inverter.explain(seen.result.raw_embedding[None], **_of(info))[0]
        return inverter, _alike(again, seen.result.grid_map)

    def _check(self, seen: Seen) -> None:
        if self.model.fingerprint != seen.info.fingerprint:
            raise InputError(
                f"The model {seen.info.model} is not the one of this run any more; run again."
            )


def _of(info: RunInfo) -> dict[str, Any]:
    """Return which map a run computed."""
    return {"layers": info.config.layers, "explainer": info.config.explainer}


def window_of(record: WindowRecord, levels: Sequence[Level]) -> Window:
    """Return the window of a record, for its one region."""
    y0, x0, y1, x1 = record.box
    sy, sx = levels[record.level].step
    box = (round(y0 / sy), round(x0 / sx), round(y1 / sy), round(x1 / sx))
    return Window(
        box=record.box,
        level=record.level,
        level_box=box,
        reduce=max(1, round((box[2] - box[0]) / record.pixels[0])),
        members=(0,),
        whole=record.whole,
        resolution=record.resolution,
    )


def in_words(region: RegionResult) -> list[str]:
    """Return what a region's numbers mean, one sentence each; the verdict comes last."""
    sentences = []
    ranking = region.ranking
    if math.isfinite(region.iou):
        sentence = f"Heatmap and region overlap by {100 * region.iou:.0f} % (IoU)"
        if region.uncertainty.fits is not None:  # a limit far below 1: it only finds the odd ones
            usual = "less than usual"
            if region.uncertainty.fits:
                usual = "as often"
            sentence += f", {usual} where this model is right"
        sentences.append(f"{sentence}.")
    if ranking is not None and len(ranking.labels) > 1:
        first, second = (float(value) for value in ranking.probabilities[:2])
        times = first / second if second > 0 else math.inf
        best, next_best = ranking.labels[:2]
        if times < 1.05:
            sentences.append(f"{best} and {next_best} are equally probable.")
        elif times < 9.95:
            sentences.append(f"{best} is {times:.1f} times as probable as {next_best}.")
        else:
            sentences.append(f"{best} is more than 10 times as probable as {next_best}.")
        share = ranking.entropy / math.log(len(ranking.labels))
        if share < 0.35:
            spread = "clear"
        elif share < 0.75:
            spread = "divided"
        else:
            spread = "undecided"
        sentences.append(f"Among all {len(ranking.labels)} words the choice is {spread}.")
    status = region.status
    if status == "ok":
        sentences.append("No reason to doubt it.")
    elif region.flagged:
        explanations = {
            "nothing to see": "the model saw one colour only",
            "low resolution": (
                f"the region covers {region.tokens:.1f} tokens of what the model saw"
            ),
        }
        why = explanations.get(status, "")
        flags = region.uncertainty.text
        sentence = "; ".join(part for part in (why, flags) if part)
        sentences.append(f"{sentence[0].upper()}{sentence[1:]}.")
    return sentences


def _alike(first: FloatArray, second: FloatArray) -> bool:
    a = first.astype(np.float64).ravel()
    b = second.astype(np.float64).ravel()
    a = a - a.mean()
    b = b - b.mean()
    scale = math.sqrt(float((a * a).sum()) * float((b * b).sum()))
    # Two constant maps are alike.
    return scale == 0 or float((a * b).sum()) / scale > _SAME
