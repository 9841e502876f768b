"""Sentences for results, from Python."""

import numpy as np
import pytest

from napari_maskinversion import label_regions
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.images.sample_scenes import load_scene
from napari_maskinversion.language.generation.registry import load_decoder
from napari_maskinversion.language.generation.settings import GenerationSettings
from napari_maskinversion.pipeline.caption_ranking import (
    CaptionRequest,
    generate_captions,
    model_of_run,
)
from tests.scenes import demo_model


@pytest.fixture(scope="module")
def labelled():
    scene = load_scene("everyday-1")
    return label_regions(
        scene.image, scene.regions, ["frog", "house"], model=demo_model(), captions="demo"
    )


def test_label_regions_adds_a_sentence_to_each_region(labelled):
    column = labelled.to_frame()["generated_caption"]
    assert column.str.endswith(".").all()
    assert column.str.contains("frog").any()
    assert labelled.info.generated.decoder == "demo"


def test_sentences_are_written_again_from_results_alone(labelled):
    decoder = load_decoder("demo", model_of_run(labelled.info))
    again = generate_captions(labelled, decoder)
    assert again.to_frame().equals(labelled.to_frame())
    assert decoder.generate(labelled.raw_embeddings) == list(
        labelled.to_frame()["generated_caption"]
    )


class Recorder:
    """Keeps the embeddings that it is asked about."""

    name, weights = "recorder", "0"

    def __init__(self, norm):
        self.settings = GenerationSettings(norm=norm)

    def generate(self, embeddings, settings):
        self.embeddings = embeddings
        return ["A thing."] * len(embeddings)


def test_embeddings_have_the_norm_that_is_asked_for(labelled):
    import napari_maskinversion as nmi

    decoder = Recorder("optimised")
    generate_captions(labelled, decoder)
    np.testing.assert_array_equal(decoder.embeddings, labelled.raw_embeddings)
    decoder = Recorder("cls")
    generate_captions(labelled, decoder)
    inverter = nmi.MaskInverter(demo_model())
    whole = [region.window.box for region in labelled.regions if region.window.whole]
    assert whole
    inverter.set_image(load_scene("everyday-1").image)
    length = np.linalg.norm(inverter.image_embedding)
    for row, region in zip(decoder.embeddings, labelled.regions, strict=True):
        if region.window.whole:
            np.testing.assert_allclose(np.linalg.norm(row), length, rtol=3e-3)
        cosine = row @ region.embedding / np.linalg.norm(row)
        np.testing.assert_allclose(cosine, 1, rtol=1e-5)


def test_methods_without_an_embedding_of_the_image_have_no_cls_norm():
    scene = load_scene("everyday-1")
    request = CaptionRequest(settings=GenerationSettings(norm="cls"))
    with pytest.raises(InputError, match="goes with MaskInversion; the method crop has no such"):
        label_regions(
            *(scene.image, scene.regions, None),
            model="demo",
            method="crop",
            captions=request,
        )


def test_a_decoder_of_another_model_is_refused_before_the_model_is_loaded():
    scene = load_scene("everyday-1")
    with pytest.raises(InputError, match="reads embeddings of demo.*not of ViT-B-16/openai"):
        label_regions(scene.image, scene.regions, None, model="ViT-B-16/openai", captions="demo")
