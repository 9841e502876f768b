"""Read the arrays of an ``.npz`` file; what they declare is checked before it is unpacked."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError
from ...base.memory import free_memory
from ...base.reading import MOST_NPY_HEAD, read_npy_head

_MEMBERS: Final = 100
# Zeros are packed 1000 times smaller, results 10 times.
_USUAL: Final = 200
_SMALL: Final = 200_000_000  # bytes that may be packed as well as they can
_SUFFIX: Final = ".npy"


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Read all arrays of numbers in an ``.npz`` file."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if len(members) > _MEMBERS:
            raise ValueError(f"it has {len(members):,} arrays")
        declared = sum(_declared(archive, member) for member in members)
        packed, free = path.stat().st_size, free_memory()
        if declared > max(_SMALL, _USUAL * packed) or declared > free:
            raise InputError(
                f"{path} is damaged, or needs more memory than there is: its {packed / 1e6:,.1f} "
                f"MB declare arrays of {declared / 1e6:,.0f} MB."
            )
        return {
            member.filename.removesuffix(_SUFFIX): _array(archive, member) for member in members
        }


def _declared(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    with archive.open(member) as file:
        shape, _, dtype = read_npy_head(file)
        if dtype.kind not in "biuf":
            raise ValueError(f"{member.filename} has values of type {dtype}")
        # Zip files can declare another size than the array in them; the larger one counts.
        return max(math.prod(shape) * dtype.itemsize, member.file_size)


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> npt.NDArray[Any]:
    with archive.open(member) as file:
        array = np.lib.format.read_array(file, allow_pickle=False, max_header_size=MOST_NPY_HEAD)
    return np.asarray(array)
