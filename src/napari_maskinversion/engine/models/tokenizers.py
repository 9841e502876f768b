"""Tokenizers other than CLIP's own: on the model hub, read by the transformers package."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

from ...base.cache_folder import is_offline
from ...base.errors import ModelError, OfflineError
from . import openclip

_LENGTH: Final = 77  # tokens of a text if the configuration does not tell


def tokenizer_of(model: str, config: Mapping[str, Any]) -> openclip.Tokenizer | None:
    """Return the tokenizer of a model; None if it is CLIP's own.

    Its first call downloads it, or reads it from the hub's cache: that raises OfflineError if
    neither is possible, and ModelError if transformers cannot read it.

    Parameters
    ----------
    model : str
        Name of the model, for errors.
    config : mapping
        open_clip's configuration of the model.

    Raises
    ------
    ModelError
        If it needs the transformers package, which is not installed.
    """
    name = openclip.own_tokenizer(config)
    if not name:
        return None
    if find_spec("transformers") is None:
        raise ModelError(
            f"{model} uses the tokenizer {name}, which needs the package "
            "transformers: pip install 'napari-maskinversion[tokenizers]'."
        )

    @cache
    def read() -> openclip.Tokenizer:
        offline, text = is_offline(), config["text_cfg"]
        length, settings = text.get("context_length", _LENGTH), text.get("tokenizer_kwargs") or {}
        try:
            return openclip.hub_tokenizer(name, int(length), local_files_only=offline, **settings)
        except OSError as error:
            why = "offline mode is on" if offline else "the model hub cannot be reached"
            raise OfflineError(
                f"The tokenizer {name} of {model} is not on this machine, and {why}."
            ) from error
        except (ImportError, ValueError) as error:
            why = " ".join(str(error).split())
            raise ModelError(f"The tokenizer {name} of {model} cannot be read: {why}") from error

    return lambda texts: read()(texts)
