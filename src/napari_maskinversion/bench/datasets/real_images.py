"""Real images of a split, with errors that name file and record."""

from __future__ import annotations

from pathlib import Path

from ...demo_model.domains import (
    AnnotationError,
    Picture,
    Split,
    annotated,
    annotation_of,
    files_of,
    pixels_of,
)
from .protocol import BadRecordError
from .reading import opening


def pictures(
    folder: Path, split: Split, kind: str, skipped: dict[str, str] | None = None
) -> list[Picture]:
    """Read every picture of a split."""
    usable = []
    for file in files_of(folder, split, kind):
        try:
            picture = read_picture(file, kind, f"{kind}, {file.stem}")
        except BadRecordError as error:
            if skipped is None:
                raise BadRecordError(
                    f"{error} Say --skip-bad to leave such images out; finished parts are kept."
                ) from None
            skipped[str(file)] = str(error)
            continue
        if picture is not None:
            usable.append(picture)
    if not any(len(picture.boxes) for picture in usable):
        why = next(iter((skipped or {}).values()), "there are none with regions")
        raise BadRecordError(f"No {split} image of {kind} in {folder} can be used: {why}")
    return usable


def read_picture(file: Path, kind: str, record: str) -> Picture | None:
    """Read one image and its annotation; None if it is not annotated."""
    with opening(file, record, "image"):
        pixels = pixels_of(file)
    try:
        with opening(annotation_of(file, kind), record, "annotation"):
            return annotated(file, kind, pixels)
    except AnnotationError as error:
        raise BadRecordError(f"{record}: {error}") from None
