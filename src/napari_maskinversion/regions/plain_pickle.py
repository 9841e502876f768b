"""Read pickles of plain values and NumPy arrays without running what they name.

A pickle names functions to call. Here a name stands for a small class of this module or is refused,
so a file can neither run code nor reach NumPy's own unpickling, which trusts its input.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from math import prod
from typing import Any, BinaryIO, ClassVar, Final, Literal

import numpy as np

_SIMPLE: Final = re.compile(r"[<>=|]?(b1|[iu][1248]|f[248]|c8|c16)")


class PlainPickleError(ValueError):
    """A pickle that is damaged, or holds other things than plain values and arrays."""


class PickledArray:
    """An array of a pickle, made when it is asked for."""

    def __init__(self, *_: object) -> None:
        self._state: tuple[Any, ...] = ()

    def __setstate__(self, state: Any) -> None:
        """Keep what the pickle says of the array."""
        self._state = state if isinstance(state, tuple) else ()

    def objects(self) -> list[Any]:
        """Return the elements of an array of objects; empty for any other array."""
        data = self._state[4] if len(self._state) == 5 else ()
        if isinstance(data, list):
            return data
        return []

    def array(self) -> np.ndarray[Any, Any]:
        """Return the array."""
        if len(self._state) != 5:
            raise PlainPickleError("an array is damaged")
        _, shape, kind, fortran, data = self._state
        sides = isinstance(shape, tuple) and all(type(side) is int and side >= 0 for side in shape)
        if not (sides and isinstance(kind, _Kind) and isinstance(data, bytes)):
            raise PlainPickleError("an array is not of numbers")
        dtype = kind.dtype()
        if prod(shape) * dtype.itemsize != len(data):
            raise PlainPickleError("an array has not as many values as it says")
        return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


class _Kind:
    """A NumPy type."""

    def __init__(self, name: object = "", *_: object) -> None:
        self._name = name
        self._order: Literal["<", ">"] | None = None

    def __setstate__(self, state: Any) -> None:
        self._order = None
        if isinstance(state, tuple) and len(state) > 1 and state[1] in ("<", ">"):
            self._order = state[1]

    def dtype(self) -> np.dtype[Any]:
        if not isinstance(self._name, str) or not _SIMPLE.fullmatch(self._name):
            raise PlainPickleError("an array is not of numbers")
        dtype = np.dtype(self._name)
        if self._order is None:
            return dtype
        return dtype.newbyteorder(self._order)


def _scalar(kind: object = None, data: object = None, *_: object) -> Any:
    """Return a NumPy number as a Python number; None for anything else."""
    if not isinstance(kind, _Kind) or not isinstance(data, bytes):
        return None
    dtype = kind.dtype()
    if len(data) == dtype.itemsize:
        return np.frombuffer(data, dtype)[0].item()
    return None


def _path(*parts: object) -> str:
    return "/".join(part for part in parts if isinstance(part, str))


_NAMES: Final[dict[tuple[str, str], Callable[..., Any]]] = {
    ("numpy", "ndarray"): PickledArray,
    ("numpy", "dtype"): _Kind,
}
for _core in ("core", "_core"):
    _NAMES[f"numpy.{_core}.multiarray", "_reconstruct"] = PickledArray
    _NAMES[f"numpy.{_core}.multiarray", "scalar"] = _scalar
for _module in ("pathlib", "pathlib._local"):
    for _kind in ("Posix", "Windows", "PurePosix", "PureWindows", ""):
        _NAMES[_module, f"{_kind}Path"] = _path


class _Plain(pickle._Unpickler):
    """The unpickler in Python: the one in C can be told to fill the memory with an empty table.

    Byte arrays, of any length that is written there, and sets are refused.
    """

    dispatch: ClassVar[dict[int, Callable[..., None]]] = dict(pickle._Unpickler.dispatch)

    def _refuse(self) -> None:
        raise PlainPickleError("it holds other things than plain values")

    for _code in (pickle.BYTEARRAY8, pickle.EMPTY_SET, pickle.FROZENSET):
        dispatch[_code[0]] = _refuse

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _NAMES[module, name]
        except KeyError:
            raise PlainPickleError(f"it holds {module}.{name}") from None


def load_plain(file: BinaryIO) -> Any:
    """Return the value of a pickle; arrays in it are `PickledArray`."""
    try:
        # Python 2's byte strings: each byte is a letter, so none is refused.
        return _Plain(file, encoding="latin-1").load()
    except PlainPickleError:
        raise
    except Exception as error:  # the unpickler raises nearly anything on damaged data
        raise PlainPickleError(str(error).splitlines()[0] if str(error) else "cut off") from None
