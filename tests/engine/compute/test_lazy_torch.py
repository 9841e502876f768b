"""What is known of devices before PyTorch is loaded, and what PyTorch adds."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

from napari_maskinversion.engine.compute.lazy_torch import (
    device_name,
    free_memory,
    torch_if_loaded,
)


def test_what_only_torch_knows_is_left_out_while_torch_is_not_loaded(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert free_memory("cuda:0") is None
    assert device_name("cuda:0") == "the GPU (cuda:0)"
    assert device_name("cpu").startswith("the CPU (")
    assert free_memory("cpu") > 0


def test_what_torch_holds_unused_on_a_gpu_counts_as_free(monkeypatch):
    cuda = SimpleNamespace(
        is_available=lambda: True,
        mem_get_info=lambda device: (3_000_000_000, 8_000_000_000),
        memory_reserved=lambda device: 2_000_000_000,
        memory_allocated=lambda device: 500_000_000,
        get_device_name=lambda device: "Some GPU",
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert free_memory("cuda:0") == 4_500_000_000
    assert device_name("cuda:0") == "Some GPU (cuda:0)"


def test_a_torch_that_is_being_imported_is_not_asked(monkeypatch):
    half = ModuleType("torch")
    half.__spec__ = ModuleSpec("torch", None)
    half.__spec__._initializing = True
    monkeypatch.setitem(sys.modules, "torch", half)
    assert torch_if_loaded() is None
    half.__spec__._initializing = False
    assert torch_if_loaded() is half
