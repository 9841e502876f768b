"""What the embedding shows, as its user meets it: tiny decoders and the bundled model."""

import json
import shutil

import numpy as np
import pytest
import skimage.io
from qtpy.QtGui import QGuiApplication

from napari_maskinversion._napari.panel.widget import MaskInversionWidget
from napari_maskinversion._napari.plugin.samples import everyday_1
from tests import tiny_decoders


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    return tiny_decoders.kandinsky(tmp_path_factory.mktemp("decoder"))


@pytest.fixture
def panel(make_napari_viewer, qtbot):
    """The widget with suggestions for the sample scene; the section is open, a region chosen."""
    viewer = make_napari_viewer()
    for data, options, kind in everyday_1():
        getattr(viewer, f"add_{kind}")(data, **options)
    made = MaskInversionWidget(viewer)
    viewer.window.add_dock_widget(made)
    made.vocabulary.text.setPlainText("grapes\nfrog")
    made.model.form.set_values({"inversion.steps": 1})
    made.start()
    qtbot.waitUntil(lambda: not made.session.run.running and not made.runner.busy, timeout=60_000)
    made.reveal("explore")
    made.imagine.section.open()
    made.session.select(1)
    yield made
    made.shut_down()


@pytest.fixture
def part(panel, own_cache_folder, decoder):
    """The section, with the decoder in its usual place."""
    place = own_cache_folder / "diffusion" / "kandinsky-2-2-decoder"
    shutil.copytree(decoder, place)
    part = panel.imagine.part
    part.size.setValue(64)
    part.steps.setValue(2)
    return part


def finished(panel, qtbot):
    qtbot.waitUntil(lambda: not panel.imagine.worker.busy, timeout=60_000)


def checked(panel, qtbot, words):
    """Wait until the line about device and memory says something."""
    shown = panel.imagine.part.needs
    plain = lambda: shown.text().replace("\N{ZERO WIDTH SPACE}", "")  # noqa: E731
    qtbot.waitUntil(lambda: words in plain(), timeout=30_000)
    return plain()


def test_a_region_is_drawn_beside_the_whole_image_and_saved(panel, part, qtbot, tmp_path):
    assert checked(panel, qtbot, "needed").startswith("Drawing on the CPU")
    assert part.draw.text() == "Draw region 2"
    part.pictures.setValue(2)
    part.seed.setValue(5)
    part.guidance.setValue(3)
    part.norm.setCurrentIndex(part.norm.findData("cls"))
    part.draw.click()
    assert not part.draw.isEnabled()
    assert not part.progress.isHidden()
    part.seed.setValue(9)  # for the next drawing
    finished(panel, qtbot)
    names = ["Region 2, seed 5", "Region 2, seed 6", "[CLS], seed 5", "[CLS], seed 6"]
    assert part.shown() == names
    assert part.progress.isHidden()
    panel.imagine.save(tmp_path / "pictures")
    record = json.loads((tmp_path / "pictures" / "imagine.json").read_text())
    assert record["run_id"] == panel.session.results.info.run_id
    numbers = ("seed", "pictures", "steps", "size", "guidance", "norm")
    assert [record["settings"][name] for name in numbers] == [5, 2, 2, 64, 3, "cls"]
    first = skimage.io.imread(tmp_path / "pictures" / "region-2_seed-5.png")
    panel.imagine.save(tmp_path / "pictures")  # refused: nothing is replaced
    assert "already has" in panel.session.notice.text
    part.seed.setValue(5)
    part.pictures.setValue(1)
    part.draw.click()
    finished(panel, qtbot)
    assert part.shown() == ["Region 2, seed 5", "[CLS], seed 5"]  # the earlier ones are gone
    panel.imagine.save(tmp_path / "again")
    again = skimage.io.imread(tmp_path / "again" / "region-2_seed-5.png")
    np.testing.assert_array_equal(again, first)


def test_the_drawing_can_be_cancelled(panel, part, qtbot):
    part.draw.click()
    finished(panel, qtbot)
    part.steps.setValue(500)
    part.seed.setValue(1)
    part.draw.click()
    qtbot.waitUntil(lambda: "of 500" in part.progress.bar.format(), timeout=60_000)
    part.progress.cancel.click()
    finished(panel, qtbot)
    assert part.shown() == ["Region 2, seed 0", "[CLS], seed 0"]  # those before it
    assert part.save.isEnabled()
    assert part.draw.isEnabled()


def test_missing_weights_are_named_with_a_command_to_copy(panel, qtbot):
    text = checked(panel, qtbot, "5.3 GB")
    assert "put these files of kandinsky-community/kandinsky-2-2-decoder" in text
    assert "hf download" not in text  # too long for a panel
    assert "--" not in text  # there is a button
    panel.imagine.part.draw.click()
    finished(panel, qtbot)
    assert panel.session.notice is None  # the line above says it
    panel.imagine.part.copy.click()
    copied = QGuiApplication.clipboard().text()
    assert copied.startswith("hf download kandinsky-community/kandinsky-2-2-decoder --local-dir /")
    assert "unet/diffusion_pytorch_model.safetensors" in copied


def test_a_decoder_for_another_model_is_refused(panel, qtbot, tmp_path):
    foreign = tiny_decoders.kandinsky(tmp_path, clip_model="ViT-B-16/openai")
    panel.imagine.part.choose_folder(foreign)
    assert "ViT-B-16/openai (128 values), not of demo" in checked(panel, qtbot, "not of demo")
    panel.imagine.part.draw.click()
    finished(panel, qtbot)
    assert panel.session.notice is None  # the line above says it
    assert panel.imagine.part.shown() == []


def test_pictures_go_with_the_results_that_they_are_of(panel, part, qtbot):
    part.draw.click()
    finished(panel, qtbot)
    assert len(part.shown()) == 2
    panel.session.select(0)
    assert part.draw.text() == "Draw region 1"
    assert len(part.shown()) == 2  # of region 2, as they say
    panel.start()
    qtbot.waitUntil(lambda: not panel.runner.busy, timeout=60_000)
    assert part.shown() == []
    assert not part.save.isEnabled()


def test_the_prompt_needs_its_subject(panel, part, qtbot, tmp_path):
    part.prompt.setText("a dog on a beach")
    checked(panel, qtbot, "name it as the subject")
    part.subject.setText("cat")
    checked(panel, qtbot, "does not have the subject 'cat'")
    part.subject.setText("dog")
    assert "--" not in checked(panel, qtbot, "139 MB")  # the prior is not there
    tiny_decoders.prior(tmp_path / "prior")
    part.choose_prior(tmp_path / "prior")
    assert checked(panel, qtbot, "needed")
    part.decoder.setCurrentIndex(part.decoder.findData("unclip-l"))
    assert not part.prior.isEnabled()
