"""Segmentation with SAM: the image is encoded once, then prompted with boxes and points."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from ...base import progress_words as words
from ...base.errors import ConfigError
from ...base.regions import Region
from ...engine.compute.compute_lock import locked_steps
from ...engine.compute.devices import choose_device
from ...engine.compute.onednn_layers import forward_only
from ...images.plane_source import PlaneSource
from ..masks.cleanup import CleanUp, clean_region
from .candidates import Candidate, crop_map
from .loading import Architecture, load_sam
from .prompts import FloatBox, Point, Prompt
from .sam_input import SamInput, resize_for_sam

# An embedding takes 4 MB.
_CACHED: Final = 8
_BATCH: Final = 32
# Share of the work that is encoding an image, for the progress.
_ENCODING: Final = 0.8


@dataclass(frozen=True, slots=True)
class SegmentProgress:
    """Progress: one line of text, and the share of the work that is done (0..1)."""

    text: str
    fraction: float


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Segmented:
    """An object and its candidate masks."""

    id: int
    text: str  # Its prompt in words: "box, 1 point"
    candidates: tuple[Candidate, ...]  # The one with the highest score first

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
        return clean_region(region, chosen.stages[-1][1], cleanup)


@dataclass(frozen=True, slots=True, eq=False)
class _Query:
    """One query of the decoder: an object, or a part of one."""

    place: int
    box: FloatBox | None
    points: tuple[Point, ...]
    labels: tuple[int, ...]

    @property
    def kind(self) -> tuple[bool, int]:
        """Queries of the same kind can be batched."""
        return self.box is not None, len(self.points)


class Segmenter:
    """A SAM model, with a cache of image embeddings."""

    def __init__(self, sam: Any, architecture: Architecture, name: str) -> None:
        self.sam = sam
        self.architecture = architecture
        self.name = name
        self._embeddings: OrderedDict[str, Tensor] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Segmenter {self.name} ({self.architecture.name}) on {self.device}>"

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        device: torch.device = self.sam.device
        return device

    def segment(
        self, source: PlaneSource, prompts: Sequence[Prompt]
    ) -> Generator[SegmentProgress, None, list[Segmented]]:
        """Find candidate masks of objects. A generator; close it to stop."""
        return (yield from locked_steps(self._segment(source, prompts)))

    def _segment(
        self, source: PlaneSource, prompts: Sequence[Prompt]
    ) -> Generator[SegmentProgress, None, list[Segmented]]:
        view, features = yield from self.encode(source)
        answers: dict[int, list[tuple[Tensor, Tensor]]] = {}
        queries = [
            query for place, prompt in enumerate(prompts) for query in _queries(place, prompt)
        ]
        done = 0
        for batch in _batches(queries):
            share = _ENCODING + (1 - _ENCODING) * done / len(queries)
            yield SegmentProgress(words.counted("Objects", done, len(queries)), share)
            maps, scores = self._decode(batch, view, features)
            for query, query_maps, query_scores in zip(batch, maps, scores, strict=True):
                answers.setdefault(query.place, []).append((query_maps, query_scores))
            done += len(batch)
        return [
            self._segmented(prompt, answers[place], view) for place, prompt in enumerate(prompts)
        ]

    def encode(
        self, source: PlaneSource, share: float = _ENCODING
    ) -> Generator[SegmentProgress, None, tuple[SamInput, Tensor]]:
        """Return the input of a plane and its embedding (1, c, h, w), cached if possible.

        Yields between the blocks of the image encoder; ``share`` is its part of the whole work.
        """
        yield SegmentProgress(words.READING_IMAGE, 0.0)
        view = resize_for_sam(source, self.architecture.side)
        if view.key in self._embeddings:
            self._embeddings.move_to_end(view.key)
            return view, self._embeddings[view.key]
        encoder = self.sam.image_encoder
        with torch.no_grad():
            pixels = torch.from_numpy(view.pixels.copy()).to(self.device)
            tokens = encoder.patch_embed(self.sam.preprocess(pixels.permute(2, 0, 1)[None].float()))
            tokens = tokens + encoder.pos_embed
        count = len(encoder.blocks)
        for number, block in enumerate(encoder.blocks):
            text = words.encoding(number + 1, count)
            yield SegmentProgress(text, share * number / count)
            with forward_only(self.device):
                tokens = block(tokens)
        with torch.no_grad():
            features = encoder.neck(tokens.permute(0, 3, 1, 2))
        self._embeddings[view.key] = features
        while len(self._embeddings) > _CACHED:
            self._embeddings.popitem(last=False)
        return view, features

    def _decode(
        self, batch: Sequence[_Query], view: SamInput, features: Tensor
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Decode several queries at once; return their maps of logits and scores, on the CPU."""
        down, across = view.scale
        points = boxes = None
        if batch[0].points:
            coordinates = [[(x * across, y * down) for y, x in query.points] for query in batch]
            points = (
                torch.tensor(coordinates, dtype=torch.float32, device=self.device),
                torch.tensor([query.labels for query in batch], device=self.device),
            )
        if batch[0].box is not None:
            corners = [
                (x0 * across, y0 * down, x1 * across, y1 * down)
                for y0, x0, y1, x1 in (query.box for query in batch if query.box is not None)
            ]
            boxes = torch.tensor(corners, dtype=torch.float32, device=self.device)
        with forward_only(self.device):
            sparse, dense = self.sam.prompt_encoder(points=points, boxes=boxes, masks=None)
            maps, scores = self.sam.mask_decoder.predict_masks(
                image_embeddings=features,
                image_pe=self.sam.prompt_encoder.get_dense_pe(),
                sparse_prompt_embeddings=sparse,
                dense_prompt_embeddings=dense,
            )
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
        side = self.architecture.side
        stages = (((side, side), view.size), (view.plane, view.plane))
        order = torch.argsort(scores, descending=True, stable=True).tolist()
        candidates = tuple(crop_map(float(scores[i]), maps[i].numpy(), stages) for i in order)
        return Segmented(id=prompt.id, text=prompt.text, candidates=candidates)


def load_segmenter(path: str | Path, device: str = "auto") -> Segmenter:
    """Load a SAM checkpoint."""
    sam, architecture = load_sam(path, choose_device(device))
    return Segmenter(sam, architecture, Path(path).name)


def _queries(place: int, prompt: Prompt) -> Iterable[_Query]:
    """Yield a query for each box, with the points in it and the points in no box."""
    for box in prompt.boxes or (None,):
        others = [other for other in prompt.boxes if other != box]
        positive = [
            point
            for point in prompt.positive
            if box is None or _inside(point, box) or not any(_inside(point, o) for o in others)
        ]
        yield _Query(
            place,
            box,
            (*positive, *prompt.negative),
            (1,) * len(positive) + (0,) * len(prompt.negative),
        )


def _inside(point: Point, box: FloatBox) -> bool:
    return box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3]


def _batches(queries: Sequence[_Query]) -> Iterable[list[_Query]]:
    """Yield batches of queries of the same kind."""
    kinds: dict[tuple[bool, int], list[_Query]] = {}
    for query in queries:
        kinds.setdefault(query.kind, []).append(query)
    for same in kinds.values():
        for start in range(0, len(same), _BATCH):
            yield same[start : start + _BATCH]
