"""``embeddings.npy``: unit embeddings, with a JSON file of ids and norms."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from ...base.atomic_files import atomic_path, together
from ...regions.annotations.json_files import write_json
from .bundle import Bundle, ExportFormat


def write_embeddings(bundle: Bundle, path: Path) -> None:
    """Write unit embeddings (N, e) float32 as .npy, and a .json of the same name.

    The JSON file holds ids, norms (embedding = norm times row), model, settings and versions.
    """
    results = bundle.results
    about = bundle.provenance()
    norms = [region.norm for region in results.regions]
    labels = [region.source_label for region in results.regions]
    source_ids = [region.source_id for region in results.regions]
    about["embeddings"] = {
        "file": path.name,
        "shape": list(results.embeddings.shape),
        "dtype": "float32",
        "normalised": "L2",
        "ids": results.ids,
        "norms": norms,
        "source_labels": labels,
        "source_ids": source_ids,
    }
    with together(path.parent):
        with atomic_path(path) as part, part.open("wb") as file:
            file.write(npy_bytes(results.embeddings))
        write_json(about, _about_file(path))


def npy_bytes(embeddings: npt.NDArray[np.float32]) -> bytes:
    """Return the content of the .npy file."""
    # numpy writes into a real file from C and does not notice a full disk.
    content = BytesIO()
    np.save(content, embeddings)
    return content.getvalue()


def _about_file(path: Path) -> Path:
    return path.with_suffix(".json")


FORMATS: Final = (
    ExportFormat(
        "npy",
        "Embeddings (.npy)",
        "embeddings.npy",
        write_embeddings,
        more_files=lambda path: (_about_file(path),),
    ),
)
