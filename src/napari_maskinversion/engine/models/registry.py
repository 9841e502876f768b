"""Models by name, and where their weights are.

Imports neither torch nor open_clip, unless you look up a name that is not in the table.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, NonNegativeInt

from ...base.cache_folder import cache_folder
from ...base.download import RemoteFile
from ...base.errors import InputError, ModelError
from ...base.reading import read_json, validated
from .specs import (
    CHECKPOINTS,
    DEMO,
    MODELS,
    WEIGHTS_FILE,
    ModelSpec,
    bundled_folder,
    unknown_model,
)

ModelState = Literal["bundled", "on disk", "to fetch"]
RECORD: Final = "source.json"  # lies next to the weights


def list_models() -> list[ModelSpec]:
    """Return the models known by name, the bundled one first.

    Any other ``"architecture/tag"`` of open_clip with a vision transformer works too.
    """
    return list(MODELS.values())


def get_spec(name: str) -> ModelSpec:
    """Return the spec of a model.

    Parameters
    ----------
    name : str
        A name in `list_models`, or another ``"architecture/tag"`` of open_clip; the latter imports
        open_clip, which takes seconds.

    Raises
    ------
    ModelError
        If there is no such model (the message names the nearest ones), or its image tower cannot
        be explained.
    """
    if name in MODELS:
        return MODELS[name]
    if "/" not in name:
        raise unknown_model(name, MODELS)
    from .openclip import tag_spec

    return tag_spec(name)


def own_model(model: str | Path) -> Path | None:
    """Return the folder or checkpoint file that a model's name or path is; None for other names.

    It need not exist if it is a `Path`, is absolute, or ends as a checkpoint file.
    """
    try:
        path = Path(model).expanduser()
        is_path = path.exists() or path.is_absolute() or path.suffix in CHECKPOINTS
    except (OSError, RuntimeError):  # too long for a file, or of a user who does not exist
        return None
    if isinstance(model, str) and (not model or model in MODELS or not is_path):
        return None
    # "." and ".." tell no name.
    return path.resolve() if path.name in ("", "..") else path


def short_name(name: str) -> str:
    """Return a model's name for people: of a path, its last part."""
    path = own_model(name)
    return name if path is None else path.name


def recorded_name(model: str | Path) -> str:
    """Return the name that results and caption banks record for a model's name or path."""
    path = own_model(model)
    if path is None:
        return str(model)
    return path.name if path.is_dir() else path.stem


def unread_spec(name: str, architecture: str | None = None) -> ModelSpec:
    """Return what is known of a model before anything is imported or read.

    Parameters
    ----------
    name : str
        As for `load_model`.
    architecture : str, optional
        Of a checkpoint file.

    Raises
    ------
    ModelError
        If it can be no model.
    """
    if name in MODELS:
        return MODELS[name]
    path = own_model(name)
    if path is not None:
        if not path.exists():
            raise ModelError(f"There is no model {path}; choose one in Settings > Model.")
        size = round(path.stat().st_size / 1e6) if path.is_file() else 0
        return ModelSpec(
            name=name,
            title=str(path),
            architecture=architecture or path.name,
            source=str(path),
            size_mb=size,
            native_resolution=224,
        )
    architecture, _, tag = name.partition("/")
    if not (architecture and tag):
        raise unknown_model(name, MODELS)
    title = f"open_clip {architecture}, {tag}"
    return ModelSpec(
        name=name, title=title, architecture=architecture, tag=tag, source="", native_resolution=224
    )


def check_on_disk(name: str) -> None:
    """Refuse a model that is not on this machine.

    Raises
    ------
    ModelError
        Says what to do.
    """
    if model_state(unread_spec(name)) == "to fetch":
        raise ModelError(
            f"{name} is not on this machine yet; press Fetch in Settings > Model, "
            f"or choose the bundled model '{DEMO}'."
        )


def model_state(spec: ModelSpec) -> ModelState:
    """Return where a model's weights are: in the package, in the cache folder, or on the hub.

    Reads only the file system, so it is fast enough for a list that is redrawn.
    """
    if spec.bundled:
        return "bundled"
    if own_model(spec.source) is not None:
        return "on disk"
    return "on disk" if weights_on_disk(spec) is not None else "to fetch"


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsRecord:
    """Source, size and checksum of a weights file, as the hub announced them."""

    repository: str
    file: Annotated[str, Field(pattern=r"^[\w.-]+$")]
    size: NonNegativeInt
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    commit: str = ""

    def remote_file(self, folder: Path, url: str = "") -> RemoteFile:
        """Return the file in a folder for `download`."""
        content = json.dumps(asdict(self), indent=2) + "\n"
        return RemoteFile(
            url=url,
            path=folder / self.file,
            size=self.size,
            sha256=self.sha256,
            record=(folder / RECORD, content.encode()),
        )


def model_folder(spec: ModelSpec) -> Path:
    """Return the folder for the weights of a model that is not bundled."""
    return cache_folder() / "models" / folder_name(spec)


def folder_name(spec: ModelSpec) -> str:
    """Return the name of that folder in the cache folder."""
    return spec.name.replace("/", "--")


def weights_on_disk(spec: ModelSpec) -> Path | None:
    """Return the complete weights file of a model, or None. Fast: checks sizes only."""
    if spec.bundled:
        return bundled_folder() / WEIGHTS_FILE
    file = recorded_file(spec)
    return file.path if file is not None and file.is_complete else None


def recorded_file(spec: ModelSpec) -> RemoteFile | None:
    """Read the record next to the weights of a model; None if there is none or it is damaged."""
    return recorded_weights(model_folder(spec))


def recorded_weights(folder: Path) -> RemoteFile | None:
    """Read the record next to downloaded weights; None if there is none or it is damaged."""
    try:
        path = folder / RECORD
        return validated(WeightsRecord, read_json(path), path).remote_file(folder)
    except InputError:
        return None
