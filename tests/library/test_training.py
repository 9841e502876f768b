"""A classifier learned from the decisions in a library, and used by runs."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.language.labels.vocabulary import NONE_OF_THESE
from napari_maskinversion.learning.classifier import Classifier
from napari_maskinversion.learning.features import Measured
from napari_maskinversion.library.library import Library
from napari_maskinversion.results.results import Results

from .made import WIDTH, bundle, vectors, write_image

WORDS = ("dust", "white cell")


class Model(SimpleNamespace):
    """Texts by their letters; the embeddings of `bundle` are of this model."""

    def encode_text(self, texts):
        return np.concatenate([vectors(1, len(text)) for text in texts])


@pytest.fixture
def model(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Model(name="demo", fingerprint="abc123", logit_scale=10.0, embed_dim=WIDTH, device="cpu")


def bundle_of(seed):
    """Five decided regions, which look like their kind: two of each word, one rejected."""
    rows = 2 * vectors(3, 50)[[0, 0, 1, 1, 2]] + 0.5 * vectors(5, seed)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    states = ("accepted",) * 4 + ("rejected",)
    one = bundle(seed=seed, decisions=states, rows=rows.astype(np.float32))
    one.columns["accepted_label"][2:4] = [WORDS[1]] * 2
    return one


def library_of(folder, images=6):
    made = Library.new(folder / "cells")
    for seed in range(images):
        made.add(bundle_of(seed), image=write_image(folder, seed))
    return made


def unlike(library, ids):
    """Embeddings that are not quite those of other regions."""
    return library.vectors(ids) + np.float32(0.01)


def test_decisions_of_several_images_make_a_classifier(tmp_path, model):
    library = library_of(tmp_path)
    trained = library.train(model=model)
    assert trained.classes == (*WORDS, NONE_OF_THESE)
    assert trained.counts == {"dust": 12, "white cell": 12, NONE_OF_THESE: 6}
    assert (trained.scores.over, trained.scores.all.regions) == ("images", 30)
    assert trained.scores.all.accuracy > 0.9
    assert trained.notes == ()
    chances = trained.probabilities(library.vectors([1, 3, 5]))
    assert chances.argmax(1).tolist() == [0, 1, 2]


def test_words_can_be_named_and_regions_chosen(tmp_path, model):
    library = library_of(tmp_path, 12)
    trained = library.train(["white cell", "dust", "other"], model=model, image="image-1?.png")
    assert trained.words == ("white cell", "dust", "other")
    assert sum(trained.counts.values()) == 10  # of images 10 and 11
    with pytest.raises(InputError, match="'dust' was decided, but is not among the words"):
        library.train(["white cell"], model=model)


def test_a_wrong_decision_is_named(tmp_path, model):
    library = library_of(tmp_path)
    wrong = bundle(seed=9, decisions=("accepted",) * 5, rows=unlike(library, [3, 4, 8, 9, 13]))
    wrong.columns["accepted_label"][1:] = [WORDS[1]] * 4
    library.add(wrong, image=write_image(tmp_path, 9))
    trained = library.train(model=model)
    assert trained.doubts == ("image-9.png 1 (dust, looks like white cell)",)
    assert trained.notes == ()  # what a file holds names no image


def test_embeddings_of_another_model_are_left_out_and_named(tmp_path, model):
    library = library_of(tmp_path)
    other = bundle(seed=9, fingerprint="other", decisions=("accepted",) * 5)
    library.add(other, image=write_image(tmp_path, 9))
    trained = library.train(model=model)
    assert sum(trained.counts.values()) == 30
    assert trained.notes[0].startswith("Left out 5 regions of other models or settings (space 2)")


def test_a_library_without_decisions_is_refused(tmp_path, model):
    library = Library.new(tmp_path / "cells")
    library.add(bundle(), image=write_image(tmp_path))
    with pytest.raises(InputError, match="has no decisions: accept or reject regions"):
        library.train(model=model)


def test_a_filter_of_decisions_counts(tmp_path, model):
    library = library_of(tmp_path)
    assert NONE_OF_THESE not in library.train(model=model, decision="accepted").classes
    with pytest.raises(InputError, match="has no decisions that fit the filters: accept or"):
        library.train(model=model, decision="undecided")


def test_a_copy_of_an_image_is_held_out_with_it(tmp_path, model):
    library = library_of(tmp_path, images=1)
    (copies := tmp_path / "copies").mkdir()
    rows = library.vectors([1, 2, 3, 4, 5])
    one = bundle(seed=0, decisions=("accepted",) * 4 + ("rejected",), rows=rows)
    one.columns["accepted_label"][2:4] = [WORDS[1]] * 2
    library.add(one, image=write_image(copies))
    assert library.train(model=model).scores.over == "regions"


def test_size_is_learned_if_asked_for(tmp_path, model):
    library = library_of(tmp_path)
    trained = library.train(model=model, features="size")
    assert trained.features == ("area", "height", "width", "fill")
    again = Classifier.load(trained.save(tmp_path / "cells"))
    regions = bundle().results.regions[:3]
    (first, *_) = again.rank(library.vectors([1, 3, 5]), again.classes, regions=regions)
    assert first.labels[0] == "dust"
    with pytest.raises(InputError, match="takes 20 numbers a region; got 16"):
        again.probabilities(library.vectors([1]))


def measured(of):
    """The regions of results, of which accepted ones are bright."""
    regions = [
        replace(one, measures={"solidity": 1.0, "mean_0": 90.0 if place < 2 else 20.0 + place})
        for place, one in enumerate(of.results.regions)
    ]
    return replace(of, results=Results(of.results.info, tuple(regions)))


def test_what_runs_measured_is_kept_and_learned(tmp_path, model):
    library = library_of(tmp_path)
    with pytest.raises(InputError, match="None of the 30 decided regions was measured.*--measure"):
        library.train(model=model, features=("size", "intensity"))
    for seed in range(5):
        library.add(measured(bundle_of(seed)), image=tmp_path / f"image-{seed}.png")
    library.export(tmp_path / "all.parquet")
    copied = Library.new(tmp_path / "copy")
    copied.add(tmp_path / "all.parquet")
    for one in (library, copied):
        trained = one.train(model=model, features="shape,intensity")
        assert trained.features == ("solidity", "mean_0")
        assert sum(trained.counts.values()) == 25
        assert trained.notes[0].startswith("Left out 5 regions without shape, intensity; run")
    bright, dark = (Measured(9, (0, 0, 3, 3), {"solidity": 1.0, "mean_0": n}) for n in (90, 22))
    between = np.repeat(library.vectors([1, 3]).mean(0, keepdims=True), 2, 0)
    rankings = trained.rank(between, WORDS, regions=[bright, dark])
    is_dust = [one.probabilities[one.labels.index("dust")] for one in rankings]
    assert is_dust[0] > is_dust[1] + 0.1
