"""Runs measure regions if they are asked to, or if a classifier takes measures."""

import numpy as np
import pytest

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.language.labels.presets import vocabulary_of
from napari_maskinversion.language.labels.vocabulary import Vocabulary
from napari_maskinversion.learning.classifier import Classifier
from napari_maskinversion.learning.features import features_of, names_of
from napari_maskinversion.pipeline.reranking import rerank
from napari_maskinversion.results.export.archive import open_archive
from napari_maskinversion.results.export.bundle import Bundle
from napari_maskinversion.results.export.catalogue import FORMATS
from tests.scenes import demo_model, picture, regions, run

WORDS = Vocabulary(("apple", "car"))
QUICK = InversionConfig(steps=1)


@pytest.fixture(scope="module")
def results():
    return run(demo_model(), picture(), regions(4), WORDS, QUICK, measure=True)


@pytest.fixture
def classifier(results, tmp_path):
    names = names_of(("size", "shape", "intensity"), results.regions)
    texts = demo_model().encode_text(["apple", "car"])
    begun = Classifier.of_words(WORDS, texts, demo_model().logit_scale)
    numbers = features_of(results.regions, names)
    labels = ["apple", "car", "apple", "car"]
    made = begun.fit(results.embeddings, labels, range(4), features=numbers, names=names)
    return vocabulary_of(str(made.save(tmp_path / "measured")))


def test_measures_are_columns_of_the_results_and_stay_in_their_file(results, tmp_path):
    table, image = results.to_frame(), picture()
    for row, region in enumerate(regions(4)):
        y0, x0, y1, x1 = region.bbox
        inside = image[y0:y1, x0:x1][region.mask]
        assert table["mean_1"][row] == pytest.approx(inside[:, 1].mean())
        assert table["std_2"][row] == pytest.approx(inside[:, 2].std())
    assert (table["solidity"] == 1).all()  # squares
    FORMATS["npz"].write(Bundle(results=results), tmp_path / "results.npz")
    again = open_archive(tmp_path / "results.npz").results.to_frame()
    assert again["axis_major"].tolist() == table["axis_major"].tolist()
    plain = run(demo_model(), image, regions(1), WORDS, QUICK)
    assert not {"solidity", "mean_0"} & {*plain.to_frame().columns}


def test_a_run_measures_what_its_classifier_takes(results, classifier):
    found = run(demo_model(), picture(), regions(4), classifier, QUICK)
    assert [one.measures for one in found.regions] == [one.measures for one in results.regions]
    again = rerank(demo_model(), results, classifier)
    # A logit is 14 times a cosine, a sum of 128 products in float32: the order of the sum, and
    # with it the last digits, depends on the processor and on where the arrays lie in memory.
    # Measured, of a probability: 1.2e-7 by the place, 2.4e-7 row by row, 5e-7 where the last digit
    # of each embedding differs. (One step of float32 is up to 1.2e-7.)
    for ran, ranked_again in zip(found.regions, again.regions, strict=True):
        np.testing.assert_allclose(
            ran.ranking.probabilities, ranked_again.ranking.probabilities, rtol=1e-5
        )


def test_regions_without_what_it_takes_are_refused_in_a_line(classifier):
    unmeasured = run(demo_model(), picture(), regions(2), WORDS, QUICK)
    with pytest.raises(InputError, match=r"measured\.safetensors takes eccentricity.*--measure"):
        rerank(demo_model(), unmeasured, classifier)
    with pytest.raises(InputError, match=r"takes mean_1, std_1, mean_2.*needs the channels"):
        run(demo_model(), picture()[..., 0], regions(2), classifier, QUICK)
