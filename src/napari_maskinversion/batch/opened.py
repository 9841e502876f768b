"""A project that is open in a program: its images by name, and where their files lie."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import BaseModel

from ..base.atomic_files import atomic_path
from ..base.errors import InputError
from ..base.locks import hold_alone
from ..base.reading import is_address, read_json, validated
from ..language.labels.vocabulary import Vocabulary
from ..regions.annotations import coco_writing
from ..regions.annotations.annotation import Annotations
from ..results.settings import RunSettings
from .image_task import ALWAYS, ImageTask, file_name
from .pairing import Pair
from .project import (
    FILE,
    Project,
    ProjectImage,
    naming,
    place_of,
    project_file,
    project_images,
    read_project,
    write_project,
)

OUT: Final = "maskinversion_batch"  # where the command batch writes by default
DRAWN: Final = "drawn_regions"
_DRAWN: Final = "Regions drawn in napari-maskinversion for"
_HEAD: Final = 400  # bytes of a file; the description comes first
State = Literal["open", "done", "skip"]


@dataclass(frozen=True, eq=False)
class OpenProject:
    """A project and its file. Frozen: what changes it returns another one."""

    file: Path
    project: Project
    results: Path | None = None  # The folder of its results, if it is another than `out` usually is
    # Other settings than its own, by key
    changes: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, place: Path) -> Self:
        """Read it; the place is a file, or a folder with ``project.yaml``."""
        file = project_file(place)
        return cls(file.absolute(), read_project(file))

    @property
    def folder(self) -> Path:
        """The folder to which its paths are relative."""
        return self.file.parent

    @property
    def title(self) -> str:
        """What to call it: the folder, or the file if it has another name than usual."""
        if self.file.name == FILE:
            return self.folder.name
        return self.file.stem

    @property
    def out(self) -> Path:
        """The folder of its results, the one that ``batch`` uses in the project's folder."""
        if self.results is not None:
            return self.results
        return self.folder / (OUT if self.file.name == FILE else f"{OUT}_{self.file.stem}")

    @cached_property
    def by_name(self) -> dict[str, ProjectImage]:
        """Its images by name, in order, without those to be skipped."""
        return {image.name: image for image in self.project.images if image.state != "skip"}

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The place of each image in the file, from 1: it stays when images are added."""
        return {image.name: number for number, image in enumerate(self.project.images, 1)}

    @cached_property
    def done(self) -> frozenset[str]:
        """Names of the images that somebody has decided about."""
        return frozenset(name for name, image in self.by_name.items() if image.state == "done")

    @cached_property
    def settings(self) -> RunSettings:
        """The settings of its runs."""
        return self.project.run_settings(self.folder).changed(self.changes)

    @cached_property
    def vocabulary(self) -> Vocabulary | None:
        """Its words; None where the files of regions have names."""
        return self.project.vocabulary(self.folder, self.settings.threshold)

    @property
    def captions(self) -> Path | None:
        """The file or folder with its captions."""
        captions = self.project.captions
        if captions is None:
            return None
        return place_of(captions, self.folder)

    @property
    def library(self) -> Path | None:
        """The folder of the library that a batch adds to."""
        library = self.project.library
        if library is None:
            return None
        return place_of(library, self.folder)

    def check_words(self) -> None:
        """Refuse labels, templates and colours that cannot be used."""
        with naming(place_of(self.file.name, self.folder)):
            self.project.vocabulary(self.folder, None)

    def settings_of(self, name: str) -> RunSettings:
        """Return the settings of an image, which may be one of several in its file."""
        image = self.by_name[name]
        regions = self.regions(name)
        values: dict[str, Any]
        if image.series is None:
            values = {}
        else:
            values = {"series": image.series}
        if self.settings.planes is not None and regions is not None and is_drawn(regions):
            values["planes"] = None  # drawn regions know their planes
        return self.settings.changed(values)

    def path(self, name: str) -> Path:
        """Return the file of an image."""
        return self._place(self.by_name[name].image)

    def regions(self, name: str) -> Path | None:
        """Return the file with the regions of an image; None without one."""
        regions = self.by_name[name].regions
        if regions is None:
            return None
        return self._place(regions)

    def _place(self, path: str) -> Path:
        if is_address(path):
            return Path(path)
        return self.folder / path

    def task(
        self, name: str, formats: Sequence[str] = (ALWAYS,), captions: str = ""
    ) -> ImageTask | None:
        """Return the task that computes an image; None if it has no regions."""
        image = self.by_name[name]
        if image.regions is None:
            return None
        return ImageTask(
            name=name,
            image=place_of(image.image, self.folder),
            regions=place_of(image.regions, self.folder),
            settings=self.settings_of(name),
            vocabulary=self.vocabulary,
            templates=self.project.templates,
            colors=self.project.colors,
            formats=tuple(dict.fromkeys((*formats, ALWAYS))),
            captions=captions,
            out=self.out,
        )

    def with_results(self, folder: Path) -> Self:
        """Return the same project with its results in another folder."""
        return replace(self, results=folder)

    def with_project(self, project: Project) -> Self:
        """Return the same file with another content."""
        return replace(self, project=project)


def changed_image(project: Project, name: str, **values: Any) -> Project:
    """Return a project in which one image has other values."""
    images = (image.changed(**values) if image.name == name else image for image in project.images)
    return project.changed(images=tuple(images))


def added_images(
    project: Project, pairs: Iterable[Pair], folder: Path, *, fill: bool = False
) -> Project:
    """Return a project with more images; those that it has already stay as they are.

    With ``fill``, those without regions get the new ones.
    """
    new = project_images(pairs, folder)
    by_place = {image.place: image for image in new}
    images = []
    for image in project.images:
        twin = by_place.get(image.place)
        if fill and image.regions is None and twin is not None:
            images.append(image.changed(regions=twin.regions))
        else:
            images.append(image)
    known_places = {image.place for image in project.images}
    images += [image for image in new if image.place not in known_places]
    return project.changed(images=tuple(images))


def edit(file: Path, change: Callable[[Project], Project]) -> Project:
    """Change a project on the disk; what others write meanwhile waits or stays."""
    with hold_alone(file):
        before = read_project(file)
        after = change(before)
        if after != before:
            write_project(after, file)
    return after


def free_name(path: Path, is_ours: Callable[[Path], bool]) -> Path:
    """Return a path, or the first one with a number, at which there is no file of the user's."""
    number = 1
    free = path
    # A file of ours is written anew; one of somebody else stays.
    while free.exists() and not is_ours(free):
        number += 1
        free = path.with_name(f"{path.stem}_{number}{path.suffix}")
    return free


def save_drawn(project: OpenProject, name: str, annotations: Annotations) -> Path:
    """Write the regions that somebody drew on an image, whole or not at all; return the file."""
    file = project.regions(name)
    description = f"{_DRAWN} {name}"
    if file is None or not is_drawn(file):  # never at a file that is not ours
        usual = project.folder / DRAWN / f"{file_name(name)}.json"
        file = free_name(usual, lambda other: is_drawn(other, f'{description}"'))
    file.parent.mkdir(parents=True, exist_ok=True)
    about = {**annotations.about, "description": description}
    coco_writing.write_coco(replace(annotations, image=project.path(name).name, about=about), file)
    return file


def is_drawn(file: Path, description: str = _DRAWN) -> bool:
    """Return whether a file has regions that somebody drew in the panel, or on one image."""
    try:
        with file.open("rb") as content:
            return description in content.read(_HEAD).decode("utf-8", "replace")
    except OSError:
        return False


class Place(BaseModel):
    """Where somebody was in a project."""

    image: str = ""
    region: int | None = None
    position: dict[str, int] = {}  # Plane of the region


def _place_file(file: Path) -> Path:
    return file.with_name(f".{file.stem}.place.json")


def read_place(file: Path) -> Place:
    """Return where work on a project stopped; the beginning, if that is not recorded."""
    try:
        return validated(Place, read_json(_place_file(file)), _place_file(file))
    except InputError:
        return Place()


def write_place(file: Path, place: Place) -> None:
    """Keep where somebody is; a disk that refuses is no reason to stop."""
    with suppress(InputError, OSError), atomic_path(_place_file(file)) as part:
        part.write_text(json.dumps(place.model_dump()), encoding="utf-8")
