"""Identifies the pixels that a run shows to a model. For workers: reads all pixels."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from .coordinates import Grid, ViewPoint
from .pictures import Picture
from .tasks import RunInput


@dataclass(frozen=True, slots=True)
class ImageFingerprint:
    """Fingerprint of the displayed pixels of a run, and its view."""

    digest: str  # Of the picture: pixels, limits and all else that affects how it looks
    view: ViewPoint  # For a run on all planes, independent of the plane shown

    @classmethod
    def of(cls, run_input: RunInput, digest: str = "") -> ImageFingerprint:
        """Compute it for a run; ``digest`` is that of its picture, if known."""
        finder, view = run_input.finder, run_input.view
        if finder.all_planes:
            view = finder.view_at([("", 0)] * len(finder.others))
        return cls(digest or picture_digest(run_input.picture), view)


def picture_digest(picture: Picture) -> str:
    """Return a digest of pixels and display settings."""
    hasher = hashlib.blake2b(digest_size=16)
    _feed(hasher, picture)
    return hasher.hexdigest()


def _feed(hasher: hashlib.blake2b, value: Any) -> None:
    if isinstance(value, np.ndarray):
        hasher.update(f"{value.shape}{value.dtype}".encode())
        hasher.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    elif is_dataclass(value):
        for field in fields(value):
            if not (isinstance(value, Grid) and field.name == "name"):  # pixels have no name
                _feed(hasher, getattr(value, field.name))
    elif isinstance(value, tuple):
        for one in value:
            _feed(hasher, one)
    else:
        # Lazy arrays are identified by object.
        lazy = hasattr(value, "shape") and not isinstance(value, np.generic)
        hasher.update(repr(id(value) if lazy else value).encode())
