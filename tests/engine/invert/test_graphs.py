"""Steps as CUDA graphs: what is recorded once and repeated gives the numbers of the plain loop."""

import gc
import threading
import warnings

import numpy as np
import pytest
import torch

from napari_maskinversion import InversionConfig, MaskInverter, wrap_open_clip
from napari_maskinversion.base.errors import Cancelled
from napari_maskinversion.base.progress import listening
from napari_maskinversion.engine.compute import cuda_graphs
from napari_maskinversion.engine.compute.cuda_graphs import GRAPHS
from napari_maskinversion.engine.explain.legrad import LeGrad
from napari_maskinversion.engine.invert import graphs
from napari_maskinversion.engine.invert.loop import Descent
from napari_maskinversion.engine.methods.factory import region_embedder
from tests.engine.recorded import Graph, no_memory, reached, stand_in
from tests.engine.tiny import tiny_clip
from tests.engine.towers import image, inverter, masks, tower

SIDE = 64


@pytest.fixture(autouse=True)
def said(monkeypatch):
    """What graphs were asked for."""
    return stand_in(monkeypatch)


def engine(**keywords):
    made = inverter(tower(layers=2), device="cpu", **keywords)
    made.set_image_tensor(image(SIDE, SIDE))
    return made


def some(count, seed=0):
    return np.roll(masks(count, SIDE, SIDE), 3 * seed, axis=1)


def plain(made, stack, config):
    with GRAPHS.off():
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
        first = ["made", "recorded", *(["repeated"] if seed < 2 else [])]  # to compare
        # The start is recorded with the second masks, when all buffers have their size.
        asked = [(first, 4), (first, 5), ([], 6), (first, 4)]
        assert said == [*asked[seed][0], *["repeated"] * asked[seed][1]]


def test_each_window_of_a_batch_meets_its_own_numbers(said):
    from napari_maskinversion.base.regions import Regions
    from napari_maskinversion.engine.invert.several import ImageBatch

    made, config = engine(), InversionConfig(steps=4, alpha=1.0)
    pictures = torch.cat([image(SIDE, SIDE, seed) for seed in (1, 2)])
    batch = ImageBatch(made.model, pictures, [(SIDE, SIDE)] * 2, config, 1 << 30)
    regions = [Regions.from_masks(some(count)) for count in (2, 1)]
    with GRAPHS.off():
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
    monkeypatch.setattr(cuda_graphs, "SINCE", "99")
    made, config = engine(), InversionConfig(steps=4)
    assert made.invert(some(1), config).route == "direct, no graph before PyTorch 99"
    assert made.invert(some(1), config.changed(steps=2)).route == "direct"
    assert not said


@pytest.mark.parametrize("settings", CONFIGS.values(), ids=CONFIGS)
def test_what_a_graph_works_on_stays_where_it_is(monkeypatch, settings):
    """The stand-in keeps what it works on; a GPU would read memory that was given back."""
    monkeypatch.setattr("napari_maskinversion.engine.compute.matmul.cpu_has_bfloat16", lambda: True)
    made, config = engine(), InversionConfig(steps=5, **settings)
    for seed in range(2):
        made.invert(some(2, seed), config)
    with GRAPHS.off():
        made.set_image_tensor(image(SIDE, SIDE, 5), config)
        made.invert(some(20), config)
    made.explain(np.random.default_rng(0).normal(size=(64, made.image_embedding.size)))
    kept = reached(cuda_graphs._kept[made._tower.visual], {})
    for recorder in Graph.recorders:  # of the steps, and of the start
        assert recorder.given <= kept
    assert len(Graph.recorders) == 2


@pytest.mark.parametrize("memory", [0, 1])
def test_masks_in_groups_are_not_recorded(said, memory):
    engine(memory_mb=memory).invert(some(3), InversionConfig(steps=4))
    assert bool(said) == bool(memory)


@pytest.mark.parametrize(("memory", "route"), [(1, "direct"), (16, "direct, graph")])
def test_copies_take_an_eighth_of_the_memory(said, memory, route):
    made = inverter(tower(layers=2), device="cpu", memory_mb=memory)
    for seed in range(2):  # constants of 0.4 MiB
        made.set_image_tensor(image(4 * SIDE, 4 * SIDE, seed))
    assert made.invert(masks(1, 4 * SIDE, 4 * SIDE), steps=4).route == route
    assert said.count("made") == (0 if memory == 1 else 2)  # of the encoding, and of the steps


def other_images(made, config, seeds, side=SIDE):
    for seed in seeds:
        with GRAPHS.off():
            made.set_image_tensor(image(side, side, seed), config)
        yield some(2, seed) if side == SIDE else masks(2, side, side)


@pytest.mark.parametrize("settings", CONFIGS.values(), ids=CONFIGS)
def test_the_next_image_of_a_size_repeats_what_the_first_one_recorded(monkeypatch, said, settings):
    monkeypatch.setattr("napari_maskinversion.engine.compute.matmul.cpu_has_bfloat16", lambda: True)
    config, made = InversionConfig(steps=5, **settings), engine()
    first = made.invert(some(2), config)
    made.invert(some(2), config)
    constants = [tensor.clone() for tensor in made._image.maps.encoding.tensors()]
    before, encoding = made.image_embedding, made._image.maps.encoding
    for stack in other_images(made, config, (5, 2)):  # of another scale, too
        expected = plain(made, stack, config)
        assert np.abs(expected.raw_embeddings - first.raw_embeddings).max() > 0.1
        said.clear()
        result = made.invert(stack, config)
        same(result, expected)
        assert said == ["repeated"] * 6
    # Nor did the first image change.
    for tensor, copy in zip(encoding.tensors(), constants, strict=True):
        assert torch.equal(tensor, copy)
    np.testing.assert_array_equal(encoding.embedding.numpy(), before)


def test_another_inverter_of_the_model_repeats_it_too(said):
    config, made = InversionConfig(steps=4), engine()
    for seed in range(2):
        made.invert(some(2, seed), config)
    other = inverter(made.model.clip.visual, device="cpu")
    other.set_image_tensor(image(SIDE, SIDE, 7))
    said.clear()
    other.invert(some(2), config)
    assert set(said) == {"repeated"}


def recorded_anew(said, made, stack, config):
    expected = plain(made, stack, config)
    said.clear()
    same(made.invert(stack, config), expected)
    return said[:2] == ["made", "recorded"] and said.count("repeated") <= config.steps


def test_another_size_model_or_weights_are_another_graph(said):
    made, config = engine(), InversionConfig(steps=4)
    made.invert(some(2), config)
    assert recorded_anew(said, engine(), some(2), config)
    (stack,) = other_images(made, config, [5], side=2 * SIDE)
    assert recorded_anew(said, made, stack, config)
    with torch.no_grad():
        made.model.clip.visual.transformer.resblocks[-1].mlp.c_proj.weight.mul_(2)
    (stack,) = other_images(made, config, [5], side=2 * SIDE)
    assert recorded_anew(said, made, stack, config)


def test_a_copy_of_large_constants_is_not_kept(said, monkeypatch):
    monkeypatch.setattr(cuda_graphs, "MOST_KEPT", 4000)
    assert engine().invert(some(2), steps=4).route == "direct"
    assert not said


@pytest.mark.parametrize("drop", ["spare_memory", "release"])
@pytest.mark.parametrize("method", ["maskinversion", "crop", "maskclip"])
def test_short_memory_drops_the_graph_and_its_buffers(said, drop, method):
    """Also that of a method on the same model that records nothing itself."""
    model = wrap_open_clip(tiny_clip())
    made = MaskInverter(model, memory_mb=64)
    made.set_image_tensor(image(SIDE, SIDE))
    assert made.invert(some(2), steps=4).route.endswith("graph")
    assert model.clip.visual in cuda_graphs._kept
    other = made if method == "maskinversion" else region_embedder(method, model)
    getattr(other, drop)()
    assert model.clip.visual not in cuda_graphs._kept


def test_a_model_that_leaves_its_gpu_leaves_no_graph(said, monkeypatch):
    made, config = engine(), InversionConfig(steps=4)
    made.invert(some(2), config)
    monkeypatch.setattr(Graph, "suits", lambda device: False)
    with GRAPHS.off():
        made.invert(some(2), config)
    assert made._tower.visual not in cuda_graphs._kept


def test_graphs_go_with_their_model(said):
    made = engine()
    made.invert(some(2), InversionConfig(steps=4))
    count = len(cuda_graphs._kept)
    made = None
    gc.collect()
    assert len(cuda_graphs._kept) < count


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
    with pytest.warns(UserWarning, match="recorded and plain work disagree"):
        same(made.invert(some(2), config), expected)


def test_no_memory_for_a_graph_is_no_failure_of_graphs(said):
    made, config = engine(), InversionConfig(steps=5)
    expected = plain(made, some(2), config)
    Graph.errors["recorded"] = torch.OutOfMemoryError("CUDA out of memory")
    result = made.invert(some(2), config)
    same(result, expected)
    assert result.route == "direct, no memory for a graph"
    assert said == ["made", "recorded"]  # once, not in each step
    Graph.errors.clear()
    assert made.invert(some(2), config).route == "direct, graph"


@pytest.mark.parametrize("where", [(LeGrad, "own"), (Graph, "__init__")], ids=["copies", "graph"])
def test_no_memory_for_what_a_graph_works_on_is_none_either(said, monkeypatch, where):
    made, config = engine(), InversionConfig(steps=5)
    expected = plain(made, some(2), config)
    monkeypatch.setattr(*where, no_memory)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = made.invert(some(2), config)
    same(result, expected)
    assert result.route == "direct, no memory for a graph"
    assert GRAPHS.works


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
    assert said.count("recorded") == 1  # the start


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
    assert said.count("made") == 3  # one of them of the start


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

    with GRAPHS.off():
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
    assert not cuda_graphs.CudaGraph.suits(torch.device("cpu"))
    assert not cuda_graphs.CudaGraph.suits(torch.device("mps"))
    assert isinstance(engine(), MaskInverter)
    assert engine().invert(some(1), steps=4).route == "direct"
