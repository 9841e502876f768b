"""Segmentation with SAM: the image is encoded once, then prompted with boxes and points.

Everything in an image is found as by segment-anything's generator: a grid of points, filtered.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from ...base.errors import ConfigError
from ...base.lru_cache import LruCache
from ...base.progress import ENCODING, READING, Tick, tell, telling, tick
from ...base.regions import Region
from ...engine.compute.compute_lock import computing
from ...images.plane_source import Box, PlaneSource
from ..cleanup import CleanUp, clean_region
from .parts import all_parts, around, distinct, is_cut, part_of, within
from .prompts import AutomaticConfig, FloatBox, Point, Prompt, is_inside
from .resizing import Candidate, SamInput, Size, Stages, crop_map, fitted, resize_for_sam

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from segment_anything.utils.amg import build_point_grid, calculate_stability_score
    from torchvision.ops import nms

OnBlock = Callable[[int, int], object]
Points = tuple[Tensor, Tensor]
_CACHED: Final = 8  # embeddings of 4 MB
_BATCH: Final = 32
# Share of the work that is encoding an image, for the progress: with prompts, and with a grid.
_ENCODING: Final = 0.8
_ENCODING_OF_GRID: Final = 0.3


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Segmented:
    """An object and its candidate masks."""

    id: int
    text: str  # Its prompt in words: "box, 1 point"
    candidates: tuple[Candidate, ...]  # The one with the highest score first
    shape: Size  # Pixels of the plane

    @property
    def scores(self) -> tuple[float, ...]:
        """Scores of the candidates."""
        return tuple(candidate.score for candidate in self.candidates)

    def region(self, index: int = 0, cleanup: CleanUp | None = None) -> Region | None:
        """Return the mask of a candidate; None if no pixel is left."""
        if index < 0:
            raise ConfigError(f"Candidates are counted from 0; got {index}.")
        chosen = self.candidates[min(index, len(self.candidates) - 1)]
        region = chosen.region(self.id)
        if region is None or cleanup is None:
            return region
        return clean_region(region, self.shape, cleanup)

    def moved(self, box: Box, shape: Size) -> Segmented:
        """Return the answer of a part of a plane as one of the plane."""
        candidates = tuple(replace(one, corner=box[:2]) for one in self.candidates)
        return replace(self, candidates=candidates, shape=shape)

    def uncut(self, box: Box) -> Segmented:
        """Leave out the candidates that are cut by their part."""
        if box == (0, 0, *self.shape):
            return self
        kept = [one for one in self.candidates if not is_cut(one.region(0), box, self.shape)]
        return replace(self, candidates=tuple(kept))


class _Query(NamedTuple):
    """One query of the decoder: an object, or a part of one; its first points are positive."""

    place: int
    box: FloatBox | None
    points: tuple[Point, ...]
    positive: int


class Segmenter(ABC):
    """A SAM model, with a cache of image embeddings; subclasses are the SAMs."""

    words: Sequence[str] = ()  # that it was asked
    # Whether the image is stretched to a square, instead of padded below and to the right
    square: ClassVar[bool]

    def __init__(self, name: str, side: int, device: torch.device) -> None:
        self.name = name
        self.side = side  # Pixels along the longer side of the model's input
        self.device = device
        self._embeddings = LruCache[str, Any](_CACHED)

    def __repr__(self) -> str:
        return f"<Segmenter {self.name} on {self.device}>"

    @abstractmethod
    def encode(self, pixels: Tensor, on_block: OnBlock) -> Any:
        """Encode an image (1, 3, h, w) of 0..255; ``on_block(number, count)`` before each block."""

    @abstractmethod
    def decode(
        self, features: Any, points: Points | None, boxes: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return four maps (B, 4, h, w) of logits and their scores, the unambiguous mask first.

        Points are (B, n, 2) as (x, y) and their labels (B, n); boxes are (B, 4).
        """

    @abstractmethod
    def stages(self, view: SamInput, target: Size) -> Stages:
        """Return how maps are enlarged to the image's pixels; see `Stages`."""

    def asked(self, words: Sequence[str] | None) -> Segmenter:
        """Return what proposes regions: it does not depend on words."""
        return self

    @computing()
    def segment(
        self, source: PlaneSource, prompts: Sequence[Prompt], *, whole: bool = False
    ) -> list[Segmented]:
        """Find candidate masks of objects; on a large plane in parts of it, unless ``whole``."""
        source.check()
        done: dict[int, Segmented] = {}
        rising = _Rising()
        side = max(source.shape) if whole else self.side
        while waiting := [place for place in range(len(prompts)) if place not in done]:
            parts: dict[Box, list[int]] = {}
            for place in waiting:
                parts.setdefault(around(prompts[place], source.shape, side), []).append(place)
            for number, (box, places) in enumerate(parts.items()):
                own = [within(prompts[place], box) for place in places]
                before = len(done) / len(prompts)
                share = (1 - before) / (len(parts) - number)
                with telling(partial(rising.news, before, share)):
                    answers = self._segment_part(part_of(source, box), own)
                for place, answer in zip(places, answers, strict=True):
                    moved = answer.moved(box, source.shape)
                    if not is_cut(moved.region(), box, source.shape):
                        done[place] = moved.uncut(box)
            side *= 2
        return [done[place] for place in range(len(prompts))]

    def _segment_part(self, source: PlaneSource, prompts: Sequence[Prompt]) -> list[Segmented]:
        view, features = self._encode(source, _ENCODING)
        answers: dict[int, list[tuple[Tensor, Tensor]]] = {}
        queries = [
            query for place, prompt in enumerate(prompts) for query in _queries(place, prompt)
        ]
        done = 0
        for batch in _batches(queries):
            share = _ENCODING + (1 - _ENCODING) * done / len(queries)
            tell(Tick("Objects", done, len(queries), share=share))
            maps, scores = self._decode(batch, view, features)
            for query, query_maps, query_scores in zip(batch, maps, scores, strict=True):
                answers.setdefault(query.place, []).append((query_maps, query_scores))
            done += len(batch)
        return [
            self._segmented(prompt, answers[place], view) for place, prompt in enumerate(prompts)
        ]

    def _encode(self, source: PlaneSource, share: float) -> tuple[SamInput, Any]:
        """Return the input of a plane and its embedding, cached if possible.

        ``share`` is the encoder's part of the whole work.
        """
        tick(READING, 0, 1)
        view = resize_for_sam(source, self.side, square=self.square)
        features = self._embeddings.get(view.key)
        if features is not None:
            return view, features
        pixels = torch.from_numpy(view.pixels.copy()).to(self.device)

        def on_block(number: int, count: int) -> None:
            tell(Tick(ENCODING, number + 1, count, share=share * number / count))

        features = self.encode(pixels.permute(2, 0, 1)[None].float(), on_block)
        self._embeddings.put(view.key, features)
        return view, features

    def _decode(
        self, batch: Sequence[_Query], view: SamInput, features: Any
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Decode several queries at once; return their maps of logits and scores, on the CPU."""
        down, across = view.scale
        points = boxes = None
        if batch[0].points:
            coordinates = [[(x * across, y * down) for y, x in query.points] for query in batch]
            labels = [[at < query.positive for at in range(len(query.points))] for query in batch]
            points = (
                torch.tensor(coordinates, dtype=torch.float32, device=self.device),
                torch.tensor(labels, device=self.device).int(),
            )
        if batch[0].box is not None:
            corners = [
                (x0 * across, y0 * down, x1 * across, y1 * down)
                for y0, x0, y1, x1 in (query.box for query in batch if query.box is not None)
            ]
            boxes = torch.tensor(corners, dtype=torch.float32, device=self.device)
        maps, scores = self.decode(features, points, boxes)
        # The first mask is for unambiguous prompts, so not for a single point.
        ambiguous = batch[0].box is None and len(batch[0].points) == 1
        first = 1 if ambiguous and maps.shape[1] > 1 else 0
        return list(maps[:, first:].cpu()), list(scores[:, first:].cpu())

    def _segmented(
        self, prompt: Prompt, parts: list[tuple[Tensor, Tensor]], view: SamInput
    ) -> Segmented:
        # The object is the union of its parts.
        maps = torch.stack([maps for maps, _ in parts]).amax(0)
        scores = torch.stack([scores for _, scores in parts]).mean(0)
        stages = self.stages(view, view.plane)
        order = torch.argsort(scores, descending=True, stable=True).tolist()
        candidates = tuple(crop_map(float(scores[i]), maps[i].numpy(), stages) for i in order)
        return Segmented(id=prompt.id, text=prompt.text, candidates=candidates, shape=view.plane)

    @computing()
    def segment_everything(self, source: PlaneSource, config: AutomaticConfig) -> list[Segmented]:
        """Find masks of everything in a plane, without boxes and points.

        In a part larger than SAM's input, masks are found at the size of the input and enlarged.
        """
        source.check()
        look = partial(self._everything_in, config)
        return each_once(source, self.side, look, whole=config.whole)

    def _everything_in(self, config: AutomaticConfig, source: PlaneSource) -> list[Segmented]:
        view, features = self._encode(source, _ENCODING_OF_GRID)
        # Never finer than SAM's input: 48 maps of a large plane would not fit into memory.
        frame = view.plane if max(view.plane) <= self.side else fitted(view.plane, self.side)
        grid = build_point_grid(config.points_per_side) * view.size[::-1]
        seen: list[tuple[Region, float]] = []
        for start in range(0, len(grid), config.batch):
            share = _ENCODING_OF_GRID + (1 - _ENCODING_OF_GRID) * start / len(grid)
            tell(Tick("Point", start, len(grid), share=share))
            points = torch.tensor(grid[start : start + config.batch, None], dtype=torch.float32)
            labels = torch.ones(points.shape[:2], dtype=torch.int32)
            pair = (points.to(self.device), labels.to(self.device))
            maps, scores = self.decode(features, pair, None)
            # The first of four masks is for unambiguous prompts.
            seen += _sure(maps[:, 1:], scores[:, 1:], self.stages(view, frame), config)
        # As segment-anything compares boxes: up to their last pixels.
        boxes = [(x0, y0, x1 - 1.0, y1 - 1.0) for y0, x0, y1, x1 in (one.bbox for one, _ in seen)]
        sure = torch.tensor([score for _, score in seen])
        kept = nms(torch.tensor(boxes).reshape(-1, 4), sure, config.overlap)
        ratio = view.plane[0] * view.plane[1] / (frame[0] * frame[1])
        segmented = []
        for region, score in (seen[place] for place in kept.tolist()):
            if region.area * ratio >= config.min_area:
                # The enlarged outline is half way between inside and outside.
                y0, x0, y1, x1 = region.bbox
                logits = np.full(frame, -1, np.float32)
                logits[y0:y1, x0:x1][region.mask] = 1
                candidate = crop_map(score, logits, ((view.plane, view.plane),))
                one = Segmented(id=0, text="", candidates=(candidate,), shape=view.plane)
                segmented.append(one)
        return segmented


def _sure(
    maps: Tensor, scores: Tensor, stages: Stages, config: AutomaticConfig
) -> Iterable[tuple[Region, float]]:
    """Yield the masks of maps (B, n, h, w) with sure scores and outlines, enlarged by stages."""
    for size, used in stages:
        maps = interpolate(maps, size, mode="bilinear", align_corners=False)
        maps = maps[..., : used[0], : used[1]]
    known = scores > config.score if config.score else torch.ones_like(scores, dtype=torch.bool)
    maps, scores = maps[known], scores[known]
    stable = ~(calculate_stability_score(maps, 0.0, 1.0) < config.stability)
    masks = (maps[stable] > 0).cpu().numpy()
    for mask, score in zip(masks, scores[stable].tolist(), strict=True):
        region = Region.from_mask(0, mask)
        if region is not None:
            yield region, score


def each_once(
    source: PlaneSource,
    side: int,
    look: Callable[[PlaneSource], list[Segmented]],
    *,
    whole: bool,
) -> list[Segmented]:
    """Return what is seen in a plane and its parts, largest first; numbered from 1."""
    shape = source.shape
    boxes: list[Box] = [(0, 0, *shape)] if whole else list(all_parts(shape, side))
    seen: list[tuple[float, Box, Region, Segmented]] = []
    rising = _Rising()
    for number, box in enumerate(boxes):
        with telling(partial(rising.news, number / len(boxes), 1 / len(boxes))):
            answers = look(part_of(source, box))
        for one in answers:
            moved = one.moved(box, shape)
            region = moved.region()
            if region is not None and not is_cut(region, box, shape):
                seen.append((one.scores[0], box, region, moved))
    areas = {id(one): region.area for *_, region, one in seen}
    kept = sorted(distinct(seen), key=lambda one: -areas[id(one)])
    return [replace(one, id=number) for number, one in enumerate(kept, 1)]


@dataclass(slots=True)
class _Rising:
    """Progress of parts as that of the whole, which never falls: a part may be asked again."""

    reached: float = 0.0

    def news(self, before: float, share: float, news: Tick) -> Tick:
        self.reached = max(self.reached, before + share * news.fraction)
        return replace(news, share=self.reached)


def _queries(place: int, prompt: Prompt) -> Iterable[_Query]:
    """Yield a query for each box, with the points in it and the points in no box."""
    for box in prompt.boxes or (None,):
        others = [other for other in prompt.boxes if other != box]
        positive = [
            point
            for point in prompt.positive
            if box is None or is_inside(point, box) or not any(is_inside(point, o) for o in others)
        ]
        yield _Query(place, box, (*positive, *prompt.negative), len(positive))


def _batches(queries: Sequence[_Query]) -> Iterable[Sequence[_Query]]:
    """Yield batches of queries with as many points, and with or without boxes."""
    kinds: dict[tuple[bool, int], list[_Query]] = {}
    for query in queries:
        kinds.setdefault((query.box is None, len(query.points)), []).append(query)
    for same in kinds.values():
        yield from (same[start : start + _BATCH] for start in range(0, len(same), _BATCH))
