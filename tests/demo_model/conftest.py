from __future__ import annotations

import pytest
import torch
from torch import Tensor

from napari_maskinversion.demo_model.scenes import pyramid


@pytest.fixture(scope="session")
def shapes() -> list[Tensor]:
    """Stand-ins for drawings, (1 style, 6 names): discs and squares of plain colours."""
    size = 32
    ys, xs = torch.meshgrid(*(torch.linspace(-1, 1, size),) * 2, indexing="ij")
    disc = ((ys**2 + xs**2) < 0.9).float()
    square = torch.ones(size, size)
    sprites = torch.zeros(1, 6, size, size, 4)
    for i, colour in enumerate(((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1), (1, 0, 1))):
        sprites[0, i, ..., :3] = torch.tensor(colour, dtype=torch.float32)
        sprites[0, i, ..., 3] = disc if i % 2 else square
    return pyramid((sprites * 255).to(torch.uint8).numpy(), levels=2)
