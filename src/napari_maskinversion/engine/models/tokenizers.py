"""Tokenizers other than CLIP's own: on the model hub, read by the transformers package."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final

from torch import Tensor

from ...base.cache_folder import is_offline
from ...base.errors import ModelError, OfflineError
from . import openclip
from .support import own_tokenizer

_LENGTH: Final = 77  # tokens of a text if the configuration does not tell


class HubTokenizer:
    """Converts texts to tokens; downloaded, or read from the hub's cache, at the first call.

    Parameters
    ----------
    model : str
        Name of the model, for errors.
    config : mapping
        open_clip's configuration of the model.

    Raises
    ------
    ModelError
        If the transformers package is not installed.
    """

    def __init__(self, model: str, config: Mapping[str, Any]) -> None:
        self._model, self._name = model, own_tokenizer(config)
        text = config["text_cfg"]
        self._length = int(text.get("context_length", _LENGTH))
        self._settings = dict(text.get("tokenizer_kwargs") or {})
        self._made: openclip.Tokenizer | None = None
        if find_spec("transformers") is None:
            raise ModelError(
                f"{model} uses the tokenizer {self._name}, which needs the package "
                "transformers: pip install 'napari-maskinversion[tokenizers]'."
            )

    def __call__(self, texts: list[str]) -> Tensor:
        """Return the tokens (T, length) of texts.

        Raises
        ------
        OfflineError
            If the tokenizer is not on this machine and cannot be downloaded.
        ModelError
            If transformers cannot read it.
        """
        if self._made is None:
            self._made = self._make()
        return self._made(texts)

    def _make(self) -> openclip.Tokenizer:
        offline = is_offline()
        try:
            return openclip.hub_tokenizer(
                self._name, self._length, local_files_only=offline, **self._settings
            )
        except OSError as error:
            why = "offline mode is on" if offline else "the model hub cannot be reached"
            raise OfflineError(
                f"The tokenizer {self._name} of {self._model} is not on this machine, and {why}."
            ) from error
        except (ImportError, ValueError) as error:
            why = " ".join(str(error).split())
            raise ModelError(
                f"The tokenizer {self._name} of {self._model} cannot be read: {why}"
            ) from error


def tokenizer_of(model: str, config: Mapping[str, Any]) -> HubTokenizer | None:
    """Return the tokenizer of a model; None if it is CLIP's own.

    Raises
    ------
    ModelError
        If it needs the transformers package, which is not installed.
    """
    return HubTokenizer(model, config) if own_tokenizer(config) else None
