"""What the embedding shows, as its user meets it: tiny decoders and the bundled model."""

import json
import shutil

import numpy as np
import pytest
import skimage.io
from qtpy.QtGui import QGuiApplication
from qtpy.QtWidgets import QLabel

from napari_maskinversion._napari.explore.imagine_section import ImagineSection
from tests import tiny_decoders


def shown(part):
    """What the pictures in view are called."""
    labels = part._grid.findChildren(QLabel)
    return [one.accessibleName() for one in labels if one.accessibleName() and not one.isHidden()]


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    return tiny_decoders.kandinsky(tmp_path_factory.mktemp("decoder"))


@pytest.fixture
def part(section, show, shared):
    """The section, open, with a region selected."""
    made = section(ImagineSection)
    show()
    made.section.open()
    shared.session.select(1)
    return made


@pytest.fixture
def in_place(part, own_cache_folder, decoder):
    """Put the decoder in its usual place, and draw little."""
    shutil.copytree(decoder, own_cache_folder / "diffusion" / "kandinsky-2-2-decoder")
    part.form["size"].setValue(64)
    part.form["steps"].setValue(2)


def checked(part, qtbot, words):
    """Wait until the line about device and memory says something."""
    plain = lambda: part.needs.text().replace("\N{ZERO WIDTH SPACE}", "")  # noqa: E731
    qtbot.waitUntil(lambda: words in plain())
    return plain()


@pytest.mark.usefixtures("in_place")
def test_a_region_is_drawn_beside_the_whole_image_and_saved(
    shared, part, finished, qtbot, tmp_path, messages
):
    assert checked(part, qtbot, "needed").startswith("Drawing on the CPU")
    assert part.draw.text() == "Draw region 2"
    part.form["pictures"].setValue(2)
    part.form["seed"].setValue(5)
    part.form["guidance"].setValue(3)
    part.form["norm"].setCurrentIndex(part.form["norm"].findData("cls"))
    part.draw.click()
    assert not part.draw.isEnabled()
    assert not part.progress.isHidden()
    part.form["seed"].setValue(9)  # for the next drawing
    finished(part)
    names = ["Region 2, seed 5", "Region 2, seed 6", "[CLS], seed 5", "[CLS], seed 6"]
    assert shown(part) == names
    assert part.progress.isHidden()
    part.save_in(tmp_path / "pictures")
    record = json.loads((tmp_path / "pictures" / "imagine.json").read_text())
    assert record["run_id"] == shared.session.run.results.info.run_id
    numbers = ("seed", "pictures", "steps", "size", "guidance", "norm")
    assert [record["settings"][name] for name in numbers] == [5, 2, 2, 64, 3, "cls"]
    first = skimage.io.imread(tmp_path / "pictures" / "region-2_seed-5.png")
    part.save_in(tmp_path / "pictures")  # refused: nothing is replaced
    assert "already has" in messages[-1]
    part.form["seed"].setValue(5)
    part.form["pictures"].setValue(1)
    part.draw.click()
    finished(part)
    assert shown(part) == ["Region 2, seed 5", "[CLS], seed 5"]  # the earlier ones are gone
    part.save_in(tmp_path / "again")
    again = skimage.io.imread(tmp_path / "again" / "region-2_seed-5.png")
    np.testing.assert_array_equal(again, first)


@pytest.mark.usefixtures("in_place")
def test_the_drawing_can_be_cancelled(part, finished, qtbot):
    part.draw.click()
    finished(part)
    part.form["steps"].setValue(500)
    part.form["seed"].setValue(1)
    part.draw.click()
    qtbot.waitUntil(lambda: "of 500" in part.progress.bar.format())
    part.progress.cancel.click()
    finished(part)
    assert shown(part) == ["Region 2, seed 0", "[CLS], seed 0"]  # those before it
    assert part.save.isEnabled()
    assert part.draw.isEnabled()


def test_missing_weights_are_named_with_a_command_to_copy(shared, part, finished, qtbot):
    text = checked(part, qtbot, "5.3 GB")
    assert "put these files of kandinsky-community/kandinsky-2-2-decoder" in text
    assert "hf download" not in text  # too long for a panel
    assert "--" not in text  # there is a button
    part.draw.click()
    finished(part)
    assert shared.session.status.notice is None  # the line above says it
    part.copy.click()
    copied = QGuiApplication.clipboard().text()
    assert copied.startswith("hf download kandinsky-community/kandinsky-2-2-decoder --local-dir /")
    assert "unet/diffusion_pytorch_model.safetensors" in copied


def test_a_decoder_for_another_model_is_refused(shared, part, finished, qtbot, tmp_path):
    foreign = tiny_decoders.kandinsky(tmp_path, clip_model="ViT-B-16/openai")
    part.choose_folder(foreign)
    assert "ViT-B-16/openai (128 values), not of demo" in checked(part, qtbot, "not of demo")
    part.draw.click()
    finished(part)
    assert shared.session.status.notice is None  # the line above says it
    assert shown(part) == []


@pytest.mark.usefixtures("in_place")
def test_pictures_go_with_the_results_that_they_are_of(shared, part, show, finished):
    part.draw.click()
    finished(part)
    assert len(shown(part)) == 2
    shared.session.select(0)
    assert part.draw.text() == "Draw region 1"
    assert len(shown(part)) == 2  # of region 2, as they say
    show()  # of another run
    assert shown(part) == []
    assert not part.save.isEnabled()


@pytest.mark.usefixtures("in_place")
def test_the_prompt_needs_its_subject(part, qtbot, tmp_path):
    part.prompt.setText("a dog on a beach")
    checked(part, qtbot, "name it as the subject")
    part.subject.setText("cat")
    checked(part, qtbot, "does not have the subject 'cat'")
    part.subject.setText("dog")
    assert "--" not in checked(part, qtbot, "139 MB")  # the prior is not there
    tiny_decoders.prior(tmp_path / "prior")
    part.choose_prior(tmp_path / "prior")
    assert checked(part, qtbot, "needed")
    part.decoder.setCurrentIndex(part.decoder.findData("unclip-l"))
    assert not part.prior.isEnabled()
