"""A model of the user's own: a checkpoint file, a folder, a tag of open_clip."""

import shutil
from pathlib import Path

import pytest
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QFileDialog
from safetensors.torch import save_file

from napari_maskinversion._napari.model.model_widget import ModelWidget
from napari_maskinversion._napari.model.own_model import OwnModel
from napari_maskinversion._napari.panel.panel_state import PanelState
from napari_maskinversion.app.requests.preparing import check_on_disk
from napari_maskinversion.app.work.model_store import ModelStore
from napari_maskinversion.app.work.preload import warm_up
from napari_maskinversion.base.errors import ModelError
from napari_maskinversion.engine.models.specs import bundled_folder
from napari_maskinversion.results.settings import RunSettings
from tests.engine.tiny import cut_architecture, random_clip

LEFT, ENTER = Qt.MouseButton.LeftButton, Qt.Key.Key_Return
TINY = "ViT-B-32"


class Page:
    """The page *Model* of the settings, with what drives it."""

    def __init__(self, qtbot, session):
        self.qtbot, self.session, self.store = qtbot, session, ModelStore()
        self.part = ModelWidget(self.session)
        qtbot.addWidget(self.part)
        self.own = OwnModel(self.session, self.part, self.store)
        self.part.follow()
        self.own.follow()

    def ask(self, name):
        field = self.part.own.name
        field.clear()
        self.qtbot.keyClicks(field, str(name))
        self.qtbot.keyClick(field, ENTER)
        self.qtbot.waitUntil(lambda: not self.own.job.busy)

    @property
    def problem(self):
        return self.part.own.problem.text()


@pytest.fixture
def page(qtbot, sessions):
    warm_up()
    return Page(qtbot, sessions())


@pytest.fixture
def checkpoint(tmp_path, monkeypatch):
    """A checkpoint file of an architecture that is small during the test."""
    save_file(
        random_clip(cut_architecture(monkeypatch, TINY)).state_dict(), tmp_path / "mine.safetensors"
    )
    return tmp_path / "mine.safetensors"


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(bundled_folder(), tmp_path / "cells-model"))


def test_a_folder_of_rebuild_demo_is_chosen_once_it_is_read(page, folder, monkeypatch):
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: str(folder))
    page.qtbot.mouseClick(page.part.own.folder, LEFT)
    page.qtbot.waitUntil(lambda: page.session.run.settings.model == str(folder))
    assert page.part.model.currentText() == "cells-model  [your own]"
    assert page.store.has(str(folder), "auto")
    check_on_disk(page.session.run.settings.model)


def test_a_checkpoint_file_is_asked_for_its_architecture(page, checkpoint):
    page.part.own.offer([TINY])
    page.ask(checkpoint)
    assert page.problem == "Choose the architecture of mine.safetensors."
    assert page.session.run.settings.model == "demo"
    page.part.own.architecture.setCurrentText(TINY)
    page.part.own.architecture.activated.emit(1)
    page.qtbot.waitUntil(lambda: page.session.run.settings.model == str(checkpoint))
    assert page.session.run.settings.architecture == TINY
    assert page.store.get(str(checkpoint), "auto").spec.architecture == TINY
    page.part.model.setCurrentIndex(0)  # back to the demo, which has no architecture to choose
    assert (page.session.run.settings.model, page.session.run.settings.architecture) == (
        "demo",
        None,
    )


def test_it_comes_back_with_the_panel(page, checkpoint):
    settings = RunSettings(model=str(checkpoint), architecture=TINY)
    kept = PanelState.model_validate(PanelState(settings=settings).model_dump(mode="json"))
    page.session.run.settings = kept.settings
    assert page.part.model.currentText() == "mine.safetensors  [your own]"
    assert page.session.run.settings == settings
    assert page.store.get(str(checkpoint), "auto").spec.architecture == TINY


def test_any_tag_of_open_clip_can_be_typed_and_fetched(page):
    page.ask("ViT-B-32/laion400m_e32")
    assert page.session.run.settings.model == "ViT-B-32/laion400m_e32"
    assert page.part.needs_fetch()
    assert not page.part.fetching.button.isHidden()
    with pytest.raises(ModelError, match="not on this machine yet; press Fetch"):
        check_on_disk(page.session.run.settings.model)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("ViT-B-32/openia", "no folder or file of that name. Did you mean"),
        ("{}/none", "There is no folder or file"),
        ("{}", "is not a model folder"),
        ("{}/text.pt", "text.pt"),
    ],
)
def test_what_cannot_be_a_model_is_refused_in_one_line_and_the_model_stays(
    page, tmp_path, name, problem
):
    (tmp_path / "text.pt").write_text("no weights")
    page.part.own.offer(["ViT-B-32"])
    page.part.own.architecture.setCurrentText("ViT-B-32")
    page.ask(name.format(tmp_path))
    assert problem in page.problem
    assert "\n" not in page.problem
    assert page.session.run.settings.model == "demo"
    assert page.part.model.currentText().startswith("demo")


def test_a_model_that_is_gone_is_said_before_a_run(folder):
    settings = RunSettings(model=str(folder))
    check_on_disk(settings.model)
    shutil.rmtree(folder)
    with pytest.raises(ModelError, match="There is no model .*cells-model; choose one in Settings"):
        check_on_disk(settings.model)
