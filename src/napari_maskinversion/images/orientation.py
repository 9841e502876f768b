"""What a picture says of itself that its pixels, as they are stored, do not show."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from .decoding import open_picture
from .tiff_pages import TURNED

_TAG: Final = 274  # of EXIF and TIFF


def turned(path: Path) -> str:
    """Return a note about an image that some viewers turn."""
    return (
        f"{path} says that it is to be turned or mirrored (EXIF orientation); it is used as it is "
        "stored, as napari and scikit-image show it. Regions drawn in a viewer that turns it, such "
        "as labelme or a browser, lie elsewhere: save it upright first."
    )


def picture_notes(path: Path) -> tuple[str, ...]:
    """Return notes about a picture: an orientation that is not heeded, pictures not read."""
    notes = []
    with open_picture(path) as picture:
        frames = getattr(picture, "n_frames", 1)
        # Phones keep depth and previews as further pictures of JPEG.
        if frames > 1 and picture.format != "MPO":
            notes.append(f"{path} is an animation of {frames} pictures; the first one is used.")
        if _orientation(picture) in TURNED:
            notes.append(turned(path))
    return tuple(notes)


def _orientation(picture: Any) -> Any:
    with suppress(Exception):  # Pillow raises nearly anything; the pixels are readable anyway
        return picture.getexif().get(_TAG)
    return None
