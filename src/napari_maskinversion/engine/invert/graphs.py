"""Encodings and steps of the loop as CUDA graphs, for the next image like the last one.

A graph works on copies of the tensors that depend on the image. Those of the next image of the same
shape are copied there, and results are copied out: so a graph is recorded once for a shape, and no
image meets the numbers of another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import Tensor, nn

from ...base.progress import ENCODING, STEP, tell, tick
from ..compute import cuda_graphs
from ..compute.cuda_graphs import Recording
from ..compute.trial import fitting
from ..encode.image_encoding import ImageEncoding, memory_of, positions_of
from ..explain.legrad import LeGrad
from ..models.checkpoints import versions
from ..models.towers.base import ImageTower
from .loop import STATE, Descent, evaluate
from .loop import descend as descend_plainly
from .map_builder import MapBuilder

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
    dtype: torch.dtype | None,
    memory_bytes: int,
    images: int = 1,
) -> ImageEncoding:
    """Encode as `ImageTower.encode` does, by a graph from the third image like this one on.

    ``memory_bytes`` is the memory for inversions, of which copies take a part.
    """
    tokens = tower.check_image(image, images).tokens + 1
    numbers = images * tokens * tower.weight.shape[0]
    visual = tower.visual
    # Other towers need autograd.
    able = (
        cuda_graphs.available(visual, image.device) and tower.several and numbers <= _MOST_ENCODED
    )
    if not (able and cuda_graphs.recent()):
        return tower.encode_checked(image, layers, dtype)
    of_weights = versions(visual), memory_of([*visual.parameters(), *visual.buffers()])
    key = image.shape, image.dtype, image.device, layers, dtype, of_weights
    kept: _Encoding | None = cuda_graphs.take(visual, ENCODING, key, image.device)
    if kept is None:
        encoding = None
    else:
        encoding = kept.encode(tower, image, layers, dtype)
    plain = encoding is None
    if encoding is None:
        kept = _Encoding()  # without the memory of the last one
        encoding = tower.encode_checked(image, layers, dtype)
    if cuda_graphs.fits(encoding.tensors(), memory_bytes):
        cuda_graphs.keep(visual, ENCODING, key, kept, image.device)
    if not plain:
        tick(ENCODING, tower.num_layers, tower.num_layers)
    return encoding


class _Encoding:
    """An encoding on memory of its own; recorded when the second image of its shape comes."""

    _image: Tensor
    _out: ImageEncoding
    _positions: Tensor  # which are held, so that they stay where they are

    def __init__(self) -> None:
        self._recording: Recording | None = None

    def encode(
        self, tower: ImageTower, image: Tensor, layers: int, dtype: torch.dtype | None
    ) -> ImageEncoding | None:
        """Return the encoding of an image, on other memory; None if that has run out."""
        if self._recording is None:
            return fitting(lambda: self._record(tower, image.clone(), layers, dtype))
        self._image.copy_(image)
        self._recording.repeat()
        return fitting(self._out.own)

    def _record(
        self, tower: ImageTower, image: Tensor, layers: int, dtype: torch.dtype | None
    ) -> ImageEncoding:
        recording = Recording(image.device)
        done = list[ImageEncoding]()

        def work() -> ImageEncoding:
            return tower.encode_checked(image, layers, dtype, quiet=True)

        recording.first(lambda: done.append(work()))
        (encoding,) = done
        out = fitting(encoding.own)
        if out is None:
            return encoding
        for tensor in out.tensors():
            tensor.zero_()  # else a graph that does nothing would agree
        kind = ENCODING, image.device, dtype
        recording.record(lambda: _copy(work().tensors(), out.tensors()), out.tensors(), kind)
        if recording.repeats:
            self._recording = recording
            self._image = image
            self._out = out
            self._positions = positions_of(tower.visual, encoding.grid)
        return encoding


class _Step:
    """Steps of some masks, on memory of their own: done once, recorded, then repeated."""

    def __init__(self, exact: LeGrad, descent: Descent) -> None:
        self.exact = exact.own()
        self.descent = descent
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
        recording = self._recordings.get(name)
        descent = self.descent
        if recording is None:
            recording = self._recordings[name] = Recording(descent.maps.device)
            recording.first(work)
            state = [getattr(descent, each) for each in STATE]
            kind = name, descent.maps.device, descent.config.precision, self.exact.route
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


def descend(model: nn.Module, maps: MapBuilder, count: int, descent: Descent) -> str:
    """Take all steps as the plain loop does, by graphs if they pay; return how it was done.

    ``model`` is the image tower, with which the last step that was recorded is kept; ``count`` is
    the number of masks that are planned. Another thread may invert while one tells how far it is: a
    step is taken away as long as it is in use.
    """
    exact = maps.exact(descent.config, count)
    masks = len(descent.maps)
    steps = descent.config.steps
    device = descent.maps.device
    few = masks <= exact.group_size and masks * exact.numbers_of_p <= _MOST
    pays = cuda_graphs.available(model, device) and few and steps >= _FEWEST_STEPS
    constants = []
    if pays:
        constants = exact.tensors()
    pays = pays and cuda_graphs.fits(constants, maps.memory_bytes)
    if not (pays and cuda_graphs.recent()):
        descend_plainly(exact, descent)
        if pays:
            return f"{exact.route}, no graph before PyTorch {cuda_graphs.SINCE}"
        return exact.route
    shapes = tuple((tensor.shape, tensor.dtype, tensor.device) for tensor in constants)
    sizes = descent.targets.input_size
    weights = tuple(map(id, exact.weights()))
    key = masks, descent.config, exact.route, descent.targets.grid, sizes, shapes, weights
    step: _Step | None = cuda_graphs.take(model, STEP, key, device)
    if step is not None:
        step.load(exact, descent)
    else:
        step = fitting(lambda: _Step(exact, descent))
    if step is None:
        descend_plainly(exact, descent)
    else:
        _descend_by(step, descent, lambda: cuda_graphs.keep(model, STEP, key, step, device))
    if step is not None and step.repeats:
        return f"{exact.route}, graph"
    if cuda_graphs.GRAPHS.works:
        return f"{exact.route}, no memory for a graph"
    return exact.route


def _descend_by(step: _Step, descent: Descent, keep_it: Callable[[], None]) -> None:
    graph_descent = step.descent
    steps = descent.config.steps
    try:
        step.begin()
        tell(graph_descent.state())
        while graph_descent.step < steps:
            graph_descent.advance()
            step.move()
            tell(graph_descent.state())
        if graph_descent is not descent:
            descent.load(graph_descent)
    finally:
        if step.repeats:
            keep_it()


def _copy(sources: Sequence[Tensor], targets: Sequence[Tensor]) -> None:
    for source, target in zip(sources, targets, strict=True):
        target.copy_(source)
