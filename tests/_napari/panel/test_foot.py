"""The foot: one status line, and one button that is always the next step."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from qtpy.QtCore import Qt

from napari_maskinversion._napari.panel.foot import Foot, step_of
from napari_maskinversion._napari.run_requests.fetching import download_job
from napari_maskinversion.app.session import Action, RunState, Session, job_kinds
from napari_maskinversion.app.work.driver import Job
from napari_maskinversion.language.labels.vocabulary import Vocabulary

LEFT = Qt.MouseButton.LeftButton


class Layer:
    """Stands in for a layer of the viewer."""


@pytest.fixture
def layers():
    return Layer(), Layer()


@pytest.fixture
def session(layers):
    """A session with an image, 43 regions and two words."""
    made = Session()
    made.run.layers = layers
    made.run.region_count = 43
    made.change_words(Vocabulary(("cat", "dog")))
    return made


@pytest.fixture
def foot(session, qtbot):
    made = Foot(session)
    qtbot.addWidget(made)
    made.set_colors(dict.fromkeys(("line", "accent", "text", "error", "warning"), "#808080"))
    made.follow()
    made.show()
    yield made
    made.stop()


def test_the_button_is_the_next_step(layers):
    session = Session()
    assert step_of(session).title == "Open a sample"
    assert step_of(session).beside == (Action.OPEN_SMEAR,)
    session.run.image = layers[0]
    assert step_of(session).title == "Draw regions"
    assert step_of(session).beside == (Action.OPEN_REGIONS, Action.SEGMENT)
    session.run.regions = layers[1]
    session.run.region_count = 0
    assert step_of(session).title == "Draw regions"
    session.run.region_count = 1
    assert step_of(session).title == "Choose words"
    session.change_words(None, "'cat' appears twice; keep one of them.")
    assert "appears twice" in step_of(session).hint
    session.change_words(Vocabulary(("cat", "dog")))
    assert step_of(session).title == "Suggest words for 1 region"
    session.run.region_count = None  # too large to be counted
    assert step_of(session).title == "Suggest words for regions"
    session.run.region_count = 1234
    assert step_of(session).title == "Suggest words for 1,234 regions"


class Made(list):
    """Stands in for results."""

    def __init__(self, count, vocabulary):
        super().__init__(range(count))
        self.info = SimpleNamespace(vocabulary=vocabulary)


def record_of(session, count, total):
    results = Made(count, session.run.vocabulary)
    about = {"snapshot": session.run.snapshot(), "total": total, "reopened": False}
    return SimpleNamespace(results=results, plane=None, **about)


def test_after_cancel_comes_the_rest_and_after_an_edit_both_at_once(session):
    session.run.record = record_of(session, 16, 43)
    assert step_of(session).title == "Continue with 27 regions"
    assert step_of(session).action == Action.CONTINUE
    assert step_of(session).hint == "16 of 43 regions done."
    assert step_of(session).beside == (Action.REVIEW, Action.RUN)
    session.run.changed_regions = frozenset((1,))
    assert step_of(session).title == "Update the suggestions"


def test_in_the_review_the_button_accepts_or_goes_on(session):
    session.run.record = record_of(session, 43, 43)
    session.status.tab, session.review.decided_count, session.review.reviewing = "review", 12, True
    assert step_of(session).action == Action.REVIEW  # it is not open yet
    review = SimpleNamespace(results=session.run.results, acceptable="red blood cell", row=3)
    session.review.state = review
    assert step_of(session).title == "Accept 'red blood cell'"
    assert step_of(session).action == Action.ACCEPT
    assert step_of(session).hint.startswith("A accepts, 1 to 9 choose")
    session.review.rows = (3, 4)
    assert step_of(session).title == "Accept 2 regions"
    review.row = 7  # the current region is none of them
    review.acceptable = "a word that is far too long for a button"
    assert step_of(session).title == "Accept 'a word that is far too…'"
    review.acceptable = ""  # it is decided, or nothing is suggested
    assert step_of(session).action == Action.NEXT_UNDECIDED
    session.status.tab = "label"
    assert step_of(session).action == Action.REVIEW


def test_after_a_run_come_update_review_and_export(session):
    session.run.record = record_of(session, 43, 43)
    assert step_of(session).title == "Review 43 suggestions"
    assert step_of(session).beside == (Action.RUN,)
    assert step_of(session).hint.startswith("Check each with one key")
    session.review.decided_count = 42
    assert step_of(session).title == "Review 1 suggestion"
    session.review.decided_count = 43
    assert step_of(session).action == Action.EXPORT
    assert step_of(session).hint.startswith("All regions are decided. Export them")
    session.run.changed_regions = frozenset((1, 2, 3))
    assert step_of(session).title == "Update 3 regions"
    assert step_of(session).hint == "3 regions changed."
    session.run.image_changed = True
    assert step_of(session).title == "Update the suggestions"
    assert step_of(session).hint == "Image, 3 regions changed."
    assert step_of(session).action == Action.UPDATE


def test_the_button_and_its_key_ask_for_the_step(foot, session, qtbot):
    assert foot.button.text() == "Suggest words for 43 regions"
    assert foot.button.shortcut().toString() == "Ctrl+Return"
    with qtbot.waitSignal(foot.action_pressed) as asked:
        qtbot.mouseClick(foot.button, LEFT)
    assert asked.args == [Action.RUN]
    session.run.region_count = 0
    with qtbot.waitSignal(foot.action_pressed) as asked:
        qtbot.mouseClick(foot.beside[Action.SEGMENT], LEFT)
    assert asked.args == [Action.SEGMENT]


def test_the_status_line_has_the_estimate_then_progress_and_cancel(foot, session, qtbot):
    foot.show_estimate("43 regions, about 3 s on the CPU")
    assert foot.status.text() == "43 regions, about 3 s on the CPU"
    assert foot.cancel.isHidden()
    job = Job("Regions 1-16 of 43", 0.25, done=3, total=43)
    session.run.progress = RunState("running", job=job)
    assert foot.status.text() == "Regions 1-16 of 43"
    assert foot.progress.value() == foot.progress.maximum() // 4
    assert not foot.button.isEnabled()
    with qtbot.waitSignal(foot.stopped):
        qtbot.mouseClick(foot.cancel, LEFT)
    session.run.progress = RunState("stopping", job=job)
    assert foot.status.text() == "Stopping ..."
    assert not foot.cancel.isEnabled()
    session.run.progress = RunState("cancelled", session.run.snapshot(), Job(done=16, total=43))
    assert foot.status.text().startswith("16 of 43 regions done.")
    assert foot.cancel.isHidden()
    assert foot.button.isEnabled()


def test_how_a_run_ended_is_said_of_its_image_only(foot, session, layers):
    session.run.progress = RunState("cancelled", session.run.snapshot(), Job(done=16, total=43))
    other = Layer()
    session.run.layers = other, layers[1]
    assert "16 of 43" not in foot.status.text()
    session.run.layers = layers
    assert foot.status.text().startswith("16 of 43 regions done.")


def show_download(session, job):
    """Show how far a download is, as if one were at work."""
    download = session.jobs.of(job_kinds.DOWNLOAD)
    download.job = job
    download.changed.emit()


def test_a_download_shows_its_progress_and_cancel_while_the_next_step_stays(foot, session, qtbot):
    show_download(session, download_job("ViT-B-16/openai"))
    assert foot.status.text() == "Fetching ViT-B-16/openai ..."
    show_download(session, download_job("ViT-B-16/openai", 150_000_000, 600_000_000))
    assert foot.status.text() == "Fetching ViT-B-16/openai: 150 of 600 MB"
    assert foot.progress.value() == foot.progress.maximum() // 4
    assert foot.button.isEnabled()
    session.say("There is no room.", "error")
    assert foot.status.text().endswith("600 MB\nThere is no room.")
    with qtbot.waitSignal(foot.stopped):
        qtbot.mouseClick(foot.cancel, LEFT)
    session.run.progress = RunState(
        "running", job=Job("Encoding the image")
    )  # Cancel is the run's now
    assert foot.status.text().startswith("Encoding the image")
    assert "regions are kept" in foot.cancel.toolTip()
    session.run.progress = RunState()
    show_download(session, replace(download_job("ViT-B-16/openai", 1, 2), stopping=True))
    assert foot.status.text().startswith("Stopping ...")
    assert not foot.cancel.isEnabled()
    show_download(session, None)
    assert foot.cancel.isHidden()
    assert foot.progress.isHidden()


def test_a_refusal_stands_whole_until_it_is_answered(foot, session, qtbot):
    reason = "ViT-B-16/openai is not on this machine yet; fetch it, or choose the demo. " * 3
    foot.resize(320, foot.height())
    session.say(reason, "error", Action.CHOOSE_MODEL)
    assert foot.status.text() == reason
    foot.show_estimate("about 3 s")  # an estimate that comes late does not hide it
    assert foot.status.text() == reason
    status = foot.status
    qtbot.waitUntil(lambda: status.height() >= status.heightForWidth(status.width()))
    with qtbot.waitSignal(foot.action_pressed) as asked:
        qtbot.mouseClick(foot.help, LEFT)
    assert asked.args == [Action.CHOOSE_MODEL]
    session.run.change_settings({"device": "cpu"})
    assert foot.status.text() == "about 3 s"
    assert foot.help.isHidden()


def test_what_was_done_is_not_said_on_another_tab_but_what_was_refused_is(foot, session):
    session.say("Region 3 is accepted.")
    session.status.tab = "review"
    assert "Region 3" not in foot.status.text()
    session.say("There is no room.", "error")
    session.status.tab = "explore"
    assert foot.status.text() == "There is no room."


def test_each_foot_shows_the_messages_of_its_window(qtbot, monkeypatch):
    from napari_maskinversion._napari.workers import notify

    said, shown = [], SimpleNamespace(seen=True)
    toasts = []
    monkeypatch.setattr(notify, "_listeners", [])
    monkeypatch.setattr(notify, "show_error", toasts.append)
    first, second = (lambda *a, n=n: said.append((n, *a)) or shown.seen for n in (1, 2))
    notify.refuse("nobody listens")
    notify.listen(first)
    notify.listen(second)
    notify.refuse("to the second", Action.CHOOSE_WORDS)
    notify.listen(first)  # its window is the active one now
    notify.refuse("to the first")
    shown.seen = False
    notify.refuse("not in view")
    assert said == [
        (2, "to the second", "error", Action.CHOOSE_WORDS),
        (1, "to the first", "error", None),
        (1, "not in view", "error", None),
    ]
    assert toasts == ["nobody listens", "not in view"]
