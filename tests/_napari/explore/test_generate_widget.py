"""Generated captions, as their user meets them; on the bundled model."""

import threading
from pathlib import Path

import pytest

from napari_maskinversion._napari.explore import generate_task
from napari_maskinversion._napari.panel.widget import MaskInversionWidget
from napari_maskinversion._napari.plugin.samples import everyday_1
from napari_maskinversion._napari.session import ResultRecord
from napari_maskinversion.images.sample_scenes import load_scene
from napari_maskinversion.language.generation.settings import GenerationSettings
from napari_maskinversion.language.generation.small_gpt import SmallDecoder
from napari_maskinversion.pipeline.labelling import label_regions
from tests.scenes import demo_model

SCENE = load_scene("everyday-1")


@pytest.fixture(scope="module")
def results():
    labels = ["grapes", "airplane", "house", "frog"]
    return label_regions(SCENE.image, SCENE.regions, labels, model=demo_model())


@pytest.fixture
def panel(make_napari_viewer, results):
    """The widget on the sample scene with its results, and the captions open."""
    viewer = make_napari_viewer()
    for data, options, kind in everyday_1():
        getattr(viewer, f"add_{kind}")(data, **options)
    made = MaskInversionWidget(viewer)
    viewer.window.add_dock_widget(made)
    made.reveal("explore")
    made.captions.section.open()
    yield made
    made.shut_down()


def show(panel, results):
    panel.session.show(ResultRecord(results=results, snapshot=panel.session.snapshot()))


def sentences(panel):
    return [region.generated_caption for region in panel.session.results.regions]


def test_generate_writes_a_sentence_that_names_the_thing(panel, results, qtbot):
    part = panel.captions.part.generated
    assert not part.generate.isEnabled()
    assert "Suggest words first" in part.about.text()
    show(panel, results)
    assert part.generate.isEnabled()
    part.generate.click()
    qtbot.waitUntil(lambda: all(sentences(panel)), timeout=60_000)
    named = zip(sentences(panel), SCENE.truth.values(), strict=True)
    assert sum(name in sentence for sentence, name in named) >= 3  # of four
    panel.session.select(3)
    qtbot.waitUntil(lambda: panel.results.captions.count() == 1)
    assert panel.results.captions.item(0).text() == sentences(panel)[3]
    assert part.sentence.text() == f"Region 4: {sentences(panel)[3]}"
    assert panel.session.results.info.generated.decoder == "demo"
    qtbot.waitUntil(lambda: not panel.captions.generating.runner.busy)
    assert part.progress.isHidden()


def test_decoders_of_other_models_say_so_and_cannot_be_pressed(panel, results):
    show(panel, results)
    part = panel.captions.part.generated
    part.decoder.setCurrentText("clipcap-coco")
    assert "reads embeddings of ViT-B-32/openai" in part.about.text()
    assert not part.generate.isEnabled()
    part.decoder.setCurrentText("decap")
    assert "needs a file" in part.about.text()
    part.choose_file(Path("decap.pt"))
    request = panel.captions.generating.request
    assert (request.decoder, request.file) == ("decap", Path("decap.pt"))
    part.decoder.setCurrentText("demo")
    assert panel.captions.generating.request.file is None
    assert part.generate.isEnabled()


def test_the_settings_are_those_of_the_form(panel, results, qtbot):
    show(panel, results)
    part = panel.captions.part.generated
    assert not part.beams.isEnabled()
    part.search.setCurrentText("beam")
    part.temperature.setValue(2)
    part.beams.setValue(3)
    part.norm.setCurrentText("cls")
    part.generate.click()
    qtbot.waitUntil(lambda: all(sentences(panel)), timeout=60_000)
    settings = panel.session.results.info.generated.settings
    assert settings == GenerationSettings(search="beam", temperature=2, beams=3, norm="cls")


def test_cancel_leaves_the_results_as_they_are(panel, results, qtbot, monkeypatch):
    begun, go = threading.Event(), threading.Event()
    logits = SmallDecoder.logits

    def slow(self, inputs):
        begun.set()
        go.wait(30)
        return logits(self, inputs)

    monkeypatch.setattr(SmallDecoder, "logits", slow)
    show(panel, results)
    part, runner = panel.captions.part.generated, panel.captions.generating.runner
    part.generate.click()
    qtbot.waitUntil(begun.is_set, timeout=60_000)
    assert not part.generate.isEnabled()
    part.progress.cancel.click()
    go.set()
    qtbot.waitUntil(lambda: not runner.busy, timeout=60_000)
    assert not any(sentences(panel))
    assert part.generate.isEnabled()


def test_a_decoder_for_other_weights_is_refused_in_one_line(panel, results, qtbot, monkeypatch):
    monkeypatch.setattr(
        generate_task.ModelOfRun, "of", classmethod(lambda cls, info: cls("demo", "0" * 16, 128))
    )
    show(panel, results)
    runner = panel.captions.generating.runner
    with qtbot.waitSignal(runner.failed, timeout=60_000) as failed:
        panel.captions.part.generated.generate.click()
    assert "train it again" in failed.args[0]
    assert "\n" not in failed.args[0]
