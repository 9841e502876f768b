"""Open files of microscopes through bioio, where it and the reader of the format are installed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from ..base.errors import InputError
from ..base.units import Units
from .stack import Stack, check_series, stack_of

_OURS: Final = '"napari-maskinversion[bioio]"'


@dataclass(frozen=True, slots=True)
class _Format:
    """A format: whose it is, the package that reads it, and a note about that package."""

    title: str
    package: str
    note: str = ""
    in_extra: bool = False

    @property
    def module(self) -> str:
        return self.package.replace("-", "_")

    @property
    def install(self) -> str:
        return f"pip install {_OURS}" + ("" if self.in_extra else f" {self.package}")


_JAVA: Final = "bioio-bioformats needs Java and is under the GPL-2"
_FORMATS: Final[Mapping[str, _Format]] = {
    ".nd2": _Format("Nikon's ND2", "bioio-nd2", in_extra=True),
    ".lif": _Format("Leica's LIF", "bioio-lif", in_extra=True),
    ".czi": _Format("Zeiss' CZI", "bioio-czi", "bioio-czi is under the GPL-3"),
    ".dv": _Format("DeltaVision's DV", "bioio-dv"),
    ".ims": _Format("Imaris' IMS", "bioio-bioformats", _JAVA),
    ".oib": _Format("Olympus' OIB", "bioio-bioformats", _JAVA),
    ".oif": _Format("Olympus' OIF", "bioio-bioformats", _JAVA),
    ".vsi": _Format("Olympus' VSI", "bioio-bioformats", _JAVA),
    ".zvi": _Format("Zeiss' ZVI", "bioio-bioformats", _JAVA),
    ".mrxs": _Format("3DHISTECH's MRXS", "bioio-bioformats", _JAVA),
}
SUFFIXES: Final = frozenset(_FORMATS)
"""How names of such files end."""


def is_other_format(path: Path) -> bool:
    """Return whether a path is a file that bioio reads."""
    return path.suffix.lower() in SUFFIXES and path.is_file()


def open_other_format(path: Path, number: int = 0) -> Stack:
    """Open an image (a scene) of a file through bioio; planes are read when needed, and whole.

    The readers of ND2 and LIF know no smaller part, `get_image_dask_data` included.
    """
    form = _FORMATS[path.suffix.lower()]
    if find_spec("bioio") is None or find_spec(form.module) is None:
        raise InputError(
            f"{path} is {form.title}, whose reader is not installed: {form.install}"
            + (f" ({form.note})" if form.note else "")
        )
    import bioio

    image: Any = bioio.BioImage(path, reader=import_module(form.module).Reader)
    scenes = tuple(map(str, image.scenes))
    check_series(path, number, scenes)
    image.set_scene(number)
    axes = tuple(str(image.dims.order).lower())
    data = image.dask_data
    if axes[-1] == "s" and data.shape[-1] not in (3, 4):
        data = data[..., 0]
        axes = axes[:-1]
    if "s" in axes and "c" in axes:  # colours are no channels
        place = axes.index("c")
        data = data.take(0, axis=place)
        axes = (*axes[:place], *axes[place + 1 :])
    names: tuple[str, ...] = ()
    if "c" in axes:
        names = tuple(map(str, image.channel_names or ()))
    stack = stack_of(data, axes=axes, name=str(path))
    return replace(stack, channels=names, units=_units(image), images=scenes, series=number)


def _units(image: Any) -> Units | None:
    """Return the size of a pixel; None if it is missing or makes no sense."""
    sizes = image.physical_pixel_sizes
    if not sizes.Y or not sizes.X:
        return None
    about = getattr(image, "dimension_properties", None)
    units = [getattr(getattr(about, axis, None), "unit", None) or "µm" for axis in "YX"]
    try:
        return Units.of_layer([sizes.Y, sizes.X], units)
    except InputError:
        return None
