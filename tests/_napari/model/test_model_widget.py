"""The choice of model and device."""

import pytest

from napari_maskinversion._napari.model.model_widget import ModelWidget
from napari_maskinversion.app.session import Session
from napari_maskinversion.app.work.preload import warm_up
from napari_maskinversion.engine.compute import devices
from napari_maskinversion.language.labels.vocabulary import Vocabulary


@pytest.fixture
def two_gpus(monkeypatch):
    """PyTorch is loaded, on a machine with two GPUs."""
    warm_up()
    names = ["cpu", "cuda:0", "cuda:1"]
    monkeypatch.setattr(devices, "devices", lambda: names)
    return names


@pytest.fixture
def part(qtbot, two_gpus):
    made = ModelWidget(Session())
    qtbot.addWidget(made)
    return made


def listed(part):
    return [part.device.itemText(row) for row in range(part.device.count())]


def test_models_wear_a_badge_and_large_downloads_show_their_progress(part):
    assert "[bundled]" in part.model.itemText(0)
    assert part.fetching.button.isHidden()
    part.choose("ViT-B-16/openai")
    assert "[599 MB to fetch]" in part.model.currentText()
    assert not part.fetching.button.isHidden()
    part.show_fetch((3_000_000_000, 4_000_000_000))  # more than fits Qt's int
    assert part.fetching.bar.text() == "3000 of 4000 MB"


def test_devices_are_listed_at_once_where_pytorch_is_loaded(part):
    assert listed(part) == ["auto", "cpu", "cuda:0", "cuda:1"]


def test_a_device_that_is_chosen_before_pytorch_is_loaded_is_taken_once_it_is_known(part, two_gpus):
    two_gpus.remove("cuda:1")
    part.fill_devices()
    part.choose_device("cuda:1")
    assert part.device.currentText() == "auto"
    two_gpus.append("cuda:1")
    part.fill_devices()
    assert part._session.run.settings.device == "cuda:1"


def test_devices_that_are_listed_again_change_no_setting(part, two_gpus):
    part.choose_device("cuda:0")
    changes = []
    part._session.run.events.settings.connect(changes.append)
    part.device.currentIndexChanged.connect(changes.append)
    two_gpus.pop()
    part.fill_devices()
    assert listed(part) == ["auto", "cpu", "cuda:0"]
    assert part.device.currentText() == "cuda:0"
    assert changes == []
    two_gpus.pop()  # now the chosen one is gone
    part.fill_devices()
    assert part._session.run.settings.device == "auto"
    assert len(changes) == 1


def test_models_of_a_field_say_so_and_their_licence_before_they_are_fetched(part):
    part.choose("BiomedCLIP")
    assert part.model.currentText() == "BiomedCLIP, microscopy  [784 MB to fetch]"
    assert "licence MIT" in part.about.text()
    assert "as its open_clip_config.json says" in part.about.text()
    part.choose("TIPSv2-B")
    assert "they contradict" in part.about.text()


def test_words_of_a_field_name_its_models(part):
    part.bind()
    assert part.field.isHidden()
    part._session.run.vocabulary = Vocabulary.parse("nucleus, cytoplasm")
    assert part.field.text() == (
        "The words name nucleus: models trained on microscopy are BiomedCLIP."
    )
    part._session.run.georeferenced = True
    assert "RemoteCLIP-L-14" in part.field.text()
    part.choose("RemoteCLIP-L-14")
    assert part.field.isHidden()
