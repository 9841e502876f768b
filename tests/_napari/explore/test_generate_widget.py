"""Generated captions, as their user meets them; on the bundled model."""

import threading
from pathlib import Path

import pytest

from napari_maskinversion._napari.explore import generate
from napari_maskinversion._napari.explore.generate import GenerateSection
from napari_maskinversion._napari.results.region_details import CaptionList
from napari_maskinversion.images.sample_scenes import load_scene
from napari_maskinversion.language.captions.bank import ModelIdentity
from napari_maskinversion.language.generation.settings import GenerationSettings
from napari_maskinversion.language.generation.small_gpt import SmallDecoder


@pytest.fixture
def part(section):
    return section(GenerateSection)


def sentences(shared):
    return [region.generated_caption for region in shared.session.run.results.regions]


def test_generate_writes_a_sentence_that_names_the_thing(shared, part, show, qtbot):
    assert not part.generate.isEnabled()
    assert "Suggest words first" in part.about.text()
    show()
    assert part.generate.isEnabled()
    part.generate.click()
    qtbot.waitUntil(lambda: all(sentences(shared)))
    named = zip(sentences(shared), load_scene("everyday-1").truth.values(), strict=True)
    assert sum(name in sentence for sentence, name in named) >= 3  # of four
    shared.session.select(3)
    listed = CaptionList()
    qtbot.addWidget(listed)
    listed.show_region(shared.session.run.results.regions[3])
    assert listed.item(0).text() == sentences(shared)[3]
    assert part.sentence.text() == f"Region 4: {sentences(shared)[3]}"
    assert shared.session.run.results.info.generated.decoder == "demo"
    qtbot.waitUntil(lambda: not part.job.busy)
    assert part.progress.isHidden()


def test_decoders_of_other_models_say_so_and_cannot_be_pressed(part, show):
    show()
    part.decoder.setCurrentText("clipcap-coco")
    assert "reads embeddings of ViT-B-32/openai" in part.about.text()
    assert not part.generate.isEnabled()
    part.decoder.setCurrentText("decap")
    assert "needs a file" in part.about.text()
    part.choose_file(Path("decap.pt"))
    request = part.request
    assert (request.decoder, request.file) == ("decap", Path("decap.pt"))
    part.decoder.setCurrentText("demo")
    assert part.request.file is None
    assert part.generate.isEnabled()


def test_the_settings_are_those_of_the_form(shared, part, show, qtbot):
    show()
    options = part.options
    assert not options["beams"].isEnabled()
    options["search"].setCurrentText("beam")
    options["temperature"].setValue(2)
    options["beams"].setValue(3)
    options["norm"].setCurrentText("cls")
    part.generate.click()
    qtbot.waitUntil(lambda: all(sentences(shared)))
    settings = shared.session.run.results.info.generated.settings
    assert settings == GenerationSettings(search="beam", temperature=2, beams=3, norm="cls")


def test_cancel_leaves_the_results_as_they_are(shared, part, show, qtbot, monkeypatch):
    begun, go = threading.Event(), threading.Event()
    logits = SmallDecoder.logits

    def slow(self, inputs):
        begun.set()
        go.wait(30)
        return logits(self, inputs)

    monkeypatch.setattr(SmallDecoder, "logits", slow)
    show()
    part.generate.click()
    qtbot.waitUntil(begun.is_set)
    assert not part.generate.isEnabled()
    part.progress.cancel.click()
    go.set()
    qtbot.waitUntil(lambda: not part.job.busy)
    assert not any(sentences(shared))
    assert part.generate.isEnabled()


def test_a_decoder_for_other_weights_is_refused_in_one_line(
    part, show, qtbot, monkeypatch, messages
):
    monkeypatch.setattr(generate, "model_of_run", lambda info: ModelIdentity("demo", "0" * 16, 128))
    show()
    part.generate.click()
    qtbot.waitUntil(lambda: not part.job.busy)
    (reason,) = messages
    assert "train it again" in reason
    assert "\n" not in reason
