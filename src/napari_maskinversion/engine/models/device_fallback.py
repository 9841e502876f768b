"""Loads a model where it fits. Imports torch when it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...base.errors import NotEnoughMemoryError

if TYPE_CHECKING:
    from .backbone import Backbone


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A model, and what to tell where it is not on the device that was asked for.

    Attributes
    ----------
    model : Backbone
    note : str
        Empty where it is.
    """

    model: Backbone
    note: str = ""


def load_where_it_fits(name: str, *, device: str = "auto", **given: Any) -> Loaded:
    """Load a model; on the CPU where its device has no room for it.

    Parameters
    ----------
    name, device
        As in `load_model`, which gets ``given`` too.

    Raises
    ------
    NotEnoughMemoryError
        If the CPU has none either.
    MaskInversionError
        Of `load_model`.
    """
    from ..compute.devices import choose_device, release_memory
    from ..compute.memory import is_out_of_memory
    from .loading import load_model

    place, note = choose_device(device), ""
    while True:
        try:
            return Loaded(load_model(name, device=str(place) if note else device, **given), note)
        except (NotEnoughMemoryError, MemoryError, RuntimeError) as error:
            if not isinstance(error, NotEnoughMemoryError) and not is_out_of_memory(error):
                raise
            if place.type == "cpu":
                raise NotEnoughMemoryError(
                    f"There was not enough memory to load {name}. Close other programs, or choose "
                    "a smaller model."
                ) from error
        # What the error held is free only now.
        release_memory(place)
        note = f"Not enough memory on {place} for {name}: it is on the CPU"
        place = choose_device("cpu")
