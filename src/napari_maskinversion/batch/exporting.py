"""One export for all images of a project: one COCO file, one table, one Parquet data set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from ..base.atomic_files import recover
from ..base.errors import ConfigError, InputError, MaskInversionError
from ..base.targets import check_targets
from ..regions.annotations.coco import write_coco_of_many
from ..results.export.annotations import to_annotations
from ..results.export.archive import open_archive
from ..results.export.bundle import Bundle
from ..results.export.table_csv import write_table
from ..results.export.table_parquet import write_parquet
from .decided import archive_file, decided_bundle
from .image_task import DATA_SET
from .opened import OpenProject

if TYPE_CHECKING:
    import pandas as pd

FILES: Final = {"coco": "coco.json", "csv": "regions.csv", "parquet": DATA_SET}
TITLES: Final = {
    "coco": "COCO (.json)",
    "csv": "Table (.csv)",
    "parquet": "Table and embeddings (a Parquet data set)",
}


@dataclass(slots=True)
class Exported:
    """What an export wrote.

    Attributes
    ----------
    images, regions : int
    files : list of Path
    left_out : dict of str
        Why images are not in it, by name.
    """

    images: int = 0
    regions: int = 0
    files: list[Path] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """One line about what was written."""
        where = f" in {self.files[0].parent}" if self.files else ""
        names = ", ".join(file.name for file in self.files)
        missing = f" {len(self.left_out)} left out." if self.left_out else ""
        return f"{self.regions:,} regions of {self.images:,} images: {names}{where}.{missing}"


def export_steps(
    project: OpenProject,
    out: Path,
    formats: Sequence[str],
    *,
    accepted_only: bool = False,
    polygons: bool = False,
    overwrite: bool = False,
) -> Iterator[tuple[int, Exported]]:
    """Write all images that have results; with the decisions about them.

    Parameters
    ----------
    project : OpenProject
    out : Path
        Folder, which is created if needed.
    formats : sequence of str
        Keys of `FILES`.
    accepted_only : bool
        Leave out what has not been accepted.
    polygons : bool
        As in `write_coco`.
    overwrite : bool
        Replace files that exist.

    Yields
    ------
    How many images were read, and what was written: complete with the last one.

    Raises
    ------
    InputError
        If there is nothing to export, or a file cannot be written or must not be replaced.
    """
    files = _targets(project, out, formats, overwrite=overwrite)
    exported = Exported(files=list(files.values()))
    annotated: list[tuple[int, Any]] = []
    tables: list[pd.DataFrame] = []
    parts: list[Path] = []
    for count, name in enumerate(project.by_name, 1):
        try:
            bundle = _bundle(project, name, accepted_only=accepted_only)
        except (MaskInversionError, OSError) as error:
            exported.left_out[name] = " ".join(str(error).split())
            yield count, exported
            continue
        out.mkdir(parents=True, exist_ok=True)
        exported.images += 1
        exported.regions += len(bundle.results)
        if "coco" in files:
            annotations = replace(to_annotations(bundle), image=project.path(name).name)
            annotated.append((project.numbers[name], annotations))
        if "csv" in files:
            table = bundle.table()
            table.insert(0, "image", name)
            tables.append(table)
        if "parquet" in files:
            part = files["parquet"] / f"image={quote(name, safe=' ')}" / DATA_SET
            part.parent.mkdir(parents=True, exist_ok=True)
            recover(part.parent)
            write_parquet(bundle, part)
            parts.append(part)
        yield count, exported
    if not exported.images:
        why = next(iter(exported.left_out.values()), "there are no images.")
        raise InputError(f"There is nothing to export yet: {why}")
    _write(files, annotated, tables, parts, polygons=polygons)
    yield len(project.by_name), exported


def _targets(
    project: OpenProject, out: Path, formats: Sequence[str], *, overwrite: bool
) -> dict[str, Path]:
    """Return the file of each format, if it may be written."""
    unknown = next((name for name in formats if name not in FILES), None)
    if unknown is not None or not formats:
        what = f"Unknown format {unknown!r}" if formats else "Name at least one format"
        raise ConfigError(f"{what}; choose from {', '.join(FILES)}.")
    if out.resolve() == project.out.resolve():
        raise InputError(f"{out} holds the results of the project; choose another folder.")
    files = {name: out / FILES[name] for name in formats}
    inputs = [project.file, *(project.path(name) for name in project.by_name)]
    flat = [file for file in files.values() if file.name != DATA_SET]
    check_targets(flat, overwrite=overwrite, inputs=inputs)
    whole = files.get("parquet")
    if whole is not None and whole.exists() and not overwrite:
        raise InputError(
            f"{out} already has {whole.name}; choose another folder, or use --overwrite to "
            "replace it."
        )
    return files


def _bundle(project: OpenProject, name: str, *, accepted_only: bool) -> Bundle:
    file = archive_file(project, name)
    if file is None:
        raise InputError(f"{name} has no suggestions yet.")
    bundle = decided_bundle(open_archive(file), project.path(name))
    return bundle.accepted() if accepted_only else bundle


def _write(
    files: dict[str, Path],
    annotated: list[tuple[int, Any]],
    tables: list[pd.DataFrame],
    parts: list[Path],
    *,
    polygons: bool,
) -> None:
    if "coco" in files:
        write_coco_of_many(annotated, files["coco"], polygons=polygons)
    if "csv" in files:
        import pandas as pd

        write_table(pd.concat(tables, ignore_index=True), files["csv"])
    if "parquet" in files:
        # Parts of images that are not in this export would mix with it.
        for part in set(files["parquet"].glob(f"image=*/{DATA_SET}")) - set(parts):
            part.unlink()
