"""Steps of the loop as CUDA graphs, so that a GPU does not wait for Python.

With few masks, a step is some hundred small kernels, and starting each takes longer than computing
it. A graph starts all of them at once. It repeats work on the same memory: so what it was recorded
with is kept for the next inversion like it on the same image, whose numbers are copied there. The
rules of recording (https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs) hold in the
loop anyway: nothing in it waits for the device, shapes are those of the first step, and each step
is the same work.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import torch

from ...base.oom_fallback import is_out_of_memory
from ...base.progress import tell
from ..compute.trial import Trial
from ..explain.legrad import LeGrad
from .loop import STATE, Descent, descend, evaluate

# Most numbers of p in a step: more (ViT-B/16: 27 masks at 448 px) keep a GPU busy anyway, and what
# a graph works on would take much memory between two inversions.
_MOST: Final = 1 << 24
_FEWEST_STEPS: Final = 3  # the first one is other work, the second one warms up
_EVERYTHING: Final = slice(None)
_SINCE: Final = "2.14"  # of PyTorch: before, a recording that failed left its allocator recording
_LIKE: Final = 0.01  # largest relative difference of a recorded step: products may be others

GRAPHS: Final = Trial(
    "CUDA graphs",
    "steps are started one kernel at a time until the program ends, which takes longer with few "
    "masks",
)
_tried: set[tuple[Any, ...]] = set()  # kinds of steps


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """Return where graphs are recorded; cuBLAS keeps some memory for each stream."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


class CudaGraph:
    """Work on a GPU that is recorded once and repeated as a whole."""

    def __init__(self, device: torch.device) -> None:
        self._graph, self._stream = torch.cuda.CUDAGraph(), _stream(device)

    @staticmethod
    def suits(device: torch.device) -> bool:
        """Return whether a device has graphs."""
        return device.type == "cuda" and torch.version.cuda is not None

    def aside(self, work: Callable[[], object]) -> None:
        """Do work after what was asked for before, on the stream of recording.

        The default one cannot record.
        """
        here = torch.cuda.current_stream(self._stream.device)
        self._stream.wait_stream(here)
        try:
            with torch.cuda.stream(self._stream):
                work()
        finally:
            here.wait_stream(self._stream)

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
    """Return a graph that keeps the memory of what a step allocates, which all graphs share.

    With memory of its own, each image's graph would leave some reserved. They repeat one after
    another on one stream, and nothing that outlives a step lies there.
    """
    keeper = CudaGraph(device)
    keeper._capture(lambda: torch.zeros(1, device=device))
    return keeper


class _Step:
    """A step of some masks, on memory of its own: done once, recorded, then repeated."""

    def __init__(self, exact: LeGrad, descent: Descent) -> None:
        self.exact, self.descent = exact, descent
        self._graph: CudaGraph | None = None
        self._begun = False

    @property
    def repeats(self) -> bool:
        """Whether it was recorded."""
        return self._graph is not None

    def take(self) -> None:
        """Move the embeddings, and find what follows from where they are now."""
        if self._graph is not None:
            self._graph.repeat()
        elif self._begun:
            self._work()
        else:
            self._begin()

    def _work(self) -> None:
        self.descent.adam()
        evaluate(self.exact, self.descent, _EVERYTHING)

    def _begin(self) -> None:
        self._begun = True
        graph = GRAPHS.attempt(lambda: CudaGraph(self.descent.maps.device))
        if graph is None:
            self._work()
            return
        graph.aside(self._work)
        try:
            self._graph = GRAPHS.attempt(lambda: self._recorded(graph))
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):  # else these masks go on without
                raise

    def _recorded(self, graph: CudaGraph) -> CudaGraph:
        """Record the work; compare it with the plain work where it is the first of its kind."""
        graph.record(self._work)
        kind = (self.descent.maps.device, self.descent.config.precision, self.exact.route)
        if kind not in _tried:
            state = [getattr(self.descent, name) for name in STATE]
            before = [tensor.clone() for tensor in state]
            outcomes = []
            for work in (graph.repeat, self._work):
                work()
                outcomes.append([tensor.clone() for tensor in state])
                for tensor, old in zip(state, before, strict=True):
                    tensor.copy_(old)
            for one, other in zip(*outcomes, strict=True):
                if not (one - other).norm() <= _LIKE * other.norm():
                    raise ArithmeticError("a recorded step and a plain one disagree")
            _tried.add(kind)
        return graph


class Graphs:
    """Inversions on one image; the last step that was recorded is kept for the next ones like it.

    Another thread may invert on the image while one tells how far it is: a step is taken away as
    long as it is in use, and who finds none makes one.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], _Step] = {}

    def descend(self, exact: LeGrad, descent: Descent) -> str:
        """Take all steps as `descend` does, by graphs if they pay; return how it was done."""
        count, steps = len(descent.maps), descent.config.steps
        fits = count <= exact.group_size and count * exact.numbers_of_p <= _MOST
        suits = GRAPHS.works and CudaGraph.suits(descent.maps.device)
        pays = fits and suits and steps >= _FEWEST_STEPS
        if not (pays and torch.__version__ >= _SINCE):
            descend(exact, descent)
            return f"{exact.route}, no graph before PyTorch {_SINCE}" if pays else exact.route
        key, kept = (count, descent.config, exact.route), self._kept
        step = kept.pop(key, None)
        if step is None:
            step = _Step(exact, descent)
        else:
            step.descent.load(descent)
        own = step.descent
        try:
            evaluate(step.exact, own, _EVERYTHING)
            tell(own.state())
            while own.step < steps:
                own.advance()
                step.take()
                tell(own.state())
        finally:
            if step.repeats:
                kept.clear()  # a graph holds the memory of its step
                kept[key] = step
        if own is not descent:
            descent.load(own)
        return ", ".join([exact.route, *(["graph"] if step.repeats else [])])
