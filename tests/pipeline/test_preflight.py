"""Device, free memory and what is needed, before a run."""

import subprocess
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import psutil
import pytest

from napari_maskinversion.engine.compute.lazy_torch import torch_if_loaded
from napari_maskinversion.pipeline import preflight as module
from napari_maskinversion.pipeline.preflight import (
    Preflight,
    device_name,
    free_memory,
    likely_device,
    needed_memory,
    preflight,
)
from napari_maskinversion.pipeline.timings import forget, remember


@pytest.fixture(autouse=True)
def nothing_known():
    forget()
    yield
    forget()


def ask(**changed):
    asked = {"device": "cpu", "architecture": "ViT-B-16", "resolution": 448, "patch": 16}
    return preflight(**asked | {"at_once": 16, "weights": 599_000_000} | changed)


def free(monkeypatch, amount):
    monkeypatch.setattr(
        psutil, "virtual_memory", lambda: SimpleNamespace(available=amount, total=24e9)
    )


def test_the_line_names_device_free_and_needed_memory(monkeypatch):
    free(monkeypatch, 20_200_000_000)
    preflight = ask()
    assert not preflight.short
    assert preflight.text.startswith("On the CPU (")
    assert "): 20 GB free, about 1.6 GB needed" in preflight.text


def test_in_brief_memory_is_named_only_where_it_is_tight(monkeypatch):
    free(monkeypatch, 3_300_000_000)
    assert ask().brief.startswith("On the CPU (")
    assert "free" not in ask().brief
    free(monkeypatch, 3_100_000_000)
    assert "3.1 GB free, about 1.6 GB needed" in ask().brief


def test_a_run_that_may_not_fit_is_warned_of_and_one_that_is_loaded_needs_less(monkeypatch):
    free(monkeypatch, 1_000_000_000)
    assert ask().short
    assert "It may not fit: choose a smaller model" in ask().text
    assert not ask(weights=0, at_once=1).short


def test_more_regions_tokens_and_larger_towers_need_more():
    small = needed_memory("ViT-B-16", 197, at_once=1)
    assert needed_memory("ViT-B-16", 197, at_once=16) > small
    assert needed_memory("ViT-B-16", 785, at_once=1) > small
    assert needed_memory("ViT-L-14", 197, at_once=1) > small
    assert needed_memory("ViT-L-14-336", 197, at_once=1) == needed_memory(
        "ViT-L-14", 197, at_once=1
    )
    assert needed_memory("demo", 257, at_once=16) < small
    # Buffers are bounded, so a thousand regions at once need no more than some.
    assert needed_memory("ViT-B-16", 785, at_once=1000) == needed_memory(
        "ViT-B-16", 785, at_once=16
    )


def test_buffers_on_a_gpu_are_bounded_by_the_budget_too(monkeypatch):
    free(monkeypatch, 20e9)
    sizes = [ask(device="cuda:0", at_once=count).needed for count in (1, 256, 10_000)]
    assert sizes[0] < sizes[1] == sizes[2]


def test_many_regions_need_a_decomposition_where_the_budget_holds_it(monkeypatch):
    free(monkeypatch, 20e9)
    few, many = ask(regions=5), ask(regions=100)
    assert many.needed - few.needed == 512 * 785 * 768 * 4
    # An eighth of 8 GB is too small for it.
    small = SimpleNamespace(available=7e9, total=8e9)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: small)
    assert ask(regions=100).needed == few.needed


def test_what_only_torch_knows_is_left_out_while_torch_is_not_loaded(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    preflight = ask(device="cuda:0")
    assert preflight.free is None
    assert not preflight.short
    assert preflight.text.startswith("On the GPU (cuda:0); about ")


def test_what_torch_holds_unused_on_a_gpu_counts_as_free(monkeypatch):
    cuda = SimpleNamespace(
        is_available=lambda: True,
        mem_get_info=lambda device: (3_000_000_000, 8_000_000_000),
        memory_reserved=lambda device: 2_000_000_000,
        memory_allocated=lambda device: 500_000_000,
        get_device_name=lambda device: "Some GPU",
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    preflight = ask(device="cuda:0")
    assert preflight.free == 4_500_000_000
    assert preflight.text.startswith("On Some GPU (cuda:0): 4.5 GB free")


def test_auto_is_what_earlier_runs_used_until_torch_can_be_asked(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(module, "_has_cuda", lambda: False)
    monkeypatch.setattr(module.sys, "platform", "linux")
    assert likely_device("auto", "m", 448) == "cpu"
    remember("m", "cuda:0", resolution=448, steps=1, encoding=1, region=1, last=False)
    assert likely_device("auto", "m", 448) == "cuda:0"
    assert likely_device("auto", "other", 448) == "cpu"
    assert likely_device("cpu", "m", 448) == "cpu"
    assert likely_device("cuda", "m", 448) == "cuda:0"
    monkeypatch.setattr(module, "_has_cuda", lambda: True)
    assert likely_device("auto", "other", 448) == "cuda:0"


def test_asking_does_not_load_torch():
    code = (
        "import sys; from napari_maskinversion.pipeline.preflight import *;"
        "likely_device('auto', 'm', 1);"
        "preflight(device='cpu', architecture='demo', resolution=128, patch=8, at_once=1);"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


@pytest.mark.parametrize(
    ("amount", "text"),
    [(1, "10 MB"), (81e6, "90 MB"), (310e6, "350 MB"), (1.24e9, "1.2 GB"), (20.4e9, "20 GB")],
)
def test_amounts_are_as_rough_as_they_are_known(amount, text):
    preflight = Preflight(device="cpu", name="x", free=None, needed=int(amount))
    assert preflight.text == f"On x; about {text} needed"


def test_a_torch_that_is_being_imported_is_not_asked(monkeypatch):
    half = ModuleType("torch")
    half.__spec__ = ModuleSpec("torch", None)
    half.__spec__._initializing = True
    monkeypatch.setitem(sys.modules, "torch", half)
    assert torch_if_loaded() is None
    assert free_memory("cuda:0") is None
    assert device_name("cuda:0") == "the GPU (cuda:0)"
    half.__spec__._initializing = False
    assert torch_if_loaded() is half
