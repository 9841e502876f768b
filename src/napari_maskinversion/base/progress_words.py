"""Texts of progress bars and status lines, in the panel and on the command line."""

from __future__ import annotations

from typing import Final

STARTING: Final = "Starting"
STOPPING: Final = "Stopping"
OPENING: Final = "Opening"
STARTING_TORCH: Final = "Starting PyTorch"
READING_IMAGE: Final = "Reading the image"
READING_CAPTIONS: Final = "Reading the captions"
MAKING_REGIONS: Final = "Making regions"
MAKING_MAPS: Final = "Making the maps"
COMPARING_INPUTS: Final = "Comparing image and regions"
LOADING_DECODER: Final = "Loading the decoder"
COMPARING_WORDS: Final = "Comparing the words"
EMBEDDING_CAPTIONS: Final = "Embedding captions"
READING_DECODER: Final = "Reading the decoder"
WRITING_CAPTIONS: Final = "Writing captions"


def loading_model(name: str) -> str:
    """Return the text for a model being read: ``"Loading model ViT-B-16/openai"``."""
    return f"Loading model {name}"


def fetching(name: str, size: str, license: str) -> str:
    """Return the text for a download: ``"Fetching ViT-B-16/openai: 600 MB, licence MIT"``."""
    return f"Fetching {name}: {size}, licence {license}"


def encoding(layer: int = 0, layers: int = 0, subject: str = "the image") -> str:
    """Return the text for an image being encoded: ``"Looking at the image, 50 %"``."""
    return f"Looking at {subject}" + (f", {100 * layer // layers} %" if layers else "")


def searching(subject: str, count: int) -> str:
    """Return the text for a search: ``"Searching 1,200 captions"``."""
    return f"Searching {count:,} {subject}"


def counted(subject: str, done: int, total: int) -> str:
    """Return how many are done: ``"Labels 32 of 1,200"``, or ``"Files 32"`` of an unknown total."""
    if total:
        return f"{subject} {done:,} of {total:,}"
    return f"{subject} {done:,}"


def regions_at_step(first: int, last: int, total: int, step: int, steps: int) -> str:
    """Return the progress of a chunk: ``"Regions 1-16 of 40, step 3 of 10"``."""
    if first == last:
        which = f"Region {first}"
    else:
        which = f"Regions {first}-{last}"
    return f"{which} of {total}, step {step} of {steps}"


def picture_at_step(picture: int, pictures: int, step: int, steps: int) -> str:
    """Return the progress of a drawing: ``"Picture 1 of 4, step 3 of 50"``."""
    return f"Picture {picture} of {pictures}, step {step} of {steps}"


def fetched(name: str, done: int, total: int) -> str:
    """Return the progress of a download: ``"Fetching ViT-B-16/openai: 12 of 600 MB"``."""
    if total:
        return f"Fetching {name}: {megabytes(done, total)}"
    return f"Fetching {name} ..."


def checking(done: int, total: int) -> str:
    """Return the progress of hashing a file: ``"Checking a file: 12 of 600 MB"``."""
    return f"Checking a file: {megabytes(done, total)}"


def megabytes(done: int, total: int) -> str:
    """Return how much is downloaded: ``"12 of 600 MB"``."""
    return f"{done / 1e6:.0f} of {total / 1e6:.0f} MB"


def joined(*texts: str) -> str:
    """Join the texts that are not empty: progress and notes."""
    return "; ".join(filter(None, texts))
