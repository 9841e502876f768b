"""Errors shown to users: what is wrong, with which value, and what to do."""


class MaskInversionError(Exception):
    """Base of every error this package raises on purpose; its text is written for users."""


class ConfigError(MaskInversionError, ValueError):
    """A setting has a value that cannot work."""


class InputError(MaskInversionError, ValueError):
    """An image, a mask, a label list or an output place that cannot be used."""


class MaskShapeError(InputError):
    """Masks that do not fit the image they are said to belong to."""


class EmptyMaskError(InputError):
    """A mask without a single pixel."""


class ManyImagesError(InputError):
    """A file about several images, none of which is plainly the one that is meant.

    Attributes
    ----------
    names : tuple of str
        Of those of the right size, as the file calls them.
    """

    def __init__(self, message: str, names: tuple[str, ...]) -> None:
        super().__init__(message)
        self.names = names


class InUseError(InputError):
    """A file that another window or program is writing to."""


class NotSavedError(InputError):
    """Something that could not be written yet; it is kept and written at the next chance."""


class ModelError(MaskInversionError):
    """A model that is unknown, unreadable, or built in a way that cannot be explained."""


class OfflineError(ModelError):
    """Weights that are not on this machine while the network cannot or must not be used."""


class NotEnoughMemoryError(MaskInversionError):
    """Memory ran out, whatever was tried to need less of it."""


class Cancelled(MaskInversionError):
    """Work stopped because the user asked for it."""
