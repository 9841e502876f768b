"""Errors shown to users: what is wrong, with which value, and what to do."""

from collections.abc import Sequence
from typing import Final

_LONGEST: Final = 2000  # characters
_BEGINNING: Final = 1000
_END: Final = 500


class MaskInversionError(Exception):
    """Base of every error this package raises on purpose; its text is written for users.

    A text that quotes a very long value is shortened in its middle.
    """

    def __str__(self) -> str:
        text = super().__str__()
        if len(text) <= _LONGEST:
            return text
        return f"{text[:_BEGINNING]} ... {text[-_END:]}"


class ConfigError(MaskInversionError, ValueError):
    """A setting has a value that cannot work."""


class InputError(MaskInversionError, ValueError):
    """An image, a mask, a label list or an output path that cannot be used."""


class MaskShapeError(InputError):
    """Masks that do not have the size of the image."""


def if_turned(size: Sequence[int], shape: Sequence[int]) -> str:
    """Return a hint for a size (H, W) whose sides are exchanged; "" for others."""
    if tuple(size) != tuple(shape[::-1]):
        return ""
    return " Drawn in a viewer that turns the picture (EXIF orientation)? Save it upright first."


class EmptyMaskError(InputError):
    """A mask without a single pixel."""


class NoRegionsError(EmptyMaskError):
    """A file without regions of this image, as data sets have on purpose."""


class ManyImagesError(InputError):
    """A file about several images, and it is not clear which one is meant.

    Attributes
    ----------
    names : tuple of str
        Names in the file of the images of the right size.
    """

    def __init__(self, message: str, names: tuple[str, ...]) -> None:
        super().__init__(message)
        self.names = names


class NotListedError(ManyImagesError, NoRegionsError):
    """A file about several images, none of which has the name of this one."""


class InUseError(InputError):
    """A file that another window or program is writing to."""


class NotSavedError(InputError):
    """A file that could not be written yet; writing is tried again later."""


class ModelError(MaskInversionError):
    """A model that is unknown, unreadable, or of a kind that cannot be explained."""


NOT_FINITE: Final = (
    "computes values that are not finite (NaN or infinity): its weights are damaged, or too large "
    "for this precision; choose another model or precision."
)


class OfflineError(ModelError):
    """Weights that are not on this machine while the network cannot or must not be used."""


class NotEnoughMemoryError(MaskInversionError):
    """Memory ran out, even with the smallest settings tried."""


class Cancelled(BaseException):
    """Work stopped because the user asked for it.

    Like KeyboardInterrupt it is no Exception: code that goes on after an error stops here, too.
    """
