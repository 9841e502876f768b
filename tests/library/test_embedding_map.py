"""Embeddings in two dimensions."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from napari_maskinversion.base.errors import Cancelled, InputError
from napari_maskinversion.base.progress import Tick, listening
from napari_maskinversion.library import embedding_map as module
from napari_maskinversion.library.embedding_map import embedding_map
from napari_maskinversion.results.spaces import Space, check_alike
from tests.library.made import bundle, vectors


def three_groups(each=20):
    """Directions around three others, and their groups."""
    groups = np.repeat(np.arange(3), each)
    noise = np.random.default_rng(1).normal(size=(3 * each, 16))
    return vectors(3)[groups] + 0.05 * noise, groups


def told_apart(points, groups):
    """Whether each point's nearest neighbour is of its group."""
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    np.fill_diagonal(distances, np.inf)
    return (groups[distances.argmin(1)] == groups).mean()


@pytest.mark.parametrize("way", ["pca", "tsne"])
def test_similar_embeddings_lie_together_and_twice_in_the_same_places(way):
    embeddings, groups = three_groups()
    made = embedding_map(embeddings, way)
    assert (made.way, made.note) == (way, "")
    assert told_apart(made.points, groups) == 1
    assert np.array_equal(embedding_map(embeddings, way).points, made.points)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 30), st.integers(1, 20))
def test_pca_keeps_as_much_of_the_differences_as_two_axes_can(seed, count, width):
    unit = vectors(count, seed, width)
    lengths = np.random.default_rng(seed).uniform(0.1, 9, (count, 1))
    points = embedding_map(lengths * unit).points  # directions count, not lengths
    spread = np.linalg.svd(unit.astype(float) - unit.mean(0), compute_uv=False)
    kept = np.zeros(2)
    kept[: min(2, len(spread))] = spread[:2]
    np.testing.assert_allclose(np.linalg.norm(points, axis=0), kept, atol=1e-4)
    # No axis is turned over by what does not matter: the farthest point has a positive coordinate.
    assert (points.max(0) >= -points.min(0) - 1e-5).all()


def test_what_cannot_be_mapped_is_left_out_or_refused():
    embeddings, groups = three_groups()
    embeddings[3], embeddings[7, 2] = 0, np.nan
    made = embedding_map(embeddings)
    assert np.isnan(made.points).all(1).nonzero()[0].tolist() == [3, 7]
    assert made.note == "2 of 60 embeddings are no vectors and are left out."
    keep = np.isfinite(made.points).all(1)
    assert told_apart(made.points[keep], groups[keep]) == 1
    assert embedding_map(np.eye(1, 5)).points.tolist() == [[0, 0]]
    same = embedding_map(np.ones((9, 4)), "tsne")
    assert (same.way, same.points.any()) == ("pca", False)
    assert "All embeddings are the same" in same.note
    assert "PCA is shown instead" in same.note
    for nothing in (np.zeros((0, 4)), np.zeros((3, 4)), np.full((2, 4), np.inf)):
        with pytest.raises(InputError):
            embedding_map(nothing)


def test_without_opentsne_a_line_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    embeddings, _ = three_groups()
    made = embedding_map(embeddings, "tsne")
    assert made.way == "pca"
    assert 'pip install "napari-maskinversion[map]"' in made.note
    assert np.array_equal(made.points, embedding_map(embeddings).points)


def test_tsne_tells_its_steps_and_stops_where_it_has_to():
    embeddings, _ = three_groups()
    steps = []

    def hear(news, last=None):
        if isinstance(news, Tick):
            steps.append((news.done, news.total))
            if news.done == last:
                raise Cancelled("Stopped.")

    with listening(partial(hear, last=None)):
        embedding_map(embeddings, "tsne")
    assert steps == [(done, 750) for done in range(10, 751, 10)]
    steps.clear()
    with listening(partial(hear, last=300)), pytest.raises(Cancelled):
        embedding_map(embeddings, "tsne")
    assert steps[-1] == (300, 750)


def test_spaces_never_mix():
    alike = [Space.of(made.results) for made in (bundle(3), bundle(4, seed=1))]
    check_alike(alike)
    with pytest.raises(InputError, match=r"different settings \(other weights of "):
        check_alike([*alike, Space.of(bundle(3, fingerprint="other model").results)])
