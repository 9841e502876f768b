"""Models by name, where their weights are, and their download into one visible folder.

Imports neither torch nor open_clip, unless you look up a name that is not in the table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from ...base.cache_folder import cache_folder
from ...base.download import (
    Download,
    Unreachable,
    announced_file,
    download,
    fetch_small_files,
    recorded_weights,
)
from ...base.errors import ModelError, OfflineError
from .specs import (
    ALL_WEIGHTS_FILES,
    CHECKPOINTS,
    DEMO,
    MODELS,
    PREPROCESSOR,
    TOKENIZER_FILES,
    WEIGHTS_FILE,
    ModelSpec,
    bundled_folder,
    has_tokenizer,
    tokenizer_folder,
    unknown_model,
)

ModelState = Literal["bundled", "on disk", "to fetch"]


def list_models() -> list[ModelSpec]:
    """Return the models known by name, the bundled one first.

    Any other ``"architecture/tag"`` of open_clip with a vision transformer works too.
    """
    return list(MODELS.values())


def get_spec(name: str) -> ModelSpec:
    """Return the spec of a model."""
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
    if path.name in ("", ".."):
        return path.resolve()
    return path


def short_name(name: str) -> str:
    """Return a model's name for people: of a path, its last part."""
    path = own_model(name)
    if path is None:
        return name
    return path.name


def recorded_name(model: str | Path) -> str:
    """Return the name that results and caption banks record for a model's name or path."""
    path = own_model(model)
    if path is None:
        return str(model)
    if path.is_dir():
        return path.name
    return path.stem


def unread_spec(name: str, architecture: str | None = None) -> ModelSpec:
    """Return what is known of a model before anything is imported or read."""
    if name in MODELS:
        return MODELS[name]
    path = own_model(name)
    if path is not None:
        if not path.exists():
            raise ModelError(f"There is no model {path}; choose one in Settings > Model.")
        size = 0
        if path.is_file():
            size = round(path.stat().st_size / 1e6)
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


def model_state(spec: ModelSpec) -> ModelState:
    """Return where a model's weights are: in the package, in the cache folder, or on the hub.

    Reads only the file system, so it is fast enough for a list that is redrawn.
    """
    if spec.bundled:
        return "bundled"
    if spec.name not in MODELS and own_model(spec.source) is not None:
        return "on disk"
    if weights_on_disk(spec) is not None:
        return "on disk"
    return "to fetch"


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
    folder = model_folder(spec)
    if spec.config and not (folder / spec.config).exists():
        return None  # of no use without
    file = recorded_weights(folder)
    if file is not None and file.is_complete:
        return file.path
    return None


OFFLINE_PAGE: Final = (
    "https://napari-maskinversion.github.io/napari-maskinversion/latest/install/#offline"
)


def fetch(name: str) -> Path:
    """Make sure that all files of a model are on this machine; return the path of its weights.

    ``name`` is one that `get_spec` accepts; otherwise, and with its errors, it does as `download`.
    """
    spec = get_spec(name)
    if spec.bundled:
        return bundled_folder() / WEIGHTS_FILE
    owner, project, *path = spec.source.split("/", 2)
    repository = f"{owner}/{project}"
    folder = model_folder(spec)
    ways = (
        f"{how_to_bring(spec)}, or name a checkpoint file of your own, or use the bundled "
        f"model {DEMO!r}"
    )
    try:
        _fetch_companions(spec, repository, folder)
    except Unreachable as error:
        raise OfflineError(
            f"{spec.name} ({spec.size_text}) is not complete on this machine and {error}; {ways}."
        ) from error
    return download(
        Download(
            name=spec.name,
            size=spec.size_mb * 1_000_000,
            lock=folder / ".lock",
            alternative=ways,
            local=lambda: recorded_weights(folder),
            remote=lambda: announced_file(repository, path or ALL_WEIGHTS_FILES, folder),
        ),
    )


def _fetch_companions(spec: ModelSpec, repository: str, folder: Path) -> None:
    """Fetch what a model needs in addition to its weights: configuration and tokenizer."""
    if spec.config:
        fetch_small_files(repository, [PREPROCESSOR, spec.config], folder)
    if spec.tokenizer and not has_tokenizer(tokenizer_folder(folder)):
        fetch_small_files(spec.tokenizer, TOKENIZER_FILES, tokenizer_folder(folder))


def how_to_bring(spec: ModelSpec) -> str:
    """Return how to get the weights of a model to a machine without a network."""
    return (
        f"run 'napari-maskinversion models fetch {spec.name}' on a machine with a network, and "
        f"copy the folder of the file that it names to {model_folder(spec)} ({OFFLINE_PAGE})"
    )
