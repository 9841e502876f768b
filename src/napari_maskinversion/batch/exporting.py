"""One export for all images of a project, in any format: `MANY` says what each of them writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from ..base.atomic_files import together
from ..base.errors import InputError, MaskInversionError
from ..base.targets import check_folder, check_targets
from ..base.wording import counted, listed, one_line
from ..results.export.archive import open_archive
from ..results.export.bundle import AddImage, Bundle, ImageOfMany
from ..results.export.catalogue import FORMATS, MANY, check_formats
from ..review.reporting import decided_bundle
from .image_task import ARCHIVES, PART, part_name
from .opened import OpenProject
from .project_decisions import stale_reasons
from .project_index import archive_file

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
    lacking: str = ""  # One line about formats that the results lack; "" for none

    @property
    def text(self) -> str:
        """One line about what was written, and what was left out."""
        return " ".join(filter(None, (self.written, self.missing, self.lacking)))

    @property
    def written(self) -> str:
        """One line about what was written."""
        where = ""
        if self.files:
            where = f" in {self.files[0].parent}"
        names = ", ".join(file.name for file in self.files)
        regions = counted(self.regions, "region")
        images = counted(self.images, "image")
        return f"{regions} of {images}: {names}{where}."

    @property
    def missing(self) -> str:
        """One line about the images that were left out, by reason; "" if there are none."""
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.left_out.items():
            by_reason.setdefault(reason, []).append(name)
        parts = [f"{listed(names)}: {why.rstrip('.')}" for why, names in by_reason.items()]
        if parts:
            return f"{len(self.left_out):,} left out: {'; '.join(parts)}."
        return ""


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

    ``formats`` are those of the catalogue; ``names`` are other names than usual of their files or
    folders, by format. All of these appear together at the end, or none.

    Images that were computed from other regions, words or settings than the project has now are
    left out.
    """
    usual = {name: many.file for name, many in MANY.items()}
    paths = _targets(project, out, formats, {**usual, **(names or {})}, overwrite=overwrite)
    exported = Exported()
    with ExitStack() as stack:
        writers: dict[str, AddImage] = {}
        for count, name in enumerate(project.by_name, 1):
            try:
                bundle = _bundle(project, name, captions, stale=stale)
                if accepted_only:
                    bundle = bundle.accepted()
            except (MaskInversionError, OSError) as error:
                exported.left_out[name] = one_line(error)
                yield count, exported
                continue
            bundle = replace(bundle, polygons=polygons)
            image = _image_of_many(project, name)
            exported.images += 1
            exported.regions += len(bundle.results)
            for format, path in paths.items():
                if not FORMATS[format].applies(bundle.results):
                    exported.lacking = bundle.results.info.method.lacks
                    continue
                if format not in writers:
                    out.mkdir(parents=True, exist_ok=True)
                    writers[format] = stack.enter_context(MANY[format].writing(path))
                writers[format](image, bundle)
            yield count, exported
        if not writers:
            why = exported.lacking or exported.missing or "there are no images."
            raise InputError(f"There is nothing to export: {why}")
        exported.files = [path for format, path in paths.items() if format in writers]
        with together(out, overwrite=overwrite):
            stack.close()  # all of them appear
    yield len(project.by_name), exported


def _bundle(project: OpenProject, name: str, captions: str | None, *, stale: bool) -> Bundle:
    """Return the results of an image with the decisions about it; old ones only with ``stale``."""
    file = archive_file(project, name)
    if file is None:
        raise InputError("no suggestions yet")
    if stale:
        reasons = []
    else:
        reasons = stale_reasons(project, name, captions)
    if reasons:
        raise InputError(_STALE.format(", ".join(reasons)))
    return decided_bundle(open_archive(file), project.path(name))


def _image_of_many(project: OpenProject, name: str) -> ImageOfMany:
    image = project.by_name[name]
    return ImageOfMany(
        name=name,
        stem=part_name(name).removesuffix(PART),
        number=project.numbers[name],
        path=image.image,
        series=image.series,
    )


def _targets(
    project: OpenProject,
    out: Path,
    formats: Sequence[str],
    names: Mapping[str, str],
    *,
    overwrite: bool,
) -> dict[str, Path]:
    """Return the file or folder of each format, if it may be written."""
    check_formats(formats)
    results = project.out.resolve()
    if out.resolve() == results or out.resolve().is_relative_to(results / ARCHIVES):
        raise InputError(f"{out} holds the results of the project; choose another folder.")
    paths = {format: out / names[format] for format in formats}
    check_folder(out)  # also finishes what a killed export left
    our_folders: set[Path] = set()
    for format, path in paths.items():
        foreign_files = MANY[format].foreign_files
        if foreign_files is None or not path.exists():
            continue
        foreign = []
        if path.is_dir():
            foreign = foreign_files(path)
        if foreign or not path.is_dir():
            reason = f" (it has {foreign[0]})" if foreign else ""
            raise InputError(
                f"{path} is not a data set of this program{reason}; choose another folder."
            )
        our_folders.add(path.absolute())
    check_targets(
        paths.values(),
        overwrite=overwrite,
        inputs=[project.file, *project.project.files(project.folder)],
        is_our_folder=our_folders.__contains__,
    )
    return paths
