"""A map keeps to the memory it was given, on a processor and on a GPU."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from napari_maskinversion.engine.encode.image_encoding import BlockWeights, LayerConstants
from napari_maskinversion.engine.explain.legrad import LeGrad, MapLayer
from napari_maskinversion.engine.explain.routes import DirectRoute

MB = 2**20
# ViT-B/16 at 448 px.
TOKENS, WIDTH, HEADS, JOINT = 785, 768, 12, 512


class Largest(TorchDispatchMode):
    """Notes the largest piece of memory that is made."""

    nbytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, torch.Tensor):
                self.nbytes = max(self.nbytes, tensor.untyped_storage().nbytes())
        return made


def a_layer(device):
    def of(*shape):
        return torch.empty(*shape, device=device)

    constants = LayerConstants(
        values=of(HEADS, TOKENS, WIDTH // HEADS),
        jacobian=of(JOINT, WIDTH),
        weights=BlockWeights(
            out=of(WIDTH, WIDTH), down=of(WIDTH, 4 * WIDTH), mixed=of(4 * WIDTH, WIDTH)
        ),
        slope=of(TOKENS, 4 * WIDTH),
        bend=of(TOKENS, 4 * WIDTH),
        offset=of(TOKENS, WIDTH),
    )
    return MapLayer(constants.values, DirectRoute(constants), of(TOKENS, WIDTH))


@pytest.mark.parametrize(
    ("device", "memory", "layers"),
    [("cpu", 64 * MB, 2), ("cuda", 64 * MB, 4), ("cuda", 64 * MB, 1)],
)
def test_no_piece_of_memory_is_larger_than_what_there_is(device, layers, memory):
    with FakeTensorMode():
        explained = LeGrad([a_layer(device) for _ in range(layers)], memory)
        with Largest() as seen:
            for count in {1, explained.group_size}:
                explained.forward(torch.empty(count, JOINT, device=device))
                explained.vjp(torch.empty(count, TOKENS - 1, device=device))
            explained.forward_start()
            explained.vjp(torch.empty(count, TOKENS - 1, device=device))
    # A block of attention gradients has a size of its own on a GPU.
    assert seen.nbytes <= max(memory, 128 * MB)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_more_memory_lets_more_masks_be_worked_on_at_once(device):
    with FakeTensorMode():
        sizes = [LeGrad([a_layer(device)], memory).group_size for memory in (1, 128 * MB, 256 * MB)]
    assert sizes[0] == 1 < sizes[1] <= sizes[2]


def test_a_processor_is_not_given_so_many_masks_that_nobody_could_stop_it():
    with FakeTensorMode():
        assert LeGrad([a_layer("cpu")], 2**40).group_size == 20
        assert LeGrad([a_layer("cuda")], 2**40).group_size > 1000
