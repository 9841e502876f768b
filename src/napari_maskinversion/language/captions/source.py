"""Captions to search: a file of them, or the folder of a caption bank."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...base.errors import ModelError
from ...engine.models.registry import unread_spec
from ...engine.models.specs import DEMO
from .bank import CaptionBank, open_bank
from .bank_building import build_bank, continue_bank, default_folder
from .caption_files import Captions, read_captions

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone


class CaptionSource:
    """A file of captions, or the folder of a caption bank. A file that has none is refused."""

    def __init__(
        self, path: Path, *, column: str | None = None, encoding: str | None = None
    ) -> None:
        self.folder = None
        if path.is_dir():
            self.folder = path  # Of a bank
        self._captions: Captions | None = None
        self._model = DEMO
        if self.folder is not None:
            self._model = CaptionBank.open(path).record.model
        else:
            self._captions = read_captions(path, column=column, encoding=encoding)

    @property
    def known_model(self) -> str:
        """Name of the bank's model; of captions without a bank, "demo"."""
        try:
            return unread_spec(self._model).name
        except ModelError:
            raise ModelError(
                f"The caption bank in {self.folder} was built with a model of your own, "
                f"{self._model}; name it with --model."
            ) from None

    @property
    def sha256(self) -> str:
        """Hash of the captions and their order."""
        if self._captions is not None:
            return self._captions.sha256
        assert self.folder is not None
        return CaptionBank.open(self.folder).record.sha256

    def place(self, model: Backbone, out: Path | None = None) -> Path:
        """Return the folder of the bank: ``out``, else its own, else one in the cache folder."""
        if self._captions is None:
            assert self.folder is not None
            return self.folder
        if out is None:
            return default_folder(model, self._captions)
        return out

    def bank(self, model: Backbone, out: Path | None = None) -> CaptionBank:
        """Open the bank; build it, or finish it, first if necessary."""
        place = self.place(model, out)
        if self._captions is not None:
            return build_bank(model, self._captions, place)
        if CaptionBank.open(place).complete:
            bank = open_bank(place)
            bank.check(model)
            return bank
        return continue_bank(model, place)

    def finish(self, model: Backbone) -> CaptionBank:
        """Finish the bank in a folder, and repair damaged parts."""
        assert self.folder is not None
        return continue_bank(model, self.folder)
