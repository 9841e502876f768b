"""Folders of SAM 2 and SAM 3 in the format of transformers. Imports neither torch nor that."""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from packaging.version import Version

from ...base.errors import InputError, ModelError
from ...base.reading import read_json
from ...base.wording import one_line

CONFIG: Final = "config.json"
WEIGHTS: Final = "model.safetensors"
SAM2 = "SAM 2"
SAM3 = "SAM 3"
_TOKENIZERS: Final = ("tokenizer.json", "vocab.json")
# Published folders are those of the models for videos, which contain the ones for images.
_KINDS: Final = {"sam2": SAM2, "sam2_video": SAM2, "sam3": SAM3, "sam3_video": SAM3}
_SINCE: Final = {SAM2: "4.57", SAM3: "5.0"}  # versions of transformers


def folder_of(path: Path) -> Path | None:
    """Return the folder of a model of transformers; None for a file of SAM 1.

    The path is the folder, or that of the weights in it.
    """
    if path.is_dir():
        return path
    beside = path.suffix == ".safetensors" and path.with_name(CONFIG).is_file()
    if beside:
        return path.parent
    return None


def name_of(path: Path) -> str:
    """Return the name of a checkpoint for users."""
    return (folder_of(path) or path).name


def check_transformers(kind: str) -> None:
    """Refuse to continue without a version of transformers that has this kind of model."""
    needed = _SINCE[kind]
    if find_spec("transformers") is None or Version(version("transformers")) < Version(needed):
        raise ModelError(
            f"{kind} needs the package transformers, {needed} or newer: "
            'pip install "napari-maskinversion[sam2]".'
        )


def check_folder(folder: Path, wanted: str | None = None) -> str:
    """Return whether a folder holds SAM 2 or SAM 3; refuse anything else, or the other."""
    try:
        named = read_json(folder / CONFIG)["model_type"]
    except (InputError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{folder} is no folder of SAM 2 or SAM 3, or not whole: {one_line(error)}"
        ) from None
    kind = _KINDS.get(str(named))
    if kind is None:
        raise ModelError(
            f"{folder} holds a model of type {named!r}, not SAM 2 or SAM 3 in the format of "
            "transformers (facebook/sam2.1-hiera-tiny)."
        )
    if wanted == SAM2 and kind == SAM3:
        raise ModelError(
            f"{folder} holds SAM 3, which finds regions by words (find IMAGE WORDS --checkpoint "
            "FOLDER); boxes and points need SAM 1 or SAM 2."
        )
    check_transformers(kind)
    # transformers would make an empty tokenizer.
    if kind == SAM3 and not any((folder / file).is_file() for file in _TOKENIZERS):
        raise ModelError(
            f"{folder} is not whole: {_TOKENIZERS[0]} is missing; download the folder again."
        )
    return kind
