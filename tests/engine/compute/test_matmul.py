"""Products are the same by either library; the processor decides which one computes them."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from napari_maskinversion.engine.compute import devices, matmul
from napari_maskinversion.engine.compute.matmul import (
    SharedFactor,
    goes_to_onednn,
    multiply,
    positive,
    rectified,
)
from tests.engine.libraries import AVAILABLE, NEEDED, ROUNDING, all_by_onednn


@pytest.fixture
def onednn(monkeypatch):
    return all_by_onednn(monkeypatch)


def factors(rows, inner, columns, layout="plain", seed=0):
    generator = torch.Generator().manual_seed(seed)

    def of(height, width):
        if layout == "transposed":
            return torch.randn(width, height, generator=generator).T
        if layout == "part of a wider one":
            return torch.randn(height, 3 * width, generator=generator)[:, width : 2 * width]
        return torch.randn(height, width, generator=generator)

    return of(rows, inner), of(inner, columns)


def exactly(first, second):
    return (first.double() @ second.double()).float()


@given(
    rows=st.integers(1, 40),
    inner=st.integers(1, 40),
    columns=st.integers(1, 40),
    layout=st.sampled_from(["plain", "transposed", "part of a wider one"]),
    given_memory=st.booleans(),
)
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_a_product_by_onednn_is_the_product(onednn, rows, inner, columns, layout, given_memory):
    onednn.clear()
    first, second = factors(rows, inner, columns, layout)
    wide = torch.full((rows, 2 * columns), 7.0)
    out = wide[:, :columns] if given_memory else None
    with torch.no_grad():
        product = multiply(first, second, out)
    assert onednn == [(rows, inner, columns)]
    torch.testing.assert_close(product, exactly(first, second), **ROUNDING)
    if given_memory:
        assert product is out
    assert (wide[:, columns:] == 7).all()


@pytest.mark.parametrize("given_memory", [False, True])
def test_a_large_result_is_made_in_pieces_of_few_shapes(onednn, given_memory):
    first, second = factors(1300, 5, 3000)
    out = torch.empty(1300, 3000) if given_memory else None
    product = multiply(first, second, out)
    assert set(onednn) == {(325, 5, 3000)}
    torch.testing.assert_close(product, exactly(first, second), **ROUNDING)


def test_a_factor_of_many_products_is_packed_once(onednn, monkeypatch):
    packed = []
    pack = torch.ops.mkldnn._reorder_linear_weight
    monkeypatch.setattr(
        torch.ops.mkldnn,
        "_reorder_linear_weight",
        lambda *arguments: packed.append(1) or pack(*arguments),
    )
    first, second = factors(900, 5, 3000)
    for matrix in (second, second.T.contiguous().T):
        factor = SharedFactor(matrix)
        for rows in (first, first[:7]):
            out = torch.empty(len(rows), 3000)
            assert factor.multiply(rows, out) is out
            torch.testing.assert_close(out, exactly(rows, second), **ROUNDING)
    assert len(packed) == 2
    assert set(onednn) == {(300, 5, 3000), (7, 5, 3000)}


@given(rows=st.integers(1, 40), inner=st.integers(1, 40), columns=st.integers(1, 40))
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_what_follows_a_product_is_the_same_by_either_library(onednn, rows, inner, columns):
    first, second = factors(rows, inner, columns, "part of a wider one")
    second = second.T.contiguous()
    # A row and a column of zeros: a product of exactly 0 is not positive.
    first[0], second[-1] = 0.0, 0.0
    onednn.clear()
    single, out = (first[None], second[None]), torch.empty(1, rows, columns)
    fused = [function(*single, out)[0].clone() for function in (rectified, positive)]
    assert onednn == [(rows, inner, columns)] * 2
    product = exactly(first, second.T)
    torch.testing.assert_close(fused[0], product.relu(), **ROUNDING)
    # Signs of what rounding may turn are not compared.
    clear = (product.abs() > 1e-5) | (product == 0)
    assert torch.equal(fused[1][clear], (product > 0).float()[clear])
    assert set(fused[1].unique().tolist()) <= {0.0, 1.0}
    pairs = torch.stack([first] * 3), torch.stack([second] * 3)
    doubles = first[None].double(), second[None].double()
    for factors_of_blas in (pairs, doubles):
        out = out.new_empty(len(factors_of_blas[0]), rows, columns, dtype=factors_of_blas[0].dtype)
        for one in rectified(*factors_of_blas, out).float():
            torch.testing.assert_close(one, product.relu(), **ROUNDING)
        for one in positive(*factors_of_blas, out).float():
            assert torch.equal(one[clear], (product > 0).float()[clear])
    assert len(onednn) == 2


def test_small_products_and_other_types_stay_with_the_blas(monkeypatch):
    went = all_by_onednn(monkeypatch)
    monkeypatch.setattr(matmul, "LARGE", 1000)
    first, second = factors(9, 10, 11)
    multiply(first, second)
    first, second = factors(10, 10, 10)
    multiply(first.double(), second.double())
    multiply(first.to(torch.bfloat16), second.to(torch.bfloat16))
    assert went == []
    multiply(first, second)
    assert went == [(10, 10, 10)]


def test_whoever_needs_gradients_gets_them(onednn):
    first, second = factors(3, 4, 5)
    first.requires_grad_()
    multiply(first, second).sum().backward()
    torch.testing.assert_close(first.grad, second.sum(1).expand(3, -1))
    assert onednn == []


def test_torchs_own_switch_turns_it_off(onednn):
    first, second = factors(3, 4, 5)
    with torch.backends.mkldnn.flags(enabled=False):
        assert torch.equal(multiply(first, second), first @ second)
    assert onednn == []


class Own(torch.Tensor):
    pass


@pytest.mark.parametrize(
    "change",
    [lambda x: x.as_subclass(Own), lambda x: x.to_sparse(), lambda x: x.to("meta")],
    ids=["subclass", "sparse", "meta"],
)
def test_tensors_of_another_kind_stay_with_torch(onednn, change):
    first, second = factors(3, 4, 5)
    assert not goes_to_onednn(60, change(first), second)
    assert not goes_to_onednn(60, first, change(second))
    assert goes_to_onednn(60, first, second)


@pytest.mark.parametrize(
    ("processor", "capability", "library"),
    [
        ("AMD EPYC 9R14 96-Core Processor", "AVX512", "oneDNN"),
        ("AMD64 Family 25 Model 97 Stepping 2, AuthenticAMD", "AVX512", "oneDNN"),
        ("AMD EPYC 7R13 Processor", "AVX2", "BLAS"),
        ("AMD64 Family 6 Model 143 Stepping 8, GenuineIntel", "AVX512", "BLAS"),
        ("Intel(R) Xeon(R) Platinum 8488C", "AVX512_VNNI", "BLAS"),
        ("arm64", "NO AVX", "BLAS"),
    ],
)
@pytest.mark.skipif(not AVAILABLE, reason=NEEDED)
def test_the_library_follows_from_the_processor(monkeypatch, processor, capability, library):
    monkeypatch.setattr(matmul, "processor", lambda: processor)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    matmul._onednn_suits_processor.cache_clear()
    try:
        assert matmul.cpu_library() == library
    finally:
        matmul._onednn_suits_processor.cache_clear()


def test_the_processor_has_a_name():
    assert devices.processor()
