"""Encodings and steps of the loop as CUDA graphs, for the next image like the last one.

A graph works on copies of the tensors that depend on the image. Those of the next image of the same
shape are copied there, and results are copied out: so a graph is recorded once for a shape, and no
image meets the numbers of another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import Tensor, nn

from ...base.progress import ENCODING, STEP, tell, tick
from ..compute.cuda_graphs import MOST_KEPT, SINCE, Recording, available, keep, recent, take
from ..encode.image_encoding import ImageEncoding, check_image, positions_of
from ..explain.legrad import LeGrad
from ..models.checkpoints import versions
from ..models.towers.base import ImageTower
from .loop import STATE, Descent, evaluate
from .loop import descend as descend_plainly

# Most numbers of p in a step: more (ViT-B/16: 27 masks at 448 px) keep a GPU busy anyway, and what
# a graph works on would take much memory between two inversions.
_MOST: Final = 1 << 24
# Most numbers of images' tokens: more (ViT-B/16: three images at 448 px) keep a GPU busy anyway.
_MOST_ENCODED: Final = 1 << 21
_FEWEST_STEPS: Final = 3  # the first one is other work, the second one warms up
_EVERYTHING: Final = slice(None)


def encode(
    tower: ImageTower,
    image: Tensor,
    layers: int,
    dtype: torch.dtype | None = None,
    images: int = 1,
) -> ImageEncoding:
    """Encode as `ImageTower.encode` does, by a graph from the third image like this one on."""
    grid = check_image(image, tower.patch_size, images)
    numbers = images * (math.prod(grid) + 1) * tower.weight.shape[0]
    # Other towers need autograd.
    suits = tower.several and numbers <= _MOST_ENCODED and available(image.device) and recent()
    if not suits:
        return tower.encode_checked(image, layers, dtype)
    key = image.shape, image.dtype, image.device, layers, dtype, versions(tower.visual)
    kept: _Encoding | None = take(tower.visual, ENCODING, key)
    if kept is None:
        encoding = tower.encode_checked(image, layers, dtype)
        if _size(encoding.tensors()) <= MOST_KEPT:
            weights = [*tower.visual.state_dict().values()]
            keep(tower.visual, ENCODING, key, _Encoding(weights))
        return encoding
    encoding = kept.encode(tower, image, layers, dtype)
    keep(tower.visual, ENCODING, key, kept)
    tick(ENCODING, tower.num_layers, tower.num_layers)
    return encoding


class _Encoding:
    """An encoding on memory of its own; recorded when the second image of its shape comes."""

    _image: Tensor
    _out: ImageEncoding

    def __init__(self, weights: list[Tensor]) -> None:
        self._held = weights  # which cannot be freed, so that nothing else takes their addresses
        self._recording: Recording | None = None

    def encode(
        self, tower: ImageTower, image: Tensor, layers: int, dtype: torch.dtype | None
    ) -> ImageEncoding:
        """Return the encoding of an image, on other memory."""
        if self._recording is not None:
            self._image.copy_(image)
            self._recording.repeat()
            return self._out.own()
        recording, own, done = Recording(image.device), image.clone(), list[ImageEncoding]()

        def work() -> ImageEncoding:
            return tower.encode_checked(own, layers, dtype, quiet=True)

        recording.first(lambda: done.append(work()))
        (encoding,) = done
        out = encoding.own()
        for tensor in out.tensors():
            tensor.zero_()  # else a graph that does nothing would agree
        kind = ENCODING, image.device, dtype
        recording.record(lambda: _copy(work().tensors(), out.tensors()), out.tensors(), kind)
        if recording.repeats:
            self._recording, self._image, self._out = recording, own, out
            self._held.append(positions_of(tower.visual, encoding.grid))
        return encoding


class _Step:
    """Steps of some masks, on memory of their own: done once, recorded, then repeated."""

    def __init__(self, exact: LeGrad, descent: Descent) -> None:
        self.exact, self.descent = exact.own(), descent
        self._recordings: dict[str, Recording] = {}

    @property
    def repeats(self) -> bool:
        """Whether steps were recorded."""
        return "move" in self._recordings and self._recordings["move"].repeats

    def load(self, exact: LeGrad, descent: Descent) -> None:
        """Copy the numbers of other masks, and of an image of the same size."""
        _copy(exact.tensors(), self.exact.tensors())
        self.descent.load(descent)

    def begin(self) -> None:
        """Find what follows from where the embeddings start."""
        if self.repeats:
            self._do("begin", self._evaluate)
        else:  # buffers grow until all masks have moved
            self._evaluate()

    def move(self) -> None:
        """Move the embeddings, and find what follows from where they are now."""
        self._do("move", self._move)

    def _do(self, name: str, work: Callable[[], None]) -> None:
        recording, own = self._recordings.get(name), self.descent
        if recording is None:
            recording = self._recordings[name] = Recording(own.maps.device)
            recording.first(work)
            state = [getattr(own, each) for each in STATE]
            kind = name, own.maps.device, own.config.precision, self.exact.route
            recording.record(work, state, kind)
        elif recording.repeats:
            recording.repeat()
        else:
            work()

    def _evaluate(self) -> None:
        evaluate(self.exact, self.descent, _EVERYTHING)

    def _move(self) -> None:
        self.descent.adam()
        self._evaluate()


def descend(model: nn.Module, exact: LeGrad, descent: Descent) -> str:
    """Take all steps as the plain loop does, by graphs if they pay; return how it was done.

    ``model`` is the image tower, with which the last step that was recorded is kept. Another thread
    may invert while one tells how far it is: a step is taken away as long as it is in use.
    """
    count, steps = len(descent.maps), descent.config.steps
    fits = count <= exact.group_size and count * exact.numbers_of_p <= _MOST
    pays = fits and steps >= _FEWEST_STEPS and available(descent.maps.device)
    constants = exact.tensors() if pays else []
    pays = pays and _size(constants) <= MOST_KEPT
    if not (pays and recent()):
        descend_plainly(exact, descent)
        return f"{exact.route}, no graph before PyTorch {SINCE}" if pays else exact.route
    shapes = tuple((tensor.shape, tensor.dtype, tensor.device) for tensor in constants)
    sizes, weights = descent.targets.input_size, tuple(map(id, exact.weights()))
    key = count, descent.config, exact.route, descent.targets.grid, sizes, shapes, weights
    step: _Step | None = take(model, STEP, key)
    if step is None:
        step = _Step(exact, descent)
    else:
        step.load(exact, descent)
    own = step.descent
    try:
        step.begin()
        tell(own.state())
        while own.step < steps:
            own.advance()
            step.move()
            tell(own.state())
    finally:
        if step.repeats:
            keep(model, STEP, key, step)
    if own is not descent:
        descent.load(own)
    return ", ".join([exact.route, *(["graph"] if step.repeats else [])])


def _size(tensors: Sequence[Tensor]) -> int:
    return sum(tensor.numel() for tensor in tensors)


def _copy(sources: Sequence[Tensor], targets: Sequence[Tensor]) -> None:
    for source, target in zip(sources, targets, strict=True):
        target.copy_(source)
