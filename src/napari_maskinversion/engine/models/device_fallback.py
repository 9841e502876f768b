"""Load a model on its device, or on the CPU if it does not fit. Imports torch only when called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...base.errors import NotEnoughMemoryError

if TYPE_CHECKING:
    from .backbone import Backbone


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A model, and a note if it is not on the requested device.

    Attributes
    ----------
    model : Backbone
    note : str
        Message for the user; empty if the model is on the requested device.
    """

    model: Backbone
    note: str = ""


def load_where_it_fits(name: str, *, device: str = "auto", **options: Any) -> Loaded:
    """Load a model, on the CPU if it does not fit the memory of the requested device.

    Parameters
    ----------
    name, device
        As in `load_model`.
    **options
        Further arguments of `load_model`.

    Raises
    ------
    NotEnoughMemoryError
        If it does not fit on the CPU either.
    MaskInversionError
        As `load_model`.
    """
    from ..compute.devices import choose_device
    from ..compute.oom_fallback import Attempt, OomFallback, then_on_cpu
    from .loading import load_model

    place = str(choose_device(device))
    fallback = OomFallback(
        then_on_cpu(
            [Attempt(1, place)], f"Not enough memory on {place} for {name}: it is on the CPU"
        ),
        f"There was not enough memory to load {name}. Close other programs, or choose a smaller "
        "model.",
        also=(NotEnoughMemoryError,),
    )
    model = fallback.run(lambda: load_model(name, device=fallback.now.device, **options))
    return Loaded(model, fallback.now.note)
