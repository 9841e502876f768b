"""``project.yaml``: images with their regions, words and settings."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal, Self, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from ..base.atomic_files import atomic_path, recover
from ..base.errors import ConfigError, InputError, MaskInversionError
from ..base.reading import check_version, is_address, parse_yaml, read_bytes, validated
from ..base.validation import CONTROL, FrozenModel, composed
from ..base.wording import listed
from ..engine.models.specs import MODELS
from ..language.labels.presets import vocabulary_of, with_classifier
from ..language.labels.vocabulary import Vocabulary
from ..pipeline.inputs import input_files
from ..results.settings import RunSettings, fields_of, settings_by_key
from .addresses import address_of
from .pairing import Pair

FILE: Final = "project.yaml"
FORMAT: Final = "napari-maskinversion project"
VERSION: Final = 1
Value = bool | int | float | str | list[str] | None


class ProjectImage(BaseModel):
    """An image of a project."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str  # Tells it from the others, also in the results
    image: str  # Path, relative to the project's folder, with forward slashes; or an address
    # Its number in a file with several; None for that of the settings
    series: int | None = Field(default=None, ge=0)
    regions: str | None = None  # Path of the same kind; None for an image without regions
    # Whether somebody has decided about its regions; a batch leaves out what is to be skipped
    state: Literal["open", "done", "skip"] = "open"

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        # Without isprintable(): macOS and people write spaces and joiners that it refuses.
        is_line = name.splitlines() == [name]
        if not is_line or name.startswith(".") or CONTROL.search(name):
            raise ValueError("a name is one line without control signs, and begins with no dot")
        return name

    @property
    def place(self) -> tuple[str, int | None]:
        """What tells the image from others whatever its name is."""
        return self.image, self.series

    def changed(self, **values: Any) -> Self:
        """Return the image with other values."""
        return type(self)(**{**dict(self), **values})


class Project(FrozenModel):
    """What `project.yaml` holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: str = FORMAT
    version: int = VERSION
    # What ``--labels`` takes, or names; None for the names in the files of regions. A file is
    # relative to the project's folder.
    labels: str | tuple[str, ...] | None = None
    # File of the classifier that ranks the labels, as in ``labels``; its words without labels
    classifier: str | None = None
    templates: tuple[str, ...] = ()  # What ``--template`` takes
    colors: dict[str, str] = Field(default_factory=dict)  # Colour (``#rrggbb``) of labels, by name
    # What ``--captions`` takes: a file, or the folder of a caption bank, as in ``labels``
    captions: str | None = None
    caption_column: str | None = None  # Its column in a CSV file
    library: str | None = None  # Folder of the library that a batch adds to, as in ``labels``
    # Settings that differ from the default, by the key of a `Setting`; files as in ``labels``, and
    # the folder of a model
    settings: dict[str, Value] = Field(default_factory=dict)
    images: tuple[ProjectImage, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_names(self.images)
        return self

    def changed(self, **values: Any) -> Self:
        """Return the project with other values."""
        return type(self)(**{**dict(self), **values})

    def run_settings(self, folder: Path) -> RunSettings:
        """Return the settings of a run."""
        settings_known = settings_by_key(RunSettings)
        values: dict[str, Any] = {}
        for key, value in self.settings.items():
            if key not in settings_known:
                raise ConfigError(
                    f"There is no setting {key!r}; correct its name, or delete its line if a "
                    "development version of this program wrote it."
                )
            values[key] = _resolved(value, folder, folders=_may_be_folder(key, value))
            if Path in get_args(settings_known[key].annotation) and value is not None:
                values[key] = Path(str(values[key]))
        return RunSettings().changed(values)

    def vocabulary(self, folder: Path, threshold: float | None) -> Vocabulary | None:
        """Return the labels with their prompts and colours; None without labels."""
        learned = None
        if self.classifier is not None:
            learned = with_classifier(place_of(self.classifier, folder), None, threshold)
        if self.labels is None:
            return learned
        labels = _resolved(self.labels, folder)
        templates = self.templates or (() if learned is None else learned.templates)
        vocabulary = with_colors(vocabulary_of(labels, templates, threshold), self.colors)
        if learned is None:
            return vocabulary
        return replace(vocabulary, learned=learned.learned)

    def files(self, folder: Path) -> list[Path]:
        """Return the files that it reads, see `input_files`."""
        named: list[str | None] = []
        for image in self.images:
            named += [image.image, image.regions]
        named += [self.captions, self.classifier]
        named += [name for name in (self.labels, *self.settings.values()) if isinstance(name, str)]
        return input_files(*(folder / name for name in named if name))


def with_colors(vocabulary: Vocabulary, colors: Mapping[str, str]) -> Vocabulary:
    """Return a vocabulary with other colours for some of its labels."""
    if not colors:
        return vocabulary
    labels = vocabulary.full_labels
    return replace(
        vocabulary, colors=tuple(colors.get(label.name, label.color) for label in labels)
    )


def check_names(images: Iterable[ProjectImage]) -> None:
    """Refuse two images of one name; case does not count, since it does not on every disk."""
    by_name: dict[str, list[ProjectImage]] = {}
    for image in images:
        by_name.setdefault(composed(image.name).casefold(), []).append(image)
    for same in by_name.values():
        if len(same) > 1:
            files = listed(image.image for image in same)
            raise InputError(
                f"{len(same)} images are called {same[0].name} ({files}); name them in a table "
                "with the columns image, regions and name, or rename the files."
            )


def project_images(pairs: Iterable[Pair], folder: Path) -> tuple[ProjectImage, ...]:
    """Return pairs as images of the project in a folder."""
    images = []
    for paired_image in pairs:
        image = relative(paired_image.image, folder)
        if paired_image.regions is None:
            regions = None
        else:
            regions = relative(paired_image.regions, folder)
        values = {
            "name": paired_image.name,
            "image": image,
            "series": paired_image.series,
            "regions": regions,
        }
        images.append(validated(ProjectImage, values, paired_image.image))
    return tuple(images)


def project_file(place: Path) -> Path:
    """Return the file of a project: the path itself, or ``project.yaml`` in this folder."""
    if place.suffix.lower() in (".yaml", ".yml"):
        return place
    return place / FILE


def read_project(place: Path) -> Project:
    """Read a project."""
    file = project_file(place)
    recover(file.parent)
    values = parse_yaml(read_bytes(file, "project"), file)
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise InputError(f"{file} is not a project; make one with 'project new'.")
    check_version(values.get("version"), VERSION, str(file), "make it again with 'project new'")
    with naming(file):
        project = validated(Project, values, file)
        project.run_settings(file.parent)
    return project


@contextmanager
def naming(file: Path) -> Generator[None, None, None]:
    """Name the file of a project in what is refused in the block."""
    try:
        yield
    except MaskInversionError as error:
        text = str(error)
        raise InputError(text if str(file) in text else f"{file}: {text}") from None


def write_project(project: Project, file: Path) -> None:
    """Write a project completely or not at all."""
    values = project.model_dump(mode="json", exclude_defaults=True)
    values = {"format": FORMAT, "version": VERSION, **values}
    text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=120)
    with atomic_path(file) as part:
        part.write_text(text, encoding="utf-8")


def relative(path: Path, folder: Path) -> str:
    """Return a path from a folder with forward slashes; absolute on another drive."""
    if is_address(path):
        return address_of(path)
    try:
        # Two dots after a link to a folder lead elsewhere than its name says.
        file = path.parent.resolve() / path.name
        return Path(os.path.relpath(file, folder.resolve())).as_posix()
    except ValueError:  # Windows
        return path.absolute().as_posix()


def stored_settings(settings: RunSettings, folder: Path) -> dict[str, Value]:
    """Return the settings that differ from the default, as a project holds them."""
    usual = RunSettings()
    stored = {}
    for setting in fields_of():
        key = setting.key
        value = settings.get(key)
        if value != usual.get(key):
            stored[key] = _stored(value, folder, folders=_may_be_folder(key, value))
    return stored


def stored_labels(labels: str | None, folder: Path) -> str | None:
    """Return labels as a project holds them: a file relative to its folder."""
    if labels is None:
        return None
    return str(_stored(labels, folder))


def _may_be_folder(key: str, value: Any) -> bool:
    """Return whether a setting may name a folder: that of a model, which no listed one is."""
    return key == "model" and value not in MODELS


def _stored(value: Any, folder: Path, *, folders: bool = False) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, str | Path) and _exists(value, folders=folders):
        return relative(Path(value), folder)
    if isinstance(value, Path):
        return str(value)
    return value


def place_of(value: str, folder: Path) -> Path:
    """Return the path of a file of a project, from the working folder if it is in there."""
    if is_address(value):
        return Path(value)
    path = Path(os.path.normpath(folder.resolve() / value))
    working_folder = Path.cwd().resolve()
    if path.is_relative_to(working_folder):
        return path.relative_to(working_folder)
    return path


def _resolved(value: Any, folder: Path, *, folders: bool = False) -> Any:
    if not isinstance(value, str) or not value:
        return value
    path = os.path.normpath(os.path.join(folder.resolve(), value))  # noqa: PTH118
    if _exists(path, folders=folders):
        return path
    return value


def _exists(path: str | Path, *, folders: bool) -> bool:
    """Return whether there is a file; a long list of labels is no path, and no error."""
    return bool(path) and (os.path.exists if folders else os.path.isfile)(path)
