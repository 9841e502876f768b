"""The foot of the panel: one status line, and one button that is always the next step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QFrame, QPushButton

from ...app.session import (
    Action,
    NextStep,
    Session,
    Staleness,
    Topic,
    job_kinds,
    next_step,
    staleness,
)
from ...base import progress_words as words
from ...base.wording import counted
from ..widgets.keys import PANEL, named, shortcut
from ..widgets.progress_row import ProgressBar, shown_text
from ..widgets.sections import MARGINS, Note, button, line, stack

_WHOLE: Final = 1000  # of the progress bar
_LONGEST: Final = 24  # characters of a word on the button
_CANCEL: Final = "Stop at the next step; finished regions are kept"
_CANCEL_MANY: Final = "Stop; finished images are kept, and the same button continues"
_CANCEL_DOWNLOAD: Final = "Stop; the download resumes here next time"
_TIPS: Final = {
    Action.OPEN_SAMPLE: "Drawings that the demo model knows",
    Action.OPEN_SMEAR: "A microscope image with three kinds of cells that the demo model knows",
    Action.OPEN_REGIONS: "Read regions from a file: a label image, or a file from another program",
    Action.SEGMENT: "Turn boxes and points into regions with Segment Anything",
    Action.CHOOSE_PRESET: "Take a built-in list of words and its prompts",
    Action.REVIEW: "Review the suggestions that you have",
    Action.RUN: f"Compute all suggestions again ({named(PANEL)['again'].shown})",
}


@dataclass(frozen=True, slots=True)
class Step:
    """What the foot shows for a state of the session."""

    title: str  # Of the one button
    action: Action | None  # None while it has to wait
    hint: str  # For the status line, where there is no estimate and no message
    beside: tuple[Action, ...] = ()  # Of smaller buttons


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
            Action.OPEN_SAMPLE,
            "Open your own image, or start with a sample: drawings or a real blood smear.",
            (Action.OPEN_SMEAR,),
        ),
        NextStep.DRAW_REGIONS: Step(
            "Draw regions",
            Action.DRAW,
            "Draw regions on the image, or take them from a file or from Segment Anything.",
            (Action.OPEN_REGIONS, Action.SEGMENT),
        ),
        NextStep.CHOOSE_WORDS: Step(
            "Choose words",
            Action.CHOOSE_WORDS,
            session.run.words_problem or "Type the words to choose from, one per line.",
            (Action.CHOOSE_PRESET,),
        ),
        NextStep.SUGGEST: Step(f"Suggest words for {regions}", Action.RUN, elsewhere),
        NextStep.WAIT: Step("Suggesting words ...", None, ""),
        NextStep.UPDATE: Step(_update(stale, missing), Action.UPDATE, _sentence(stale.text)),
        NextStep.CONTINUE: Step(
            f"Continue with {counted(missing, 'region')}",
            Action.CONTINUE,
            f"{len(session.run.results or ()):,} of {counted(session.run.total, 'region')} done.",
            (Action.REVIEW, Action.RUN),
        ),
        NextStep.REVIEW: Step(
            f"Review {counted(session.undecided, 'suggestion')}",
            Action.REVIEW,
            "Check each with one key, or export them as they are on the tab Label.",
            (Action.RUN,),
        ),
        NextStep.EXPORT: Step(
            "Export...",
            Action.EXPORT,
            "All regions are decided. Export them, or choose the next image.",
            (Action.RUN,),
        ),
        NextStep.NEXT_IMAGE: Step("Next image", Action.NEXT_IMAGE, done, (Action.RUN,)),
        NextStep.EXPORT_ALL: Step(
            "Export all images...",
            Action.EXPORT_ALL,
            f"All regions are decided. {done}",
            (Action.RUN,),
        ),
    }
    return _decide(session) if following is NextStep.DECIDE else steps[following]


def _decide(session: Session) -> Step:
    """Return what the button does in a review."""
    review, rows = session.reviewed, session.review.rows
    hint = "A accepts, 1 to 9 choose, R rejects, S skips: anywhere in the window."
    if review is None or not review.acceptable:
        return Step("Next undecided region", Action.NEXT_UNDECIDED, hint, (Action.RUN,))
    if len(rows) > 1 and review.row in rows:
        accepted = counted(len(rows), "region")
    else:
        accepted = f"'{_shortened(review.acceptable)}'"
    return Step(f"Accept {accepted}", Action.ACCEPT, hint, (Action.RUN,))


class Foot(Topic, QFrame):
    """Status line, progress and buttons. It never scrolls."""

    action_pressed = Signal(object)  # An `Action`, by a button
    stopped = Signal()  # Cancel was pressed

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._download = session.jobs.of(job_kinds.DOWNLOAD)
        self._action: Action | None = None
        self._notice_action: Action | None = None
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
        actions = (
            *(Action.OPEN_SMEAR, Action.OPEN_REGIONS, Action.SEGMENT),
            *(Action.CHOOSE_PRESET, Action.REVIEW, Action.RUN),
        )
        self.beside = {action: self._beside(action) for action in actions}
        buttons = line(self.button, *self.beside.values(), shares=(1, *[0] * len(actions)))
        says = line(self.status, self.help, self.cancel)
        stack(self, says, self.progress, buttons, margins=MARGINS, spacing=4)
        self.button.clicked.connect(lambda _=False: self._ask(self._action))
        self.show_state()

    def _beside(self, action: Action) -> QPushButton:
        if action is not Action.RUN:
            return button(action.value, _TIPS[action], lambda: self._ask(action))
        again = button(
            "Again", _TIPS[action], lambda: self._ask(action), name="Suggest words again"
        )
        again.setShortcut(shortcut(PANEL, "again"))
        return again

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
        self.after(self.show_state, status.tab, status.many, status.notice)
        self.after(self.show_state, self._download.changed)
        self.after(self._answered, *inputs)  # a message stays until the user changes one of these
        self.after(self._turned, status.tab)
        self.show_state()

    def _turned(self, _: str) -> None:
        """Leave what was said about another tab behind, but no refusal."""
        notice = self._session.status.notice
        if notice is not None and notice.severity == "info" and not notice.action:
            self._session.status.notice = None

    def _answered(self, *_: object) -> None:
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

    def show_state(self, *_: object) -> None:
        """Show the state of the session."""
        session, step = self._session, step_of(self._session)
        run, notice = session.run.progress, session.status.notice
        self._action = step.action
        self.button.setText(step.title)
        self.button.setEnabled(step.action is not None)
        self.button.setToolTip(_tip(step.action))
        self.button.setShortcut(shortcut(PANEL, "next"))
        for action, smaller_button in self.beside.items():
            smaller_button.setVisible(action in step.beside)
        # A run comes before work on many images, and that before a download; also for Cancel.
        other = None if run.running else session.status.many or self._download.job
        working = run.running or other is not None
        self.cancel.setVisible(working)
        self.cancel.setEnabled(run.phase == "running" if other is None else not other.stopping)
        if other is None:
            cancel_tip = _CANCEL
        elif session.status.many:
            cancel_tip = _CANCEL_MANY
        else:
            cancel_tip = _CANCEL_DOWNLOAD
        self.cancel.setToolTip(cancel_tip)
        self.progress.setVisible(working)
        job = run.job if other is None else other
        self.progress.setValue(round(_WHOLE * (job.fraction or 0.0)))
        self._notice_action = None if notice is None or run.running else notice.action
        self.help.setVisible(self._notice_action is not None)
        self.help.setText("" if self._notice_action is None else self._notice_action.value)
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
            sentences = [step.hint]
            broke_off = run.phase in ("cancelled", "failed") and run.job.total > 0
            is_of_now = run.snapshot is not None and session.run.matches(run.snapshot)
            # The hint of Continue says the same.
            if broke_off and is_of_now and step.action is not Action.CONTINUE:
                sentences.insert(0, f"{run.summary} done.")
            if step.action is Action.RUN:
                sentences.append(self.estimate)
            text = " ".join(filter(None, sentences))
        self.status.setText(text)
        self.status.setAccessibleDescription(text)
        self.status.setStyleSheet(f"color: {color};" if color else "")

    def _progress_text(self) -> str:
        """Return what goes on: a run, else a download; "" for nothing."""
        session = self._session
        run = session.run.progress
        stopping = f"{words.STOPPING} ..."
        if run.phase == "stopping":
            return stopping
        if run.running:
            return run.job.text or f"{words.STARTING} ..."
        job = session.status.many or self._download.job
        if job is None:
            return ""
        return shown_text(job)

    def _ask(self, action: Action | None) -> None:
        if action is not None:
            self.action_pressed.emit(action)


class _Status(Note):
    """What the foot says, or two empty lines."""

    least_lines = 2


def _tip(action: Action | None) -> str:
    if action is None:
        return "Wait, or cancel"
    return f"{action.value} ({named(PANEL)['next'].shown})"


def _shortened(word: str) -> str:
    if len(word) <= _LONGEST:
        return word
    return f"{word[: _LONGEST - 1].rstrip()}\N{HORIZONTAL ELLIPSIS}"


def _update(stale: Staleness, missing: int) -> str:
    only_regions = stale == Staleness(regions=stale.regions) and not missing
    if only_regions:
        return f"Update {counted(stale.regions, 'region')}"
    return "Update the suggestions"


def _sentence(text: str) -> str:
    """Return "3 regions changed: update" as a sentence."""
    if not text:
        return ""
    return f"{text[0].upper()}{text[1:].partition(':')[0]}."
