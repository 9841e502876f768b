"""Preferences in the panel and on napari's page; what the panel remembers."""

import json
from pathlib import Path

import numpy as np
import pytest
from npe2 import PluginManifest
from qtpy.QtCore import QPoint, Qt
from qtpy.QtWidgets import QLabel, QMessageBox

from napari_maskinversion._napari.panel import panel_state
from napari_maskinversion.app.review.review_options import ReviewOptions
from napari_maskinversion.app.session import Scope
from napari_maskinversion.base import preferences
from napari_maskinversion.base.cache_folder import make_folder
from napari_maskinversion.base.config_parts import save
from napari_maskinversion.base.preferences import FILE, Preferences, load
from napari_maskinversion.engine.methods.registry import Method
from napari_maskinversion.engine.models.specs import MODELS
from napari_maskinversion.images.windows import MODES
from napari_maskinversion.language.labels.presets import vocabulary_of
from napari_maskinversion.learning.classifier import Classifier
from napari_maskinversion.results.settings import RunSettings

from .test_controller import NAME, PANEL

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def another(dock):
    """Open the panel as it starts next time."""
    return lambda: dock(words=None)


@pytest.fixture
def pages(widget, qtbot):
    """The pages of the display and of files on disk; the latter is in view."""
    widget.controller.settings.bring("Storage")
    made = widget.controller.pages
    qtbot.waitUntil(lambda: made.usage is not None)
    return made


def choose(pages, name, value):
    """Choose from one of the lists."""
    pages.form[name].setCurrentText(value)


def type_folder(qtbot, pages, text):
    pages.cache_folder.selectAll()
    qtbot.keyClicks(pages.cache_folder, text)
    qtbot.keyClick(pages.cache_folder, Qt.Key.Key_Return)


# -- preferences --------------------------------------------------------------------------------


def test_what_is_chosen_takes_effect_at_once_and_is_kept(ran, pages, qtbot, monkeypatch, tmp_path):
    before = ran.canvas.heatmap.layer.colormap
    assert not pages.cache_folder.isEnabled()
    assert "NAPARI_MASKINVERSION_CACHE" in pages.cache_folder.toolTip()
    monkeypatch.delenv("NAPARI_MASKINVERSION_CACHE")
    ran.controller.settings.bring("Display")
    ran.controller.settings.bring("Storage")  # whose folder no variable sets any more
    choose(pages, "heatmap", "magma")
    assert load() == Preferences(heatmap="magma")
    after = ran.canvas.heatmap.layer.colormap
    assert not np.allclose(after.map([0.9]), before.map([0.9]), atol=0.01)
    assert after.map([0.0])[0, 3] == 0  # it still fades out
    type_folder(qtbot, pages, "not/a/full/path")
    assert "full path" in pages.problem.text()
    assert load().cache_folder == ""
    type_folder(qtbot, pages, str(tmp_path / "mine"))
    assert pages.problem.isHidden()
    assert load() == Preferences(heatmap="magma", cache_folder=str(tmp_path / "mine"))


def test_unload_frees_the_model_and_not_during_a_run(widget, pages, qtbot, slow, messages):
    widget.store.kept.get(("demo", "cpu"), object)
    widget.start()
    qtbot.waitUntil(lambda: bool(slow.reached))
    qtbot.mouseClick(pages.unload, LEFT)
    assert "Wait until the run is over" in messages[-1]
    assert widget.store.has("demo", "cpu")
    slow.free = True
    slow.go.release(100)
    qtbot.waitUntil(lambda: not widget.runner.busy)
    qtbot.mouseClick(pages.unload, LEFT)
    assert "unloaded" in messages[-1]
    # At once, or when other work that uses models has ended.
    qtbot.waitUntil(lambda: not widget.store.has("demo", "cpu"))


def test_the_panel_starts_as_preferred(another, widget):
    # As the dialog writes them: into the file and, if there is one, onto the page.
    widget.controller.page.show(Preferences(model="ViT-B-16/openai", device="cpu", live=True))
    assert not widget.session.run.live  # it is for the next start
    widget.shut_down()
    made = another()
    assert made.model.spec.name == "ViT-B-16/openai"
    assert made.model.device.currentText() == "cpu"
    assert made.session.run.live
    assert made.live.switch.isChecked()
    made.shut_down()
    assert not made.session.run.live


def test_labels_are_coloured_as_preferred(widget, slow, run_to_end, qtbot):
    from napari_maskinversion.language.labels.label import SAFE_COLORS

    slow.free = True
    run_to_end(widget)
    qtbot.mouseClick(widget.review.part.switch, LEFT)
    qtbot.waitUntil(lambda: widget.review.state is not None)
    assert set(widget.review.state.colors().values()).isdisjoint(SAFE_COLORS)
    save(Preferences(palette=preferences.SAFE))
    assert set(widget.review.state.colors().values()) <= set(SAFE_COLORS)


# -- napari's page ------------------------------------------------------------------------------


def test_the_manifest_offers_exactly_these_preferences():
    manifest = PluginManifest.from_file(PANEL.parent / "napari.yaml")
    page = manifest.contributions.configurations["panel"].properties
    assert set(page) == set(Preferences.model_fields)
    for name, item in page.items():
        field = Preferences.model_fields[name]
        assert (item.default, item.title) == (field.default, field.title)
        assert item.description == field.description
        assert tuple(item.enum or ()) == (
            (preferences.LAST, *MODELS) if name == "model" else preferences.choices(name)
        )


@pytest.fixture
def page():
    """Our page in napari's preferences."""
    settings = pytest.importorskip("napari.settings")
    if not hasattr(settings, "get_plugin_settings"):
        pytest.skip("this napari has no pages for plugins")
    from npe2 import PluginManager

    if NAME not in PluginManager.instance():
        PluginManager.instance().discover()

    def get():
        return settings.get_plugin_settings(NAME).panel

    return get


@pytest.fixture
def without_page(monkeypatch):
    """A napari that shows no page, as where the plugin is disabled."""
    monkeypatch.setattr("napari_maskinversion._napari.panel.controller._page", lambda: None)


def test_napari_s_page_and_the_panel_show_the_same(widget, page, qtbot):
    assert widget.controller.page._page is not None
    page().heatmap = "viridis"
    assert load().heatmap == "viridis"
    page().model = "ViT-B-32/openai"
    assert widget.model.spec.name == "ViT-B-32/openai"
    assert widget.controller.pages.form["heatmap"].currentText() == "viridis"
    choose(widget.controller.pages, "heatmap", "hot")
    assert page().heatmap == "hot"
    assert load().heatmap == "hot"


def test_napari_s_page_wins_when_the_panel_starts(another, widget, page):
    widget.shut_down()
    page().heatmap = "inferno"
    page().device = "cpu"
    save(Preferences(heatmap="magma", live=True))  # by something that does not know the page
    made = another()
    assert load() == Preferences(device="cpu", heatmap="inferno")
    assert page().heatmap == "inferno"
    assert made.model.device.currentText() == "cpu"
    assert not made.session.run.live


def test_a_model_that_does_not_exist_is_not_chosen_and_the_panel_says_so(
    another, widget, messages, without_page
):
    save(Preferences(model="no/such"))
    made = another()
    assert made.model.spec.name == "demo"
    assert messages == ["Model 'no/such' is not available; 'demo' stays chosen."]


def test_napari_s_window_of_preferences_has_our_page(widget, page):
    from napari._qt.dialogs.preferences_dialog import PreferencesDialog

    page()
    shown = PreferencesDialog(parent=widget.window())
    titles = [shown._list.item(row).text() for row in range(shown._list.count())]
    assert "MaskInversion" in titles
    shown.close()


def test_without_such_pages_the_panel_s_own_window_serves(another, without_page, widget, qtbot):
    made = another()
    assert made.controller.page._page is None
    made.controller.pages.form["offline"].setChecked(True)
    assert load().offline


# -- the cache ----------------------------------------------------------------------------------


def test_the_cache_is_measured_and_cleared_after_asking(
    widget, own_cache_folder, qtbot, monkeypatch
):
    speed = own_cache_folder / "speed" / f"{'a' * 16}.json"
    foreign = own_cache_folder / "mine" / "notes.txt"
    make_folder(speed.parent)
    speed.write_text("x" * 2_000_000)
    foreign.parent.mkdir()
    foreign.write_text("mine")
    widget.controller.settings.bring("Storage")
    dialog = widget.controller.pages
    qtbot.waitUntil(lambda: dialog.usage is not None)
    assert "2.0 MB" in dialog.sizes.text()
    assert str(own_cache_folder) in dialog.sizes.text()
    asked = []

    def answer(parent, title, text, *more):
        asked.append(text)
        yes = len(asked) > 1
        return QMessageBox.StandardButton.Yes if yes else QMessageBox.StandardButton.No

    monkeypatch.setattr(QMessageBox, "question", answer)
    qtbot.mouseClick(dialog.clear, LEFT)
    assert "speeds measured: 2.0 MB" in asked[0]
    assert "Review decisions stay" in asked[0]
    assert dialog.clear.isEnabled()  # nothing is under way
    assert speed.exists()
    qtbot.mouseClick(dialog.clear, LEFT)
    qtbot.waitUntil(lambda: not speed.exists())
    qtbot.waitUntil(lambda: not any(dialog.usage.sizes.values()))
    assert foreign.exists()
    widget.controller.settings.close()


# -- memory -------------------------------------------------------------------------------------


def arrange(widget, qtbot):
    """Change all that is remembered, as a user would."""
    widget.model.choose("ViT-B-16/openai")
    widget.model.device.setCurrentText("cpu")
    widget.model.form.set_values({"inversion.alpha": 5})
    widget.vocabulary.text.setPlainText("cat | kitten\ndog # barks")
    parts = widget.vocabulary.templates_widget
    parts.own.setPlainText("a drawing of a {}.")
    parts.sets.setCurrentIndex(parts.sets.findData("own..."))
    widget.results.columns.actions["probability"].setChecked(False)
    header = widget.results.table.horizontalHeader()
    header.moveSection(header.visualIndex(3), 0)
    widget.review.part.form.set_values({"order": "smallest"})
    widget.reveal("explore")


def test_no_text_about_the_storage_is_cut(widget, pages, qtbot):
    widget.controller.settings.bring("Storage")
    qtbot.waitUntil(lambda: pages.usage is not None)
    dialog = widget.controller.settings
    dialog.resize(dialog.minimumSizeHint())
    notes = [note for note in pages.findChildren(QLabel) if note.isVisibleTo(dialog)]
    assert pages.sizes in notes
    for note in notes:
        wanted = note.heightForWidth(note.width()) if note.wordWrap() else note.sizeHint().height()
        qtbot.waitUntil(lambda n=note, w=wanted: n.height() >= w)
    area = dialog.pages.currentWidget()  # scrolls downwards only
    assert area.widget().width() <= area.viewport().width()


def test_the_next_start_is_as_the_last_one_ended(another, widget, qtbot, messages):
    arrange(widget, qtbot)
    widget.results.columns.apply(
        panel_state.ColumnState(
            order=("status",), shown=("suggestion", "status", "margin"), widths={"margin": 90}
        )
    )
    widget.shut_down()
    made = another()
    assert made.model.spec.name == "ViT-B-16/openai"
    assert made.model.device.currentText() == "cpu"
    assert made.session.run.settings.inversion.alpha == 5.0
    assert made.vocabulary.text.toPlainText() == "cat | kitten\ndog # barks"
    assert made.vocabulary.templates_widget.templates() == ("a drawing of a {}.",)
    header = made.results.table.horizontalHeader()
    assert header.visualIndex(3) == 0
    assert header.isSectionHidden(2)
    assert header.sectionSize(5) == 90
    assert made.review.part.options.order == "smallest"
    assert made.tabs.shown == "explore"
    assert not messages


def test_options_that_another_window_changed_stay(another, widget):
    other = another()
    other.review.part.form.set_values({"order": "smallest"})
    other.shut_down()
    widget.reveal("explore")
    widget.shut_down()
    state, _ = panel_state.read_state()
    assert (state.review.order, state.tab) == ("smallest", "explore")


SETTINGS = {
    "method": Method("alphaclip+maskinversion", Path("alpha.pt")),
    "inversion.steps": 25,
    "inversion.learning_rate": 0.25,
    "inversion.explainer": "gradcam",
    "inversion.precision": "bfloat16",
    "chunk_size": 7,
    "keep_aspect": False,
    "window": "300",
    "window.context": 3.5,
    "unsure.tokens": 4.0,
    "unsure.margin": 0.0,
}


def test_every_form_follows_the_settings_of_the_session(widget):
    wanted = RunSettings().changed({"model": "ViT-B-16/openai", "device": "cpu", **SETTINGS})
    scope, model = widget.input.scope, widget.model
    widget.session.run.settings = wanted
    assert (model.spec.name, model.device.currentText()) == ("ViT-B-16/openai", "cpu")
    assert (model.method.method, model.explainer.name) == (
        wanted.method,
        wanted.inversion.explainer,
    )
    assert (scope.windows.currentText(), scope.side.value()) == (MODES["fixed"], 300)
    for form in (model.form, scope.form, widget.vocabulary.uncertainty):
        assert form.values() == {key: wanted.get(key) for key in form.values()}
    model.form.set_values({"inversion.steps": 3})  # all else stays
    assert widget.session.run.settings == wanted.changed({"inversion.steps": 3})


def test_every_setting_comes_back_but_live_does_not(another, widget, messages):
    wanted = RunSettings().changed({"device": "cpu", **SETTINGS})
    scope = widget.input.scope
    widget.session.run.settings = wanted
    scope.channels.setCurrentIndex(1)
    scope.outline.click()
    scope.live.click()
    widget.live.switch.click()
    session = widget.session
    assert session.run.settings == wanted
    assert session.run.live
    widget.shut_down()
    made = another()
    assert session.run.settings == wanted
    assert session.run.scope.channels == "displayed"
    assert session.run.outlined
    assert session.run.forming
    assert not session.run.live
    assert not messages
    made.controller.forget()
    assert session.run.settings == RunSettings()
    assert session.run.scope == Scope()
    assert not session.run.outlined


def test_groups_colours_threshold_and_classifier_come_back_too(another, widget, qtbot, tmp_path):
    words = widget.vocabulary
    begun = Classifier.of_words(("cat", "dog"), np.eye(2, 4, dtype=np.float32), 10.0)
    words.take(vocabulary_of(str(begun.save(tmp_path / "pets"))).content)
    words.text.setPlainText("cat | kitten\ndog\nsofa")
    words.open_dialog()
    table = words.dialog.table.model()
    table.setData(table.index(0, 2), "animal")
    table.setData(table.index(1, 3), "#FF8000")
    words.dialog.accept()
    words.none.click()
    words.threshold.setValue(0.31)
    before = words.vocabulary()
    assert [(label.group, label.color) for label in before.full_labels] == [
        ("animal", ""),
        ("", "#ff8000"),
        ("", ""),
    ]
    widget.shut_down()
    made = another()
    assert made.vocabulary.vocabulary() == before
    assert before.threshold == 0.31
    assert before.learned.name == "pets.safetensors"
    # Labels of a layer leave what is remembered of the user's own.
    made._viewer.add_labels(np.eye(9, dtype=int), metadata={"vocabulary": ["a", "b"]})
    made.model.form.set_values({"inversion.alpha": 1})
    made.shut_down()
    assert panel_state.read_state()[0].marks == {"cat": ("animal", ""), "dog": ("", "#ff8000")}
    again = another()
    again.controller.forget()
    assert not again.vocabulary.none.isChecked()
    assert not again.vocabulary.classifier
    again.vocabulary.text.setPlainText("cat")
    assert again.vocabulary.vocabulary().full_labels[0].group == ""


def test_settings_of_an_older_file_that_are_no_settings_now_are_as_at_first():
    settings = {
        "inversion.steps": 25,
        "inversion.alpha": 1e9,  # farther than the slider goes at first
        "inversion.layers": "all",
        "method": {"name": "gone"},
        "device": "abacus",
        "window": [],
        "colour": "blue",
    }
    panel_state.PART.write({"settings": settings, "review": {"order": "?"}, "tab": "?"})
    state, problem = panel_state.read_state()
    usable = {key: settings[key] for key in ("inversion.steps", "inversion.alpha")}
    assert state.settings.changed({"device": "auto"}) == RunSettings().changed(usable)
    assert state.review == ReviewOptions()
    assert problem == ""


def test_an_option_that_coloured_the_users_layer_is_gone_and_a_file_may_still_have_it(dock):
    panel_state.PART.write({"review": {"colors": True, "order": "largest"}})
    state, problem = panel_state.read_state()
    assert state.review == ReviewOptions(order="largest")
    assert problem == ""
    assert dock(words=None).review.part.options == ReviewOptions(order="largest")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("not json", "cannot be read"),
        ('{"format": 1, "panel": {"columns": 3}}', "cannot be read"),
        ('{"format": 99, "model": "x"}', "newer version"),
    ],
)
def test_a_broken_or_newer_memory_is_ignored_in_one_line(another, widget, messages, text, said):
    FILE.path.write_text(text)
    made = another()
    assert made.model.spec.name == "demo"
    (line,) = messages
    assert said in line
    assert "\n" not in line


def test_forgetting_returns_to_the_first_start(another, widget, qtbot, monkeypatch):
    widget.vocabulary.text.setPlainText("")
    widget.shut_down()
    made = another()
    arrange(made, qtbot)
    wanted = {"model": "ViT-B-16/openai", "device": "cpu", "inversion.alpha": 5.0}

    def written():  # while the panel is open
        return json.loads(FILE.path.read_text())["panel"]["settings"] == wanted

    qtbot.waitUntil(written)
    monkeypatch.setattr(QMessageBox, "question", lambda *_: QMessageBox.StandardButton.Yes)
    qtbot.mouseClick(made.controller.pages.forget, LEFT)
    assert panel_state.read_state() == (panel_state.PanelState(), "")
    assert made.model.spec.name == "demo"
    assert made.model.device.currentText() == "auto"
    assert made.session.run.settings.inversion.alpha == 0
    assert made.vocabulary.text.toPlainText() == ""
    assert made.results.columns.state == panel_state.ColumnState()
    assert made.review.part.options.order == "automatic"
    assert made.tabs.shown == "label"


def test_columns_are_dragged_and_arranged_by_key(ran, qtbot):
    window = ran.window()
    window.show()
    qtbot.waitExposed(window)
    table, header = ran.results.table, ran.results.table.horizontalHeader()
    edge = header.sectionViewportPosition(2) + header.sectionSize(2) - 1
    place, before = header.viewport(), header.sectionSize(2)
    y = header.height() // 2
    qtbot.mousePress(place, LEFT, pos=QPoint(edge, y))
    qtbot.mouseMove(place, QPoint(edge + 10, y))
    qtbot.mouseMove(place, QPoint(edge + 20, y))
    qtbot.mouseRelease(place, LEFT, pos=QPoint(edge + 20, y))
    assert ran.results.columns.state.widths == {"probability": header.sectionSize(2)}
    assert header.sectionSize(2) > before
    table.setCurrentIndex(ran.results.model.index(0, 3))
    alt, shift = Qt.KeyboardModifier.AltModifier, Qt.KeyboardModifier.ShiftModifier
    qtbot.keyClick(table, Qt.Key.Key_Left, alt)
    assert header.visualIndex(3) == 2
    size = header.sectionSize(3)
    qtbot.keyClick(table, Qt.Key.Key_Right, alt | shift)
    assert header.sectionSize(3) == size + 8
    assert ran.results.row == 0
    ran.results.columns.reset()
    assert ran.results.columns.state == panel_state.ColumnState()
