"""The data sets of ``sets.yaml``. Imports no torch; a reader is imported when its set is opened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.resources import files
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ...base.errors import InputError
from ...base.wording import counted

if TYPE_CHECKING:
    from .dataset import Dataset


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A folder or file of a data set; see ``sets.yaml``."""

    name: str
    places: tuple[str, ...]
    archive: str
    beside: str = ""

    @property
    def folder(self) -> bool:
        """Whether it is a folder."""
        return not PurePath(self.places[0]).suffix

    def of_split(self, spelled: str) -> Part:
        """Return the part of a split, as it is spelled in names of files."""
        places = tuple(place.format(split=spelled) for place in self.places)
        return replace(self, places=places, archive=self.archive.format(split=spelled))

    def paths(self, data: Path) -> tuple[Path, ...]:
        """Return where this part lies below a folder; empty if it is missing."""
        is_own_folder = not self.beside or (data / self.beside).is_file()
        for pattern in self.places if is_own_folder else self.places[:1]:
            hits = sorted(data.glob(pattern))
            if hits := [hit for hit in hits if (hit.is_dir() if self.folder else hit.is_file())]:
                return tuple(hits)
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSpec:
    """A data set that can be measured on by name; see ``sets.yaml``."""

    name: str  # As on the command line
    summary: str  # Help of its command
    title: str
    reader: str
    parts: tuple[Part, ...]
    size: str  # What must be fetched for the usual split
    licence: str
    splits: tuple[str, ...] = ()
    spelled: Mapping[str, str] = field(default_factory=dict)

    def check_split(self, split: str | None) -> str:
        """Return a split, by default the usual one."""
        if split is None:
            split = ""
            if self.splits:
                split = self.splits[0]
        if split and split not in self.splits:
            has = "it has none"
            if self.splits:
                has = f"it has {', '.join(self.splits)}"
            raise InputError(f"{self.title} has no split {split!r}; {has}.")
        return split

    def parts_of(self, split: str) -> list[Part]:
        """Return the parts of a split."""
        return [part.of_split(self.spelled.get(split, split)) for part in self.parts]

    def paths(self, data: Path, split: str) -> dict[str, tuple[Path, ...]]:
        """Return where each part lies below a folder; empty for those that are missing."""
        return {part.name: part.paths(data) for part in self.parts_of(split)}

    def locate(self, data: Path, split: str) -> dict[str, tuple[Path, ...]]:
        """Return where each part lies below a folder, or refuse it."""
        paths = self.paths(data, split)
        missing = [part for part in self.parts_of(split) if not paths[part.name]]
        if missing:
            part = missing[0]
            place = missing[0].places[0].replace("*", "")
            holds = "holds only a part of"
            if len(missing) == len(self.parts):
                holds = "does not hold"
            raise InputError(
                f"{data} {holds} {self.title}: there is no {place} ({part.name}), which comes from "
                f"{part.archive}. The command bench datasets lists all parts."
            )
        return paths

    def open(self, data: Path | None = None, split: str | None = None) -> Dataset:
        """Open the set in the folder of all sets."""
        from ...demo_model.domains import data_folder

        split = self.check_split(split)
        folder = data or data_folder()
        if folder is None:
            raise InputError(
                "There are no data: set NAPARI_MASKINVERSION_DATA, or --data, to the folder of "
                "sets."
            )
        module, _, name = self.reader.partition(".")
        reader = getattr(import_module(f"{__package__}.{module}"), name)
        dataset: Dataset = reader(existing_folder(folder, "--data"), split, self)
        return dataset

    def describe(self, data: Path | None, split: str | None = None) -> Iterator[str]:
        """Yield lines: origin, size, licence, what is there and what is missing.

        A set of which all parts are there is opened, which finds archives unpacked in part.
        """
        split = self.check_split(split)
        yield f"{self.name}: {self.summary}"
        yield f"  size: {self.size}"
        yield f"  licence: {self.licence}"
        if self.splits:
            usual = self.splits[0]
            yield f"  splits: {', '.join(self.splits)}; {usual} unless --split says another"
        there = {} if data is None else self.paths(data, split)
        for part in self.parts_of(split):
            paths = there.get(part.name, ())
            if paths:
                state = "found"
            elif data is None:
                state = "needed"
            else:
                state = "missing"
            where = ", ".join(map(str, paths)) or part.places[0].replace("*", "")
            yield f"  {state}: {part.name}, {where}, from {part.archive}"
        if not there or not all(there.values()):
            return
        try:
            count = len(self.open(data, split).keys())
            of_split = ""
            if split:
                of_split = f" of {split}"
            yield f"  usable: {counted(count, 'image')}{of_split}"
        except InputError as error:
            yield f"  not usable: {error}"


def existing_folder(folder: Path, option: str) -> Path:
    """Refuse a missing folder."""
    if not folder.is_dir():
        raise InputError(f"There is no folder {folder} ({option}).")
    return folder


def _read_table() -> dict[str, DatasetSpec]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = files(__package__).joinpath("sets.yaml").read_text("utf-8")
    specs: dict[str, DatasetSpec] = {}
    for name, about in yaml.load(text, loader).items():
        if "same_as" in about:
            about["name"] = name
            specs[name] = replace(specs[about.pop("same_as")], **about)
        else:
            specs[name] = _spec(name, about)
    return specs


def _spec(name: str, about: dict[str, Any]) -> DatasetSpec:
    parts = tuple(Part(**part | {"places": tuple(part["places"])}) for part in about.pop("parts"))
    return DatasetSpec(name=name, parts=parts, splits=tuple(about.pop("splits", ())), **about)


DATASETS: Final[Mapping[str, DatasetSpec]] = MappingProxyType(_read_table())
VOC_CLASSES: Final[Mapping[int, str]] = {19: "voc-19", 20: "voc"}  # names of the sets
