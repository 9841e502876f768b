"""Sentences that are embedded a few at a time where memory runs short."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ...base.errors import NotEnoughMemoryError

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone


class TextOomFallback:
    """Fewer sentences at once, then the CPU.

    Parameters
    ----------
    sentences : int
    device : str
    what : str
        What they are, for people.

    Attributes
    ----------
    sentences, device
        As they are now.
    """

    def __init__(self, sentences: int, device: str, what: str = "labels") -> None:
        self._all, self._what = sentences, what
        self.sentences, self.device = sentences, device

    def down(self) -> str | None:
        """Take the next rung; say what to tell the user, None where nothing is left to try."""
        short = f"Not enough memory for {self._what}"
        if self.sentences > 1:
            self.sentences = max(1, self.sentences // 4)
            return f"{short}: {self.sentences} sentence{'s' * (self.sentences != 1)} at once"
        if self.device != "cpu":
            before, self.device, self.sentences = self.device, "cpu", self._all
            return f"{short} on {before}: embedding them on the CPU"
        return None


def nothing_left(what: str, device: str) -> NotEnoughMemoryError:
    """Say that nothing helps."""
    return NotEnoughMemoryError(
        f"There was not enough memory for the {what}, not even for one sentence on {device}. "
        "Close other programs, or choose a smaller model."
    )


class FittingEncoder:
    """Embeds sentences, as many at once as fit; what has fitted once is tried from then on.

    Parameters
    ----------
    model : Backbone
        Where not even one sentence fits, a copy of it on the CPU embeds the rest.
    sentences : int
        At once, at first.
    what : str
        What they are, for people.
    on_note : callable
        Called with what to tell the user, each time that less is tried.
    """

    def __init__(
        self, model: Backbone, sentences: int, what: str, on_note: Callable[[str], None]
    ) -> None:
        self._model, self._what, self._on_note = model, what, on_note
        self._ladder = TextOomFallback(sentences, str(model.device), what)

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Do what `Backbone.encode_text` does.

        Raises
        ------
        NotEnoughMemoryError
            If nothing helps.
        """
        from ...engine.compute.memory import is_out_of_memory

        found: list[npt.NDArray[np.float32]] = []
        done = 0
        while done < len(texts):
            some = texts[done : done + self._ladder.sentences]
            try:
                found.append(self._model.encode_text(some))
                done += len(some)
                continue
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                before, note = self._ladder.device, self._ladder.down()
                if note is None:
                    raise nothing_left(self._what, before) from error
            self._go_down(before, note)
        return np.concatenate(found)

    def _go_down(self, before: str, note: str) -> None:
        from ...engine.compute.devices import release_memory
        from ...engine.models.loading import copy_to_cpu

        self._on_note(note)
        release_memory(self._model.device)
        if self._ladder.device != before:
            self._model = copy_to_cpu(self._model)
