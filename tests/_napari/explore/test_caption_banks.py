"""Caption banks in the panel, without a window."""

import threading
import time
from dataclasses import replace

import pytest
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QFileDialog

from napari_maskinversion._napari.explore.captions_section import CaptionsSection, check_model
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.engine.models.backbone import Backbone
from napari_maskinversion.language.captions.bank_building import build_bank
from napari_maskinversion.language.captions.caption_files import Captions
from tests.scenes import demo_model


@pytest.fixture
def part(section):
    return section(CaptionsSection)


def press(qtbot, button):
    assert not button.isHidden()
    assert button.isEnabled()
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def build(qtbot, part, monkeypatch, file):
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *a, **k: (str(file), ""))
    press(qtbot, part.build)


@pytest.mark.parametrize("name", ["own", "own.safetensors"])
def test_a_bank_of_an_own_model_fits_the_path_that_is_chosen(tmp_path, name):
    bank = build_bank(demo_model(), Captions.of(["a dog"]), tmp_path / "bank")
    bank.record = replace(bank.record, model="own")
    path = tmp_path / name
    path.write_bytes(b"") if path.suffix else path.mkdir()
    check_model(bank, str(path))
    for other in ("demo", str(tmp_path / "other.pt")):
        with pytest.raises(InputError, match=r"with the model own, not with (demo|other);"):
            check_model(bank, other)


def test_building_can_be_stopped_and_gone_on_with(
    qtbot, shared, part, finished, monkeypatch, tmp_path, counted
):
    encode, cancelled, batches = Backbone.encode_text, threading.Event(), []

    def slowly(self, texts):
        time.sleep(0.1)
        if len(texts) > 16:
            raise MemoryError
        batches.append(len(texts))
        if len(batches) == 30:  # of 44
            cancelled.wait(60)
        return encode(self, texts)

    monkeypatch.setattr(Backbone, "encode_text", slowly)
    file = tmp_path / "many.txt"
    file.write_text("\n".join(f"caption {number}" for number in range(700)))
    build(qtbot, part, monkeypatch, file)
    assert not part.build.isEnabled()
    qtbot.waitUntil(lambda: "of 700" in part.progress.bar.text())
    short = "Not enough memory for captions: 16 sentences at once"
    qtbot.waitUntil(lambda: part.about.text() == short)
    assert not part.about.isHidden()
    press(qtbot, part.progress.cancel)
    cancelled.set()
    finished(part, 120)
    assert part.banks.currentText() == "many.txt, half built"
    done = part.bank.done
    assert 0 < done < 700
    assert "press Continue" in part.about.text()
    assert "cannot be used yet" in shared.session.run.captions_problem  # by the next run
    monkeypatch.setattr(Backbone, "encode_text", encode)
    counted["sentences"] = 0
    press(qtbot, part.resume)
    finished(part, 120)
    assert counted["sentences"] == 700 - done
    assert part.banks.currentText() == "many.txt, 700 captions"
    assert part.banks.count() == 2
    # Another session opens its folder; another model is refused in words.
    folder = part.bank.folder
    part.banks.setCurrentIndex(0)
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *a, **k: str(folder))
    press(qtbot, part.open)
    qtbot.waitUntil(lambda: part.banks.currentIndex() == 1)
    shared.session.run.change_settings({"model": "ViT-B-16/openai"})
    assert "was built with the model demo, not with ViT-B-16/openai" in part.about.text()
    assert shared.session.run.captions_problem == part.about.text()


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("latin.txt", b"caf\xe9", "not UTF-8"),
        ("none.txt", b"\n\n", "no captions"),
        ("table.csv", b"a,b\n1,2", "no column caption"),
    ],
)
def test_captions_that_cannot_be_used_are_refused(
    qtbot, part, finished, monkeypatch, tmp_path, messages, name, content, says
):
    file = tmp_path / name
    file.write_bytes(content)
    build(qtbot, part, monkeypatch, file)
    finished(part, 120)
    assert says in messages[-1]
    assert part.banks.count() == 1
    assert part.build.isEnabled()
    part.open_folder(tmp_path)
    qtbot.waitUntil(lambda: len(messages) == 2)
    assert "no caption bank" in messages[-1]


def test_captions_in_another_encoding_are_read_once_it_is_named(
    qtbot, part, finished, monkeypatch, tmp_path, messages
):
    file = tmp_path / "latin.txt"
    file.write_bytes("caf\u00e9\nbistro".encode("latin-1"))
    build(qtbot, part, monkeypatch, file)
    finished(part, 120)
    assert "not UTF-8" in messages[-1]
    qtbot.keyClicks(part.encoding, "latin-1")
    build(qtbot, part, monkeypatch, file)
    finished(part, 120)
    (matches,) = part.bank.search(demo_model().encode_text(["anything"]))
    assert sorted(matches.captions) == ["bistro", "caf\u00e9"]
    assert len(messages) == 1
