"""Load and save label files: dialogs here, file access in a worker."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from qtpy.QtCore import QObject, Signal
from qtpy.QtWidgets import QFileDialog, QWidget

from ...base.errors import InputError
from ...language.labels.files import FORMATS, SUFFIXES, read_label_file, unsupported_fields
from ...language.labels.label_file import LabelFile
from ...language.labels.vocabulary import Vocabulary
from ..widgets.dialogs import file_filter, may_replace
from ..workers.notify import inform, refuse
from ..workers.worker import Worker

_FILTERS = {file_filter(form.name, form.suffixes): form.suffixes[0] for form in FORMATS}


class LabelFiles(QObject):
    """Reads and writes files of labels for a widget.

    Signals
    -------
    loaded : LabelFile
        Content of a file. Not emitted for files that cannot be used.
    """

    loaded = Signal(object)

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._reading = Worker("latest", "Reading words", parent=self)
        self._writing = Worker("queue", "Saving words", parent=self)
        self._reading.done.connect(self.loaded.emit)
        self._writing.done.connect(inform)
        for worker in (self._reading, self._writing):
            worker.failed.connect(refuse)

    @property
    def busy(self) -> bool:
        """Whether a file is being read or written."""
        return self._reading.busy or self._writing.busy

    def ask(self) -> None:
        """Ask for a file and read its labels."""
        path, _ = QFileDialog.getOpenFileName(
            self._window, "Load words", "", f"{file_filter('Words', SUFFIXES)};;All files (*)"
        )
        if path:
            self.read(Path(path))

    def read(self, path: Path) -> None:
        """Read a label file; emits `loaded`."""
        self._reading.start(partial(_read, path))

    def ask_where(self, vocabulary: Vocabulary) -> None:
        """Ask for a file and save a vocabulary there."""
        # `save` asks before it replaces a file: it knows the suffix added to the name.
        typed, kind = QFileDialog.getSaveFileName(
            self._window,
            "Save words",
            "words.txt",
            ";;".join(_FILTERS),
            options=QFileDialog.Option.DontConfirmOverwrite,
        )
        if typed:
            path = Path(typed)
            if path.suffix.lower() not in SUFFIXES:
                path = Path(typed + _FILTERS.get(kind, ".txt"))
            self.save(vocabulary, path)

    def save(self, vocabulary: Vocabulary, path: Path) -> None:
        """Save a vocabulary in the format of the file's suffix; ask before replacing a file."""
        if not may_replace(self._window, [path]):
            return
        self._writing.start(partial(_write, vocabulary, path))


def _read(path: Path) -> LabelFile:
    content = read_label_file(path)
    try:
        Vocabulary.of(content.labels)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return content


def _write(vocabulary: Vocabulary, path: Path) -> str:
    vocabulary.save(path, overwrite=True)
    message = f"Saved {len(vocabulary.labels):,} words in {path}."
    lost = unsupported_fields(vocabulary.content, path.suffix)
    if lost:
        message += f" A {path.suffix} file cannot hold {', '.join(lost)}."
    return message
