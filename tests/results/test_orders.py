"""Orders by similarity, against plain numpy; `tests/review/test_queue.py` has those of a review."""

import numpy as np
from hypothesis import given, strategies
from hypothesis.extra.numpy import arrays

from napari_maskinversion.results.orders import most_similar


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


@strategies.composite
def cases(draw):
    """Clustered unit vectors as a file or memory has them, a query, and the rows that count."""
    count, width = draw(strategies.integers(1, 60)), draw(strategies.integers(2, 24))
    rng = np.random.default_rng(draw(strategies.integers(0, 2**32)))
    centres = rng.normal(size=(draw(strategies.integers(1, 4)), width))
    spread = draw(strategies.sampled_from([0, 1e-4, 0.01, 1]))
    rows = centres[rng.integers(len(centres), size=count)]
    precision = draw(strategies.sampled_from([np.float16, np.float32]))
    rows = unit(rows + spread * rng.normal(size=(count, width))).astype(precision)
    query = unit(rows[0].astype(np.float32) + spread * rng.normal(size=width))
    chosen = draw(strategies.none() | arrays(bool, count))
    parts = np.split(rows, sorted(draw(strategies.sets(strategies.integers(1, count), max_size=3))))
    return parts, query, None if chosen is None else np.flatnonzero(chosen)


@given(cases(), strategies.integers(1, 70))
def test_the_best_are_those_of_single_precision(case, top):
    parts, query, rows = case
    places, similarities = most_similar(parts, query, top, rows)
    vectors = np.concatenate(parts)
    counting = np.arange(len(vectors)) if rows is None else rows
    exact = vectors[counting].astype(np.float32) @ query
    best = np.sort(exact)[::-1][:top]
    assert len(set(places.tolist())) == len(places) == len(best)
    assert set(places.tolist()) <= set(counting.tolist())
    np.testing.assert_allclose(similarities, best, atol=1e-6)
    np.testing.assert_allclose(vectors[places].astype(np.float32) @ query, similarities, atol=1e-6)


def test_vectors_that_only_single_precision_tells_apart_are_told_apart():
    rng = np.random.default_rng(0)
    centre = rng.normal(size=64)
    rows = unit(centre + 2 * rng.normal(size=(20_000, 64))).astype(np.float16)
    query = unit(centre + 2 * rng.normal(size=64))
    exact = rows.astype(np.float32) @ query
    order = np.argsort(-exact)
    for top in range(1, 2000, 5):
        places, _ = most_similar([rows], query, top)
        assert exact[places].min() >= exact[order[top - 1]] - 1e-7
