"""The export formats, for the command line and the panel.

To add a format, write a module with ``FORMATS`` (see `table_export`) and add its name to
`_MODULES`. A project exports it, too: it says how it joins many images (``many``), or a folder has
a file for each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Final

from ...base.atomic_files import together
from ...base.errors import ConfigError, InputError
from ...base.regions import Regions
from ...regions.label_images import PlaneRegions
from ..results import Results
from .bundle import Bundle, ExportFormat, ManyImages, compress_masks
from .file_for_each import file_for_each

# In menu order. The record is written last: if it is there, the other files are complete.
_MODULES: Final = (
    "embeddings",
    "table_export",
    "heatmaps",
    "annotations",
    "geopackage",
    "label_pyramid",
    "spatialdata_store",
    "archive",
    "record",
)
FORMATS: Final[Mapping[str, ExportFormat]] = {
    entry.name: entry
    for module in _MODULES
    for entry in import_module(f".{module}", __package__).FORMATS
}
MANY: Final[Mapping[str, ManyImages]] = {
    name: entry.many or file_for_each(entry) for name, entry in FORMATS.items()
}
"""What each format does with the images of a project."""
DEFAULT: Final = ("npy", "csv", "json", "tif")
JOINED: Final = tuple(name for name, entry in FORMATS.items() if entry.many is not None)
"""The formats that hold all images of a project in one file or data set."""


def check_formats(formats: Sequence[str]) -> list[str]:
    """Return the file names that formats lead to."""
    if not formats:
        raise ConfigError(f"Name at least one format; choose from {', '.join(FORMATS)}.")
    for name in formats:
        if name not in FORMATS:
            raise ConfigError(f"Unknown format {name!r}; choose from {', '.join(FORMATS)}.")
    entries = [FORMATS[name] for name in formats]
    for entry in entries:
        entry.check()
    names = []
    for entry in entries:
        for file in entry.files(Path(entry.file)):
            names.append(file.name)
    return names


def export(
    results: Results | Bundle,
    path: str | Path,
    format: str | None = None,
    *,
    regions: Regions | None = None,
    overwrite: bool = False,
) -> list[Path]:
    """Write results to a file.

    Parameters
    ----------
    results : Results or Bundle
        A bundle also brings masks and decisions.
    path : str or Path
        Its folder is created if needed.
    format : str, optional
        A name in `FORMATS`. By default the suffix decides, if it is that of one format.
    regions : Regions, optional
        The regions of the run, for the formats that hold their pixels (COCO, GeoJSON, label
        images). A bundle brings its own.
    overwrite : bool
        Replace files that exist.

    Returns
    -------
    list of Path
        The files; some formats write more than one.

    Raises
    ------
    ConfigError
        If there is no such format, or the suffix belongs to none or to several.
    InputError
        If a file exists and must not be replaced, the results lack what the format needs, or
        a file cannot be written.

    Examples
    --------
    >>> export(results, "regions.csv")
    >>> export(results, "cells.json", "coco", regions=regions)
    """
    file = Path(path)
    entry = _format_of(file, format)
    if isinstance(results, Bundle):
        bundle = results
    else:
        bundle = Bundle(results=results)
    if regions is not None:
        bundle = replace(bundle, masks=compress_masks([PlaneRegions((), regions)]))
    if not entry.applies(bundle.results):
        raise InputError(
            f"{entry.title} does not apply to these results. {bundle.results.info.method.lacks}"
        )
    files = entry.files(file)
    existing = [str(file) for file in files if file.exists()]
    if existing and not overwrite:
        raise InputError(
            f"{', '.join(existing)} exists; choose another name, or pass overwrite=True."
        )
    _create(file.parent)
    with together(file.parent, overwrite=overwrite):
        entry.write(bundle, file)
    return files


def _format_of(path: Path, name: str | None) -> ExportFormat:
    if name is None:
        suffix = path.suffix.lower()
        names = [form for form, entry in FORMATS.items() if entry.suffix == suffix]
        if len(names) != 1:
            raise ConfigError(
                f"The suffix {suffix!r} does not name a format; pass format= one of "
                f"{', '.join(names or FORMATS)}."
            )
        (name,) = names
    check_formats([name])
    return FORMATS[name]


def write_results(
    results: Results | Bundle,
    folder: Path,
    formats: Sequence[str] = DEFAULT,
    *,
    overwrite: bool = False,
) -> list[Path]:
    """Write results in each format into a folder, which is created if needed.

    All files appear together at the end. If they cannot, they are kept in a folder of their own.
    """
    check_formats(formats)
    if isinstance(results, Bundle):
        bundle = results
    else:
        bundle = Bundle(results=results)
    _create(folder)
    entries = []
    for name in formats:
        if FORMATS[name].applies(bundle.results):
            entries.append(FORMATS[name])
    with together(folder, overwrite=overwrite, keep=True):
        for entry in FORMATS.values():  # in their order
            if entry in entries:
                entry.write(bundle, folder / entry.file)
    paths = []
    for entry in entries:
        paths.extend(entry.files(folder / entry.file))
    return paths


def _create(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be created ({error.strerror}).") from error
