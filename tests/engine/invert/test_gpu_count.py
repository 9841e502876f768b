"""What the exact loop asks of a GPU, counted on tensors without numbers; no speed is measured."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks/count.py"


@pytest.fixture(scope="module")
def count():
    spec = importlib.util.spec_from_file_location("count_benchmark", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.count


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_a_step_of_a_hundred_masks_is_at_most_a_hundred_kernels(count, precision):
    row = count(100, budget=16 * 2**30, precision=precision)
    assert row["masks_at_once"] == 100
    assert row["route"] == "decomposed"
    assert row["kernels_per_step"] <= 100


@pytest.mark.parametrize("gigabytes", [1, 16])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_loop_never_waits_for_the_device(count, gigabytes, precision):
    assert count(20, budget=gigabytes * 2**30, precision=precision)["host_reads"] == 0


def test_half_precision_reads_and_writes_half_as_much(count):
    whole, half = (count(100, precision=name)["gigabytes"] for name in ("float32", "bfloat16"))
    assert half <= 0.55 * whole


def test_a_small_budget_takes_more_groups_of_masks(count):
    few, many = (count(20, budget=gigabytes * 2**30) for gigabytes in (1, 16))
    assert few["masks_at_once"] < many["masks_at_once"]
    assert few["kernels_per_step"] > many["kernels_per_step"]
