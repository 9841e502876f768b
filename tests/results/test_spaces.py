"""Embeddings by a method with weights of its own: two files are two spaces."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from napari_maskinversion import label_regions
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.identity import identify_image
from napari_maskinversion.engine.methods.registry import Method
from napari_maskinversion.language.labels.presets import vocabulary_of
from napari_maskinversion.learning.classifier import Classifier
from napari_maskinversion.learning.classifier_ranking import Ranker
from napari_maskinversion.library.library import Library
from napari_maskinversion.results.export.archive import open_archive, save_archive
from napari_maskinversion.results.export.bundle import Bundle
from napari_maskinversion.results.results import Results
from napari_maskinversion.results.spaces import Space, check_alike
from tests.scenes import demo_model, label_image, picture

OTHER = "other weights of the method"


def checkpoint(file, seed):
    """Write a branch of AlphaCLIP with random weights for the demo model."""
    first = demo_model().clip.visual.conv1.weight
    kernel = torch.randn(first[:, :1].shape, generator=torch.Generator().manual_seed(seed)) * 0.1
    torch.save({"conv1_alpha.weight": kernel}, file)
    return file


def embedded(file):
    """Embed two regions by AlphaCLIP with weights from a file."""
    method = Method("alphaclip", file)
    image, regions = picture(64, 64, 1), label_image(2, 64, 64)
    return label_regions(image, regions, ["car"], model=demo_model(), method=method)


@pytest.fixture
def results(tmp_path):
    """Results with two checkpoints, both of which are called alpha.pt."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    files = [checkpoint(tmp_path / name / "alpha.pt", len(name)) for name in ("first", "second")]
    return [embedded(file) for file in files]


def of_before(results):
    """Results as they were before the hash was kept."""
    return Results(replace(results.info, method_sha256=""), results.regions)


def test_embeddings_of_two_checkpoints_are_not_compared(results, tmp_path):
    first, second = (Space.of(one) for one in results)
    assert first.about != second.about
    with pytest.raises(InputError, match=OTHER):
        check_alike([first, second])
    library = Library.new(tmp_path / "library")
    for result in results:
        library.add(Bundle(results=result, image=identify_image("a.png", picture(64, 64, 1))))
    assert len(library.spaces()) == 2


def test_a_checkpoint_that_was_moved_and_renamed_is_the_same(results, tmp_path):
    moved = (tmp_path / "first" / "alpha.pt").rename(tmp_path / "other.pt")
    assert Space.of(embedded(moved)).about == Space.of(results[0]).about


def test_a_classifier_of_another_checkpoint_is_refused(results, tmp_path):
    first, second = results
    texts = np.eye(1, first.info.embed_dim, dtype=np.float32)
    trained = replace(Classifier.of_words(("car",), texts, 10.0), space=Space.of(first).about)
    ranker = Ranker(vocabulary_of(str(trained.save(tmp_path / "trained"))))
    ranker.check_space(first.info.settings, first.info.fingerprint)
    with pytest.raises(InputError, match=f"was trained on embeddings of {OTHER}"):
        ranker.check_space(second.info.settings, second.info.fingerprint)


def test_results_of_before_fit_either_checkpoint_and_the_hash_is_kept_in_an_archive(
    results, tmp_path
):
    first, second = results
    check_alike([Space.of(of_before(first)), Space.of(second)])
    save_archive(Bundle(results=first), tmp_path / "results.npz")
    assert Space.of(open_archive(tmp_path / "results.npz").results) == Space.of(first)
