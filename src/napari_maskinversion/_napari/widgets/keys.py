"""All keys of the plugin, for the widgets that listen and for the list shown to the user."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from qtpy.QtCore import Qt
from qtpy.QtGui import QKeyEvent, QKeySequence

PANEL: Final = "Anywhere in the panel"
SECTION: Final = "On the title of a section"
TABLE: Final = "In the table of results"
CAPTIONS: Final = "In the list of captions"
REVIEW: Final = "Review; while reviewing in the whole window"
FIELD: Final = "Review: in the field for another word"
LABELS: Final = "In the editor of words"
FIND: Final = "In the words of Find"
IMAGES: Final = "In the list of images"
WALL: Final = "In the gallery; those of the review decide about all that is marked"


@dataclass(frozen=True, slots=True)
class Key:
    """A key and what it does."""

    place: str  # Where it works
    name: str  # What the code calls it; unique within its place
    keys: tuple[str, ...]  # The first one is shown on buttons; all of them work
    effect: str  # What it does, for the user

    @property
    def shown(self) -> str:
        """The keys as this system writes them."""
        native = QKeySequence.SequenceFormat.NativeText
        return ", ".join(QKeySequence(key).toString(native) for key in self.keys)


KEYS: Final = (
    Key(PANEL, "next", ("Ctrl+Return",), "The next step: the button at the bottom"),
    Key(PANEL, "again", ("Ctrl+Shift+Return",), "Suggest words again for all regions"),
    Key(PANEL, "next image", ("Alt+PgDown",), "The next image of the project"),
    Key(PANEL, "previous image", ("Alt+PgUp",), "The previous image of the project"),
    Key(PANEL, "help", ("F1",), "Show these keys"),
    Key(
        PANEL,
        "undo",
        ("Ctrl+Z",),
        "Undo: the last decision in a review, the last edit while typing, otherwise the last "
        "brush stroke",
    ),
    Key(PANEL, "redo", ("Ctrl+Shift+Z",), "Redo it"),
    Key(SECTION, "toggle", ("Space", "Return", "Enter"), "Open or close it"),
    Key(TABLE, "left", ("Alt+Left",), "Move the column to the left"),
    Key(TABLE, "right", ("Alt+Right",), "Move the column to the right"),
    Key(TABLE, "narrower", ("Alt+Shift+Left",), "Make the column narrower"),
    Key(TABLE, "wider", ("Alt+Shift+Right",), "Make the column wider"),
    Key(CAPTIONS, "copy", ("Ctrl+C",), "Copy the selected captions, or all"),
    Key(REVIEW, "accept", ("A",), "Accept the best suggestion"),
    *(
        Key(
            REVIEW,
            f"pick {number}",
            (str(number),),
            f"Accept suggestion {number}, or word {number}",
        )
        for number in range(1, 10)
    ),
    Key(REVIEW, "reject", ("R",), "Reject all suggestions"),
    Key(REVIEW, "skip", ("S",), "Skip: leave it for later"),
    Key(REVIEW, "type", ("T",), "Type another word"),
    Key(REVIEW, "back", ("B",), "Previous region"),
    Key(REVIEW, "next", ("N",), "Next region"),
    Key(REVIEW, "undo", ("U",), "Undo the last decision"),
    Key(REVIEW, "redo", ("Y",), "Redo the decision"),
    Key(
        REVIEW, "end", ("Escape",), "End the review; the rest of the window has its own keys again"
    ),
    Key(FIELD, "take", ("Return", "Enter"), "Accept the typed word"),
    Key(FIELD, "leave", ("Escape",), "Leave the field"),
    Key(LABELS, "add", ("Insert",), "Add a word below"),
    Key(LABELS, "remove", ("Delete",), "Remove the selected words"),
    Key(LABELS, "edit", ("Return", "Enter"), "Edit the cell"),
    Key(FIND, "go", ("Down",), "Go to what was found"),
    Key(IMAGES, "open", ("Return", "Enter"), "Open the selected image"),
    Key(WALL, "open", ("Return", "Enter"), "Show the region on its image, as a click does"),
    Key(WALL, "all", ("Ctrl+A",), "Mark all"),
)


def named(place: str) -> dict[str, Key]:
    """Return the keys of a place by name."""
    return {key.name: key for key in KEYS if key.place == place}


def shortcut(place: str, name: str) -> QKeySequence:
    """Return the first key of an action, for Qt."""
    return QKeySequence(named(place)[name].keys[0])


def pressed(event: QKeyEvent, place: str) -> str:
    """Return the action of a key event in a place; "" for other keys."""
    modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
    return _actions(place).get((int(event.key()), modifiers), "")


def copies(event: QKeyEvent) -> bool:
    """Return whether a key press copies, by the system's own key."""
    return bool(event.matches(QKeySequence.StandardKey.Copy))


@cache
def _actions(place: str) -> dict[tuple[int, Qt.KeyboardModifier], str]:
    actions = {}
    for key in named(place).values():
        for text in key.keys:
            combination = QKeySequence(text)[0]
            actions[int(combination.key()), combination.keyboardModifiers()] = key.name
    return actions
