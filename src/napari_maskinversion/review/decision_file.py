"""The file next to an image with the decisions about its regions; see docs/reference/formats.md.

JSON lines: a header for each run, under it a line for each decision. Lines are only appended, so
what can go wrong with a disk costs the last one at most. One more file of this kind lists, for all
images, where decisions about their pixels are: a line for each place.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from heapq import merge
from io import BytesIO
from pathlib import Path
from threading import Lock as ThreadLock
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..base.atomic_files import sync_folder, write_whole
from ..base.cache_folder import cache_folder
from ..base.errors import InputError, InUseError, NotSavedError
from ..base.identity import ImageIdentity, RegionIdentity, RegionKey
from ..base.reading import check_kind, check_version, is_address, parse_json
from ..base.wording import counted
from .decisions import Decision, Status, Suggestion

if TYPE_CHECKING:
    from filelock import BaseFileLock

SUFFIX: Final = ".maskinversion.jsonl"
FORMAT: Final = "napari-maskinversion decisions"
VERSION: Final = 1
Action = Literal["decide", "undo", "redo", "keep"]
# The first bytes of every file: JSON keeps the order of keys.
_MAGIC: Final = b'{"format": "' + FORMAT.encode() + b'"'
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
DIGITS: Final = 8  # of a mask's hash: enough to tell the regions of an image apart
_DIGITS: Final = 12
_LONGEST: Final = 255 - len(f".-{'0' * _DIGITS}{SUFFIX}.lock")  # bytes, so that the lock has a name
_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)


class Entry(BaseModel):
    """One line: the state of a region from then on. The fields are the keys of the format."""

    kind: Literal["decision"] = "decision"
    action: Action  # "keep" repeats an earlier state
    step: int  # Consecutive lines with the same action and step are one step
    region: int
    plane: dict[str, int]
    mask: str
    box_yxyx: tuple[int, int, int, int]
    status: Status
    label: str = ""
    time: str = ""
    suggested: Suggestion | None = None

    @classmethod
    def of(cls, action: Action, step: int, region: RegionIdentity, state: Decision | None) -> Entry:
        """Create the line of a decision; without one, the region is undecided from then on."""
        decision: dict[str, Any] = {"status": "undecided"}
        if state is not None:
            decision = {"status": state.status, "label": state.label, "time": state.time}
            if state.suggestion is not None:
                decision["suggested"] = state.suggestion
        return cls(
            kind="decision",
            action=action,
            step=step,
            region=region.key.id,
            plane=dict(region.key.position),
            mask=region.mask,
            box_yxyx=region.box,
            **decision,
        )

    @cached_property
    def key(self) -> RegionKey:
        """The region at that time."""
        return RegionKey(self.region, tuple(self.plane.items()))

    @cached_property
    def state(self) -> Decision | None:
        """The decision; None: undecided."""
        if self.status == "undecided":
            return None
        return Decision(
            region=self.key,
            status=self.status,
            label=self.label,
            suggestion=self.suggested,
            time=self.time,
        )

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        _ = self.state  # raises InputError, which is a ValueError
        return self


class Run(BaseModel):
    """A header, with keys that say how suggestions were computed, and the entries under it."""

    model_config = ConfigDict(extra="allow")

    format: str = FORMAT
    version: int = VERSION
    kind: Literal["run"] = "run"
    time: str = ""
    image: ImageIdentity
    regions: str = ""  # `DIGITS` of the mask of each region that was there; "": unknown
    entries: list[Entry] = Field(default_factory=list, exclude=True)

    @cached_property
    def masks(self) -> frozenset[str]:
        """The first digits of the masks that were there."""
        starts = range(0, len(self.regions), DIGITS)
        return frozenset(self.regions[start : start + DIGITS] for start in starts)


class ListedPlace(BaseModel):
    """A line that says where decisions about some pixels are."""

    format: str = FORMAT
    version: int = VERSION
    kind: Literal["place"] = "place"
    content: str  # Hash of the pixels
    file: str  # Full path of the decision file


@dataclass(frozen=True, slots=True)
class Contents:
    """Contents of a decision file, or of the list of places."""

    runs: tuple[Run, ...] = ()
    places: tuple[ListedPlace, ...] = ()
    damaged: int = 0  # Complete lines that could not be read; they are skipped
    end: int = 0  # Bytes up to the end of the last complete line
    torn: bool = False  # An incomplete line follows ``end``
    ended: bool = True  # The last complete line has its line break


def lines_of(entries: Iterable[Entry]) -> bytes:
    """Return the lines of decisions. Fields that are not set are not written."""
    return b"".join(_line(entry.model_dump(exclude_unset=True)) for entry in entries)


def header_of(image: ImageIdentity, time: str, provenance: Mapping[str, Any]) -> bytes:
    """Return the line that starts a run."""
    return _line(Run(image=image, time=time).model_dump() | dict(provenance))


def _line(values: Mapping[str, Any]) -> bytes:
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, default=str)
    return text.encode("utf-8", "surrogatepass") + b"\n"


def read(data: bytes, name: str) -> Contents:
    """Read the bytes of a decision file."""
    if not _MAGIC.startswith(data.removeprefix(_BYTE_ORDER_MARK)[: len(_MAGIC)]):
        raise InputError(
            f"{name} is not a decision file of this plugin and was left as it is; "
            "move or rename it."
        )
    runs: list[Run] = []
    places: list[ListedPlace] = []
    run: Run | None = None  # None below a header that cannot be read: the image is unknown
    damaged = end = 0
    ended = True
    for line in BytesIO(data):  # not splitlines(), which also splits at a carriage return
        complete = line.endswith(b"\n")
        try:
            text = line.removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "surrogatepass")
            values = parse_json(text, "line")
            if not isinstance(values, dict):
                raise ValueError("not an object")
        except ValueError:
            if not complete:
                return Contents(tuple(runs), tuple(places), damaged, end, torn=True)
            damaged += bool(line.strip())
            end += len(line)
            continue
        _check_version(values, name)
        end = end + len(line)
        ended = complete
        try:
            if values.get("kind") == "run":
                run = None
                run = Run.model_validate({**values, "entries": []})
                runs.append(run)
            elif values.get("kind") == "place":
                places.append(ListedPlace.model_validate(values))
            elif run is None:
                damaged += 1
            else:
                run.entries.append(Entry.model_validate(values))
        except ValueError:
            damaged += 1
    return Contents(tuple(runs), tuple(places), damaged, end, ended=ended)


def read_saved(data: bytes, name: str) -> tuple[Run, ...]:
    """Read the decisions that a file of results holds."""
    contents = None
    if data.startswith(_MAGIC):
        contents = read(data, name)
    if contents is None or contents.damaged or contents.torn:
        raise InputError(
            f"{name} is damaged: decisions in it cannot be read. Use an earlier copy, or save "
            "results.npz again from the panel."
        )
    return contents.runs


def _check_version(values: Mapping[str, Any], name: str) -> None:
    version = None
    if values.get("format") == FORMAT:
        version = values.get("version")
    if isinstance(version, int):  # another one is a damaged line
        check_version(version, VERSION, name, "move the file away: it is left as it is")


def _places(image: Path | None, identity: ImageIdentity) -> list[Path]:
    """Return where decisions about an image may be: next to its file, and in the cache folder.

    There is ``review/NAME-DIGITS.maskinversion.jsonl`` for images without a file and in read-only
    folders; the digits are a hash of the full path with its links followed, or of the pixels.
    """
    beside = []
    name = identity.name
    digits = identity.content
    if image is not None:
        beside = [image.with_name(image.name + SUFFIX)]
        name = image.name
        full = str(image if is_address(image) else image.resolve())
        digits = hashlib.blake2b(full.encode("utf-8", "surrogatepass")).hexdigest()
    safe_name = "".join(c if c.isalnum() or c in "-_. " else "_" for c in name)[:80] or "image"
    safe_name = safe_name.encode()[:_LONGEST].decode(errors="ignore")
    return [*beside, cache_folder() / "review" / f"{safe_name}-{digits[:_DIGITS]}{SUFFIX}"]


def _list_of_places() -> Path:
    """Return the file that lists where decisions about pixels were saved, whatever image."""
    return cache_folder() / "review" / f"places{SUFFIX}"


@dataclass(slots=True)
class _ReadPlaces:
    """The list of places as far as this program has read it."""

    inode: int
    end: int = 0  # Bytes
    by_content: dict[str, list[Path]] = field(default_factory=dict)

    def read_on(self, file: Path, size: int) -> None:
        """Read the lines that were appended."""
        with file.open("rb") as lines:
            lines.seek(self.end)
            data = lines.read()
        try:
            contents = read(data, str(file))
        except InputError:  # not ours: decisions then do not follow renamed images
            self.end = size
            return
        self.end += contents.end
        for place in contents.places:
            self.by_content.setdefault(place.content, []).append(Path(place.file))


_read_places: dict[Path, _ReadPlaces] = {}
_reading_places = ThreadLock()


def _listed(content: str) -> list[Path]:
    """Return where decisions about pixels were saved, as far as that is listed."""
    file = _list_of_places()
    with _reading_places, suppress(OSError):
        if not file.exists():
            _take_over_old_lists(file)
        status = file.stat()
        places = _read_places.get(file)
        if places is None or places.inode != status.st_ino or places.end > status.st_size:
            places = _read_places[file] = _ReadPlaces(status.st_ino)
        if places.end < status.st_size:
            places.read_on(file, status.st_size)
        return list(places.by_content.get(content, ()))
    return []


def _take_over_old_lists(file: Path) -> None:
    """Write the places of earlier versions, which had a list for each image, into the list."""
    old_lists = sorted(file.parent.glob("*.places"))
    lines: list[bytes] = []
    for old_list in old_lists:
        with suppress(UnicodeDecodeError):
            for place in old_list.read_text("utf-8").splitlines():
                lines.append(_line(ListedPlace(content=old_list.stem, file=place).model_dump()))
    if lines:
        write_whole(file, b"".join(lines))
    for old_list in old_lists:
        old_list.unlink()


def _followed(
    image: Path | None, identity: ImageIdentity, usual: Sequence[Path] | None = None
) -> list[Path]:
    """Return files beside images of the same pixels that are gone: renamed, moved, or deleted.

    ``usual`` are the `_places` of the image, if they are known.
    """
    if image is None or is_address(image) or not identity.content:
        return []
    if usual is None:
        usual = _places(image, identity)
    listed = _listed(identity.content)
    with suppress(OSError):  # a folder that was moved after its images were renamed
        folder = Path(os.path.abspath(image.parent))  # noqa: PTH100 - as the list has it
        listed += _left_behind(folder, folder.stat().st_mtime_ns).get(identity.content, ())
    followed = []
    for path in dict.fromkeys(listed):
        former_image = path.with_name(path.name.removesuffix(SUFFIX))
        if path not in usual and path.exists() and not former_image.exists():
            followed.append(path)
    return followed


@lru_cache(maxsize=8)
def _left_behind(folder: Path, _: int) -> dict[str, list[Path]]:
    """Return the files in a folder whose image has another name now, by what they are about."""
    names = {*os.listdir(folder)}  # noqa: PTH208 - names alone: a folder may hold many files
    files = dict[str, list[Path]]()
    decided = (name for name in names if name.endswith(SUFFIX))
    for name in sorted(name for name in decided if name.removesuffix(SUFFIX) not in names):
        with suppress(FileNotFoundError):  # another program has removed it by now
            about = (folder / name).stat()
            for content in _contents(folder / name, about.st_size, about.st_mtime_ns):
                files.setdefault(content, []).append(folder / name)
    return files


@lru_cache(maxsize=100_000)  # each decision about another image changes the folder
def _contents(path: Path, *_: int) -> frozenset[str]:
    """Return the hashes of the images that a file is about."""
    try:
        return frozenset(run.image.content for run in _read(path).runs)
    except InputError:
        return frozenset()


def _list_place(path: Path, identity: ImageIdentity) -> None:
    """Keep in mind where decisions are; without it they do not follow a renamed image."""
    full = os.path.abspath(path)  # noqa: PTH100 - links may lead elsewhere later
    if not identity.content or Path(full) in _listed(identity.content):
        return
    file = _list_of_places()
    line = _line(ListedPlace(content=identity.content, file=full).model_dump())
    with suppress(OSError, UnicodeError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab+") as places:  # each write goes to the end, also of other programs
            places.seek(max(0, places.seek(0, os.SEEK_END) - 1))
            is_cut_off = places.read(1) not in (b"", b"\n")
            places.write(b"\n" + line if is_cut_off else line)


class DecisionPlaces(NamedTuple):
    """Where decisions about an image are looked for; most of these files are not there."""

    named: tuple[Path, ...]  # By the image's file, in the order in which they are written to
    followed: tuple[Path, ...]  # Of the image under an earlier name

    @property
    def files(self) -> tuple[Path, ...]:
        """All of them."""
        return (*self.named, *self.followed)


def find_places(image: Path | None, identity: ImageIdentity) -> DecisionPlaces:
    """Return where decisions about an image are looked for."""
    named = _places(image, identity)
    return DecisionPlaces(tuple(named), tuple(_followed(image, identity, named)))


def decision_files(image: Path | None, identity: ImageIdentity) -> list[Path]:
    """Return where decisions about an image are looked for; most of these files are not there."""
    return list(find_places(image, identity).files)


def has_decisions(image: Path | None, identity: ImageIdentity) -> bool:
    """Return whether there is a decision file for an image, without opening it."""
    # Unlike Path.exists, it takes a name that is too long.
    return any(map(os.path.exists, decision_files(image, identity)))


def read_runs(image: Path, identity: ImageIdentity) -> tuple[Run, ...]:
    """Read what `DecisionFile.runs` holds, without locking a file."""
    return _by_time(_read(path).runs for path in decision_files(image, identity))


def _by_time(files: Iterable[Sequence[Run]]) -> tuple[Run, ...]:
    # Within a file the order of lines counts, even if the clock was set back.
    runs: list[Run] = []
    by_time: dict[str, list[Run]] = {}
    for run in merge(*files, key=lambda run: run.time):
        same = by_time.setdefault(run.time, [])
        if run not in same:  # a file may hold what it inherited from another
            same.append(run)
            runs.append(run)
    return tuple(runs)


class _Unsynced(NamedTuple):
    """What was appended to a file and not synced."""

    end: int  # Of the bytes before
    is_new: bool  # Whether the file was made for it


class DecisionFile:
    """A decision file, locked for this program."""

    def __init__(
        self,
        image: Path | None,
        identity: ImageIdentity,
        places: DecisionPlaces | None = None,
    ) -> None:
        """Lock and read the file; ``places`` are those of `find_places`, if they are known."""
        self.notes: list[str] = []
        self._identity = identity
        if places is None:
            places = find_places(image, identity)
        *beside, self.path = places.named
        for path in beside:
            if refusal := _refusal(path):
                self.notes.append(f"{path} cannot be written to ({refusal}).")
            else:
                self.path = path
        if self.path not in beside:
            self.notes.append(f"Decisions are saved in {self.path}.")
        self._lock = _lock(self.path)
        try:
            for path in places.followed:
                self.notes.append(f"The image was renamed or moved: its decisions are in {path}.")
            contents = {path: _read(path) for path in places.files}
            for path, content in contents.items():
                self._note(path, content)
            self._set_end(contents[self.path])
            is_own = any(run.image == identity for run in contents[self.path].runs)
            if is_own:  # the file may be older than the list of places
                _list_place(self.path, identity)
            # Copied with the first write: they are found only until an image takes the old name.
            self._inherited: tuple[Run, ...] = ()
            if not is_own:
                self._inherited = _by_time(contents[path].runs for path in places.followed)
            self.runs = _by_time(content.runs for content in contents.values())
            # The file as this program left it: another one has changed it, or not.
            self._known = _inode_and_size(self.path)
            # What is written, but perhaps not on the disk yet
            self._unsynced: _Unsynced | None = None
        except BaseException:
            self._lock.release()
            raise

    def append(self, lines: bytes, everything: Callable[[], bytes], *, sync: bool = True) -> None:
        """Append lines; they are on the disk when this returns, or without ``sync``, after `sync`.

        If another program has changed the file, everything is appended.
        """
        try:
            self._write(lines, everything, sync=sync)
        except OSError as error:
            raise self._not_saved(error) from error
        except InputError as error:
            raise NotSavedError(f"The decision is not saved yet: {error}") from error

    def sync(self) -> Path | None:
        """Bring what was appended to the disk; return the folder in which the file is new.

        The file is on the disk once that folder is, see `sync_folder`.
        """
        unsynced, self._unsynced = self._unsynced, None
        if unsynced is None:
            return None
        try:
            file = os.open(self.path, os.O_RDWR)
            try:
                os.fsync(file)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(file, unsynced.end)
                raise
            finally:
                os.close(file)
        except OSError as error:
            self._known = (-1, None)  # everything is due
            raise self._not_saved(error) from error
        return self.path.parent if unsynced.is_new else None

    def _not_saved(self, error: OSError) -> NotSavedError:
        return NotSavedError(
            f"The decision is not saved yet: {self.path} could not be written "
            f"({error.strerror or error}). It is kept, and written with the next one; make "
            "room, or export the results elsewhere."
        )

    def close(self) -> None:
        """Unlock the file."""
        self._lock.release()

    def _note(self, path: Path, contents: Contents) -> None:
        if contents.torn:
            self.notes.append(f"The last line of {path.name} was cut off and dropped.")
        if contents.damaged:
            self.notes.append(
                f"{counted(contents.damaged, 'line')} of {path.name} could not be read; "
                "the others were used, the file was left as it is."
            )

    def _set_end(self, contents: Contents) -> None:
        """Remember where complete lines end, and what has to precede the next line."""
        self._end = contents.end
        self._line_break = b"" if contents.ended else b"\n"

    def _copied(self) -> bytes:
        parts = []
        for run in self._inherited:
            if run.image == self._identity:
                parts.append(_line(run.model_dump()) + lines_of(run.entries))
        return b"".join(parts)

    def _write(self, lines: bytes, everything: Callable[[], bytes], *, sync: bool) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not self.path.exists()
        file = os.open(self.path, _FLAGS, 0o666)
        try:
            status = os.fstat(file)
            inode = None if is_new else status.st_ino
            changed = self._known not in ((inode, status.st_size), (inode, None))
            if changed:
                self._set_end(_read(self.path))
                lines = everything()
            data = self._line_break + self._copied() + lines
            # If this fails, part of the lines may be there; after a change, everything is due.
            self._known = (-1, None) if changed else (status.st_ino, None)
            try:
                if status.st_size > self._end:
                    os.ftruncate(file, self._end)
                _write_all(file, data)
                if sync:
                    os.fsync(file)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(file, self._end)
                raise
        finally:
            os.close(file)
        if not sync:
            before = self._unsynced
            self._unsynced = _Unsynced(self._end, is_new) if before is None else before
        self._end += len(data)
        self._known = (status.st_ino, self._end)
        self._line_break = b""
        self._inherited = ()
        if is_new:
            if sync:
                sync_folder(self.path.parent)
            if self.path.name.endswith(SUFFIX):
                _list_place(self.path, self._identity)


def _read(path: Path) -> Contents:
    check_kind(path)
    try:
        return read(path.read_bytes(), str(path))
    except FileNotFoundError:
        return Contents()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return Contents()
        raise InputError(f"{path} cannot be read ({error.strerror}).") from error


def _refusal(path: Path) -> str:
    """Return why a file cannot be written, or ""; leaves nothing behind."""
    try:
        # The lock is a second file in the folder. Tried first: on Windows, a lock that cannot be
        # made looks like one of another program.
        with tempfile.TemporaryFile(dir=path.parent):
            pass
        with suppress(FileNotFoundError):
            _lock_of(path).lstat()  # its name may be too long
        if path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_APPEND))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _lock_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def _lock(path: Path) -> BaseFileLock:
    from filelock import FileLock, Timeout

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Locked in a worker thread, released in the GUI thread.
        lock = FileLock(_lock_of(path), timeout=0, thread_local=False)
        lock.acquire()
    except Timeout:
        raise InUseError(
            f"Decisions about this image are being made in another window or program: {path} is "
            "in use. Close the review there first."
        ) from None
    except OSError as error:
        raise InputError(
            f"{path.parent} cannot be written to ({error.strerror}); decisions cannot be saved."
        ) from None
    return lock


def _inode_and_size(path: Path) -> tuple[int | None, int | None]:
    try:
        status = path.stat()
    except OSError:
        return None, 0
    return status.st_ino, status.st_size


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:  # the system may write less than it is given
        view = view[os.write(file, view) :]
