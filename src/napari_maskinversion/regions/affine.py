"""Affine maps between two planes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Affine2D:
    """``x -> matrix @ x + offset`` between two planes."""

    matrix: FloatArray
    offset: FloatArray

    def __call__(self, points: npt.ArrayLike) -> FloatArray:
        """Map points (N, 2)."""
        moved: FloatArray = np.asarray(points, dtype=float) @ self.matrix.T + self.offset
        return moved

    @property
    def inverse(self) -> Affine2D:
        """The inverse map."""
        matrix = np.asarray(np.linalg.inv(self.matrix), dtype=np.float64)
        return Affine2D(matrix, -matrix @ self.offset)

    def is_identity(self) -> bool:
        """Whether it moves points by less than 1e-4 pixels."""
        return bool(
            np.allclose(self.matrix, np.eye(2), atol=1e-7)
            and np.allclose(self.offset, 0, atol=1e-4)
        )
