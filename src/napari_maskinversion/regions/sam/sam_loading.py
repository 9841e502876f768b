"""Load whatever SAM there is at a path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ...base.errors import ModelError
from ...base.wording import first_line
from ...engine.compute.devices import choose_device
from .folders import SAM2, SAM3, check_folder, folder_of, name_of
from .sam3 import Concepts
from .segmenter import Segmenter


def load_segmenter(path: str | Path, device: str = "auto") -> Segmenter:
    """Load a SAM checkpoint: a file of SAM 1, or of SAM 2 with its folder."""
    place = Path(path)
    name = name_of(place)
    chosen = choose_device(device)
    folder = folder_of(place)
    if folder is None:
        from .sam1 import Sam1, load_sam

        return Sam1(load_sam(place, chosen), name)
    check_folder(folder, SAM2)
    from transformers import Sam2Model

    from .sam2 import Sam2

    return Sam2(_filled(Sam2Model, folder, chosen), name)


def load_proposer(path: str | Path, device: str = "auto") -> Segmenter | Concepts:
    """Load a SAM to propose regions with it; SAM 3, too."""
    folder = folder_of(Path(path))
    if folder is None or check_folder(folder) != SAM3:
        return load_segmenter(path, device)
    from transformers import CLIPTokenizerFast, Sam3Model

    try:
        tokenizer = CLIPTokenizerFast.from_pretrained(folder, local_files_only=True)
    except (OSError, TypeError, ValueError) as error:
        raise ModelError(
            f"{folder} has a tokenizer that cannot be read; download the folder again."
        ) from error
    return Concepts(_filled(Sam3Model, folder, choose_device(device)), tokenizer, folder.name)


def _filled(architecture: Any, folder: Path, device: torch.device) -> Any:
    """Load a model of transformers from a folder; each parameter must have its value."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # it warns that these are folders for videos
    logging.disable_progress_bar()
    try:
        model, info = architecture.from_pretrained(
            folder,
            local_files_only=True,
            use_safetensors=True,  # a pickle could run code
            output_loading_info=True,
            dtype=torch.float32,
        )
    except Exception as error:  # transformers raises nearly anything on damaged folders
        raise ModelError(
            f"{folder} cannot be loaded ({first_line(error)}); download the folder again."
        ) from error
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
    if missing := sorted(info["missing_keys"]):
        raise ModelError(
            f"{folder} is not whole, or another architecture than its {folder.name}/config.json "
            f"says: {len(missing)} tensors are missing ({missing[0]}, ...)."
        )
    return model.requires_grad_(False).to(device).eval()
