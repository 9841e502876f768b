"""Low-rank slopes: error and rank."""

from dataclasses import replace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from napari_maskinversion.engine.explain.routes import DirectRoute
from napari_maskinversion.engine.invert.low_rank import _strongest, compress
from tests.engine.encode.test_image_encoding import LACKING, OnDevice
from tests.engine.towers import image, inverter

from .test_fast import engine, smooth_tower


@pytest.fixture(scope="module")
def layer():
    return engine(torch.float64)._current().maps.encoding.layers[0]


def weighted(layer, slope):
    reach = (layer.jacobian @ layer.weights.down).norm(dim=0) * layer.weights.mixed.norm(dim=1)
    return slope * reach


def queries(route, embeddings):
    width = 32
    out = embeddings.new_empty(len(embeddings), route.num_queries, width)
    route.project(embeddings, out)
    return out


@pytest.mark.parametrize("tolerance", [0.3, 0.2, 0.1])
def test_the_error_stays_below_the_tolerance_with_nearly_the_fewest_rows(layer, tolerance):
    compressed = compress(layer, tolerance)
    whole = weighted(layer, layer.slope)
    lost = weighted(layer, layer.slope - compressed.coefficients @ compressed.slope)
    assert lost.norm() <= tolerance * whole.norm() * (1 + 1e-6)
    strengths = torch.linalg.svdvals(whole) ** 2
    kept = strengths.cumsum(0) / strengths.sum()
    fewest = int((kept < 1 - tolerance**2).sum()) + 1
    # Rounded up to four; a random sketch may need a few more than the best basis.
    assert fewest <= len(compressed.slope) <= fewest + 12


def test_slopes_that_have_nothing_in_common_are_left_alone():
    made = inverter(smooth_tower(), "cpu")
    made.set_image_tensor(image(64, 64))
    layer = made._current().maps.encoding.layers[0]
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(layer.slope.shape, generator=generator)
    assert compress(replace(layer, slope=noise), 0.05) is None


def test_the_query_vectors_are_those_of_the_mixed_slopes(layer):
    compressed = compress(layer, 0.1)
    plain = replace(compressed, slope=compressed.coefficients @ compressed.slope, coefficients=None)
    embeddings = torch.randn(3, 24, dtype=torch.float64)
    expected = queries(DirectRoute(plain), embeddings)
    vectors = queries(DirectRoute(compressed), embeddings)
    torch.testing.assert_close(vectors, expected, rtol=1e-9, atol=1e-12)


def test_the_backward_is_the_transpose_of_the_forward(layer):
    route = DirectRoute(compress(layer, 0.1))
    embeddings = torch.randn(4, 24, dtype=torch.float64)
    forward = queries(route, embeddings)
    grad = torch.randn_like(forward)
    pulled = route.vjp(grad)
    for index in range(4):
        torch.testing.assert_close(
            (pulled[index] * embeddings[index]).sum(), (grad[index] * forward[index]).sum()
        )


def test_it_is_the_same_in_every_call(layer):
    one, other = compress(layer, 0.2), compress(layer, 0.2)
    assert torch.equal(one.slope, other.slope)
    assert torch.equal(one.coefficients, other.coefficients)


def test_its_decompositions_run_on_the_cpu_for_the_sake_of_apples_gpus():
    with FakeTensorMode(), OnDevice() as device:
        parts = _strongest(torch.empty(64, 32, device="cuda"), 8)
    assert {part.device.type for part in parts} == {"cuda"}
    assert "mm" in device.names  # the mode sees what runs
    assert not device.names & LACKING
    assert not device.doubles
