"""What stands for a CUDA graph: torch's operations, done again on the same memory.

It keeps the operations that torch was asked for, with the memory that they work on: a number that
was known to Python when they were recorded stays what it was, as on a GPU. No speed is measured.
"""

import gc

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from napari_maskinversion.engine.compute import cuda_graphs


def tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


class Recorder(TorchDispatchMode):
    """Keeps each operation and what it wrote to; what is written is put back at the end.

    What it keeps has the same memory, and the shapes of then: torch may change those of a tensor.
    """

    def __init__(self):
        super().__init__()
        self.operations, self.before = [], []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if torch.Tag.inplace_view in func.tags:  # of the shape alone
            return func(*args, **kwargs)
        for place, one in enumerate(func._schema.arguments):
            if one.alias_info is not None and one.alias_info.is_write:
                written = kwargs[one.name] if one.name in kwargs else args[place]
                self.before.append((written, written.clone()))
        args, kwargs = tree_map_only(torch.Tensor, torch.Tensor.detach, (args, kwargs))
        result = func(*args, **kwargs)
        kept = tree_map_only(torch.Tensor, torch.Tensor.detach, result)
        self.operations.append((func, args, kwargs, kept))
        return result

    def __exit__(self, *error):
        super().__exit__(*error)
        for tensor, old in reversed(self.before):
            tensor.copy_(old)

    @property
    def made(self):
        """What was allocated meanwhile: it lies in memory that all graphs share."""
        operations = [one for one in self.operations if not one[0].is_view]
        return tensors([one[-1] for one in operations if not one[0]._schema.is_mutable])

    @property
    def given(self):
        """Addresses of what was there before: it must stay there."""
        made = {tensor.untyped_storage().data_ptr() for tensor in self.made}
        storages = [tensor.untyped_storage() for tensor in tensors(self.operations)]
        return {storage.data_ptr() for storage in storages} - made

    def repeat(self):
        for func, args, kwargs, result in self.operations:
            again = func(*args, **kwargs)
            if not func.is_view and not func._schema.is_mutable:
                for tensor, new in zip(tensors(result), tensors(again), strict=True):
                    tensor.copy_(new)
        for tensor in self.made:
            tensor.fill_(7)  # others may use that memory now


class Graph:
    """Stands for `CudaGraph`; counts what all of them are asked for."""

    said, errors, recorders = [], {}, []

    def __init__(self, device):
        self._say("made")

    @staticmethod
    def suits(device):
        return True

    @staticmethod
    def meet(device):
        """Here nothing is asked for ahead."""

    def _say(self, word):
        self.said.append(word)
        if word in self.errors:
            raise self.errors[word]

    def aside(self, work):
        work()

    def record(self, work):
        self._recorder = Recorder()
        self.recorders.append(self._recorder)
        with self._recorder:
            work()
            self._say("recorded")

    def repeat(self):
        self._say("repeated")
        self._recorder.repeat()


def no_memory(*_):
    """Raise what PyTorch does when a GPU has no memory left."""
    raise torch.OutOfMemoryError("CUDA out of memory")


def stand_in(monkeypatch):
    """Put it in the place of graphs; return what all of them are asked for, word by word."""
    monkeypatch.setattr(Graph, "said", [])
    monkeypatch.setattr(Graph, "errors", {})
    monkeypatch.setattr(Graph, "recorders", [])
    monkeypatch.setattr(cuda_graphs, "CudaGraph", Graph)
    monkeypatch.setattr(cuda_graphs, "_tried", set())
    monkeypatch.setattr(cuda_graphs.GRAPHS, "works", True)
    monkeypatch.setattr(cuda_graphs, "SINCE", "2")
    return Graph.said


def reached(thing, seen):
    """Addresses of the tensors that can be reached from an object of ours."""
    if isinstance(thing, torch.Tensor):
        return {thing.untyped_storage().data_ptr()}
    ours = type(thing).__module__.startswith("napari_maskinversion")
    if id(thing) in seen or not (ours or isinstance(thing, (dict, list, tuple))):
        return set()
    seen[id(thing)] = thing
    return set().union(*(reached(part, seen) for part in gc.get_referents(thing)))
