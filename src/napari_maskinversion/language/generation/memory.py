"""DeCap's support memory: embeddings of sentences, onto which other embeddings are projected.

Texts and images lie in different parts of the joint space. A decoder that was trained on texts
alone reads a mean of the texts nearest to a region instead of the region itself (Li et al.,
"DeCap", ICLR 2023).
"""

from __future__ import annotations

from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor

SHARPNESS: Final = 100.0  # the authors' factor of the cosines
_ROWS: Final = 100_000  # of the memory, in float32 at once


class SupportMemory:
    """Embeddings of sentences.

    Shapes: vectors (M, e).
    """

    def __init__(self, vectors: Tensor, sharpness: float = SHARPNESS) -> None:
        self.vectors = vectors
        self.sharpness = sharpness

    def project(self, embeddings: Tensor) -> Tensor:
        """Return unit means (N, e) of the memory, weighted by the softmax of the cosines."""
        unit = F.normalize(embeddings.float(), dim=-1)
        pieces = self.vectors.split(_ROWS)  # type: ignore[no-untyped-call]
        cosines = torch.cat([unit @ piece.float().T for piece in pieces], -1)
        shares = (self.sharpness * cosines).softmax(-1).split(_ROWS, dim=-1)  # type: ignore[no-untyped-call]
        means = [share @ piece.float() for share, piece in zip(shares, pieces, strict=True)]
        return F.normalize(torch.stack(means).sum(0), dim=-1)
