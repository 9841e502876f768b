"""Steps as CUDA graphs: what is recorded once and repeated gives the numbers of the plain loop.

What stands for a graph here keeps the operations that torch was asked for, with the memory that
they work on, and does them again: a number that was known to Python when they were recorded stays
what it was, as on a GPU. No speed is measured.
"""

import gc
import threading
import warnings
from functools import cache

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from napari_maskinversion import InversionConfig, MaskInverter
from napari_maskinversion.base.errors import Cancelled
from napari_maskinversion.base.progress import listening
from napari_maskinversion.engine.invert import graphs
from napari_maskinversion.engine.invert.loop import Descent
from tests.engine.towers import image, inverter, masks, tower

SIDE = 64


def tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


class Recorder(TorchDispatchMode):
    """Keeps each operation and what it wrote to; what is written is put back at the end."""

    def __init__(self):
        super().__init__()
        self.operations, self.before = [], []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        for place, one in enumerate(func._schema.arguments):
            if one.alias_info is not None and one.alias_info.is_write:
                written = kwargs[one.name] if one.name in kwargs else args[place]
                self.before.append((written, written.clone()))
        result = func(*args, **kwargs)
        self.operations.append((func, args, kwargs, result))
        return result

    def __exit__(self, *error):
        super().__exit__(*error)
        for tensor, old in reversed(self.before):
            tensor.copy_(old)

    def repeat(self):
        for func, args, kwargs, result in self.operations:
            again = func(*args, **kwargs)
            if not func.is_view and not func._schema.is_mutable:
                for tensor, new in zip(tensors(result), tensors(again), strict=True):
                    tensor.copy_(new)


class Graph:
    """Stands for `CudaGraph`; counts what all of them are asked for."""

    said, errors = [], {}

    def __init__(self, device):
        self._say("made")

    @staticmethod
    def suits(device):
        return True

    def _say(self, word):
        self.said.append(word)
        if word in self.errors:
            raise self.errors[word]

    def aside(self, work):
        work()

    def record(self, work):
        self._recorder = Recorder()
        with self._recorder:
            work()
            self._say("recorded")

    def repeat(self):
        self._say("repeated")
        self._recorder.repeat()


@pytest.fixture(autouse=True)
def said(monkeypatch):
    """What graphs were asked for."""
    monkeypatch.setattr(Graph, "said", [])
    monkeypatch.setattr(Graph, "errors", {})
    monkeypatch.setattr(graphs, "CudaGraph", Graph)
    monkeypatch.setattr(graphs, "_tried", set())
    monkeypatch.setattr(graphs.GRAPHS, "works", True)
    monkeypatch.setattr(graphs, "_SINCE", "2")
    return Graph.said


def engine(**keywords):
    made = inverter(tower(layers=2), device="cpu", **keywords)
    made.set_image_tensor(image(SIDE, SIDE))
    return made


def some(count, seed=0):
    return np.roll(masks(count, SIDE, SIDE), 3 * seed, axis=1)


def plain(made, stack, config):
    with graphs.GRAPHS.off():
        return made.invert(stack, config)


def same(result, expected):
    for name in ("raw_embeddings", "grid_maps", "losses", "mask_ious", "last_step_grid_maps"):
        np.testing.assert_array_equal(getattr(result, name), getattr(expected, name))


CONFIGS = {
    "one layer": {},
    "regularised": {"alpha": 3.0, "weight_decay": 0.1, "keep_last_step_heatmaps": True},
    "two layers": {"layers": 2, "route": "decomposed"},
    "half": {"precision": "bfloat16"},
}


@pytest.mark.parametrize("settings", CONFIGS.values(), ids=CONFIGS)
def test_repeated_steps_give_the_bits_of_plain_ones(monkeypatch, said, settings):
    monkeypatch.setattr("napari_maskinversion.engine.compute.matmul.cpu_has_bfloat16", lambda: True)
    config, made = InversionConfig(steps=5, **settings), engine()
    for seed, count in enumerate((2, 2, 2, 3)):
        expected = plain(made, some(count, seed), config)
        said.clear()
        result = made.invert(some(count, seed), config)
        same(result, expected)
        route, *precision = expected.route.split(", ")
        assert result.route == ", ".join([route, "graph", *precision])
        first = ["made", "recorded", *(["repeated"] if seed == 0 else [])]  # to compare
        again = seed in (1, 2)
        assert said == (["repeated"] * 5 if again else [*first, *["repeated"] * 4])


def test_each_window_of_a_batch_meets_its_own_numbers(said):
    from napari_maskinversion.base.regions import Regions
    from napari_maskinversion.engine.invert.several import ImageBatch

    made, config = engine(), InversionConfig(steps=4, alpha=1.0)
    pictures = torch.cat([image(SIDE, SIDE, seed) for seed in (1, 2)])
    batch = ImageBatch(made.model, pictures, [(SIDE, SIDE)] * 2, config)
    regions = [Regions.from_masks(some(count)) for count in (2, 1)]
    with graphs.GRAPHS.off():
        expected = batch.invert(regions)
    for result, wanted in zip(batch.invert(regions), expected, strict=True):
        same(result, wanted)
    assert said.count("repeated") == 4  # one of them to compare


@pytest.mark.parametrize("settings", [{"steps": 2}, {"explainer": "gradcam"}])
def test_what_would_not_be_repeated_is_not_recorded(said, settings):
    engine().invert(some(2), InversionConfig(**{"steps": 4, **settings}))
    assert not said


def test_many_masks_keep_a_gpu_busy_without(said, monkeypatch):
    monkeypatch.setattr(graphs, "_MOST", 2000)
    made, config = engine(), InversionConfig(steps=4)
    assert made.invert(some(1), config).route.endswith("graph")
    said.clear()
    assert not made.invert(some(9), config).route.endswith("graph")
    assert not said


def test_older_pytorch_goes_without_and_says_so(said, monkeypatch):
    monkeypatch.setattr(graphs, "_SINCE", "99")
    made, config = engine(), InversionConfig(steps=4)
    assert made.invert(some(1), config).route == "direct, no graph before PyTorch 99"
    assert made.invert(some(1), config.changed(steps=2)).route == "direct"
    assert not said


def addresses(thing, seen):
    """Where the tensors lie that can be reached from an object of ours."""
    if isinstance(thing, torch.Tensor):
        return {thing.data_ptr()}
    ours = type(thing).__module__.startswith("napari_maskinversion")
    if id(thing) in seen or not (ours or isinstance(thing, (dict, list, tuple))):
        return set()
    seen[id(thing)] = thing
    return set().union(*(addresses(part, seen) for part in gc.get_referents(thing)))


@pytest.mark.parametrize("route", ["direct", "decomposed"])
def test_what_a_graph_works_on_stays_where_it_is(route):
    """The stand-in keeps what it works on; a GPU would write to memory that was given back."""
    made, config = engine(), InversionConfig(steps=5, route=route)
    made.invert(some(2), config)
    (step,) = made._image.maps.graphs._kept.values()
    before = addresses([step.exact, step.descent], {})
    with graphs.GRAPHS.off():
        made.invert(some(20), config)
    made.explain(np.random.default_rng(0).normal(size=(64, made.image_embedding.size)))
    assert list(made._image.maps.graphs._kept.values()) == [step]
    assert addresses([step.exact, step.descent], {}) == before


@pytest.mark.parametrize("memory", [0, 1])
def test_masks_in_groups_are_not_recorded(said, memory):
    engine(memory_mb=memory).invert(some(3), InversionConfig(steps=4))
    assert bool(said) == bool(memory)


def test_another_image_another_graph(said):
    made, config = engine(), InversionConfig(steps=4)
    made.invert(some(2), config)
    made.set_image_tensor(image(SIDE, SIDE, 5))
    expected = plain(made, some(2), config)
    said.clear()
    same(made.invert(some(2), config), expected)
    assert said[:2] == ["made", "recorded"]


def test_short_memory_drops_the_graph_and_its_buffers(said):
    made, config = engine(memory_mb=64), InversionConfig(steps=4)
    made.invert(some(2), config)
    step = next(iter(made._image.maps.graphs._kept.values()))
    assert step.repeats
    made.spare_memory()
    assert not made._image.maps.graphs._kept


FAILURES = ["made", "recorded", "repeated"]


@pytest.mark.parametrize("where", FAILURES)
def test_a_driver_that_fails_is_told_once_and_steps_go_on_without(said, where):
    made, config = engine(), InversionConfig(steps=5, alpha=1.0)
    expected = plain(made, some(2), config)
    Graph.errors[where] = RuntimeError("CUDA error: operation not permitted when capturing")
    with pytest.warns(UserWarning, match="CUDA graphs failed on this GPU .*not permitted") as told:
        same(made.invert(some(2), config), expected)
    assert len(told) == 1
    said.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = made.invert(some(2), config)
    same(result, expected)
    assert (said, result.route) == ([], "direct")


def test_a_graph_that_computes_something_else_is_not_used(said, monkeypatch):
    made, config = engine(), InversionConfig(steps=4)
    expected = plain(made, some(2), config)
    monkeypatch.setattr(Graph, "repeat", lambda self: None)
    with pytest.warns(UserWarning, match="a recorded step and a plain one disagree"):
        same(made.invert(some(2), config), expected)


def test_no_memory_for_a_graph_is_no_failure_of_graphs(said):
    made, config = engine(), InversionConfig(steps=5)
    expected = plain(made, some(2), config)
    Graph.errors["recorded"] = torch.OutOfMemoryError("CUDA out of memory")
    same(made.invert(some(2), config), expected)
    assert said == ["made", "recorded"]  # once, not in each step
    Graph.errors.clear()
    assert made.invert(some(2), config).route == "direct, graph"


def test_cancel_leaves_a_graph_that_works(said):
    made, config = engine(), InversionConfig(steps=5)
    expected = plain(made, some(2, 1), config)

    def stop(news):
        if news.done == 3:
            raise Cancelled

    with pytest.raises(Cancelled), listening(stop):
        made.invert(some(2), config)
    said.clear()
    same(made.invert(some(2, 1), config), expected)
    assert set(said) == {"repeated"}


def test_another_thread_that_inverts_meanwhile_has_a_graph_of_its_own(said):
    made, config = engine(), InversionConfig(steps=5)
    expected = [plain(made, some(2, seed), config) for seed in (0, 1)]
    made.invert(some(2), config)
    found = []

    def meanwhile(news):
        if news.done == 2 and not found:
            other = threading.Thread(target=lambda: found.append(made.invert(some(2, 1), config)))
            other.start()
            other.join()

    with listening(meanwhile):
        first = made.invert(some(2), config)
    same(first, expected[0])
    same(found[0], expected[1])
    assert said.count("made") == 2


def test_progress_is_that_of_plain_steps(said):
    made, config = engine(), InversionConfig(steps=4)

    def told():
        news = []

        def hear(one):
            maps = None if one.grid_maps is None else one.grid_maps()
            news.append((one.done, one.total, maps, one.embeddings()))

        with listening(hear):
            made.invert(some(2), config)
        return news

    with graphs.GRAPHS.off():
        expected = told()
    for _ in range(2):
        for one, other in zip(told(), expected, strict=True):
            assert one[:2] == other[:2]
            assert (one[2] is None) == (other[2] is None)
            np.testing.assert_array_equal(one[3], other[3])
            if one[2] is not None:
                np.testing.assert_array_equal(one[2], other[2])


def test_a_number_of_the_step_that_python_knows_would_be_seen(said, monkeypatch):
    """What the stand-in is for: such a step cannot be repeated."""

    def counted(self):
        self.embeddings.mul_(1 + 0.1 * self.step)

    monkeypatch.setattr(Descent, "adam", counted)
    made, config = engine(), InversionConfig(steps=4)
    expected = plain(made, some(2), config)
    assert (made.invert(some(2), config).losses != expected.losses).any()


def test_a_processor_has_no_graphs(monkeypatch):
    monkeypatch.undo()
    assert not graphs.CudaGraph.suits(torch.device("cpu"))
    assert not graphs.CudaGraph.suits(torch.device("mps"))
    assert isinstance(engine(), MaskInverter)
    assert engine().invert(some(1), steps=4).route == "direct"


def test_recording_keeps_the_rules_of_cuda(monkeypatch):
    """On a stream of its own, which waits for the work before, and is waited for; closed always."""
    said, pools, error = [], [], RuntimeError("not permitted")

    class Stream:
        def __init__(self, device):
            self.device = device

        def wait_stream(self, other):
            said.append("own waits" if isinstance(other, str) else "default waits")

        def __enter__(self):
            said.append("own stream")

        def __exit__(self, *_):
            said.append("default stream")

    class Recording:
        def capture_begin(self, pool, capture_error_mode):
            said.append(capture_error_mode)
            pools.append(pool)

        def pool(self):
            return self

        def capture_end(self):
            said.append("end")

        def replay(self):
            said.append("replay")

    class Default(str):
        def wait_stream(self, other):
            said.append("default waits")

    def fails():
        raise error

    monkeypatch.undo()
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Recording)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Default(device))
    monkeypatch.setattr(graphs, "_stream", cache(graphs._stream.__wrapped__))
    monkeypatch.setattr(graphs, "_keeper", cache(graphs._keeper.__wrapped__))
    monkeypatch.setattr(torch, "zeros", lambda *_, device: said.append("kept"))
    graph, other = (graphs.CudaGraph("cuda:1") for _ in range(2))
    graph.record(lambda: said.append("work"))
    around = ["own waits", "own stream", "thread_local", "{}", "end", "default stream"]
    around.append("default waits")
    assert said == [one.format(work) for work in ("kept", "work") for one in around]
    said.clear()
    with pytest.raises(RuntimeError) as raised:
        other.record(fails)
    assert raised.value is error
    assert said == [one for one in around if one != "{}"]
    # What steps allocate lies in the memory of a graph that stays.
    assert pools == [None, *[graphs._keeper("cuda:1")._graph] * 2]
    said.clear()
    graph.repeat()
    assert said == ["own waits", "own stream", "replay", "default stream", "default waits"]
