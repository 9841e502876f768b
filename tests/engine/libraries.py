"""Let every product of a test go by oneDNN, however small, or none."""

from __future__ import annotations

import pytest
import torch

from napari_maskinversion.engine.compute import matmul

AVAILABLE = torch.backends.mkldnn.is_available()
NEEDED = "this build of torch has no oneDNN"
# What a product of so small numbers may differ by.
ROUNDING = {"rtol": 1e-4, "atol": 1e-5}


def all_by_onednn(monkeypatch) -> list[tuple[int, ...]]:
    """Give a list of the shapes (..., k) x (n, k) that went by oneDNN, which grows."""
    if not AVAILABLE:
        pytest.skip(NEEDED)
    went: list[tuple[int, ...]] = []
    pointwise = matmul._pointwise

    def noted(rows, weight, *others, **named):
        went.append((*rows.shape, weight.shape[0]))
        return pointwise(rows, weight, *others, **named)

    monkeypatch.setattr(matmul, "LARGE", 1)
    monkeypatch.setattr(matmul, "_onednn_suits_processor", lambda: True)
    monkeypatch.setattr(matmul, "_pointwise", noted)
    return went
