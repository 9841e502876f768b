"""Download model weights into one visible folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ...base.download import Download, download
from ...base.hub import announced_file, recorded_weights
from .registry import get_spec, model_folder
from .specs import DEMO, WEIGHTS_FILE, WEIGHTS_FILES, ModelSpec, bundled_folder

OFFLINE_PAGE: Final = (
    "https://napari-maskinversion.github.io/napari-maskinversion/latest/install/#offline"
)


def fetch(
    name: str,
) -> Path:
    """Make sure that the weights of a model are on this machine and intact; return their path.

    ``name`` is one that `get_spec` accepts; otherwise, and with its errors, it does as `download`.
    """
    spec = get_spec(name)
    if spec.bundled:
        return bundled_folder() / WEIGHTS_FILE
    owner, project, *path = spec.source.split("/", 2)
    folder = model_folder(spec)
    return download(
        Download(
            name=spec.name,
            size=spec.size_mb * 1_000_000,
            lock=folder / ".lock",
            alternative=(
                f"{how_to_bring(spec)}, or name a checkpoint file of your own, or use the bundled "
                f"model {DEMO!r}"
            ),
            local=lambda: recorded_weights(folder),
            remote=lambda: announced_file(f"{owner}/{project}", path or WEIGHTS_FILES, folder),
        ),
    )


def how_to_bring(spec: ModelSpec) -> str:
    """Return how to get the weights of a model to a machine without a network."""
    return (
        f"run 'napari-maskinversion models fetch {spec.name}' on a machine with a network, and "
        f"copy the folder of the file that it names to {model_folder(spec)} ({OFFLINE_PAGE})"
    )
