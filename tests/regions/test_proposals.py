"""Proposals: the parts of a plane, from superpixels to all of it."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from napari_maskinversion.base.progress import listening
from napari_maskinversion.regions import proposals
from napari_maskinversion.regions.proposals import (
    MERGES,
    SUPERPIXELS,
    colours,
    merge,
    superpixels,
)


def picture(seed, height=48, width=56):
    """Discs of random colours on a plain ground, with some noise."""
    rng = np.random.default_rng(seed)
    image = np.ones((height, width, 3)) * rng.random(3)
    y, x = np.ogrid[:height, :width]
    for _ in range(3):
        cy, cx, radius = rng.integers(8, height - 8), rng.integers(8, width - 8), rng.integers(4, 9)
        image[(y - cy) ** 2 + (x - cx) ** 2 <= radius**2] = rng.random(3)
    return np.clip(image + rng.normal(0, 0.01, image.shape), 0, 1)


def tree_of(image, embeddings=None):
    parts, _ = superpixels(image)
    return merge(parts, colours(image, parts), embeddings)


@given(st.integers(0, 10_000), st.data())
@settings(max_examples=25, deadline=None)
def test_each_level_covers_the_plane_with_disjoint_parts_and_refines_the_next(seed, data):
    tree = tree_of(picture(seed))
    leaves = len(tree.merges) + 1
    count = data.draw(st.integers(1, leaves))
    fine, coarse = tree.level(count), tree.level(max(1, count - 1))
    assert fine.shape == tree.superpixels.shape
    assert np.array_equal(np.unique(fine), np.arange(count))
    pairs = set(zip(fine.ravel().tolist(), coarse.ravel().tolist(), strict=True))
    assert len(pairs) == count  # each part lies in one of the next level
    again = tree_of(picture(seed))
    assert np.array_equal(tree.merges, again.merges)
    assert np.array_equal(tree.level(count), again.level(count))


@given(st.integers(0, 10_000))
@settings(max_examples=10, deadline=None)
def test_proposals_are_parts_of_the_tree_nested_or_disjoint(seed):
    tree = tree_of(picture(seed))
    regions = [region for region, _ in tree.proposals(20)]
    parts = {row.tobytes() for row in tree.members()}
    masks = []
    for region in regions:
        y0, x0, y1, x1 = region.bbox
        mask = np.zeros(tree.superpixels.shape, bool)
        mask[y0:y1, x0:x1] = region.mask
        masks.append(mask)
        inside = np.isin(np.arange(len(tree.merges) + 1), tree.superpixels[mask])
        assert inside.tobytes() in parts
    for one in masks:
        for other in masks:
            shared = (one & other).sum()
            assert shared in (0, one.sum(), other.sum())


def test_a_disc_on_plain_ground_is_the_first_proposal_and_stands_out():
    image = np.full((60, 60, 3), 0.9)
    y, x = np.ogrid[:60, :60]
    disc = (y - 25) ** 2 + (x - 30) ** 2 <= 100
    image[disc] = (0.8, 0.1, 0.1)
    (region, stands_out), *_ = tree_of(image).proposals(5)
    y0, x0, y1, x1 = region.bbox
    shared = (region.mask & disc[y0:y1, x0:x1]).sum()
    assert shared / (region.area + disc.sum() - shared) > 0.9
    assert stands_out > 0


def test_what_the_model_sees_decides_where_colours_do_not():
    parts = np.repeat(np.arange(4), 8)[None].repeat(16, 0)
    seen = np.array([[1.0, 0], [0, 1], [0, 1], [0, 1]])
    tree = merge(parts, np.full((4, 3), 0.5), seen)
    assert tree.level(2)[0].tolist() == [0] * 8 + [1] * 24


def test_a_plane_of_one_colour_has_no_proposals():
    assert tree_of(np.full((20, 20, 3), 0.4)).proposals(10) == []


def test_the_work_can_be_stopped_between_superpixels_and_merges():
    heard = []
    image = np.random.default_rng(0).random((120, 160, 3))
    with listening(heard.append):
        tree_of(image)
    stages = [news.stage for news in heard]
    assert stages.count(SUPERPIXELS) >= 1
    assert stages.count(MERGES) >= 2


def test_a_scale_of_a_like_image_gives_the_same_superpixels(monkeypatch):
    monkeypatch.setattr(proposals, "_MOST_SUPERPIXELS", 30)
    noisy = np.random.default_rng(0).random((60, 60, 3))
    parts, scale = superpixels(noisy)
    assert scale > proposals.FIRST_SCALE
    for start in (scale / 2, scale, 4 * scale):
        again, same = superpixels(noisy, start)
        assert same == scale
        assert np.array_equal(again, parts)
