"""The tokens of an image: how many along each side, and of how many pixels each.

`TokenGrid` divides pixels by patches. Towers with other tokens than squares are refused
(`ImageTower.unsupported`); one that has them would need a height and a width wherever a side of a
patch is taken: grep for ``patch``, also in `images.windows` and `pipeline.window_runner`.
"""

from __future__ import annotations

from typing import NamedTuple

from ...base.errors import InputError


class TokenGrid(NamedTuple):
    """Tokens of a model's input along its height and width, without class tokens.

    Ask `Backbone.token_grid` or `ImageTower.token_grid` for that of an input: a patch is theirs.
    """

    height: int
    width: int

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return self.height * self.width

    def input_size(self, patch: int) -> tuple[int, int]:
        """Return the pixels (h, w) of the input that has these tokens."""
        return self.height * patch, self.width * patch

    @classmethod
    def of_input(cls, size: tuple[int, int], patch: int) -> TokenGrid:
        """Return the tokens of an input of ``size`` (h, w) pixels, without parts of patches."""
        height, width = size
        return cls(height // patch, width // patch)

    @classmethod
    def for_image(
        cls, height: int, width: int, *, patch: int, resolution: int, keep_aspect: bool
    ) -> TokenGrid:
        """Return the tokens with which an image of this size in pixels is seen.

        About ``(resolution / patch) ** 2``, in the image's proportions or as a square; at least 2
        along each side and at most ``3 * resolution / patch``.
        """
        side = tokens_along(resolution, patch)
        if side < 2:
            raise InputError(
                f"A resolution of {resolution} px is too small for patches of {patch} px; "
                f"use at least {2 * patch}."
            )
        if not keep_aspect:
            return cls(side, side)
        aspect = (height / width) ** 0.5
        rows = min(max(round(side * aspect), 2), 3 * side)
        columns = min(max(round(side / aspect), 2), 3 * side)
        return cls(rows, columns)


def tokens_along(pixels: float, patch: int) -> int:
    """Return the number of whole tokens that comes nearest to this many pixels."""
    return round(pixels / patch)
