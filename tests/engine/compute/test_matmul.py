"""Products are the same by either library, and go by the faster one."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from napari_maskinversion.engine.compute import matmul
from napari_maskinversion.engine.compute.matmul import goes_to_onednn, multiply, multiply_positive
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
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_product_by_onednn_is_the_product(onednn, rows, inner, columns, layout, given_memory):
    onednn.clear()
    first, second = factors(rows, inner, columns, layout)
    wide = torch.full((rows, 2 * columns), 7.0)
    out = wide[:, :columns] if given_memory else None
    with torch.no_grad():
        product = multiply(first, second, out)
        positive = multiply_positive(first, second, torch.empty(rows, columns), 1)
    assert onednn == [(rows, inner, columns)] * 2
    torch.testing.assert_close(product, exactly(first, second), **ROUNDING)
    torch.testing.assert_close(positive, exactly(first, second).relu(), **ROUNDING)
    if given_memory:
        assert product is out
    assert (wide[:, columns:] == 7).all()


@pytest.mark.parametrize("given_memory", [False, True])
def test_a_large_result_is_made_in_pieces_of_few_shapes(onednn, given_memory):
    first, second = factors(1300, 5, 3000)
    out = torch.empty(1300, 3000) if given_memory else None
    product = multiply(first, second, out)
    assert set(onednn) == {(256, 5, 3000), (20, 5, 3000)}
    torch.testing.assert_close(product, exactly(first, second), **ROUNDING)


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


def test_the_choice_does_not_depend_on_what_else_is_in_the_product(monkeypatch):
    went = all_by_onednn(monkeypatch)
    monkeypatch.setattr(matmul, "LARGE", 1000)
    first, second = factors(30, 10, 10)
    multiply(first, second, size=999)
    multiply_positive(first, second, torch.empty(30, 10), 999)
    assert went == []
    multiply(first[:1], second, size=1000)
    multiply_positive(first[:1], second, torch.empty(1, 10), 1000)
    assert went == [(1, 10, 10)] * 2


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


def test_nan_is_not_hidden(onednn):
    first, second = factors(3, 4, 5)
    first[1, 2] = float("nan")
    positive = multiply_positive(first, second, torch.empty(3, 5), 1)
    assert positive.isnan().sum(1).tolist() == [0, 5, 0]
    assert onednn


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


def refuse(thread):
    raise RuntimeError("can't start new thread")


@pytest.mark.skipif(not AVAILABLE, reason=NEEDED)
class TestTheChoice:
    @pytest.fixture(autouse=True)
    def undecided(self, monkeypatch):
        monkeypatch.setattr(matmul, "LARGE", 1)
        monkeypatch.setattr(matmul, "_onednn", matmul._OnednnTiming())

    def chosen(self):
        first, second = factors(3, 4, 5)
        return goes_to_onednn(60, first, second)

    def timed(self, monkeypatch, blas, onednn):
        """Let the clock say how long the two take, in turns."""
        turns = []

        def seconds(work):
            turns.append(work())
            return (blas, onednn)[(len(turns) - 1) % 2][(len(turns) - 1) // 2]

        monkeypatch.setattr(matmul, "_seconds", seconds)
        return turns

    def test_the_faster_one_is_taken_and_asked_for_once(self, monkeypatch):
        turns = self.timed(monkeypatch, [4.0, 2.0, 4.0, 4.0], [9.0, 1.0, 9.0, 9.0])
        with ThreadPoolExecutor(4) as several:
            assert all(several.map(lambda _: self.chosen(), range(8)))
        assert self.chosen()
        assert len(turns) == 8

    def test_a_tie_leaves_everything_as_it_is(self, monkeypatch):
        self.timed(monkeypatch, [1.1] * 4, [1.0] * 4)
        assert matmul.onednn_may_pay()
        assert not self.chosen()
        assert not matmul.onednn_may_pay()

    def test_a_slower_one_is_not_taken(self, monkeypatch):
        self.timed(monkeypatch, [1.0] * 4, [2.0] * 4)
        assert not self.chosen()

    def test_wrong_numbers_are_not_taken(self, monkeypatch):
        self.timed(monkeypatch, [2.0] * 4, [1.0] * 4)
        linear = matmul.linear
        monkeypatch.setattr(matmul, "linear", lambda *factors: linear(*factors) * 1.01)
        assert not self.chosen()

    def test_a_torch_without_the_operator_works(self, monkeypatch):
        def missing(*_):
            raise AttributeError("'_OpNamespace' 'mkldnn' object has no attribute")

        monkeypatch.setattr(matmul, "linear", missing)
        assert not self.chosen()
        first, second = factors(3, 4, 5)
        assert torch.equal(multiply(first, second), first @ second)

    def test_where_no_thread_can_be_had_it_is_decided_later(self, monkeypatch):
        self.timed(monkeypatch, [2.0] * 4, [1.0] * 4)
        with monkeypatch.context() as crowded:
            crowded.setattr(threading.Thread, "start", refuse)
            assert not self.chosen()
        assert self.chosen()

    @pytest.mark.parametrize(
        "surroundings", ["autocast", "default device", "fake", "vmap", "dtype"]
    )
    def test_what_the_caller_has_switched_on_takes_no_part(self, monkeypatch, surroundings):
        self.timed(monkeypatch, [2.0] * 4, [1.0] * 4)
        first, second = factors(3, 4, 5)
        kinds = {
            "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
            "device": lambda: torch.device("meta"),
            "fake": FakeTensorMode,
        }
        if surroundings in kinds:
            with kinds[surroundings]():
                goes_to_onednn(60, first, second)
        elif surroundings == "vmap":
            torch.vmap(lambda x: x * goes_to_onednn(60, first, second))(first)
        else:
            usual = torch.get_default_dtype()
            torch.set_default_dtype(torch.float64)
            try:
                goes_to_onednn(60, first, second)
            finally:
                torch.set_default_dtype(usual)
        assert self.chosen()
