"""Learning takes the decisions about other images of the project and the library."""

import numpy as np
import pytest

from napari_maskinversion.app.review.decided_elsewhere import Elsewhere
from napari_maskinversion.app.review.learning import train
from napari_maskinversion.base.identity import ImagePlace, RegionKey
from napari_maskinversion.batch.finished import FILE
from napari_maskinversion.batch.image_task import ARCHIVES, file_name
from napari_maskinversion.batch.opened import OpenProject
from napari_maskinversion.batch.project import Project, ProjectImage, write_project
from napari_maskinversion.library.library import Library
from napari_maskinversion.results.export.archive import save_archive
from napari_maskinversion.review.decisions import Decision
from napari_maskinversion.review.reporting import identities_of, image_of
from napari_maskinversion.review.review import Review
from tests.library.made import WORDS, bundle, vectors, write_image
from tests.library.test_training import Model, bundle_of, measured


def decided(made, *labels):
    """Decisions about the first regions: accepted with a word, or rejected."""
    return [
        Decision(
            region=RegionKey(region.id), status="accepted" if label else "rejected", label=label
        )
        for region, label in zip(made.results.regions, labels, strict=False)
    ]


@pytest.fixture
def project(tmp_path):
    """Three computed images: the first is on show, the third of another model."""
    images = [ProjectImage(name=f"image-{n}.png", image=f"image-{n}.png") for n in range(3)]
    write_project(Project(images=tuple(images)), tmp_path / "project.yaml")
    opened = OpenProject.read(tmp_path)
    for seed, one in enumerate(images):
        made = bundle(seed=seed, fingerprint="abc123" if seed < 2 else "other")
        folder = opened.out / ARCHIVES / file_name(one.name)
        folder.mkdir(parents=True)
        save_archive(made, folder / "results.npz")
        (folder / FILE).write_text("{}")
        file = write_image(tmp_path, seed)
        with Review(image_of(made), identities_of(made), made.results.info, file=file) as own:
            own.decide(*decided(made, WORDS[seed % 2], "", WORDS[1]))
    return opened


@pytest.fixture
def library(tmp_path):
    """The second image of the project as it was before, another one, and one of another model."""
    made = Library.new(tmp_path / "cells")
    for seed, about in ((1, {}), (7, {}), (8, {"fingerprint": "other"})):
        one = bundle(seed=seed, decisions=("accepted", "rejected", *["undecided"] * 3), **about)
        made.add(one, image=write_image(tmp_path, seed))
    return made


def content(seed):
    return image_of(bundle(seed=seed)).content


def test_decisions_of_project_and_library_are_of_one_space_and_the_files_win(project, library):
    shown = bundle(seed=0)
    plane = RegionKey(1, (("z", 1),))  # of the image that is shown
    places = ((content(9), RegionKey(1)), (content(0), RegionKey(1)), (content(0), plane))
    known = {place: (vectors(1)[0], "x") for place in places}
    elsewhere = Elsewhere(project.file, library, known)
    samples = elsewhere.samples(shown.results, content(0))
    labels = {place: sample.label for place, sample in samples.items()}
    assert labels == {
        (content(9), RegionKey(1)): "x",
        (content(0), plane): "x",
        (content(7), RegionKey(1)): "dust",
        (content(7), RegionKey(2)): None,
        (content(1), RegionKey(1)): WORDS[1],
        (content(1), RegionKey(2)): None,
        (content(1), RegionKey(3)): WORDS[1],
    }
    sample = samples[content(7), RegionKey(2)]
    np.testing.assert_allclose(sample.embedding, vectors(5, 7)[1], atol=1e-3)
    assert elsewhere.notes == [
        "Left out 5 decisions about regions of other models or settings, whose embeddings cannot "
        "be compared."
    ]


def test_a_classifier_learns_from_them_and_says_what_it_left_out(project, library):
    model = Model(name="demo", fingerprint="abc123", logit_scale=10.0, embed_dim=16, device="cpu")
    own = {0: WORDS[0], 1: None, 2: WORDS[1]}
    results, elsewhere = bundle(seed=0).results, Elsewhere(project.file, library)
    trained = train(lambda: model, results, own, content(0), elsewhere)
    assert trained.classifier.counts == {WORDS[0]: 1, WORDS[1]: 3, "none of these": 3}
    assert trained.classifier.notes[1] == (
        "Left out 1 decision about other images with words that are not in the list: 'dust'"
    )


def test_doubtful_decisions_about_other_images_are_named_and_can_be_shown(tmp_path):
    model = Model(name="demo", fingerprint="abc123", logit_scale=10.0, embed_dim=16, device="cpu")
    library = Library.new(tmp_path / "cells")
    for seed in range(1, 12):
        made = bundle_of(seed)
        if seed == 4:
            made.columns["accepted_label"][0] = WORDS[1]
        library.add(made, image=write_image(tmp_path, seed))
    own = {0: WORDS[1], 1: "dust", 2: WORDS[1], 3: WORDS[1], 4: None}
    results, plane = bundle_of(0).results, RegionKey(1, (("z", 1),))
    dust = np.mean([results.embeddings[0], bundle_of(1).results.embeddings[0]], axis=0)
    known = {(content(0), plane): (dust / np.linalg.norm(dust), WORDS[1])}
    trained = train(lambda: model, results, own, content(0), Elsewhere(None, library, known))
    assert set(trained.classifier.doubts) == {
        "region 1 (white cell, looks like dust)",
        "region 1 at z 1 (white cell, looks like dust)",
        "image-4.png 1 (white cell, looks like dust)",
    }
    assert (trained.doubtful, trained.image) == ([RegionKey(1)], content(0))
    (place,) = trained.places
    assert (place.key.id, place.file) == (1, ImagePlace(str(tmp_path / "image-4.png")))


def test_measures_are_learned_if_asked_for_also_those_of_a_library(tmp_path):
    model = Model(name="demo", fingerprint="abc123", logit_scale=10.0, embed_dim=16, device="cpu")
    library = Library.new(tmp_path / "cells")
    for seed, made in ((1, measured(bundle_of(1))), (2, bundle_of(2))):
        library.add(made, image=write_image(tmp_path, seed))
    results, own = measured(bundle_of(0)).results, {1: "dust", 3: "white cell"}
    trained = [
        train(lambda: model, results, own, content(0), Elsewhere(None, library), one)
        for one in (True, False)
    ]
    assert trained[0].summary.startswith("7 decisions and measures. ")
    learned = [one.classifier for one in trained]
    assert [one.features for one in learned] == [("solidity", "mean_0"), ()]
    assert [sum(one.counts.values()) for one in learned] == [7, 12]
    assert learned[0].notes[0].startswith("Left out 5 regions without shape, intensity; run")


def test_an_image_whose_results_cannot_be_read_is_named(project):
    folder = project.out / ARCHIVES / file_name("image-1.png")
    (folder / "results.npz").write_bytes(b"no archive")
    elsewhere = Elsewhere(project.file)
    assert elsewhere.samples(bundle(seed=0).results, content(0)) == {}
    assert elsewhere.notes[0].startswith("Left out image-1.png: ")
