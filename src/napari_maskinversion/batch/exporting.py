"""One export for all images of a project: one COCO file, one table, one Parquet data set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..base.atomic_files import atomic_folder, together
from ..base.errors import ConfigError, InputError, MaskInversionError
from ..base.targets import check_folder, check_targets
from ..base.wording import counted, listed, one_line
from ..regions.annotations.annotation import Annotations
from ..regions.annotations.coco_writing import write_coco_of_many
from ..results.export.annotations import to_annotations
from ..results.export.archive import open_archive
from ..results.export.bundle import Bundle
from ..results.export.tables import (
    is_ours,
    part_of_many,
    write_csv_table,
    write_parquet_table,
)
from ..review.reporting import decided_bundle
from .decided import stale_reasons
from .image_task import ARCHIVES, DATA_SET, part_name
from .opened import OpenProject
from .project_index import archive_file

if TYPE_CHECKING:
    import pandas as pd

FILES: Final = {"coco": "coco.json", "csv": "regions.csv", "parquet": DATA_SET}
TITLES: Final = {
    "coco": "COCO (.json)",
    "csv": "Table (.csv)",
    "parquet": "Table and embeddings (a Parquet data set)",
}
_STALE: Final = (
    "computed from other {}; compute again by Suggest for all, or batch --overwrite; or export as "
    "it is by project export --stale"
)


@dataclass(slots=True)
class Exported:
    """What an export wrote."""

    images: int = 0
    regions: int = 0
    files: list[Path] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)  # Why images are not in it, by name

    @property
    def text(self) -> str:
        """One line about what was written, and what was left out."""
        return f"{self.written} {self.missing}".rstrip()

    @property
    def written(self) -> str:
        """One line about what was written."""
        where = f" in {self.files[0].parent}" if self.files else ""
        names = ", ".join(file.name for file in self.files)
        regions, images = counted(self.regions, "region"), counted(self.images, "image")
        return f"{regions} of {images}: {names}{where}."

    @property
    def missing(self) -> str:
        """One line about the images that were left out, by reason; "" if there are none."""
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.left_out.items():
            by_reason.setdefault(reason, []).append(name)
        parts = [f"{listed(names)}: {why.rstrip('.')}" for why, names in by_reason.items()]
        return f"{len(self.left_out):,} left out: {'; '.join(parts)}." if parts else ""


def export_steps(
    project: OpenProject,
    out: Path,
    formats: Sequence[str],
    *,
    accepted_only: bool = False,
    polygons: bool = False,
    overwrite: bool = False,
    stale: bool = False,
    captions: str | None = None,
    names: Mapping[str, str] | None = None,
) -> Iterator[tuple[int, Exported]]:
    """Write all images that have results; with the decisions about them.

    ``names`` are other names of `FILES`, by format. All files appear together at the end, or none.

    Images that were computed from other regions, words or settings than the project has now are
    left out.
    """
    files = _targets(project, out, formats, {**FILES, **(names or {})}, overwrite=overwrite)
    exported = Exported(files=list(files.values()))
    annotated: list[tuple[int, Annotations, dict[str, Any]]] = []
    tables: list[pd.DataFrame] = []
    with ExitStack() as stack:
        parts: Path | None = None
        for count, name in enumerate(project.by_name, 1):
            try:
                file = archive_file(project, name)
                if file is None:
                    raise InputError("no suggestions yet")
                if not stale and (reasons := stale_reasons(project, name, captions)):
                    raise InputError(_STALE.format(", ".join(reasons)))
                bundle = decided_bundle(open_archive(file), project.path(name))
                bundle = bundle.accepted() if accepted_only else bundle
            except (MaskInversionError, OSError) as error:
                exported.left_out[name] = one_line(error)
                yield count, exported
                continue
            out.mkdir(parents=True, exist_ok=True)
            exported.images += 1
            exported.regions += len(bundle.results)
            if "coco" in files:
                annotated.append((project.numbers[name], *_annotated(project, name, bundle)))
            if "csv" in files:
                table = bundle.table()
                table.insert(0, "image", name)
                # Which stay whole where rows of another image have none.
                whole = table.select_dtypes("int64").columns
                tables.append(table.astype(dict.fromkeys(whole, "Int64")))
            if "parquet" in files:
                if parts is None:
                    parts = stack.enter_context(atomic_folder(files["parquet"]))
                write_parquet_table(part_of_many(bundle, name), parts / part_name(name))
            yield count, exported
        if not exported.images:
            why = exported.missing or "there are no images."
            raise InputError(f"There is nothing to export: {why}")
        with together(out, overwrite=overwrite):
            stack.close()  # the data set appears with the others
            if "coco" in files:
                write_coco_of_many(annotated, files["coco"], polygons=polygons)
            if "csv" in files:
                import pandas as pd

                write_csv_table(pd.concat(tables, ignore_index=True), files["csv"])
    yield len(project.by_name), exported


def _targets(
    project: OpenProject,
    out: Path,
    formats: Sequence[str],
    names: Mapping[str, str],
    *,
    overwrite: bool,
) -> dict[str, Path]:
    """Return the file of each format, if it may be written."""
    unknown = next((name for name in formats if name not in FILES), None)
    if unknown is not None or not formats:
        what = f"Unknown format {unknown!r}" if formats else "Name at least one format"
        raise ConfigError(f"{what}; choose from {', '.join(FILES)}.")
    results = project.out.resolve()
    if out.resolve() == results or out.resolve().is_relative_to(results / ARCHIVES):
        raise InputError(f"{out} holds the results of the project; choose another folder.")
    files = {name: out / names[name] for name in formats}
    check_folder(out)  # also finishes what a killed export left
    whole = files.get("parquet")
    if whole is not None and whole.exists():
        parts = whole.iterdir() if whole.is_dir() else ()
        others = [part.name for part in parts if not is_ours(part)]
        if others or not whole.is_dir():
            what = f" (it has {others[0]})" if others else ""
            raise InputError(
                f"{whole} is not a data set of this program{what}; choose another folder."
            )
    inputs = [project.file, *project.project.files(project.folder)]
    # The data set has been looked at; each of its files would be read again.
    check_targets(
        files.values(),
        overwrite=overwrite,
        inputs=inputs,
        is_our_folder=lambda folder: whole is not None and folder == whole.absolute(),
    )
    return files


def _annotated(
    project: OpenProject, name: str, bundle: Bundle
) -> tuple[Annotations, dict[str, Any]]:
    """Return annotations with the image's path in the project, and what tells it from others."""
    image = project.by_name[name]
    about = {"name": name} | ({} if image.series is None else {"series": image.series})
    return replace(to_annotations(bundle), image=image.image), about
