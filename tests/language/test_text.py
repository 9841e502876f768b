"""Text embeddings of a vocabulary, and their cache."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from napari_maskinversion.base.progress import Tick, listening
from napari_maskinversion.language.labels.vocabulary import TEMPLATES, Vocabulary
from napari_maskinversion.language.text import embed_vocabulary
from tests.listeners import collect
from tests.scenes import demo_model


@pytest.fixture
def model():
    return demo_model()


@pytest.fixture
def asked(model, monkeypatch):
    """Count the sentences the model is asked for."""
    calls = []
    encode = model.encode_text
    monkeypatch.setattr(model, "encode_text", lambda texts: calls.extend(texts) or encode(texts))
    return calls


WORDS = Vocabulary(("apple", "car"), ("a {}.", "a photo of a {}."))


def test_a_label_is_the_unit_mean_over_its_prompts(model):
    embeddings = embed_vocabulary(model, WORDS)
    parts = model.encode_text(["a car.", "a photo of a car."])
    mean = parts.mean(0)
    np.testing.assert_allclose(embeddings[1], mean / np.linalg.norm(mean), atol=1e-6)
    assert embeddings.dtype == np.float32


def test_the_disk_answers_the_second_time_and_each_label_for_itself(model, asked):
    first = embed_vocabulary(model, WORDS)
    assert len(asked) == 4
    np.testing.assert_array_equal(embed_vocabulary(model, WORDS), first)
    assert len(asked) == 4
    # With a known word in any order, only the new ones are embedded.
    more = embed_vocabulary(model, Vocabulary(("bus", "apple"), WORDS.templates))
    assert asked[4:] == ["a bus.", "a photo of a bus."]
    np.testing.assert_array_equal(more[1], first[0])
    # The same words in other sentences are another question.
    embed_vocabulary(model, Vocabulary(WORDS.labels, ("{}", "a photo of a {}.")))
    assert len(asked) == 10


def test_another_model_is_not_answered_with_the_vectors_of_this_one(model, asked, monkeypatch):
    embed_vocabulary(model, WORDS)
    monkeypatch.setattr(type(model), "fingerprint", "another")
    embed_vocabulary(model, WORDS)
    assert len(asked) == 8


@pytest.mark.parametrize("damage", [b"PK\x03\x04 no database" * 99, b"SQLite format 3\0" * 99])
def test_a_broken_cache_file_is_made_again(model, asked, own_cache_folder, damage):
    first = embed_vocabulary(model, WORDS)
    (file,) = own_cache_folder.rglob("*.sqlite")
    file.write_bytes(damage)
    for _ in range(2):
        np.testing.assert_array_equal(embed_vocabulary(model, WORDS), first)
    count = len(asked)
    np.testing.assert_array_equal(embed_vocabulary(model, WORDS), first)
    assert len(asked) == count


def test_invalid_vectors_are_made_again(model, own_cache_folder):
    first = embed_vocabulary(model, WORDS)
    (file,) = own_cache_folder.rglob("*.sqlite")
    for damage in (b"short", np.full(model.embed_dim, np.nan, "f4").tobytes(), "text", None):
        with closing(sqlite3.connect(file)) as database, database:
            database.execute("UPDATE OR IGNORE embeddings SET vector = ?", (damage,))
        np.testing.assert_array_equal(embed_vocabulary(model, WORDS), first)


def test_a_cache_that_cannot_be_written_does_not_matter(model, monkeypatch, tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("not a folder")
    monkeypatch.setenv("NAPARI_MASKINVERSION_CACHE", str(blocker))
    assert embed_vocabulary(model, WORDS).shape == (2, model.embed_dim)


MANY = Vocabulary(tuple(f"thing {number}" for number in range(100)), TEMPLATES["ensemble"])


def test_progress_counts_labels_from_nothing_to_all(model):
    seen, _ = collect(lambda: embed_vocabulary(model, MANY))
    done = [news.done for news in seen]
    assert (done[0], done[-1]) == (0, 100)
    assert done == sorted(set(done))
    assert {news.total for news in seen} == {100}
    # Often enough for Cancel, and nothing to report where all is known.
    assert max(np.diff(done)) * len(MANY.templates) <= 64
    assert collect(lambda: embed_vocabulary(model, MANY))[0] == []


def test_what_was_embedded_before_a_stop_is_kept(model, asked, monkeypatch, tmp_path):
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("NAPARI_MASKINVERSION_CACHE", str(tmp_path))
        expected = embed_vocabulary(model, MANY)
    asked.clear()

    def stop(news):
        if news.done >= 40:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), listening(stop):
        embed_vocabulary(model, MANY)
    first = len(asked)
    assert first < 50 * 7
    seen, embeddings = collect(lambda: embed_vocabulary(model, MANY))
    np.testing.assert_allclose(embeddings, expected, atol=1e-6)
    assert len(asked) == 700
    assert seen[0] == Tick("Labels", first // 7, 100)


def test_every_synonym_is_embedded_and_kept_for_itself(model, asked):
    words = Vocabulary.parse("apple | red fruit, car", WORDS.templates)
    embeddings = embed_vocabulary(model, words)
    assert embeddings.shape == (3, model.embed_dim)
    assert len(asked) == 6
    # The same words as labels of their own are known now.
    alone = Vocabulary(("car", "red fruit", "apple"), WORDS.templates)
    np.testing.assert_array_equal(embed_vocabulary(model, alone), embeddings[::-1])
    assert len(asked) == 6
