"""The empty prompt's map takes tokens out above 0.8 of its range, as the authors of LeGrad do."""

from __future__ import annotations

from typing import Any

import torch

from napari_maskinversion.engine.explain.protocol import WithoutEmpty


class HandMade:
    """A map that is the embedding."""

    group_size = 1

    def forward(self, embeddings: Any) -> Any:
        return embeddings

    def forward_start(self) -> Any:
        return torch.ones(1, 4)

    def vjp(self, grad: Any) -> Any:
        return grad


def test_a_token_is_taken_out_above_eight_tenths_of_the_empty_maps_range() -> None:
    # From 2 to 12: stretched to 0..1 the second and third are 0.79 and 0.81.
    corrected = WithoutEmpty(HandMade(), torch.tensor([2.0, 9.9, 10.1, 12.0]))
    kept = [[1.0, 1.0, 0.0, 0.0]]
    assert corrected.forward(torch.ones(1, 4)).tolist() == kept
    assert corrected.forward_start().tolist() == kept
    assert corrected.vjp(torch.ones(1, 4)).tolist() == kept
