"""The foot of the panel: one status line, and one button that is always the next step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QFrame, QPushButton

from ...app.session import NextStep, Session, Staleness, Topic, next_step, staleness
from ...base import progress_words as words
from ...base.wording import counted
from ..widgets.keys import PANEL, named, shortcut
from ..widgets.progress import ProgressBar
from ..widgets.sections import MARGINS, Note, button, line, stack

_WHOLE: Final = 1000  # of the progress bar
ACTIONS: Final = {
    "sample": "Open a sample",
    "smear": "Blood smear",
    "draw": "Draw regions",
    "file": "From file...",
    "segment": "Segment...",
    "words": "Choose words",
    "presets": "Presets...",
    "run": "Suggest words",
    "update": "Compute what has changed and keep everything else",
    "continue": "Compute the missing regions and keep everything else",
    "review": "Review",
    "accept": "Accept the best suggestion, and go to the next region",
    "undecided": "Go to the next undecided region",
    "export": "Export...",
    "next image": "Go to the next image that is not done",
    "export all": "Export all images...",
    "add images": "Add them",
    "save regions": "Save again",
    "settings": "Settings...",
    "switch": "Work on it",
    "model": "Change the model...",
}
"""What the buttons of the foot do, and their titles."""
_LONGEST: Final = 24  # characters of a word on the button
_CANCEL: Final = "Stop at the next step; finished regions are kept"
_CANCEL_MANY: Final = "Stop; finished images are kept, and the same button continues"
_CANCEL_DOWNLOAD: Final = "Stop; the download resumes here next time"
_TIPS: Final = {
    "sample": "Drawings that the demo model knows",
    "smear": "A microscope image with three kinds of cells that the demo model knows",
    "file": "Read regions from a file: a label image, or a file from another program",
    "segment": "Turn boxes and points into regions with Segment Anything",
    "presets": "Take a built-in list of words and its prompts",
    "review": "Review the suggestions that you have",
    "run": f"Compute all suggestions again ({named(PANEL)['again'].shown})",
}


@dataclass(frozen=True, slots=True)
class Step:
    """What the foot shows for a state of the session."""

    title: str  # Of the one button; an action is a key of `ACTIONS`
    action: str
    hint: str  # For the status line, where there is no estimate and no message
    beside: tuple[str, ...] = ()  # Actions of smaller buttons


def step_of(session: Session) -> Step:
    """Return what to offer next."""
    count, stale, missing = session.run.region_count, staleness(session), session.run.missing
    regions = "regions" if count is None else counted(count, "region")
    following = next_step(session)
    done = "" if session.project.state is None else f"{session.project.state.progress} images done."
    elsewhere = session.run.elsewhere and f"The suggestions are for {session.run.elsewhere}."
    steps = {
        NextStep.OPEN_SAMPLE: Step(
            "Open a sample",
            "sample",
            "Open your own image, or start with a sample: drawings or a real blood smear.",
            ("smear",),
        ),
        NextStep.DRAW_REGIONS: Step(
            "Draw regions",
            "draw",
            "Draw regions on the image, or take them from a file or from Segment Anything.",
            ("file", "segment"),
        ),
        NextStep.CHOOSE_WORDS: Step(
            "Choose words",
            "words",
            session.run.words_problem or "Type the words to choose from, one per line.",
            ("presets",),
        ),
        NextStep.SUGGEST: Step(f"Suggest words for {regions}", "run", elsewhere),
        NextStep.WAIT: Step("Suggesting words ...", "", ""),
        NextStep.UPDATE: Step(_update(stale, missing), "update", _sentence(stale.text)),
        NextStep.CONTINUE: Step(
            f"Continue with {counted(missing, 'region')}",
            "continue",
            f"{len(session.run.results or ()):,} of {counted(session.run.total, 'region')} done.",
            ("review", "run"),
        ),
        NextStep.REVIEW: Step(
            f"Review {counted(session.undecided, 'suggestion')}",
            "review",
            "Check each with one key, or export them as they are on the tab Label.",
            ("run",),
        ),
        NextStep.EXPORT: Step(
            "Export...",
            "export",
            "All regions are decided. Export them, or choose the next image.",
            ("run",),
        ),
        NextStep.NEXT_IMAGE: Step("Next image", "next image", done, ("run",)),
        NextStep.EXPORT_ALL: Step(
            "Export all images...", "export all", f"All regions are decided. {done}", ("run",)
        ),
    }
    return _decide(session) if following is NextStep.DECIDE else steps[following]


def _decide(session: Session) -> Step:
    """Return what the button does in a review."""
    review, rows = session.reviewed, session.review.rows
    hint = "A accepts, 1 to 9 choose, R rejects, S skips: anywhere in the window."
    if review is None or not review.acceptable:
        return Step("Next undecided region", "undecided", hint, ("run",))
    several = len(rows) > 1 and review.row in rows
    what = f"{len(rows):,} regions" if several else f"'{_shortened(review.acceptable)}'"
    return Step(f"Accept {what}", "accept", hint, ("run",))


class Foot(Topic, QFrame):
    """Status line, progress and buttons. It never scrolls."""

    asked = Signal(str)  # A key of `ACTIONS`, by a button
    stopped = Signal()  # Cancel was pressed

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._action, self._notice_action = "", ""
        self.estimate = ""
        self._colors: dict[str, str] = {}
        self.status = _Status(name="Status")
        self.button = QPushButton()
        self.button.setObjectName("next")
        self.cancel = button("Cancel", "", self.stopped.emit)
        self.help = button("", "What helps here", lambda: self._ask(self._notice_action))
        self.progress = ProgressBar()
        self.progress.setAccessibleName("Progress")
        self.progress.setRange(0, _WHOLE)
        self.progress.setTextVisible(False)
        self.progress.setFixedHeight(5)
        names = ("smear", "file", "segment", "presets", "review", "run")
        self.beside = {name: self._beside(name) for name in names}
        buttons = line(self.button, *self.beside.values(), shares=(1, *[0] * len(names)))
        says = line(self.status, self.help, self.cancel)
        stack(self, says, self.progress, buttons, margins=MARGINS, spacing=4)
        self.button.clicked.connect(lambda _=False: self._ask(self._action))
        self.show_state()

    def _beside(self, name: str) -> QPushButton:
        again = name == "run"
        title, said = ("Again", "Suggest words again") if again else (ACTIONS[name], "")
        made = button(title, _TIPS[name], lambda: self._ask(name), name=said)
        if again:
            made.setShortcut(shortcut(PANEL, "again"))
        return made

    # -- the session --------------------------------------------------------------------------

    def bind(self) -> None:
        """Follow the session."""
        run = self._session.run.events
        review = self._session.review.events
        status = self._session.status.events
        inputs = (
            *(run.layers, run.region_count, run.settings, run.scope),
            *(run.vocabulary, run.words_problem),
        )
        self.after(self.show_state, *inputs)
        self.after(self.show_state, run.plane, run.settings_problem, run.progress, run.record)
        self.after(self.show_state, run.changed_regions, run.image_changed, run.others_picked)
        self.after(self.show_state, run.live, self._session.project.events.state)
        self.after(self.show_state, review.row, review.rows, review.state, review.reviewing)
        self.after(self.show_state, review.decided_count, review.changes)
        self.after(self.show_state, status.tab, status.download, status.many, status.notice)
        self.after(self._answered, *inputs)  # a message stays until the user changes one of these
        self.after(self._turned, status.tab)
        self.show_state()

    def _turned(self, _: str) -> None:
        """Leave what was said about another tab behind, but no refusal."""
        notice = self._session.status.notice
        if notice is not None and notice.severity == "info" and not notice.action:
            self._session.status.notice = None

    def _answered(self, *_: Any) -> None:
        if self._session.status.notice is not None:
            self._session.status.notice = None

    # -- what is shown ------------------------------------------------------------------------

    def show_estimate(self, text: str) -> None:
        """Show what a run would take."""
        self.estimate = text
        self.show_state()

    def set_colors(self, colors: Mapping[str, str]) -> None:
        """Follow the theme: "accent", "text", "error", "warning" and "line"."""
        self._colors = dict(colors)
        self.setStyleSheet(
            f"Foot {{ border-top: 1px solid {colors['line']}; }}"
            f"QPushButton#next {{ background: {colors['accent']}; color: {colors['text']};"
            " font-weight: bold; padding: 7px 4px; }"
            f"QPushButton#next:disabled {{ background: {colors['line']}; }}"
            f"QPushButton#next:focus {{ border: 1px solid {colors['text']}; }}"
        )
        self.show_state()

    def show_state(self, *_: Any) -> None:
        """Show the state of the session."""
        session, step = self._session, step_of(self._session)
        run, notice = session.run.progress, session.status.notice
        self._action = step.action
        self.button.setText(step.title)
        self.button.setEnabled(bool(step.action))
        self.button.setToolTip(_tip(step.action))
        self.button.setShortcut(shortcut(PANEL, "next"))
        for name, one in self.beside.items():
            one.setVisible(name in step.beside)
        # A run comes before work on many images, and that before a download; also for Cancel.
        other = None if run.running else session.status.many or session.status.download
        working = run.running or other is not None
        self.cancel.setVisible(working)
        self.cancel.setEnabled(run.phase == "running" if other is None else not other.stopping)
        self.cancel.setToolTip(
            _CANCEL if other is None else _CANCEL_MANY if session.status.many else _CANCEL_DOWNLOAD
        )
        self.progress.setVisible(working)
        fraction = run.fraction if other is None else other.fraction
        self.progress.setValue(round(_WHOLE * fraction))
        self._notice_action = notice.action if notice is not None and not run.running else ""
        self.help.setVisible(bool(self._notice_action))
        self.help.setText(ACTIONS.get(self._notice_action, ""))
        self._say(step)

    def _say(self, step: Step) -> None:
        session, run, notice = (
            self._session,
            self._session.run.progress,
            self._session.status.notice,
        )
        color = self._colors.get("text", "")
        progress = self._progress_text()
        if progress:
            text = f"{progress}\n{notice.text}" if notice is not None else progress
        elif notice is not None:
            text, color = notice.text, self._colors.get(notice.severity, color)
        else:
            partial = run.phase in ("cancelled", "failed") and run.total > 0
            here = partial and run.snapshot is not None and session.run.matches(run.snapshot)
            over = f"{run.summary} done." if here and step.action != "continue" else ""
            estimate = self.estimate if step.action == "run" else ""
            text = " ".join(part for part in (over, step.hint, estimate) if part)
        self.status.setText(text)
        self.status.setAccessibleDescription(text)
        self.status.setStyleSheet(f"color: {color};" if color else "")

    def _progress_text(self) -> str:
        """Return what goes on: a run, else a download; "" for nothing."""
        session = self._session
        run, download = session.run.progress, session.status.download
        stopping = f"{words.STOPPING} ..."
        if run.running:
            return stopping if run.phase == "stopping" else run.text or f"{words.STARTING} ..."
        if session.status.many is not None:
            return stopping if session.status.many.stopping else session.status.many.text
        if download is None:
            return ""
        fetched = words.fetched(download.name, download.done, download.total)
        return stopping if download.stopping else fetched

    def _ask(self, action: str) -> None:
        if action:
            self.asked.emit(action)


class _Status(Note):
    """What the foot says, or two empty lines."""

    least_lines = 2


def _tip(action: str) -> str:
    key = named(PANEL)["next"].shown
    return f"{ACTIONS[action]} ({key})" if action else "Wait, or cancel"


def _shortened(word: str) -> str:
    cut = f"{word[: _LONGEST - 1].rstrip()}\N{HORIZONTAL ELLIPSIS}"
    return word if len(word) <= _LONGEST else cut


def _update(stale: Staleness, missing: int) -> str:
    only = stale == Staleness(regions=stale.regions) and not missing
    return f"Update {counted(stale.regions, 'region')}" if only else "Update the suggestions"


def _sentence(text: str) -> str:
    """Return "3 regions changed: update" as a sentence."""
    return text and f"{text[0].upper()}{text[1:].partition(':')[0]}."
