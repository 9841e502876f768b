"""Encodings as CUDA graphs: from the third image of a shape on, with the bits of plain ones."""

import gc
import warnings

import pytest
import torch

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.errors import Cancelled, InputError
from napari_maskinversion.base.progress import listening
from napari_maskinversion.engine.compute import cuda_graphs
from napari_maskinversion.engine.compute.cuda_graphs import GRAPHS
from napari_maskinversion.engine.encode.image_encoding import ImageEncoding, memory_of, positions_of
from napari_maskinversion.engine.invert import graphs
from napari_maskinversion.engine.models.towers import tower_of
from tests.engine.recorded import Graph, no_memory, reached, stand_in
from tests.engine.timm_towers import build
from tests.engine.towers import image, inverter, masks, tower

SIDE = 96  # not that of the tower: its positions are resampled
MEMORY = 1 << 30
RECORDED = ["made", "recorded", "repeated"]  # to compare


@pytest.fixture(autouse=True)
def said(monkeypatch):
    """What graphs were asked for."""
    return stand_in(monkeypatch)


def several(seed, count):
    return torch.cat([image(SIDE, SIDE, 10 * seed + i) for i in range(count)])


def encoded(one, seed, **how):
    how = {"layers": 1, "dtype": None, "memory_bytes": MEMORY, "images": 1, **how}
    return graphs.encode(one, several(seed, how["images"]), **how)


def plainly(one, seed, **how):
    with GRAPHS.off():
        return encoded(one, seed, **how)


def addresses(one):
    return {tensor.untyped_storage().data_ptr() for tensor in one.visual.state_dict().values()}


def same(encoding, expected):
    pairs = zip(encoding.tensors(), expected.tensors(), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)
    for layer, other in zip(encoding.layers, expected.layers, strict=True):
        assert layer.weights is other.weights


HOW = {
    "one": {},
    "two layers": {"layers": 2},
    "half": {"dtype": torch.bfloat16},
    "three images": {"images": 3},
}


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
def test_images_of_one_shape_are_recorded_once(said, how):
    one = tower_of(tower(layers=3))
    expected = [plainly(one, seed, **how) for seed in range(4)]
    assert len({float(encoding.embedding.sum()) for encoding in expected}) == 4
    results = []
    for seed, asked in enumerate(([], RECORDED, ["repeated"], ["repeated"])):
        said.clear()
        results.append(encoded(one, seed, **how))
        assert said == asked
    for result, wanted in zip(results, expected, strict=True):  # those of earlier ones stay
        same(result, wanted)


def test_inversions_and_other_maps_on_repeated_encodings_are_those_on_plain_ones(said):
    visual, stack = tower(layers=2), masks(2, SIDE, SIDE)
    made = [inverter(visual, device="cpu") for _ in range(4)]
    for seed, one in enumerate(made):
        one.set_image_tensor(image(SIDE, SIDE, seed))
    for seed, one in enumerate(made):
        with GRAPHS.off():
            plain = inverter(visual, device="cpu")
            plain.set_image_tensor(image(SIDE, SIDE, seed))
            for how in ({}, {"explainer": "gradcam"}, {"explainer": "chefer"}):
                maps = [each.invert(stack, steps=2, **how).grid_maps for each in (one, plain)]
                assert (maps[0] == maps[1]).all()


def test_another_shape_is_another_graph_and_nothing_of_one_image_is_kept(said):
    one = tower_of(tower())
    for height, width in [(64, 64), (64, 96), (64, 64), (96, 64)]:
        graphs.encode(one, image(height, width), 1, None, MEMORY)
    assert not said
    assert not reached(cuda_graphs._kept[one.visual], {})


@pytest.mark.parametrize(
    "name", ["positional_embedding", "transformer.resblocks.1.mlp.c_fc.weight"]
)
def test_changed_weights_are_seen(said, name):
    one = tower_of(tower())
    for seed in range(3):
        encoded(one, seed)
    with torch.no_grad():
        one.visual.get_parameter(name).mul_(1.5)
    expected = plainly(one, 4)
    for asked in ([], ["made", "recorded"]):
        said.clear()
        same(encoded(one, 4), expected)
        assert said == asked


def test_what_a_graph_works_on_stays_where_it_is(said):
    one = tower_of(tower())
    for seed in range(2):
        encoded(one, seed)
    for layers in (1, 2):
        with GRAPHS.off():
            graphs.encode(one, image(64, 128), layers, None, MEMORY)
    gc.collect()
    (recorder,) = Graph.recorders
    kept = reached(cuda_graphs._kept[one.visual], {})
    assert recorder.given - addresses(one) <= kept
    assert positions_of(one.visual, (6, 6)).data_ptr() not in kept  # it was made again


@pytest.mark.parametrize("where", ["made", "recorded", "repeated"])
def test_a_driver_that_fails_is_told_once_and_encoding_goes_on_without(said, where):
    one = tower_of(tower())
    expected = [plainly(one, seed) for seed in range(3)]
    same(encoded(one, 0), expected[0])
    Graph.errors[where] = RuntimeError("CUDA error: operation not permitted when capturing")
    with pytest.warns(UserWarning, match="CUDA graphs failed on this GPU .*not permitted") as told:
        same(encoded(one, 1), expected[1])
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(encoded(one, 2), expected[2])


def test_a_graph_that_does_nothing_is_not_used(said, monkeypatch):
    one = tower_of(tower())
    monkeypatch.setattr(Graph, "repeat", lambda self: None)
    encoded(one, 0)
    with pytest.warns(UserWarning, match="recorded and plain work disagree"):
        encoded(one, 1)
    same(encoded(one, 2), plainly(one, 2))


def test_no_memory_for_a_graph_is_no_failure_of_graphs(said):
    one = tower_of(tower())
    Graph.errors["recorded"] = torch.OutOfMemoryError("CUDA out of memory")
    for seed in range(3):
        same(encoded(one, seed), plainly(one, seed))
    assert GRAPHS.works


@pytest.mark.parametrize("call", range(4))
def test_no_memory_for_copies_is_no_failure_of_graphs(said, call):
    """Of the image and of its encoding, when it is recorded, and later when it is repeated."""
    one = tower_of(tower())
    expected = [plainly(one, seed) for seed in range(5)]
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(5):
            if call == 0 and seed == 1:
                patch.setattr(torch.Tensor, "clone", no_memory)
            elif call and seed == call:
                patch.setattr(ImageEncoding, "own", no_memory)
            same(encoded(one, seed), expected[seed])
            patch.undo()
    assert GRAPHS.works
    said.clear()
    same(encoded(one, 0), expected[0])
    assert said == ["repeated"]


def test_without_memory_for_a_copy_an_image_is_encoded_once(said, monkeypatch):
    one, calls = tower_of(tower()), []
    encode = one.encode_checked
    monkeypatch.setattr(one, "encode_checked", lambda *a, **k: calls.append(0) or encode(*a, **k))
    monkeypatch.setattr(ImageEncoding, "own", no_memory)
    for seed in range(4):
        encoded(one, seed)
    assert len(calls) == 4


def test_weights_that_leave_a_gpu_are_held_no_longer(said):
    one = tower_of(tower())
    for seed in range(3):
        encoded(one, seed)
    before = [memory for memory, _ in memory_of(one.visual.parameters())]
    for recorder in Graph.recorders:  # which holds all that was recorded; a GPU does not
        recorder.operations.clear()
        recorder.before.clear()
    one.visual.double()
    gc.collect()
    assert all(memory.expired() for memory in before)


def test_images_are_checked_before_each_encoding(said):
    made = inverter(tower(), device="cpu")
    for seed in range(3):
        made.set_image_tensor(image(SIDE, SIDE, seed))
    with pytest.raises(InputError, match="NaN"):
        made.set_image_tensor(image(SIDE, SIDE) / 0)


def test_cancel_and_progress(said):
    one, news = tower_of(tower(layers=3)), []
    for seed in range(3):
        with listening(news.append):
            encoded(one, seed)
    assert [(one.done, one.total) for one in news] == [(1, 3), (2, 3), (3, 3), (3, 3), (3, 3)]

    def stop(_):
        raise Cancelled

    with pytest.raises(Cancelled), listening(stop):
        encoded(one, 4)
    said.clear()
    same(encoded(one, 5), plainly(one, 5))
    assert said == ["repeated"]


def test_what_would_not_pay_is_not_recorded(said, monkeypatch):
    monkeypatch.setattr(graphs, "_MOST_ENCODED", 37 * 32)
    one = tower_of(tower())
    for seed in range(3):
        encoded(one, seed, images=2)
    monkeypatch.setattr(cuda_graphs, "MOST_KEPT", 4000)
    for seed in range(3):
        encoded(one, seed)
    assert not said


def test_older_pytorch_and_towers_that_autograd_explains_go_without(said, monkeypatch):
    other = tower_of(build("class-token", dtype=torch.float32))
    for seed in range(3):
        graphs.encode(other, image(32, 32, seed), 1, None, MEMORY)
    monkeypatch.setattr(cuda_graphs, "SINCE", "99")
    one = tower_of(tower())
    for seed in range(3):
        encoded(one, seed)
    assert not said


def test_short_memory_drops_it(said):
    made = inverter(tower(), device="cpu", memory_mb=64)
    for seed in range(2):
        made.set_image_tensor(image(SIDE, SIDE, seed))
    made.spare_memory()
    assert not reached(cuda_graphs._kept.get(made._tower.visual, {}), {})
    said.clear()
    made.set_image_tensor(image(SIDE, SIDE, 3), InversionConfig())
    assert not said
