"""What the demo model was not taught is doubtful everywhere, however clear its figures are."""

from pathlib import Path

import numpy as np
import pytest
import skimage
from PIL import Image

from napari_maskinversion import label_regions
from napari_maskinversion.images.sample_scenes import load_scene
from napari_maskinversion.language.labels.vocabulary import Vocabulary
from napari_maskinversion.language.ranking.uncertainty import UncertaintyConfig
from napari_maskinversion.pipeline.explaining import in_words
from napari_maskinversion.pipeline.reranking import rerank
from napari_maskinversion.results.export.archive import open_archive, save_archive
from napari_maskinversion.results.export.bundle import Bundle
from napari_maskinversion.review.queue import ReviewQueue
from tests.scenes import demo_model, label_image

WORD, IMAGE = "word unknown to the model", "image unknown to the model"
STRANGE = Vocabulary(("debris", "bacterium", "neuron"))


def answered(image, regions, words):
    lax = UncertaintyConfig(overlap=0)  # of the word alone, after one step
    return label_regions(image, regions, words, model=demo_model(), steps=1, unsure=lax)


@pytest.fixture(scope="module")
def smear():
    """The sample of blood cells with known words and one that the model was not taught."""
    scene = load_scene("blood-smear")
    return answered(scene.image, scene.regions, [*scene.vocabulary, "debris"])


@pytest.fixture(scope="module")
def photograph():
    with Image.open(Path(skimage.__file__).parent / "data" / "astronaut.png") as opened:
        image = np.asarray(opened.convert("RGB"))
    return answered(image, label_image(4, 512, 512), ["rocket", "dog"])


def statuses(results):
    return [region.status for region in results.regions]


def test_a_word_that_was_not_taught_is_never_ok(smear):
    strange = rerank(demo_model(), smear, STRANGE)
    assert all(status.startswith("doubtful: ") and WORD in status for status in statuses(strange))
    assert all(region.flagged and not region.uncertainty.sure for region in strange.regions)
    assert f"Doubtful: {WORD}" in in_words(strange.regions[0])[-1]


def test_the_words_that_it_was_taught_stay_ok_beside_others(smear):
    assert "ok" in statuses(smear)
    assert WORD not in "".join(statuses(smear))


def test_flags_are_by_the_limits_that_come_with_the_model_and_by_those_chosen(smear):
    limits, calibration = smear.info.limits, smear.info.calibration
    assert calibration.margin > 0
    assert (limits.margin, limits.overlap) == (calibration.margin, 0)


def test_no_word_is_ok_on_an_image_of_a_kind_that_it_was_not_trained_on(photograph):
    assert all(status.startswith(f"doubtful: {IMAGE}") for status in statuses(photograph))
    assert WORD not in "".join(statuses(photograph))


def test_reopened_results_say_the_same(smear, photograph, tmp_path):
    strange = rerank(demo_model(), smear, STRANGE)
    for number, results in enumerate((strange, photograph)):
        file = tmp_path / f"{number}.npz"
        save_archive(Bundle(results=results), file)
        assert statuses(open_archive(file).results) == statuses(results)


def test_they_come_first_in_the_review(smear):
    few = Vocabulary(("platelet", "cell"))
    mixed = rerank(demo_model(), smear, few)
    strange = [row for row, one in enumerate(mixed.regions) if one.ranking.word_unknown]
    assert 0 < len(strange) < len(mixed)
    queue = ReviewQueue.from_results(mixed)
    for order in ("margin", "entropy"):
        queue.sort(order)
        assert sorted(queue.rows[: len(strange)]) == strange


def test_where_no_word_was_judged_nothing_is_ok(smear):
    bare = rerank(demo_model(), smear, None)
    assert set(statuses(bare)) == {""}
    assert not any(region.flagged for region in bare.regions)
    assert "No reason to doubt it." not in [line for one in bare.regions for line in in_words(one)]
