"""What a GPU is asked in the loop, seen without one: nothing, and nothing lies elsewhere.

The tensors here have shapes and a device but no numbers: whatever would have to wait for a number
from the device, or mixes devices, is an error. No speed is measured.
"""

from dataclasses import fields, replace

import pytest
import torch
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.engine.explain.legrad import LeGrad, MapLayer
from napari_maskinversion.engine.explain.routes import DirectRoute, decompose
from napari_maskinversion.engine.invert import loop as inversion
from napari_maskinversion.engine.invert.dice import MaskTargets
from napari_maskinversion.engine.invert.loop import Descent, descend
from tests.engine.towers import masks
from tests.listeners import collect

from .test_fast import SIDE, engine


@pytest.fixture(scope="module")
def encoding():
    return engine()._current().maps.encoding


@pytest.fixture
def without_numbers(encoding):
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield


def pretend(tensor):
    """Shape and type of a tensor, as one on a GPU."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cuda")


def moved(constants):
    tensors = {
        field.name: pretend(value)
        for field in fields(constants)
        if isinstance(value := getattr(constants, field.name), torch.Tensor)
    }
    return replace(constants, **tensors)


def loop(encoding, config, *, decomposed):
    stack = masks(3, SIDE, SIDE)
    regions = Regions.from_masks(stack)
    targets = MaskTargets(
        regions, regions.shape, encoding.input_size, encoding.grid, encoding.embedding
    )
    for name, value in vars(targets).items():
        if isinstance(value, torch.Tensor):
            setattr(targets, name, pretend(value))
    layer = moved(encoding.layers[0])
    layer = replace(layer, weights=moved(layer.weights))
    start = torch.empty_like(layer.offset)
    route = DirectRoute(layer)
    if decomposed:
        route = decompose(layer, 50)
    explained = LeGrad([MapLayer(layer.values, route, start)], 2**28)
    descent = Descent(targets, pretend(encoding.embedding), config)
    return collect(lambda: descend(explained, descent))[0]


@pytest.mark.parametrize(("decomposed", "alpha"), [(False, 5.0), (True, 0.0)])
@pytest.mark.usefixtures("without_numbers")
def test_no_exact_step_waits_for_the_device(encoding, decomposed, alpha):
    states = loop(encoding, InversionConfig(steps=4, alpha=alpha), decomposed=decomposed)
    assert [state.done for state in states] == [0, 1, 2, 3, 4]


@pytest.mark.usefixtures("without_numbers")
def test_a_step_that_waits_is_seen(encoding, monkeypatch):
    """How many values are positive is known on the device only."""
    monkeypatch.setattr(inversion, "regulariser", lambda moved, *_: moved[moved > 0])
    with pytest.raises(DynamicOutputShapeException):
        loop(encoding, InversionConfig(alpha=1.0), decomposed=False)
