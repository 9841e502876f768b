"""SAM at work: an image encoded once, then as many boxes and points as one likes."""

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
from .image_view import Sight, see
from .loading import Architecture, load_sam
from .prompts import FloatBox, Point, Prompt

# A plane's embedding takes 4 MB.
_KEPT: Final = 8
_BATCH: Final = 32
# Share of the work that encoding an image is, for the progress.
_ENCODING: Final = 0.8


@dataclass(frozen=True, slots=True)
class SegmentProgress:
    """Where the work is: one line for people, and the share that is done (0..1)."""

    text: str
    fraction: float


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Segmented:
    """An object and the masks that it may have.

    Parameters
    ----------
    id : int
    text : str
        What was said about it: "box, 1 point".
    candidates : tuple of Candidate
        The one with the highest score first.
    """

    id: int
    text: str
    candidates: tuple[Candidate, ...]

    @property
    def scores(self) -> tuple[float, ...]:
        """Of the candidates."""
        return tuple(candidate.score for candidate in self.candidates)

    def region(self, index: int = 0, cleanup: CleanUp | None = None) -> Region | None:
        """Make the mask of a candidate; None if nothing of it is left.

        Parameters
        ----------
        index : int
            Which one; 0 is the best, and one that is not there is the last.
        cleanup : CleanUp, optional
        """
        if index < 0:
            raise ConfigError(f"Candidates are counted from 0; got {index}.")
        chosen = self.candidates[min(index, len(self.candidates) - 1)]
        region = chosen.region(self.id)
        if region is None or cleanup is None:
            return region
        return clean_region(region, chosen.stages[-1][1], cleanup)


@dataclass(frozen=True, slots=True, eq=False)
class _Ask:
    """One question to the decoder: an object, or a part of one."""

    place: int
    box: FloatBox | None
    points: tuple[Point, ...]
    labels: tuple[int, ...]

    @property
    def kind(self) -> tuple[bool, int]:
        """What may be asked together."""
        return self.box is not None, len(self.points)


class Segmenter:
    """A SAM, and what it has seen.

    Parameters
    ----------
    sam : segment_anything.modeling.Sam
        In evaluation mode.
    architecture : Architecture
    name : str
        For records: the file's name.
    """

    def __init__(self, sam: Any, architecture: Architecture, name: str) -> None:
        self.sam = sam
        self.architecture = architecture
        self.name = name
        self._seen: OrderedDict[str, Tensor] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Segmenter {self.name} ({self.architecture.name}) on {self.device}>"

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        device: torch.device = self.sam.device
        return device

    def segment(
        self, source: PlaneSource, prompts: Sequence[Prompt]
    ) -> Generator[SegmentProgress, None, list[Segmented]]:
        """Find the masks that objects may have; stop asking to stop the work.

        Parameters
        ----------
        source : PlaneSource
        prompts : sequence of Prompt
            As `gather` gives them.

        Yields
        ------
        SegmentProgress

        Returns
        -------
        list of Segmented
            In the order of the prompts.
        """
        return (yield from locked_steps(self._segment(source, prompts)))

    def _segment(
        self, source: PlaneSource, prompts: Sequence[Prompt]
    ) -> Generator[SegmentProgress, None, list[Segmented]]:
        sight, features = yield from self.encode(source)
        found: dict[int, list[tuple[Tensor, Tensor]]] = {}
        asks = [ask for place, prompt in enumerate(prompts) for ask in _asks(place, prompt)]
        done = 0
        for batch in _batches(asks):
            share = _ENCODING + (1 - _ENCODING) * done / len(asks)
            yield SegmentProgress(words.counted("Objects", done, len(asks)), share)
            maps, scores = self._decode(batch, sight, features)
            for ask, own_maps, own_scores in zip(batch, maps, scores, strict=True):
                found.setdefault(ask.place, []).append((own_maps, own_scores))
            done += len(batch)
        return [
            self._segmented(prompt, found[place], sight) for place, prompt in enumerate(prompts)
        ]

    def encode(
        self, source: PlaneSource, share: float = _ENCODING
    ) -> Generator[SegmentProgress, None, tuple[Sight, Tensor]]:
        """Give what is seen of a plane and its embedding (1, c, h, w); from memory if it is known.

        Yields between the blocks of the image encoder; ``share`` of the whole work is this.
        """
        yield SegmentProgress(words.READING_IMAGE, 0.0)
        sight = see(source, self.architecture.side)
        if sight.key in self._seen:
            self._seen.move_to_end(sight.key)
            return sight, self._seen[sight.key]
        encoder = self.sam.image_encoder
        with torch.no_grad():
            pixels = torch.from_numpy(sight.pixels.copy()).to(self.device)
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
        self._seen[sight.key] = features
        while len(self._seen) > _KEPT:
            self._seen.popitem(last=False)
        return sight, features

    def _decode(
        self, batch: Sequence[_Ask], sight: Sight, features: Tensor
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Ask for several objects at once; maps of logits and scores of each, on the CPU."""
        down, across = sight.scale
        points = boxes = None
        if batch[0].points:
            coordinates = [[(x * across, y * down) for y, x in ask.points] for ask in batch]
            points = (
                torch.tensor(coordinates, dtype=torch.float32, device=self.device),
                torch.tensor([ask.labels for ask in batch], device=self.device),
            )
        if batch[0].box is not None:
            corners = [
                (x0 * across, y0 * down, x1 * across, y1 * down)
                for y0, x0, y1, x1 in (ask.box for ask in batch if ask.box is not None)
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
        # The first mask is meant for prompts that leave no doubt, and not for a single point.
        doubtful = batch[0].box is None and len(batch[0].points) == 1
        first = 1 if doubtful and maps.shape[1] > 1 else 0
        return list(maps[:, first:].cpu()), list(scores[:, first:].cpu())

    def _segmented(
        self, prompt: Prompt, parts: list[tuple[Tensor, Tensor]], sight: Sight
    ) -> Segmented:
        # Parts of one object: a pixel of any of them is one of the object.
        maps = torch.stack([maps for maps, _ in parts]).amax(0)
        scores = torch.stack([scores for _, scores in parts]).mean(0)
        side = self.architecture.side
        stages = (((side, side), sight.size), (sight.plane, sight.plane))
        order = torch.argsort(scores, descending=True, stable=True).tolist()
        candidates = tuple(crop_map(float(scores[i]), maps[i].numpy(), stages) for i in order)
        return Segmented(id=prompt.id, text=prompt.text, candidates=candidates)


def load_segmenter(path: str | Path, device: str = "auto") -> Segmenter:
    """Load a checkpoint of SAM.

    Parameters
    ----------
    path : str or Path
        As published, or safetensors with the same names.
    device : str
        "auto", "cpu", "cuda", "cuda:1", "mps".

    Raises
    ------
    ModelError
        If the file cannot be used, or the device is not there.
    """
    sam, architecture = load_sam(path, choose_device(device))
    return Segmenter(sam, architecture, Path(path).name)


def finish(work: Generator[Any, None, list[Segmented]]) -> list[Segmented]:
    """Run work to its end without looking at its progress."""
    while True:
        try:
            next(work)
        except StopIteration as stop:
            result: list[Segmented] = stop.value
            return result


def _asks(place: int, prompt: Prompt) -> Iterable[_Ask]:
    """Ask for each box of an object with the points in it; for points in none, with every box."""
    for box in prompt.boxes or (None,):
        others = [other for other in prompt.boxes if other != box]
        own = [
            point
            for point in prompt.positive
            if box is None or _inside(point, box) or not any(_inside(point, o) for o in others)
        ]
        yield _Ask(
            place,
            box,
            (*own, *prompt.negative),
            (1,) * len(own) + (0,) * len(prompt.negative),
        )


def _inside(point: Point, box: FloatBox) -> bool:
    return box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3]


def _batches(asks: Sequence[_Ask]) -> Iterable[list[_Ask]]:
    """Put together what has as many points, and a box or none."""
    kinds: dict[tuple[bool, int], list[_Ask]] = {}
    for ask in asks:
        kinds.setdefault(ask.kind, []).append(ask)
    for same in kinds.values():
        for start in range(0, len(same), _BATCH):
            yield same[start : start + _BATCH]
