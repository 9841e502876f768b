"""What a user opens as a project: its file, a folder, or images. No Qt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...base.errors import InputError
from ...base.wording import counted, listed
from ...batch.opened import OpenProject, added_images, edit
from ...batch.pairing import Pair, Pairs, is_image, pair
from ...batch.project import FILE, Project, check_names, write_project

# Folders of regions beside images, and how names of label images among them end.
_FOLDERS: Final = ("masks", "labels", "regions", "annotations", "segmentations")
_ENDS: Final = ("mask", "masks", "labels", "label", "seg", "cells", "regions")
_IMAGES: Final = ("images", "image", "img")
_LISTED: Final = 3


@dataclass(frozen=True, slots=True, eq=False)
class OpenedPlace:
    """A project, and what was noticed when it was opened.

    ``new`` are images that lie in its folder, and not in its list.
    """

    project: OpenProject
    note: str = ""
    new: Sequence[Pair] = ()


def is_project(path: Path) -> bool:
    """Return whether a path is opened as a project: its file, a folder, but no zarr image."""
    if path.is_dir():
        return not is_image(path)
    return path.suffix.lower() in (".yaml", ".yml")


def open_place(paths: Sequence[Path], defaults: Project) -> OpenedPlace:
    """Open a project, or make one of a folder or of images."""
    if len(paths) > 1 or is_image(paths[0]):
        return _images(paths, defaults)
    if paths[0].is_dir():
        return _folder(paths[0], defaults)
    return _opened(OpenProject.read(paths[0]))


def new_project(file: Path, images: Path, regions: Path | None, defaults: Project) -> OpenedPlace:
    """Make a project of a folder of images, and the folder of their regions, or a file.

    The file is of all images, or one of a folder that has one for each.
    """
    if regions is not None and regions.is_file():
        with suppress(InputError):
            pairs_of_folder = pair(str(images), str(regions.parent)).pairs
            images_of_file = sum(paired.regions == regions for paired in pairs_of_folder)
            if images_of_file == 1 and len(pairs_of_folder) > 1:
                regions = regions.parent
    pairs = _paired(images, regions)
    if file.exists():
        raise InputError(f"{file} exists; open it, or choose another name.")
    return _made(file, pairs, defaults)


def _folder(folder: Path, defaults: Project) -> OpenedPlace:
    images = folder
    if not any(map(is_image, folder.iterdir())):
        for name in _IMAGES:
            if (folder / name).is_dir():
                images = folder / name
                break
    if not (folder / FILE).exists():
        return _made(folder / FILE, _paired(images, None, beside=folder), defaults)
    opened = _opened(OpenProject.read(folder))
    new = _new_images(opened.project, images)
    if not new:
        return opened
    verb = "are" if len(new) > 1 else "is"
    names = listed((image.image.name for image in new), _LISTED)
    note = (
        f"{opened.note} {counted(len(new), 'image')} of this folder {verb} not in the project: "
        f"{names}."
    )
    return OpenedPlace(opened.project, note.strip(), new)


def _new_images(project: OpenProject, images: Path) -> Sequence[Pair]:
    """Return the images of a folder that a project lacks, if it has some of that folder."""
    in_project = {(project.folder / image.image).resolve() for image in project.project.images}
    if images.resolve() not in {file.parent for file in in_project}:
        return ()
    try:
        pairs = _paired(images, None, beside=project.folder).pairs
        new = tuple(image for image in pairs if image.image.resolve() not in in_project)
        added_images(project.project, new, project.folder)
    except InputError:  # such as two of one name
        return ()
    regions = {project.regions(name) for name in project.by_name} - {None}
    regions_files = {file.resolve() for file in regions if file is not None}
    return tuple(image for image in new if image.image.resolve() not in regions_files)


def _images(paths: Sequence[Path], defaults: Project) -> OpenedPlace:
    foreign = [path.name for path in paths if not is_image(path)]
    if foreign:
        raise InputError(
            f"{', '.join(foreign[:_LISTED])} "
            f"{'is not an image' if len(foreign) == 1 else 'are not images'}; open images, or one "
            "folder or project."
        )
    folder = paths[0].parent
    if any(path.parent != folder for path in paths):
        raise InputError(
            "These images are in several folders; use 'project new --table' with a list of them."
        )
    pairs = [paired for paired in _paired(folder, None).pairs if paired.image in set(paths)]
    with_pair = {paired.image for paired in pairs}
    pairs += [Pair(image=path) for path in paths if path not in with_pair]
    if (folder / FILE).exists():
        opened = OpenProject.read(folder)
        project = edit(opened.file, lambda content: added_images(content, pairs, folder))
        added = len(project.images) - len(opened.project.images)
        return OpenedPlace(
            opened.with_project(project), f"{counted(added, 'image')} added to {opened.file}."
        )
    return _made(folder / FILE, Pairs(pairs=tuple(pairs)), defaults)


def _opened(project: OpenProject) -> OpenedPlace:
    check_names(project.project.images)
    if not project.by_name:
        raise InputError(f"{project.file} lists no image; add some with 'project add'.")
    gone = [name for name in project.by_name if not project.path(name).exists()]
    if len(gone) == len(project.by_name):
        raise InputError(
            f"No image of {project.file} is where it was, such as {project.path(gone[0])}; move "
            "project and images together."
        )
    notes = []
    if gone:
        notes.append(f"{counted(len(gone), 'image')} not there: {listed(gone, _LISTED)}.")
    if project.project.captions is not None:
        notes.append("This tab suggests words only; 'batch' adds the project's captions.")
    return OpenedPlace(project, " ".join(notes))


def _made(file: Path, pairs: Pairs, defaults: Project) -> OpenedPlace:
    file.parent.mkdir(parents=True, exist_ok=True)
    project = added_images(defaults, pairs.pairs, file.parent)
    write_project(project, file)
    with_regions = sum(image.regions is not None for image in project.images)
    count = counted(len(project.images), "image")
    note = f"Made {file.name} in {file.parent}: {count}, {with_regions} with regions."
    if pairs.notes:
        note += f" {pairs.notes[0]}"
    return OpenedPlace(OpenProject(file.absolute(), project), note)


def _paired(images: Path, regions: Path | None, beside: Path | None = None) -> Pairs:
    """Pair images with regions; without a place for these, look where they usually are."""
    whole = pair(str(images), None)
    places = _places(images, beside) if regions is None else [str(regions)]
    for place in places:
        try:
            pairs = pair(str(images), place)
        except InputError:
            if regions is not None:
                raise
            continue
        # Label images beside the images are regions, and no images of their own.
        regions_files = {image.regions for image in pairs.pairs}
        kept = [image for image in pairs.pairs if image.image not in regions_files]
        if any(image.regions for image in kept):
            return Pairs(pairs=tuple(kept), notes=_stray(whole))
    return Pairs(pairs=whole.pairs, notes=_stray(whole))


def _stray(pairs: Pairs) -> tuple[str, ...]:
    notes = tuple(note for note in pairs.notes if "is not an image" in note)
    if len(notes) > 1:
        return (f"{len(notes)} other files were left out.",)
    return notes


def _places(images: Path, beside: Path | None) -> Iterator[str]:
    for folder in dict.fromkeys((images, beside or images, images.parent)):
        for name in _FOLDERS:
            if (folder / name).is_dir():
                yield str(folder / name)
    for end in _ENDS:
        for suffix in (".png", ".tif", ".tiff", ".npy"):
            yield str(images / f"{{name}}_{end}{suffix}")
    for suffix in (".geojson", ".json", ".xml", ".txt", ".zip"):
        yield str(images / f"{{name}}{suffix}")
