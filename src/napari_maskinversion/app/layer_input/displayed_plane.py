"""Image layers blended as on the canvas, read box by box.

Knows neither Qt nor napari. The formulas are those of OpenGL's blending as the viewer sets it up,
which gives the lowest visible layer the canvas, and not another layer, to blend with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError
from ...images.channels import scale_to_unit
from ...images.lazy_plane import LazyPlane, blocks
from ...images.plane_source import Box, Level, nothing_to_see
from ...regions.affine import Affine2D

Array = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float32]

# Number of colours in a colormap; one more, at the end, is for NaN.
SHADES: Final = 4096


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Look:
    """How an image layer is shown."""

    limits: tuple[float, float]
    gamma: float
    opacity: float
    blending: str  # napari's name of it
    # RGBA (SHADES + 1, 4), float32, from the lower limit to the upper one, then NaN's; None for RGB
    colours: FloatArray | None
    smooth: bool  # Interpolated between pixels


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DisplayedLayer:
    """One image layer and how it is shown."""

    plane: LazyPlane
    to_plane: Affine2D  # From pixels of the image plane to pixels of this one
    look: Look

    def pixels(self, level: Level, number: int, box: Box) -> tuple[FloatArray, FloatArray] | None:
        """Colours (h, w, 3) and opacity (h, w) of a box; opacity is NaN where the layer ends."""
        values, inside = self._values(level, number, box)
        if values is None:
            return None
        look = self.look
        if look.colours is not None:
            unit = scale_to_unit(values, look.limits, look.gamma)
            places = (unit * (SHADES - 1) + 0.5).astype(np.intp)
            if values.dtype.kind == "f":
                places[np.isnan(values)] = SHADES
            colours = look.colours[places]
            rgb, alpha = colours[..., :3], colours[..., 3] * np.float32(look.opacity)
        else:
            rgb = scale_to_unit(values[..., :3], look.limits, look.gamma)
            alpha = np.full(rgb.shape[:2], look.opacity, np.float32)
            if values.shape[2] == 4:
                alpha *= scale_to_unit(values[..., 3], self._alpha_limits())
        if inside is not None:
            alpha[~inside] = np.nan
        return rgb, alpha

    def _alpha_limits(self) -> tuple[float, float]:
        kind = self.plane.dtype
        return (0.0, float(np.iinfo(kind).max)) if kind.kind in "iu" else (0.0, 1.0)

    def _values(
        self, level: Level, number: int, box: Box
    ) -> tuple[Array | None, npt.NDArray[np.bool_] | None]:
        """Values at a box's pixels, and where they are defined (None: everywhere)."""
        levels = self.plane.levels
        aligned = self.to_plane.is_identity()
        if aligned and number < len(levels) and levels[number] == level:
            return self.plane.read(number, box), None
        y0, x0, y1, x1 = box
        rows = level.step[0] * np.arange(y0, y1) + (level.step[0] - 1) / 2
        columns = level.step[1] * np.arange(x0, x1) + (level.step[1] - 1) / 2
        matrix, offset = self.to_plane.matrix, self.to_plane.offset
        chosen = self._level(level)
        step = levels[chosen].step
        places = []
        for axis in (0, 1):
            finest = matrix[axis, 0] * rows[:, None] + matrix[axis, 1] * columns + offset[axis]
            # A pixel of a coarse level lies in the middle of those it stands for.
            places.append((finest - (step[axis] - 1) / 2) / step[axis])
        height, width = levels[chosen].shape
        y, x = places
        inside = (y >= -0.5) & (y < height - 0.5) & (x >= -0.5) & (x < width - 0.5)
        if not inside.any():
            return None, None
        top, left = max(0, int(y[inside].min()) - 1), max(0, int(x[inside].min()) - 1)
        bottom = min(height, int(y[inside].max()) + 3)
        right = min(width, int(x[inside].max()) + 3)
        values = self.plane.read(chosen, (top, left, bottom, right))
        y, x = y - top, x - left
        if self.look.smooth:
            return _between(values, y, x), inside
        # Half a pixel goes up, as on the canvas.
        i = np.clip(np.floor(y + 0.5).astype(np.intp), 0, bottom - top - 1)
        j = np.clip(np.floor(x + 0.5).astype(np.intp), 0, right - left - 1)
        return values[i, j], inside

    def _level(self, level: Level) -> int:
        """Coarsest level with a pixel for each requested one."""
        wanted = np.linalg.norm(self.to_plane.matrix * np.asarray(level.step), axis=0).min()
        coarsest = 0
        for number, candidate in enumerate(self.plane.levels):
            if max(candidate.step) <= wanted * 1.001:  # steps are rounded
                coarsest = number
        return coarsest


def _between(values: Array, y: Array, x: Array) -> Array:
    from scipy.ndimage import map_coordinates

    def interpolate(channel: Array) -> Array:
        values = map_coordinates(channel.astype(np.float32), [y, x], order=1, mode="nearest")
        return np.asarray(values, dtype=np.float32)

    if values.ndim == 2:
        return interpolate(values)
    channels = [interpolate(values[..., number]) for number in range(values.shape[2])]
    return np.stack(channels, axis=-1)


def blend(
    below: FloatArray, rgb: FloatArray, alpha: FloatArray, mode: str, *, lowest: bool
) -> FloatArray:
    """Blend colours over others, as the canvas does.

    Shapes: below, rgb (h, w, 3), float32; alpha (h, w), float32.
    """
    a = alpha[..., None]
    if lowest:
        if mode == "minimum":
            return rgb
        if mode == "additive":
            return rgb * a
    elif mode == "opaque":
        return rgb
    elif mode == "minimum":
        return np.minimum(below, rgb)
    elif mode == "additive":
        return np.minimum(below + rgb * a, 1)
    elif mode == "multiplicative":
        return below * rgb
    return rgb * a + below * (1 - a)


class DisplayedPlane:
    """The visible image layers as on the canvas; a `PlaneSource`."""

    def __init__(
        self,
        levels: Sequence[Level],
        layers: Sequence[DisplayedLayer],
        background: tuple[float, float, float] = (0.0, 0.0, 0.0),
    ) -> None:
        if not layers:
            raise InputError(
                "No image layer is visible on this plane; show one, or choose 'this layer'."
            )
        self._levels = tuple(levels)
        self._layers = tuple(layers)
        self._background = np.asarray(background, dtype=np.float32)

    @property
    def shape(self) -> tuple[int, int]:
        """Pixels (H, W)."""
        return self._levels[0].shape

    @property
    def levels(self) -> tuple[Level, ...]:
        """Levels of the layer whose pixels are used."""
        return self._levels

    def read(self, level: int, box: Box) -> Array:
        """Read a box (h, w, 3), float32 in 0..1."""
        y0, x0, y1, x1 = box
        out = np.empty((y1 - y0, x1 - x0, 3), np.float32)
        out[:] = self._background
        for place, layer in enumerate(self._layers):
            looked_up = layer.pixels(self._levels[level], level, box)
            if looked_up is None:
                continue
            rgb, alpha = looked_up
            outside = np.isnan(alpha)
            mixed = blend(out, rgb, alpha, layer.look.blending, lowest=place == 0)
            out = np.where(outside[..., None], out, mixed) if outside.any() else mixed
        return np.asarray(out, dtype=np.float32)

    def values(self, box: Box) -> Array:
        """Read the colours on the canvas."""
        return self.read(0, box)

    def check(self) -> None:
        """Raise for a plane of one colour."""
        level = len(self._levels) - 1
        first: Array | None = None
        for box in blocks(self._levels[level].shape, 1024):
            colours = self.read(level, box)
            first = colours[0, 0] if first is None else first
            if bool((colours != first).any()):
                return
        raise InputError(nothing_to_see(first))
