"""Segmentation with SAM: the image is encoded once, then prompted with boxes and points.

Everything in an image is found by segment-anything's own generator: a grid of points, filtered.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...base import progress_words as words
from ...base.errors import ConfigError
from ...base.progress import tell
from ...base.regions import Region
from ...engine.compute.compute_lock import computing
from ...engine.compute.devices import choose_device
from ...engine.compute.onednn_layers import forward_only
from ...images.plane_source import PlaneSource
from ..cleanup import CleanUp, clean_region
from .loading import load_sam
from .prompts import AutomaticConfig, FloatBox, Point, Prompt, is_inside
from .resizing import Candidate, SamInput, crop_map, resize_for_sam

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from segment_anything import SamAutomaticMaskGenerator
    from segment_anything.utils.amg import MaskData, batch_iterator, rle_to_mask
    from segment_anything.utils.transforms import ResizeLongestSide
    from torchvision.ops import nms

_CACHED: Final = 8  # embeddings of 4 MB
_BATCH: Final = 32
# Share of the work that is encoding an image, for the progress: with prompts, and with a grid.
_ENCODING: Final = 0.8
_ENCODING_OF_GRID: Final = 0.3


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


class _Query(NamedTuple):
    """One query of the decoder: an object, or a part of one; its first points are positive."""

    place: int
    box: FloatBox | None
    points: tuple[Point, ...]
    positive: int


class Segmenter:
    """A SAM model, with a cache of image embeddings."""

    def __init__(self, sam: Any, name: str) -> None:
        self.sam = sam
        self.name = name
        self._embeddings: OrderedDict[str, Tensor] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Segmenter {self.name} on {self.device}>"

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        device: torch.device = self.sam.device
        return device

    @property
    def side(self) -> int:
        """Pixels along the longer side of the model's input."""
        return int(self.sam.image_encoder.img_size)

    @computing()
    def segment(self, source: PlaneSource, prompts: Sequence[Prompt]) -> list[Segmented]:
        """Find candidate masks of objects."""
        view, features = self._encode(source, _ENCODING)
        answers: dict[int, list[tuple[Tensor, Tensor]]] = {}
        queries = [
            query for place, prompt in enumerate(prompts) for query in _queries(place, prompt)
        ]
        done = 0
        for batch in _batches(queries):
            share = _ENCODING + (1 - _ENCODING) * done / len(queries)
            tell(SegmentProgress(words.counted("Objects", done, len(queries)), share))
            maps, scores = self._decode(batch, view, features)
            for query, query_maps, query_scores in zip(batch, maps, scores, strict=True):
                answers.setdefault(query.place, []).append((query_maps, query_scores))
            done += len(batch)
        return [
            self._segmented(prompt, answers[place], view) for place, prompt in enumerate(prompts)
        ]

    def _encode(self, source: PlaneSource, share: float) -> tuple[SamInput, Tensor]:
        """Return the input of a plane and its embedding (1, c, h, w), cached if possible.

        ``share`` is the encoder's part of the whole work.
        """
        tell(SegmentProgress(words.READING_IMAGE, 0.0))
        view = resize_for_sam(source, self.side)
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
            tell(SegmentProgress(text, share * number / count))
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
        """Decode several queries at once; return their maps of logits and scores, on the CPU.

        Unlike `SamPredictor`, which enlarges each map to the plane and drops a mask of the four.
        """
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
        stages = (((self.side, self.side), view.size), (view.plane, view.plane))
        order = torch.argsort(scores, descending=True, stable=True).tolist()
        candidates = tuple(crop_map(float(scores[i]), maps[i].numpy(), stages) for i in order)
        return Segmented(id=prompt.id, text=prompt.text, candidates=candidates)

    @computing()
    def segment_everything(self, source: PlaneSource, config: AutomaticConfig) -> list[Segmented]:
        """Find masks of everything in a plane, without boxes and points.

        On planes larger than SAM's input, masks are found at the size of the input and enlarged.
        """
        view, features = self._encode(source, _ENCODING_OF_GRID)
        # Never finer than SAM's input: 48 maps of a large plane would not fit into memory.
        frame = view.plane if max(view.plane) <= max(view.size) else view.size
        generator = SamAutomaticMaskGenerator(
            self.sam,
            points_per_side=config.points_per_side,
            pred_iou_thresh=config.score,
            stability_score_thresh=config.stability,
            box_nms_thresh=config.overlap,
        )
        predictor = generator.predictor  # its image is one that is already encoded
        predictor.transform = _SinglePrecision(max(view.size))
        predictor.features, predictor.is_image_set = features, True
        predictor.input_size, predictor.original_size = view.size, frame
        whole = [0, 0, frame[1], frame[0]]
        points = generator.point_grids[0] * np.array(frame[::-1])
        data = MaskData()
        for number, (batch,) in enumerate(batch_iterator(config.batch, points)):
            done = number * config.batch
            share = _ENCODING_OF_GRID + (1 - _ENCODING_OF_GRID) * done / len(points)
            tell(SegmentProgress(words.counted("Point", done, len(points)), share))
            with forward_only():
                data.cat(generator._process_batch(batch, frame, whole, frame))
        data.filter(nms(data["boxes"].float(), data["iou_preds"], config.overlap))
        ratio = view.plane[0] * view.plane[1] / (frame[0] * frame[1])
        masks = []
        for rle, score in zip(data["rles"], data["iou_preds"].tolist(), strict=True):
            mask = rle_to_mask(rle)
            area = int(mask.sum())
            if area and area * ratio >= config.min_area:
                # The enlarged outline is half way between inside and outside.
                logits = np.where(mask, 1, -1).astype(np.float32)
                masks.append((area, crop_map(score, logits, [(view.plane, view.plane)])))
        masks.sort(key=lambda item: -item[0])
        return [
            Segmented(id=number, text="", candidates=(candidate,))
            for number, (_, candidate) in enumerate(masks, 1)
        ]


class _SinglePrecision(ResizeLongestSide):  # type: ignore[misc]
    """Point coordinates in a dtype that every device supports."""

    def apply_coords(self, coords: Any, original_size: tuple[int, ...]) -> Any:
        return super().apply_coords(coords, original_size).astype(np.float32)


def load_segmenter(path: str | Path, device: str = "auto") -> Segmenter:
    """Load a SAM checkpoint."""
    return Segmenter(load_sam(path, choose_device(device)), Path(path).name)


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
