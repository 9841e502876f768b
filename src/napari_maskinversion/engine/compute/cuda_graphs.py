"""CUDA graphs: work on a GPU that is recorded once and repeated, so that nothing waits for Python.

With few masks, and while an image is encoded, a GPU is asked for some hundred small kernels, and
starting each takes longer than computing it. A graph starts all of them at once. It repeats work on
the same memory, so who records keeps that memory, and copies the numbers of the next call there.
The rules of recording (https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs): nothing
waits for the device, shapes are those of the recorded work, and each time is the same work.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import Any, Final
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from .trial import Trial, fitting

SINCE: Final = "2.14"  # of PyTorch: before, a recording that failed left its allocator recording
MOST_KEPT: Final = 1 << 28  # bytes of images that recorded work keeps a copy of
_SHARE: Final = 8  # of the memory for inversions, at most, for each copy
_LIKE: Final = 0.01  # largest relative difference of recorded work: products may be others

GRAPHS: Final = Trial(
    "CUDA graphs",
    "work is started one kernel at a time until the program ends, which takes longer with few "
    "masks",
)
_tried: set[Hashable] = set()  # kinds of work
# Of each model, the last recorded work of each sort, with what it was recorded for.
_kept: WeakKeyDictionary[nn.Module, dict[str, tuple[object, Any]]] = WeakKeyDictionary()


def available(model: nn.Module, device: torch.device) -> bool:
    """Return whether a device has graphs that work, as far as is known.

    What a model recorded on a device that it has left for one without graphs is dropped.
    """
    suits = CudaGraph.suits(device)
    if not suits:
        forget(model)
    return suits and GRAPHS.works


def recent() -> bool:
    """Return whether this PyTorch can record."""
    return torch.__version__ >= SINCE


def fits(tensors: Sequence[Tensor], memory_bytes: int) -> bool:
    """Return whether a copy of tensors may be kept, with so much memory for inversions."""
    size = sum(tensor.nbytes for tensor in tensors)
    return size <= min(MOST_KEPT, memory_bytes // _SHARE)


def take(model: nn.Module, sort: str, key: object, device: torch.device) -> Any:
    """Take away the recorded work of a model, if there is some for this; else that is dropped.

    Another thread may want it too: who finds none records its own.
    """
    recorded_for, work = _kept.get(model, {}).pop(sort, (None, None))
    if recorded_for != key:
        return None
    CudaGraph.meet(device)
    return work


def keep(model: nn.Module, sort: str, key: object, work: Any, device: torch.device) -> None:
    """Keep recorded work, which must not hold the model, for the next call."""
    CudaGraph.meet(device)
    _kept.setdefault(model, {})[sort] = key, work


def forget(model: Any) -> None:
    """Drop the recorded work of a model, with its memory."""
    _kept.pop(model, None)


class Recording:
    """Work on memory of its own: done once plainly, recorded, then repeated."""

    def __init__(self, device: torch.device) -> None:
        self._graph = fitting(lambda: GRAPHS.attempt(lambda: CudaGraph(device)))
        self.repeats = False  # whether it was recorded

    def first(self, work: Callable[[], object]) -> None:
        """Do plainly what will be recorded, where it will be."""
        if self._graph is None:
            work()
        else:
            self._graph.aside(work)

    def record(self, work: Callable[[], object], state: Sequence[Tensor], kind: Hashable) -> None:
        """Record work, unless that fails; ``state`` is what it changes, and stays as it is.

        The first of its kind is compared with plain work.
        """
        graph = self._graph
        if graph is not None:
            recorded = fitting(lambda: GRAPHS.attempt(lambda: _recorded(graph, work, state, kind)))
            self.repeats = recorded is not None

    def repeat(self) -> None:
        """Do the recorded work again."""
        assert self._graph is not None
        self._graph.repeat()


def _recorded(
    graph: CudaGraph, work: Callable[[], object], state: Sequence[Tensor], kind: Hashable
) -> CudaGraph:
    graph.record(work)
    if kind not in _tried:
        before = [tensor.clone() for tensor in state]
        outcomes = []
        for way in (graph.repeat, work):
            way()
            outcomes.append([tensor.clone() for tensor in state])
            for tensor, old in zip(state, before, strict=True):
                tensor.copy_(old)
        for recorded, plain in zip(*outcomes, strict=True):
            if not (recorded - plain).norm() <= _LIKE * plain.norm():
                if not plain.isfinite().all():  # whoever uses it refuses the model
                    return graph
                raise ArithmeticError("recorded and plain work disagree")
        _tried.add(kind)
    return graph


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """Return where graphs are recorded; cuBLAS keeps some memory for each stream."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


class CudaGraph:
    """A graph of PyTorch."""

    def __init__(self, device: torch.device) -> None:
        self._graph = torch.cuda.CUDAGraph()
        self._stream = _stream(device)

    @staticmethod
    def suits(device: torch.device) -> bool:
        """Return whether a device has graphs."""
        return device.type == "cuda" and torch.version.cuda is not None

    @staticmethod
    def meet(device: torch.device) -> None:
        """Let graphs and what this thread asks the device for wait for what is before them.

        What a graph works on may have been copied by another thread, on another stream.
        """
        current = torch.cuda.current_stream(device)
        recording_stream = _stream(device)
        current.wait_stream(recording_stream)
        recording_stream.wait_stream(current)

    def aside(self, work: Callable[[], object]) -> None:
        """Do work after what was asked for before, on the stream of recording.

        The default one cannot record.
        """
        current = torch.cuda.current_stream(self._stream.device)
        self._stream.wait_stream(current)
        try:
            with torch.cuda.stream(self._stream):
                work()
        finally:
            current.wait_stream(self._stream)

    def record(self, work: Callable[[], object]) -> None:
        """Record work, which is not done now."""
        self._capture(work, _keeper(self._stream.device)._graph.pool())

    def _capture(self, work: Callable[[], object], pool: Any = None) -> None:

        def recording() -> None:
            # `torch.cuda.graph` would also give back all memory that PyTorch keeps. Other threads
            # of the program may ask the driver for what this one must not.
            self._graph.capture_begin(pool, capture_error_mode="thread_local")
            try:
                work()
            finally:
                self._graph.capture_end()

        self.aside(recording)

    def repeat(self) -> None:
        """Do the recorded work again."""
        self.aside(self._graph.replay)


@cache
def _keeper(device: torch.device) -> CudaGraph:
    """Return a graph that keeps the memory of what recorded work allocates, which all share.

    With memory of its own, each graph would leave some reserved. They repeat one after another on
    one stream, and nothing that outlives a repetition lies there.
    """
    keeper = CudaGraph(device)
    keeper._capture(lambda: torch.zeros(1, device=device))
    return keeper
