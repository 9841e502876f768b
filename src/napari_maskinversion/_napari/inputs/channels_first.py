"""Images of shape (3, y, x), which napari takes for a stack of three planes."""

from __future__ import annotations

from typing import Any

_COLOURS = 3


def is_channels_first(image: Any) -> bool:
    """Return whether the planes of an image may be red, green and blue."""
    if image is None or image.rgb or image.multiscale or image.ndim != 3:
        return False
    data = image.data
    # NumPy and dask turn the axes without reading the data.
    return data.shape[0] == _COLOURS and data.dtype.kind in "uf" and hasattr(data, "transpose")


def add_in_colour(viewer: Any, image: Any) -> Any:
    """Add the three planes as one colour image in the same place, and hide the stack."""
    layer = viewer.add_image(
        image.data.transpose(1, 2, 0),
        rgb=True,
        name=f"{image.name} (RGB)",
        scale=image.scale[1:],
        translate=image.translate[1:],
        rotate=image.rotate[1:, 1:],
        shear=image.shear[-1:],
        affine=image.affine.affine_matrix[1:, 1:],
        units=image.units[1:],
    )
    image.visible = False
    return layer
