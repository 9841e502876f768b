"""Text embeddings of a vocabulary, and their cache."""

import numpy as np
import pytest

from napari_maskinversion.retrieval.text import embed_vocabulary
from napari_maskinversion.retrieval.vocabulary import Vocabulary
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
    found = embed_vocabulary(model, WORDS, cache=False)
    parts = model.encode_text(["a car.", "a photo of a car."])
    mean = parts.mean(0)
    np.testing.assert_allclose(found[1], mean / np.linalg.norm(mean), atol=1e-6)
    assert found.dtype == np.float32


def test_the_disk_answers_the_second_time_and_only_for_the_same_question(model, asked):
    first = embed_vocabulary(model, WORDS)
    count = len(asked)
    np.testing.assert_array_equal(embed_vocabulary(model, WORDS), first)
    assert len(asked) == count
    embed_vocabulary(model, Vocabulary(("apple", "bus"), WORDS.templates))
    assert len(asked) == 2 * count


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 no zip", b"\x93NUMPY"])
def test_a_broken_cache_file_is_made_again(model, asked, own_cache_folder, damage):
    first = embed_vocabulary(model, WORDS)
    (file,) = own_cache_folder.rglob("*.npz")
    file.write_bytes(damage)
    np.testing.assert_array_equal(embed_vocabulary(model, WORDS), first)
    with np.load(file) as kept:
        np.testing.assert_array_equal(kept["embeddings"], first)


def test_a_cache_that_cannot_be_written_does_not_matter(model, monkeypatch, tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("not a folder")
    monkeypatch.setenv("NAPARI_MASKINVERSION_CACHE", str(blocker))
    assert embed_vocabulary(model, WORDS).shape == (2, model.embed_dim)
