"""A classifier is kept in a file without code, which later versions open."""

import json
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.language.labels.label import Label
from napari_maskinversion.language.labels.presets import vocabulary_of, with_classifier
from napari_maskinversion.language.labels.vocabulary import NONE_OF_THESE, Vocabulary
from napari_maskinversion.learning.classifier import Classifier

from .test_classifier import WORDS, decided, unit

# Written by the first version that writes any.
KEPT = Path(__file__).parent / "version_1.safetensors"


def trained():
    rows, labels, images = decided(each=12, width=8)
    words = Vocabulary.of(
        [
            Label("red cell", ("erythrocyte",), "blood", "#ff0000"),
            Label("white cell"),
            Label("platelet"),
        ],
        ("a photo of a {}.",),
    )
    texts = unit(np.random.default_rng(0).normal(size=(4, 8)))
    space = json.dumps({"architecture": None, "model": "demo", "space": "abc"})
    begun = Classifier.of_words(words, texts, 10.0, space)
    return begun.fit(rows, [*labels[:-4], *[None] * 4], images)


def test_a_file_brings_back_the_same_classifier(tmp_path):
    classifier = trained()
    file = classifier.save(tmp_path / "new" / "cells")
    assert file.name == "cells.safetensors"
    again = Classifier.load(file)
    rows = decided(width=8)[0]
    np.testing.assert_array_equal(again.probabilities(rows), classifier.probabilities(rows))
    for name in ("vocabulary", "classes", "counts", "scores", "notes", "space", "strength"):
        assert getattr(again, name) == getattr(classifier, name), name


def test_a_file_is_a_list_of_words_that_names_its_classifier(tmp_path):
    classifier = trained()
    file = classifier.save(tmp_path / "cells")
    words = vocabulary_of(str(file))
    assert words.labels == (*WORDS, NONE_OF_THESE)
    assert words.synonyms[0] == ("erythrocyte",)
    assert words.colors[0] == "#ff0000"
    assert words.learned.file == file
    assert words.learned.decisions == 36
    assert words.learned.text.startswith("Classifier cells.safetensors: 36 decisions, ")
    more = with_classifier(file, "parasite, red cell")
    assert more.labels == (*WORDS, NONE_OF_THESE, "parasite")
    assert more.learned == words.learned


def test_a_file_is_not_replaced_unasked(tmp_path):
    classifier = trained()
    classifier.save(tmp_path / "cells")
    with pytest.raises(InputError, match="cells.safetensors exists"):
        classifier.save(tmp_path / "cells")
    classifier.save(tmp_path / "cells", overwrite=True)


def test_a_file_of_the_first_version_opens():
    classifier = Classifier.load(KEPT)
    assert classifier.classes == (*WORDS, NONE_OF_THESE)
    rows, labels, _ = decided(each=12, width=8)
    best = classifier.probabilities(rows[:-4]).argmax(1)
    assert np.mean([classifier.classes[one] for one in best] == np.array(labels[:-4])) > 0.8
    assert classifier.scores.over == "images"


def changed(file, arrays=None, **record):
    """Write the kept file with other values in its head."""
    from safetensors import safe_open

    with safe_open(KEPT, "numpy") as kept:
        head = kept.metadata()
    values = json.loads(head["record"]) | record
    about = {**head, **{key: record[key] for key in ("version", "format") if key in record}}
    save_file(arrays or load_file(KEPT), file, about | {"record": json.dumps(values)})


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"version": "2"}, "newer version"),
        ({"format": "other"}, "holds no classifier"),
        ({"words": []}, "words"),
        ({"words": ["red cell"]}, "damaged: texts does not fit its 2 classes"),
        ({"scale": "x"}, "scale"),
        ({"scale": 0}, "scale"),
        ({"temperature": 0}, "temperature"),
        ({"words": 5}, "words"),
        ({"scores": "x"}, "scores"),
        ({"counts": [1]}, "counts"),
        ({"features": ["area", "height", "width", "fill"]}, "damaged: learned does not fit"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(tmp_path, record, problem):
    file = tmp_path / "cells.safetensors"
    changed(file, **record)
    with pytest.raises(InputError, match=rf"cells\.safetensors.*{problem}"):
        Classifier.load(file)
    with suppress(InputError):  # as a list of words, what it reads only has to be right
        vocabulary_of(str(file))


def test_damaged_files_are_refused(tmp_path):
    file = tmp_path / "cells.safetensors"
    file.write_bytes(KEPT.read_bytes()[:500])
    with pytest.raises(InputError, match="damaged or no classifier"):
        Classifier.load(file)
    arrays = load_file(KEPT)
    changed(file, {**arrays, "learned": arrays["learned"] * np.nan})
    with pytest.raises(InputError, match="damaged: learned does not fit"):
        Classifier.load(file)
    for texts in (np.tile(arrays["texts"], 2), np.zeros(()), arrays["texts"][..., None]):
        changed(file, {**arrays, "texts": texts.copy()})
        with pytest.raises(InputError, match="damaged: (texts|centre) does not fit"):
            Classifier.load(file)
    for load in (Classifier.load, with_classifier):
        with pytest.raises(InputError, match=r"There is no classifier at .*gone\.safetensors"):
            load(tmp_path / "gone.safetensors")


if __name__ == "__main__":  # writes KEPT
    trained().save(KEPT)
