"""The image's encoding on devices that this machine may not have."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from napari_maskinversion.engine.compute.devices import on_cpu
from napari_maskinversion.engine.encode.image_encoding import (
    _activate,
    block_weights,
    positions_of,
    resample_positions,
)
from napari_maskinversion.engine.models import loading
from napari_maskinversion.engine.models.towers import base, tower_of
from tests.engine.tiny import tiny_clip

# Operators that MPS lacks in torch 2.4; it has no float64 either. Antialiased resizing came with
# 2.7 and 2.8, bicubic resizing with 2.6, decompositions in 2026.
LACKING = {
    "_upsample_bilinear2d_aa",
    "_upsample_bicubic2d_aa",
    "upsample_bicubic2d",
    "linalg_qr",
    "_linalg_eigh",
    "_linalg_svd",
    "linalg_lstsq",
    "linalg_solve_ex",
}


class OnDevice(TorchDispatchMode):
    """Notes the operators that touch tensors outside the CPU, and those with float64 there."""

    def __init__(self):
        super().__init__()
        self.names, self.doubles = set(), set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves((args, kwargs, result)):
            if isinstance(leaf, torch.Tensor) and leaf.device.type != "cpu":
                name = func.overloadpacket.__name__
                self.names.add(name)
                if leaf.dtype == torch.float64:
                    self.doubles.add(name)
        return result


def to_fake_gpu(module, mode):
    """Replace a module's tensors by fake ones on a GPU; only shapes are computed with them."""
    for owner in module.modules():
        for table, wrap in ((owner._parameters, torch.nn.Parameter), (owner._buffers, lambda t: t)):
            for name, tensor in table.items():
                if tensor is not None:
                    fake = mode.from_tensor(tensor.detach()).to("cuda")
                    table[name] = wrap(fake) if tensor.is_floating_point() else fake
    return module.requires_grad_(False)


@pytest.mark.parametrize("quick", [False, True], ids=["gelu", "quick-gelu"])
def test_an_image_is_encoded_with_operators_that_every_gpu_has(monkeypatch, quick):
    clip = (
        loading.load_model("demo", device="cpu").clip if not quick else tiny_clip(quick_gelu=True)
    )
    # Whether an image is finite is read from real values.
    monkeypatch.setattr(base, "check_image", lambda *_: (20, 16))
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        visual = to_fake_gpu(clip, fake).visual
        image = torch.empty(1, 3, 160, 128, device="cuda")
        with OnDevice() as device:
            encoding = tower_of(visual).encode(image, 2)
        assert encoding.embedding.device.type == "cuda"
        assert {part.slope.device.type for part in encoding.layers} == {"cuda"}
    assert {"convolution", "cat"} <= device.names  # the mode sees what runs
    assert not device.names & LACKING
    assert not device.doubles


def test_a_function_runs_on_the_cpu_and_its_result_goes_back():
    with FakeTensorMode():
        seen = []
        result = on_cpu(
            lambda x: (seen.append(x.device.type), x * 2)[1], torch.ones(2, device="cuda")
        )
    assert seen == ["cpu"]
    assert result.device.type == "cuda"


@pytest.mark.parametrize("prefix", [0, 1, 5])
def test_first_tokens_keep_their_positions_and_others_are_resampled(prefix):
    positions = torch.randn(prefix + 12, 8)
    resampled = resample_positions(positions, (3, 4), (6, 5), prefix)
    assert resampled.shape == (prefix + 30, 8)
    assert torch.equal(resampled[:prefix], positions[:prefix])
    image = positions[prefix:].T.reshape(1, 8, 3, 4)
    plain = torch.nn.functional.interpolate(image, (6, 5), mode="bicubic", antialias=True)
    assert torch.equal(resampled[prefix:].T.reshape(1, 8, 6, 5), plain)
    assert resample_positions(positions, (3, 4), (3, 4), prefix) is positions


def test_positions_are_resampled_once_for_images_of_a_size():
    visual = tiny_clip().visual
    grids = [(4, 7), (5, 7), (4, 7)]
    first, *others = (positions_of(visual, grid) for grid in [*grids, (4, 7)])
    assert others[-1] is others[-2]
    assert torch.equal(first, others[-1])
    assert positions_of(visual, visual.grid_size) is visual.positional_embedding


@pytest.mark.parametrize("approximate", ["none", "tanh", "quick"])
def test_the_derivative_of_an_activation_is_that_of_autograd(approximate):
    if approximate == "quick":
        activation = tiny_clip(quick_gelu=True).visual.transformer.resblocks[0].mlp.gelu
    else:
        activation = torch.nn.GELU(approximate)
    x = torch.linspace(-8, 8, 401, dtype=torch.float64, requires_grad=True)
    value = activation(x)
    (slope,) = torch.autograd.grad(value.sum(), x)
    ours = _activate(activation, x.detach())
    torch.testing.assert_close(ours[0], value.detach(), rtol=0, atol=1e-12)
    torch.testing.assert_close(ours[1], slope, rtol=0, atol=1e-12)


class TestWeightsOfABlock:
    """They are prepared once for each model, and again after the model has changed."""

    @pytest.fixture
    def block(self):
        return tiny_clip().visual.transformer.resblocks[-1]

    def test_they_are_prepared_once(self, block):
        weights = block_weights(block)
        assert block_weights(block) is weights
        assert weights.stored_as(torch.bfloat16) is weights.stored_as(torch.bfloat16)

    def test_changed_weights_are_prepared_again(self, block):
        before = block_weights(block)
        with torch.no_grad():
            block.mlp.c_proj.weight.mul_(2)
        torch.testing.assert_close(block_weights(block).down, 2 * before.down)

    def test_weights_that_took_the_place_of_others_are_prepared_again(self, block):
        before = block_weights(block)
        block.attn.out_proj.weight.data = 3 * block.attn.out_proj.weight.data
        torch.testing.assert_close(block_weights(block).out, 3 * before.out)

    def test_weights_in_another_type_are_prepared_again(self, block):
        block_weights(block)
        assert block_weights(block.double()).mixed.dtype == torch.float64
