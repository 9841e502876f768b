"""What the engine asks of a GPU, counted on tensors without numbers; no speed is measured."""

import functools
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torchgen
import yaml
from torch._subclasses.fake_tensor import FakeTensorMode

from napari_maskinversion.base.regions import Regions
from napari_maskinversion.engine.invert.dice import MaskTargets

SCRIPT = Path(__file__).parents[3] / "benchmarks/count.py"
RESULTS = SCRIPT.parent / "results/count.json"
# Most kernels of a step with two masks, and for each mask more. CoCa has the loop of SigLIP.
STEPS = {
    ("ViT-B-16", "gradcam"): (100, 0),
    ("ViT-B-16-SigLIP", "legrad"): (200, 0),
    # Its last block is differentiated by autograd, which takes some operations mask by mask.
    ("EVA02-B-16", "legrad"): (350, 25),
}


@pytest.fixture(scope="module")
def script():
    """The benchmark that counts; ``counters`` are those that it has made."""
    spec = importlib.util.spec_from_file_location("count_benchmark", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.counters = []

    class Kept(module.OperationCounter):
        def __init__(self):
            super().__init__()
            module.counters.append(self)

    module.OperationCounter = Kept
    return module


@pytest.fixture(scope="module")
def count(script):
    """Count once what several tests look at."""

    @functools.cache
    def counted(masks, budget, precision, own_images):
        return script.count(masks, budget=budget, precision=precision, own_images=own_images)

    def call(masks, budget=16 * 2**30, precision="float32", *, own_images=False):
        return counted(masks, budget, precision, own_images)

    return call


@pytest.fixture(scope="module")
def others(script):
    """Rows by tower and map, of towers of one block; the loop sees the last one alone."""
    rows = [
        row
        for tower, map_ in STEPS
        for row in script.count_other(tower, [map_], masks=(2, 3), resolution=224, blocks=1)
    ]
    return {(row["tower"], row["map"]): row for row in rows}


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_a_step_of_a_hundred_masks_is_at_most_a_hundred_kernels(count, precision):
    row = count(100, precision=precision)
    assert row["masks_at_once"] == 100
    assert row["route"] == "decomposed"
    assert row["kernels_per_step"] <= 100


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_windows_together_take_hardly_more_kernels_than_one(count, precision):
    two, many = (count(masks, precision=precision, own_images=True) for masks in (2, 16))
    assert many["kernels_per_step"] <= two["kernels_per_step"]
    assert many["kernels_per_step"] / 16 <= 8
    assert many["host_reads"] == 0


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_kept_numbers_of_kernels_are_those_of_this_version(count, precision):
    kept = json.loads(RESULTS.read_text("utf-8"))["rows"][f"ViT-B-16:100:16:{precision}"]
    row = count(100, precision=precision)
    assert row["kernels_per_step"] == kept["kernels_per_step"]
    assert row["host_reads"] == kept["host_reads"] == 0


def test_images_after_the_first_launch_a_tenth_with_graphs(script):
    kept, before = json.loads(RESULTS.read_text("utf-8"))["rows"], len(script.counters)
    rows = script.count_launches("float32")
    del script.counters[before:]  # positions are resampled on the CPU
    for row in rows:
        assert row.items() <= kept[f"launches:{row['work']}:float32"].items()
        assert row["repeating"] <= 0.1 * row["launches"]


@pytest.mark.parametrize(("gigabytes", "precision"), [(1, "bfloat16"), (16, "float32")])
def test_the_loop_never_waits_for_the_device(count, gigabytes, precision):
    assert count(20, budget=gigabytes * 2**30, precision=precision)["host_reads"] == 0


def test_half_precision_reads_and_writes_half_as_much(count):
    whole, half = (count(100, precision=name)["gigabytes"] for name in ("float32", "bfloat16"))
    assert half <= 0.55 * whole


def test_a_small_budget_takes_more_groups_of_masks(count):
    few, many = (count(20, budget=gigabytes * 2**30) for gigabytes in (1, 16))
    assert few["masks_at_once"] < many["masks_at_once"]
    assert few["kernels_per_step"] > many["kernels_per_step"]


@pytest.mark.parametrize("row", STEPS, ids=":".join)
def test_other_towers_and_maps_take_few_kernels_more_for_more_masks(others, row):
    most, each = STEPS[row]
    two, three = (others[row][f"kernels_per_step_{masks}_masks"] for masks in (2, 3))
    assert two <= most
    assert three - two <= each
    assert others[row]["host_reads"] == 0


@pytest.mark.parametrize("row", STEPS, ids=":".join)
def test_an_image_is_checked_by_one_number_from_the_device(others, row):
    # On a GPU its positions are resampled on the host, too, where the size is not the native one.
    assert others[row]["encode_host_reads"] == 1
    assert others[row]["encode_kernels"] <= 400


def test_a_batch_of_texts_waits_for_two_numbers(others):
    row = others["ViT-B-16", "gradcam"]
    assert row["text_host_reads"] == 2  # whether attention is causal; how long the longest text is
    assert row["text_kernels"] <= 50


@pytest.mark.parametrize("masks", [10, 100])
def test_masks_are_made_targets_and_compared_with_maps_in_one_batch(script, masks):
    """As many kernels for a hundred masks as for ten, and nothing waits for the device."""
    rng = np.random.default_rng(0)
    corners = rng.integers(0, 300, (masks, 2))
    stack = np.zeros((masks, 448, 448), bool)
    for mask, (y, x) in zip(stack, corners, strict=True):
        mask[y : y + 100, x : x + 90] = True
    regions = Regions.from_masks(stack)
    with FakeTensorMode(allow_non_fake_inputs=True), script.OperationCounter() as counter:
        like = torch.empty(0, device="cuda")
        targets = MaskTargets(regions, (448, 448), (448, 448), (28, 28), like)
        targets.overlaps(torch.empty(masks, 784, device="cuda"))
    assert counter.host_reads == 0
    assert sum(counter.kernels.values()) <= 80


# Operations that choose themselves by device: on Apple's GPUs torch takes others in their place.
# Which of the kernels of attention that is depends on the GPU of the machine, too.
CHOSEN_BY_DEVICE = ("aten::_native_multi_head", "aten::_scaled_dot_product_", "prim::device")
# What torch 2.4 lacked on Apple's GPUs of what an engine like this could use.
# All other operations of the loop, the encoding and texts are in its table; `_safe_softmax` came
# later and is a softmax there.
LATER_THAN_2_4 = {
    "aten::linalg_qr",
    "aten::_linalg_eigh",
    "aten::_upsample_bicubic2d_aa",
    "aten::isneginf",
}


def apple_operations():
    """Return the operations that torch's own table says run on Apple's GPUs."""
    table = Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml"
    with table.open(encoding="utf-8") as stream:
        entries = {
            "aten::" + entry["func"].partition("(")[0]: entry
            for entry in yaml.load(stream, Loader=yaml.CSafeLoader)
        }

    def runs(entry):
        if "structured_delegate" in entry:
            entry = entries["aten::" + entry["structured_delegate"]]
        kernels = ", ".join(entry.get("dispatch", ["CompositeImplicitAutograd"])).split(", ")
        return any(kernel == "MPS" or kernel.startswith("Composite") for kernel in kernels)

    return {name for name, entry in entries.items() if runs(entry)}


def test_every_operation_exists_on_apples_gpus(script, count, others):
    for precision in ("float32", "bfloat16"):
        count(3, precision=precision)
        count(100, precision=precision)
    for tower in set(script.OTHERS) - {tower for tower, _ in others}:
        script.count_other(tower, masks=(2,), resolution=224, blocks=1)
    every = set().union(*(counter.overloads for counter in script.counters))
    asked = {name for name in every if not name.startswith(CHOSEN_BY_DEVICE)}
    assert len(asked) > 80
    assert not asked - apple_operations()
    assert not asked & LATER_THAN_2_4


def test_a_result_leaves_the_device_in_one_copy(script, monkeypatch):
    kept = []

    class Descent(script.Descent):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            kept.append(self)

    monkeypatch.setattr(script, "Descent", Descent)
    script.count(3)
    # There are no regions to compare maps with, and tensors without numbers have no array.
    monkeypatch.setattr(kept[0].targets, "overlaps", lambda maps: maps[:, 0])
    monkeypatch.setattr(torch.Tensor, "numpy", lambda self: np.zeros(self.shape, np.float32))
    with script.OperationCounter() as counter:
        result = kept[0].result((448, 448))
    assert len(result) == 3
    assert counter.host_reads == 1
