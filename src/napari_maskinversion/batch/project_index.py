"""The regions of a project as one library, so that nobody has to open every archive.

The archives and the decision files are the truth. The index is a library in the folder ``index``
beside the archives. It can be deleted at any time: `ProjectIndex.refresh` builds it again. For each
image the index keeps the sizes and times of the files that it was read from, and an image is read
again when one of them differs. So whatever a killed program leaves behind is mended by the next
refresh, and nothing of the truth is ever written here.
"""

from __future__ import annotations

import json
import os
import sqlite3
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock as ThreadLock
from typing import Any, Final, NamedTuple, Self

import numpy as np

from ..base.errors import InputError, MaskInversionError
from ..base.identity import (
    ImageIdentity,
    ImagePlace,
    RegionIdentity,
    RegionKey,
    identify,
    plane_of,
    plane_text,
)
from ..base.locks import Lock
from ..base.progress import tick
from ..base.reading import parse_json
from ..base.wording import one_line
from ..library.adding import place_of, rows_of
from ..library.filters import utc
from ..library.library import Library
from ..library.store import LOCK, ROWS, DamagedError, HalfArray, OtherFormatError, unit_halves
from ..regions.annotations.json_files import to_json_types
from ..results.export.archive import open_archive
from ..results.export.bundle import Bundle
from ..results.export.catalogue import FORMATS
from ..results.spaces import Space
from ..review.decision_file import DecisionPlaces, find_places
from ..review.reporting import decided_bundle, image_of
from ..review.review import Review
from ..review.stored_images import DecidedImage, StoredRegion
from .finished import FILE
from .image_task import ALWAYS, ARCHIVES, file_name
from .index_checksums import are_right, follow_changes, renew
from .opened import OpenProject

FOLDER: Final = "index"
STAGE: Final = "Reading image"
# What is read before it is written in one step: a commit waits for the disk.
_MOST_IMAGES: Final = 50
_MOST_REGIONS: Final = 5_000
_ATTEMPTS: Final = 3  # as it is, mended, and in memory
_VECTORS: Final = "vectors-*-*.f16"
_FEW_HOLES: Final = 1_000  # vectors of regions that are gone, which may stay
# The number in its name changes with its columns: an older table is not read.
_TABLE: Final = "project_images_2"
_ANY_TABLE: Final = "project_images_%"
_CREATE: Final = (
    f"CREATE TABLE IF NOT EXISTS {_TABLE} (name TEXT PRIMARY KEY, image INTEGER NOT NULL UNIQUE,"
    " content TEXT NOT NULL, stamp TEXT NOT NULL, regions INTEGER NOT NULL, about TEXT NOT NULL,"
    " checksum INTEGER)"
)
_COUNTS_DIFFER: Final = (
    f"SELECT count(*) FROM {_TABLE} WHERE regions <>"
    f" (SELECT count(*) FROM regions WHERE regions.image = {_TABLE}.image)"
)
_ORIGIN: Final = ("software", "model", "config", "vocabulary", "window")  # see `Review.set_info`


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedImage:
    """What the index knows of an image besides its regions."""

    name: str
    number: int  # Among the images of the library
    stamp: str  # Sizes and times of the files that it was read from
    identity: ImageIdentity
    words: tuple[str, ...]  # Of its run
    suggested: bool  # Whether its run had words
    channels: str | None  # Of the run
    series: int | None
    created: str  # When it was run
    origin: Mapping[str, Any]  # Of its suggestions, see `provenance`
    unreached: tuple[RegionIdentity, ...]  # Regions that a run did not come to

    def provenance(self) -> dict[str, Any]:
        """Return where its suggestions come from, as `Review` writes it."""
        return dict(self.origin)


class _Known(NamedTuple):
    """What tells whether an image has to be read again."""

    content: str  # Hash of its pixels
    stamp: str


class _ImageFiles(NamedTuple):
    """The files that an image is read from."""

    archive: Path
    mark: Path
    decisions: DecisionPlaces


class _ReadImage(NamedTuple):
    """An image as it was read from its files."""

    name: str
    stamp: str
    space: Space
    rows: list[dict[str, Any]]
    halves: HalfArray
    identity: ImageIdentity
    about: str  # JSON


def archive_file(project: OpenProject, name: str) -> Path | None:
    """Return the archive of an image; None if it was not computed to its end."""
    folder = project.out / ARCHIVES / file_name(name)
    file = folder / FORMATS[ALWAYS].file
    return file if (folder / FILE).is_file() and file.is_file() else None


def place_in(project: OpenProject, name: str) -> ImagePlace:
    """Return where an image is, as libraries have it."""
    series = project.by_name[name].series
    series = project.settings.series if series is None else series
    return place_of(project.path(name), series)


# One refresh of an index at a time in this program: the next one finds the images read already.
_refreshing: dict[Path, ThreadLock] = {}
# The state of the files when an index was found to be whole, by folder.
_whole: dict[Path, tuple[str, ...]] = {}
# The index of the project that was used last where none can be written, by folder.
_in_memory: dict[Path, Library] = {}


@dataclass(eq=False)
class ProjectIndex:
    """The index of a project; open it with `open`, which writes nothing where nothing is."""

    project: OpenProject
    library: Library
    notes: list[str] = field(default_factory=list)  # What was done about the index, one line each
    problems: dict[str, str] = field(default_factory=dict)  # Why images are missing, by name
    # By the image's name and the hash of its pixels, as they were looked for last
    _files: dict[tuple[str, str], _ImageFiles] = field(default_factory=dict)
    # Of images that are under review, if their files were those that the index knows
    _reviewed: dict[str, _ImageFiles] = field(default_factory=dict)

    @classmethod
    def open(cls, project: OpenProject) -> Self:
        """Open the index of a project, or make an empty one."""
        folder = project.out / FOLDER
        index = cls(project, _memory_of(folder))
        if not (project.out / ARCHIVES).is_dir() or folder in _in_memory:
            return index
        with index._mending():
            index.library = _opened(folder)
        return index

    @classmethod
    def fresh(cls, project: OpenProject, names: Iterable[str] | None = None) -> Self:
        """Open the index of a project as its files are now."""
        index = cls.open(project)
        index.refresh(names)
        return index

    def _note(self, text: str) -> None:
        self.notes.append(text)
        warnings.warn(text, stacklevel=2)

    # -- to keep up with the files -------------------------------------------------------------

    def refresh(self, names: Iterable[str] | None = None) -> None:
        """Read what has changed since the last time, of these images or of all.

        Images without results, and those that the project no longer has, leave the index; so do
        those whose archives are damaged, see `problems`. What was read before this is stopped is
        kept.
        """
        wanted = list(self.project.by_name if names is None else names)
        lock = _refreshing.setdefault(self.library.folder, ThreadLock())
        while not lock.acquire(timeout=0.2):
            tick(STAGE, 0, len(wanted))  # may stop the wait
        try:
            for _ in range(_ATTEMPTS):
                with self._mending():
                    self._check_whole()
                    self._refresh(wanted, every=names is None)
                    return
                # The library is another one by now: a new one, or one in memory.
        finally:
            lock.release()

    @contextmanager
    def _mending(self) -> Iterator[None]:
        """Replace a library that cannot be used; the program then goes on behind the block."""
        folder = self.project.out / FOLDER
        try:
            yield
        except InputError as error:
            if folder in _in_memory:
                raise
            try:
                self._start_anew(folder, error)
            except (InputError, OSError):  # of the disk: no room, or no right to write
                why = one_line(error)
                self._note(f"The index of {self.project.title} is not kept: {why}")
                _in_memory.clear()
                self.library = _in_memory[folder] = Library.in_memory()

    def _start_anew(self, folder: Path, error: InputError) -> None:
        """Make an empty library in place of one that is damaged; raises what it cannot mend."""
        has_vectors = any(folder.glob(_VECTORS))
        is_ours = isinstance(error, DamagedError) or has_vectors
        if isinstance(error, DamagedError | OtherFormatError) and is_ours:
            _throw_away(folder)
            self._note(f"The index of {self.project.title} was damaged and is built again.")
        elif (folder / ROWS).exists():
            raise error
        self.library = _opened(folder)  # another program, or the user, has deleted it

    def _check_whole(self) -> None:
        """Refuse an index that was damaged since this program last looked."""
        folder = self.library.folder
        state = _state_of(folder)
        if state is None or _whole.get(folder) == state:
            return
        for problem in self.library.store.problems():
            raise DamagedError(f"The index {folder} is damaged: {problem}")
        with self.library.store.reading() as database:
            if not _has_table(database):
                self._refuse_others(database)
            elif self._is_changed(database):
                raise DamagedError(
                    f"The index {folder} is damaged: regions are missing or changed."
                )
        _whole[folder] = state

    def _is_changed(self, database: sqlite3.Connection) -> bool:
        """Return whether the index is not as this program, or another one of ours, wrote it."""
        (different,) = database.execute(_COUNTS_DIFFER).fetchone()
        return bool(different) or not are_right(self.library.store, database, _TABLE)

    def _refuse_others(self, database: sqlite3.Connection) -> None:
        """Refuse what another version wrote, and a library of the user's."""
        folder = self.library.folder
        if _has_table(database, _ANY_TABLE):
            raise OtherFormatError(f"The index {folder} was written by another version.")
        (images,) = database.execute("SELECT count(*) FROM images").fetchone()
        if images:
            raise InputError(f"{folder} is a library; move it, so that an index can be there.")

    def _refresh(self, wanted: Sequence[str], *, every: bool) -> None:
        stamps = self._stamps(None if every else wanted)
        gone = list(stamps.keys() - self.project.by_name.keys()) if every else []
        stale: list[str] = []
        for name in wanted:
            self.problems.pop(name, None)
            known = stamps.get(name)
            if archive_file(self.project, name) is None:
                gone += [name] if known is not None else []
                continue
            content = "" if known is None else known.content
            if known is None or known.stamp != self._stamp(name, content):
                stale.append(name)
        images: list[_ReadImage] = []
        for place, name in enumerate(stale):
            tick(STAGE, place, len(stale))
            try:
                images.append(self._read(name))
            except (MaskInversionError, OSError) as error:
                self.problems[name] = one_line(error)
                gone += [name] if name in stamps else []
            regions = sum(len(image.rows) for image in images)
            if len(images) >= _MOST_IMAGES or regions >= _MOST_REGIONS:
                self._write(images, [])
                images = []
        if images or gone:
            self._write(images, gone)
        if every and (stale or gone):
            self._compact()

    def _read(self, name: str) -> _ReadImage:
        """Read an image from its files; its stamp is older than all that was read."""
        file = archive_file(self.project, name)
        if file is None:  # it was deleted a moment ago
            raise InputError("its results are gone")
        path = self.project.path(name)
        early = self._stamp(name, "")
        bundle = open_archive(file)
        identity = image_of(bundle)
        stamp = self._stamp(name, identity.content)
        bundle = decided_bundle(bundle, path)
        # The archive may have been replaced while it was read: then it is read again next time.
        if self._stamp(name, "") != early:
            stamp = ""
        rows = rows_of(bundle)
        results = bundle.results
        vectors = results.embeddings if rows else np.zeros((0, results.info.embed_dim), np.float32)
        return _ReadImage(
            name=name,
            stamp=stamp,
            space=Space.of(results),
            rows=rows,
            halves=unit_halves(vectors, name),
            identity=identity,
            about=_about(bundle, identity),
        )

    def _write(self, images: Sequence[_ReadImage], gone: Sequence[str]) -> None:
        """Write images that were read, and remove those that are gone, all or nothing."""
        store = self.library.store
        with self._writing() as database:
            for name in gone:
                _remove(database, name)
            for image in images:
                number = self._number(database, image)
                store.put(
                    database,
                    image.space,
                    number,
                    image.rows,
                    image.halves,
                    replaces="image",
                    sync=False,
                )
                database.execute(
                    f"INSERT OR REPLACE INTO {_TABLE} VALUES (?, ?, ?, ?, ?, ?, NULL)",
                    (
                        *(image.name, number, image.identity.content, image.stamp),
                        *(len(image.rows), image.about),
                    ),
                )
            store.sync_vectors()  # before the rows are committed

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Let a block change the index, which is as whole as before then."""
        folder = self.library.folder
        was_whole = _whole.get(folder) == _state_of(folder)
        with self.library.store.writing() as database:
            database.execute(_CREATE)
            follow_changes(database, _TABLE)
            yield database
            renew(self.library.store, database, _TABLE)
        state = _state_of(folder)
        if was_whole and state is not None:
            _whole[folder] = state

    def _number(self, database: sqlite3.Connection, image: _ReadImage) -> int:
        """Return the number of an image in the library, which is added if it is new."""
        path, series = place_in(self.project, image.name)
        values = (path, series, image.name, image.identity.content)
        row = database.execute(
            f"SELECT images.id FROM images JOIN {_TABLE} ON images.id = {_TABLE}.image"
            f" WHERE {_TABLE}.name = ?",
            (image.name,),
        ).fetchone()
        if row is None:
            cursor = database.execute(
                "INSERT INTO images (path, series, name, content) VALUES (?, ?, ?, ?)", values
            )
            return int(cursor.lastrowid or 0)
        database.execute(
            "UPDATE images SET (path, series, name, content) = (?, ?, ?, ?) WHERE id = ?",
            (*values, row["id"]),
        )
        return int(row["id"])

    def _compact(self) -> None:
        about = self.library.info()
        if about["holes"] > max(_FEW_HOLES, about["regions"]):
            self.library.compact()

    def _stamps(self, names: Iterable[str] | None) -> dict[str, _Known]:
        rows = self._rows_of(names, "name, content, stamp")
        return {row["name"]: _Known(row["content"], row["stamp"]) for row in rows}

    def _rows_of(self, names: Iterable[str] | None, columns: str) -> list[sqlite3.Row]:
        """Return the rows of images, or those of all."""
        query = f"SELECT {columns} FROM {_TABLE}"
        values: tuple[str, ...] = ()
        if names is not None:
            query += " WHERE name IN (SELECT value FROM json_each(?))"
            values = (json.dumps(list(names)),)
        with self.library.store.reading() as database:
            return database.execute(query, values).fetchall() if _has_table(database) else []

    def _stamp(self, name: str, content: str) -> str:
        """Return size and time of all files that an image is read from, and its place."""
        return self._stamp_of(name, self._find_files(name, content))

    def _find_files(self, name: str, content: str) -> _ImageFiles:
        """Return the files that an image is read from.

        ``content`` is the hash of its pixels: decisions about them follow a renamed image.
        """
        path = self.project.path(name)
        folder = self.project.out / ARCHIVES / file_name(name)
        identity = ImageIdentity(path.name, content=content)
        files = _ImageFiles(
            archive=folder / FORMATS[ALWAYS].file,
            mark=folder / FILE,
            decisions=find_places(path, identity),
        )
        self._files[name, content] = files
        return files

    def _stamp_of(self, name: str, files: _ImageFiles) -> str:
        place = ":".join(map(str, place_in(self.project, name)))
        every = (files.archive, files.mark, *files.decisions.files)
        return " ".join([*map(_file_state, every), place])

    # -- what it knows -------------------------------------------------------------------------

    def images(self, names: Iterable[str] | None = None) -> dict[str, IndexedImage]:
        """Return what is known of images, by name and in the order of the project."""
        known = {row["name"]: row for row in self._rows_of(names, "*")}
        return {name: _image_of(known[name]) for name in self.project.by_name if name in known}

    def regions(self, images: Iterable[IndexedImage]) -> dict[str, list[StoredRegion]]:
        """Return the regions of images, by the images' names."""
        by_number = {image.number: image for image in images}
        regions: dict[str, list[StoredRegion]] = {image.name: [] for image in by_number.values()}
        query = (
            "SELECT image, plane, region, mask_hash, y0, x0, y1, x1, suggestion, confidence,"
            " similarity, flagged, decision, label FROM regions"
            " WHERE image IN (SELECT value FROM json_each(?)) ORDER BY id"
        )
        with self.library.store.reading() as database:
            for row in database.execute(query, (json.dumps(list(by_number)),)):
                number, plane, region, mask_hash, y0, x0, y1, x1, suggestion = tuple(row)[:9]
                confidence, similarity, flagged, decision, label = tuple(row)[9:]
                image = by_number[number]
                stored = StoredRegion(
                    key=RegionKey(region, plane_of(plane)),
                    mask_hash=mask_hash,
                    box=(y0, x0, y1, x1),
                    suggestion=suggestion,
                    confidence=confidence,
                    similarity=similarity,
                    flagged=bool(flagged),
                    decision=decision,
                    label=label,
                    date=image.created,
                )
                regions[image.name].append(stored)
        return regions

    # -- decisions -----------------------------------------------------------------------------

    def review(self, image: IndexedImage, regions: Sequence[StoredRegion]) -> Review:
        """Open the decisions about an image, which stay locked until they are closed.

        They are on the disk after `sync_together`.
        """
        identities = [region.identity for region in regions if region.mask_hash]
        key = image.name, image.identity.content
        files = self._files[key] if key in self._files else self._find_files(*key)
        review = Review(
            image.identity,
            [*identities, *image.unreached],
            image,
            file=self.project.path(image.name),
            places=files.decisions,
            sync=False,
        )
        if self._stamp_of(image.name, files) == image.stamp:
            self._reviewed[image.name] = files
        return review

    def keep(self, images: Mapping[str, IndexedImage], decided: Sequence[DecidedImage]) -> None:
        """Write decisions to the index while their files are locked.

        What cannot be written, the next refresh reads from the files.
        """
        stamps: dict[str, str] = {}
        for image in decided:
            files = self._reviewed.pop(image.name, None)
            if files is not None:
                stamps[image.name] = self._stamp_of(image.name, files)
        with suppress(MaskInversionError, OSError), self._writing() as database:
            for image in decided:
                if image.name not in stamps:  # the files had changed before this decision
                    continue
                indexed = images[image.name]
                cursor = database.execute(
                    f"UPDATE {_TABLE} SET stamp = ? WHERE name = ? AND stamp = ?",
                    (stamps[image.name], image.name, indexed.stamp),
                )
                if not cursor.rowcount:  # somebody has read the image again
                    continue
                self.library.store.decide(database, [indexed.number], image.rows)


def _about(bundle: Bundle, identity: ImageIdentity) -> str:
    """Return what `_image_of` reads."""
    info = bundle.results.info
    chosen = info.without_decisions.vocabulary
    words = () if chosen is None else chosen.labels
    provenance = info.provenance()
    reached = {region.key for region in bundle.results.regions}
    unreached = []
    for (position, number), mask in bundle.masks.items():
        if RegionKey(number, position) not in reached:
            region = identify(mask.unpack(), position)
            unreached.append([number, plane_text(position), region.mask, list(region.box)])
    about = {
        "image": [identity.name, list(identity.shape), identity.dtype, identity.content],
        "words": list(words),
        "suggested": info.vocabulary is not None,
        "channels": info.settings.channels,
        "series": info.settings.series,
        "created": utc(info.created),
        "origin": {name: provenance[name] for name in _ORIGIN},
        "unreached": unreached,
    }
    return json.dumps(to_json_types(about), ensure_ascii=False)


def _image_of(row: sqlite3.Row) -> IndexedImage:
    try:
        about = parse_json(row["about"], "index")
        name, shape, dtype, content = about["image"]
        unreached = tuple(
            RegionIdentity(RegionKey(number, plane_of(plane)), mask, tuple(box))
            for number, plane, mask, box in about["unreached"]
        )
        return IndexedImage(
            name=row["name"],
            number=row["image"],
            stamp=row["stamp"],
            identity=ImageIdentity(name, tuple(shape), dtype, content),
            words=tuple(about["words"]),
            suggested=about["suggested"],
            channels=about["channels"],
            series=about["series"],
            created=about["created"],
            origin=about["origin"],
            unreached=unreached,
        )
    except (LookupError, TypeError, ValueError) as error:
        raise DamagedError(f"The index is damaged ({one_line(error)}).") from error


def _remove(database: sqlite3.Connection, name: str) -> None:
    row = database.execute(f"SELECT image FROM {_TABLE} WHERE name = ?", (name,)).fetchone()
    if row is not None:
        database.execute("DELETE FROM regions WHERE image = ?", (row["image"],))
        database.execute("DELETE FROM images WHERE id = ?", (row["image"],))
        database.execute(f"DELETE FROM {_TABLE} WHERE name = ?", (name,))


def _has_table(database: sqlite3.Connection, name: str = _TABLE) -> bool:
    query = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name LIKE ?"
    return bool(database.execute(query, (name,)).fetchone()[0])


def _file_state(file: Path) -> str:
    """Return what changes with a file; "-" if it is not there."""
    try:
        about = os.stat(file)  # noqa: PTH116 - twice as fast, and there are many
    except (OSError, ValueError):  # no file, or a name that no disk takes
        return "-"
    return f"{about.st_size}.{about.st_mtime_ns}.{about.st_ino}"


def _state_of(folder: Path) -> tuple[str, ...] | None:
    """Return what changes with each write to an index; None without one on a disk."""
    if not (folder / ROWS).exists():
        return None
    files = [folder / ROWS, *sorted(folder.glob(_VECTORS))]
    return tuple(f"{file.name} {_file_state(file)}" for file in files)


def _memory_of(folder: Path) -> Library:
    library = _in_memory.get(folder)
    return Library.in_memory() if library is None else library


def _opened(folder: Path) -> Library:
    """Open the index in a folder, or make an empty one."""
    rows = folder / ROWS
    if not rows.exists() and any(folder.glob(_VECTORS)):
        _throw_away(folder)  # vectors of an index whose rows are gone
    try:
        return Library.open(folder, create=True)
    except InputError:
        if not rows.exists():
            raise
        return Library.open(folder)  # another program has made it meanwhile


def _throw_away(folder: Path) -> None:
    """Delete the files of an index; others in its folder stay.

    First goes the name of the database: a journal that is left of it would change the next one.
    """
    state = _state_of(folder)
    with Lock(folder / LOCK) as lock:
        lock.wait(f"The index {folder}")
        if _state_of(folder) != state:  # another program has done it
            return
        rows = folder / ROWS
        if rows.exists():
            rows.replace(folder / f".{ROWS}.old")
        journals = [folder / f"{ROWS}-journal", folder / f"{ROWS}-wal", folder / f"{ROWS}-shm"]
        for file in [*journals, *folder.glob(_VECTORS), folder / f".{ROWS}.old"]:
            file.unlink(missing_ok=True)
    _whole.pop(folder, None)
