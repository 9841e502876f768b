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
from .parts import Sighting, all_parts, crop_around, distinct, is_cut, part_of, to_crop
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

    def to_plane(self, tile: Box, shape: Size) -> Segmented:
        """Return the answer of a tile of a plane as one of the plane."""
        candidates = tuple(replace(candidate, corner=tile[:2]) for candidate in self.candidates)
        return replace(self, candidates=candidates, shape=shape)

    def without_cut_candidates(self, tile: Box) -> Segmented:
        """Leave out the candidates that are cut by their tile."""
        if tile == (0, 0, *self.shape):
            return self
        whole = []
        for candidate in self.candidates:
            if not is_cut(candidate.region(0), tile, self.shape):
                whole.append(candidate)
        return replace(self, candidates=tuple(whole))


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
        """Find candidate masks of objects; on a large plane in tiles of it, unless ``whole``.

        A mask that touches the edge of its tile may be cut off, so its prompt is tried again in a
        tile twice as large.
        """
        source.check()
        segmented: dict[int, Segmented] = {}
        progress = _MonotonicProgress()
        tile_side = max(source.shape) if whole else self.side
        pending = list(range(len(prompts)))
        # The last tile is the whole plane, which cuts nothing off.
        while pending:
            tiles: dict[Box, list[int]] = {}
            for index in pending:
                tile = crop_around(prompts[index], source.shape, tile_side)
                tiles.setdefault(tile, []).append(index)
            for number, (tile, indices) in enumerate(tiles.items()):
                done = len(segmented) / len(prompts)
                # What prompts of this tile have to be tried again is not known yet.
                share = (1 - done) / (len(tiles) - number)
                with telling(partial(progress.reported, done, share)):
                    answers = self._segment_tile(source, tile, [prompts[i] for i in indices])
                for index, answer in zip(indices, answers, strict=True):
                    if not is_cut(answer.region(), tile, source.shape):
                        segmented[index] = answer.without_cut_candidates(tile)
            pending = [index for index in pending if index not in segmented]
            tile_side *= 2
        return [segmented[index] for index in range(len(prompts))]

    def _segment_tile(
        self, source: PlaneSource, tile: Box, prompts: Sequence[Prompt]
    ) -> list[Segmented]:
        """Return the answers to prompts of the plane that lie in one tile."""
        tile_prompts = [to_crop(prompt, tile) for prompt in prompts]
        answers = self._answers(part_of(source, tile), tile_prompts)
        return [answer.to_plane(tile, source.shape) for answer in answers]

    def _answers(self, source: PlaneSource, prompts: Sequence[Prompt]) -> list[Segmented]:
        view, features = self._encode(source, _ENCODING)
        answers: dict[int, list[tuple[Tensor, Tensor]]] = {}
        queries: list[_Query] = []
        for place, prompt in enumerate(prompts):
            queries.extend(_queries(place, prompt))
        done = 0
        for batch in _batches(queries):
            share = _ENCODING + (1 - _ENCODING) * done / len(queries)
            tell(Tick("Objects", done, len(queries), share=share))
            maps, scores = self._decode(batch, view, features)
            for query, query_maps, query_scores in zip(batch, maps, scores, strict=True):
                answers.setdefault(query.place, []).append((query_maps, query_scores))
            done += len(batch)
        segmented = []
        for place, prompt in enumerate(prompts):
            segmented.append(self._segmented(prompt, answers[place], view))
        return segmented

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
            coordinates = []
            labels = []
            for query in batch:
                coordinates.append([(x * across, y * down) for y, x in query.points])
                labels.append(np.arange(len(query.points)) < query.positive)
            points = (
                torch.tensor(coordinates, dtype=torch.float32, device=self.device),
                torch.tensor(np.array(labels), device=self.device).int(),
            )
        if batch[0].box is not None:
            corners = []
            for query in batch:
                if query.box is not None:
                    y0, x0, y1, x1 = query.box
                    corners.append((x0 * across, y0 * down, x1 * across, y1 * down))
            boxes = torch.tensor(corners, dtype=torch.float32, device=self.device)
        maps, scores = self.decode(features, points, boxes)
        # The first mask is for unambiguous prompts, so not for a single point.
        ambiguous = batch[0].box is None and len(batch[0].points) == 1
        first = 0
        if ambiguous and maps.shape[1] > 1:
            first = 1
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
        return merge_tiles(source, self.side, look, whole=config.whole)

    def _everything_in(self, config: AutomaticConfig, source: PlaneSource) -> list[Segmented]:
        view, features = self._encode(source, _ENCODING_OF_GRID)
        # Never finer than SAM's input: 48 maps of a large plane would not fit into memory.
        if max(view.plane) <= self.side:
            frame = view.plane
        else:
            frame = fitted(view.plane, self.side)
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
        boxes: list[tuple[float, float, float, float]] = []
        for region, _ in seen:
            top, left, bottom, right = region.bbox
            boxes.append((left, top, right - 1.0, bottom - 1.0))
        sure = torch.tensor([score for _, score in seen])
        kept = nms(torch.tensor(boxes).reshape(-1, 4), sure, config.overlap)
        ratio = view.plane[0] * view.plane[1] / (frame[0] * frame[1])
        segmented = []
        for place in kept.tolist():
            region, score = seen[place]
            if region.area * ratio >= config.min_area:
                # The enlarged outline is half way between inside and outside.
                y0, x0, y1, x1 = region.bbox
                logits = np.full(frame, -1, np.float32)
                logits[y0:y1, x0:x1][region.mask] = 1
                candidate = crop_map(score, logits, ((view.plane, view.plane),))
                segmented.append(
                    Segmented(id=0, text="", candidates=(candidate,), shape=view.plane)
                )
        return segmented


def _sure(
    maps: Tensor, scores: Tensor, stages: Stages, config: AutomaticConfig
) -> Iterable[tuple[Region, float]]:
    """Yield the masks of maps (B, n, h, w) with sure scores and outlines, enlarged by stages."""
    for size, used in stages:
        maps = interpolate(maps, size, mode="bilinear", align_corners=False)
        maps = maps[..., : used[0], : used[1]]
    if config.score:
        sure = scores > config.score
        maps = maps[sure]
        scores = scores[sure]
    else:
        maps = maps.flatten(0, 1)
        scores = scores.flatten()
    stable = ~(calculate_stability_score(maps, 0.0, 1.0) < config.stability)
    masks = (maps[stable] > 0).cpu().numpy()
    for mask, score in zip(masks, scores[stable].tolist(), strict=True):
        region = Region.from_mask(0, mask)
        if region is not None:
            yield region, score


def merge_tiles(
    source: PlaneSource,
    side: int,
    look: Callable[[PlaneSource], list[Segmented]],
    *,
    whole: bool,
) -> list[Segmented]:
    """Return what is seen in a plane and its tiles, largest first; numbered from 1."""
    shape = source.shape
    tiles: list[Box] = [(0, 0, *shape)]
    if not whole:
        tiles = list(all_parts(shape, side))
    sightings = []
    areas: dict[int, float] = {}  # by the identity of an answer
    progress = _MonotonicProgress()
    for number, tile in enumerate(tiles):
        with telling(partial(progress.reported, number / len(tiles), 1 / len(tiles))):
            answers = look(part_of(source, tile))
        for answer in answers:
            answer_of_plane = answer.to_plane(tile, shape)
            region = answer_of_plane.region()
            # What a tile cuts off, a neighbour or a larger tile shows whole.
            if region is not None and not is_cut(region, tile, shape):
                sightings.append(Sighting(answer.scores[0], tile, region, answer_of_plane))
                areas[id(answer_of_plane)] = region.area
    # Of answers with the same area, the one with the higher score comes first.
    kept = sorted(distinct(sightings), key=lambda answer: -areas[id(answer)])
    return [replace(answer, id=number) for number, answer in enumerate(kept, 1)]


@dataclass(slots=True)
class _MonotonicProgress:
    """Progress of tiles as that of the whole, which never falls: a prompt may be tried again."""

    reached: float = 0.0

    def reported(self, before: float, share: float, tick_of_tile: Tick) -> Tick:
        """Return the progress of a tile as that of the whole."""
        self.reached = max(self.reached, before + share * tick_of_tile.fraction)
        return replace(tick_of_tile, share=self.reached)


def _queries(place: int, prompt: Prompt) -> Iterable[_Query]:
    """Yield a query for each box, with the points in it and the points in no box."""
    for box in prompt.boxes or (None,):
        other_boxes = [other for other in prompt.boxes if other != box]
        positive = []
        for point in prompt.positive:
            in_no_other_box = not any(is_inside(point, other) for other in other_boxes)
            if box is None or is_inside(point, box) or in_no_other_box:
                positive.append(point)
        yield _Query(place, box, (*positive, *prompt.negative), len(positive))


def _batches(queries: Sequence[_Query]) -> Iterable[Sequence[_Query]]:
    """Yield batches of queries with as many points, and with or without boxes."""
    kinds: dict[tuple[bool, int], list[_Query]] = {}
    for query in queries:
        kinds.setdefault((query.box is None, len(query.points)), []).append(query)
    for same in kinds.values():
        for start in range(0, len(same), _BATCH):
            yield same[start : start + _BATCH]
