"""The formats that results are saved in: one table for the command line and the panel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ...base.errors import ConfigError, InputError
from ...regions.annotations.annotation import Annotations
from ...regions.annotations.coco import write_coco
from ...regions.annotations.geojson import write_geojson
from ...regions.annotations.label_maps import map_files, write_label_maps
from ..results import Results
from .archive import save_archive
from .bundle import Bundle, annotations_of
from .files import provenance, save_embeddings, save_heatmaps, save_json, save_parquet, save_table


@dataclass(frozen=True, slots=True)
class Format:
    """One format.

    Attributes
    ----------
    name : str
        What the command line calls it.
    title : str
        What a menu calls it.
    file : str
        The usual name of its (first) file.
    write : callable
        Takes a `Bundle` and that file's path.
    beside : callable
        Gives further files that it writes, of the first one's path.
    needs_masks : bool
        Whether it needs the regions' pixels.
    """

    name: str
    title: str
    file: str
    write: Callable[[Bundle, Path], None]
    beside: Callable[[Path], tuple[Path, ...]] = lambda _: ()
    needs_masks: bool = False

    @property
    def suffix(self) -> str:
        """End of the file's name."""
        return Path(self.file).suffix

    def files(self, path: Path) -> list[Path]:
        """All files that writing to a path makes."""
        return [path, *self.beside(path)]


def _embeddings(bundle: Bundle, path: Path) -> None:
    save_embeddings(bundle.results, path, source=bundle.source)


def _table(bundle: Bundle, path: Path) -> None:
    save_table(bundle.results, path, more=bundle.columns)


def _parquet(bundle: Bundle, path: Path) -> None:
    save_parquet(bundle.results, path, source=bundle.source, more=bundle.columns)


def _heatmaps(bundle: Bundle, path: Path) -> None:
    save_heatmaps(bundle.results, path)


def _record(bundle: Bundle, path: Path) -> None:
    save_json(bundle.results, path, source=bundle.source, more=bundle.records or None)


def _coco(bundle: Bundle, path: Path) -> None:
    write_coco(_annotations(bundle), path)


def _geojson(bundle: Bundle, path: Path) -> None:
    annotations = _annotations(bundle)
    write_geojson(annotations, path, world=annotations.geo is not None)


def _qupath(bundle: Bundle, path: Path) -> None:
    write_geojson(_annotations(bundle), path)


def _maps(bundle: Bundle, path: Path) -> None:
    write_label_maps(_annotations(bundle), path)


def _annotations(bundle: Bundle) -> Annotations:
    about = {"provenance": provenance(bundle.results, bundle.source)}
    return replace(annotations_of(bundle), about=about)


# In the order of a menu; the record is written last: where it stands, the rest is complete.
FORMATS: Final[Mapping[str, Format]] = {
    entry.name: entry
    for entry in (
        Format(
            "npy",
            "Embeddings (.npy)",
            "embeddings.npy",
            _embeddings,
            beside=lambda path: (path.with_suffix(".json"),),
        ),
        Format("csv", "Table (.csv)", "regions.csv", _table),
        Format("parquet", "Table and embeddings (.parquet)", "regions.parquet", _parquet),
        Format("tif", "Heatmaps (.tif)", "heatmaps.tif", _heatmaps),
        Format("coco", "COCO (.json)", "coco.json", _coco, needs_masks=True),
        Format("geojson", "GeoJSON (.geojson)", "regions.geojson", _geojson, needs_masks=True),
        Format(
            "qupath",
            "GeoJSON in pixels, for QuPath (.geojson)",
            "regions_pixels.geojson",
            _qupath,
            needs_masks=True,
        ),
        Format(
            "masks",
            "Label images: regions and classes (.tif)",
            "labels.tif",
            _maps,
            beside=lambda path: map_files(path)[1:],
            needs_masks=True,
        ),
        Format("npz", "Everything, to be opened again (.npz)", "results.npz", save_archive),
        Format("json", "Record (.json)", "result.json", _record),
    )
}
DEFAULT: Final = ("npy", "csv", "json", "tif")


def check_formats(formats: Sequence[str]) -> list[str]:
    """Give the file names that ``formats`` lead to.

    Raises
    ------
    ConfigError
        If there is none, or one that is not known; names those that are.
    """
    if not formats:
        raise ConfigError(f"No format is given; choose from {', '.join(FORMATS)}.")
    for name in formats:
        if name not in FORMATS:
            raise ConfigError(f"Unknown format {name!r}; choose from {', '.join(FORMATS)}.")
    chosen = [FORMATS[name] for name in formats]
    return [file.name for entry in chosen for file in entry.files(Path(entry.file))]


def write_results(
    results: Results | Bundle,
    folder: Path,
    formats: Sequence[str] = DEFAULT,
    *,
    source: Mapping[str, Any] | None = None,
) -> list[Path]:
    """Write results in each format into a folder, made if need be.

    Parameters
    ----------
    results : Results or Bundle
        A bundle where masks, decisions and the image's hash are to be saved too.
    folder : Path
        See `check_folder`.
    formats : sequence of str
        Of `FORMATS`.
    source : mapping, optional
        What the results were made from (file names, hashes), kept in the files; a bundle has its
        own.

    Returns
    -------
    list of Path
        Without heatmaps.tif where the method gives no heatmaps.

    Raises
    ------
    InputError
        If something cannot be written; names it. What was there before stays.
    """
    check_formats(formats)
    bundle = (
        results if isinstance(results, Bundle) else Bundle(results=results, source=source or {})
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made ({error.strerror}).") from error
    written = [name for name in formats if name != "tif" or bundle.results.info.method.inverts]
    for name, entry in FORMATS.items():
        if name in written:
            entry.write(bundle, folder / entry.file)
    return [path for name in written for path in FORMATS[name].files(folder / FORMATS[name].file)]
