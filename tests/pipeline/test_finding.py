"""Finding in an image without regions, on the bundled model."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from napari_maskinversion import export, find_regions, load_model
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.progress import listening
from napari_maskinversion.base.regions import Region
from napari_maskinversion.images.channels import as_source
from napari_maskinversion.images.sample_scenes import load_scene
from napari_maskinversion.language.ranking.query import embed_expression
from napari_maskinversion.pipeline import finding
from napari_maskinversion.pipeline.finding import named, propose, words_of
from napari_maskinversion.results.settings import RunSettings


@pytest.fixture(scope="module")
def model():
    return load_model("demo")


@pytest.fixture(scope="module")
def scene():
    """The frog of the sample scene, what is around it, and its mask."""
    whole = load_scene("everyday-1")
    mask = whole.regions == next(n for n, word in whole.truth.items() if word == "frog")
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    cut = (
        slice(max(0, rows[0] - 20), rows[-1] + 20),
        slice(max(0, columns[0] - 20), columns[-1] + 20),
    )
    return whole.image[cut][::2, ::2], mask[cut][::2, ::2]


@pytest.fixture(scope="module", autouse=True)
def few():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finding, "_MOST", 24)
        yield


@pytest.fixture(scope="module")
def candidates(model, scene):
    return propose(model, as_source(scene[0]), RunSettings())


def overlap(region, mask):
    y0, x0, y1, x1 = region.bbox
    shared = (region.mask & mask[y0:y1, x0:x1]).sum()
    return shared / (region.area + mask.sum() - shared)


def test_a_word_finds_an_object_that_nobody_drew(model, scene, candidates):
    hits = candidates.search(model, embed_expression(model, "frog"))
    found = candidates.found(hits, 0.2)
    assert overlap(found.regions[0], scene[1]) > 0.5
    assert found.regions.ids == list(range(1, len(found.regions) + 1)) == found.results.ids
    assert np.array_equal(found.similarities, np.sort(found.similarities)[::-1])
    assert found.similarities.min() >= 0.2
    assert "No SAM checkpoint" in found.how
    # Another threshold needs no work; no two hits are mostly the same pixels.
    everything = candidates.found(hits, -1.0).regions
    assert len(everything) > len(found.regions)
    assert not any(
        finding._covers(one, other)
        for one in everything
        for other in everything
        if one is not other
    )
    assert not len(candidates.found(hits, 1.0).regions)
    # Each of several words is known or not.
    for query, unknown in (("frog, apple, not xyzzy", False), ("frog, xyzzy", True)):
        best = named(found, model, words_of(query, ("{}",), 0.2), query).results.regions[0]
        assert best.ranking.word_unknown == unknown


def test_another_word_embeds_only_proposals_that_are_new(model, candidates, monkeypatch):
    candidates.search(model, embed_expression(model, "frog"))
    monkeypatch.setattr(finding, "run_planes", None)  # would be called
    candidates.search(model, embed_expression(model, "frog"))


def test_an_example_finds_what_is_like_it_by_mask_or_embedding(model, scene, tmp_path):
    image, mask = scene
    found = find_regions(image, mask, model=model, steps=3)
    assert overlap(found.regions[0], mask) > 0.5
    (file,) = export(found.results, tmp_path / "all.geojson", "geojson", regions=found.regions)
    assert file.stat().st_size
    again = find_regions(image, found.results.embeddings[0], model=model, steps=3)
    assert again.similarities[0] == pytest.approx(1, abs=1e-4)
    with pytest.raises(InputError, match="has 128 numbers; got 5"):
        find_regions(image, np.ones(5), model=model)


def test_of_many_proposals_those_are_compared_that_stand_out(model, scene, monkeypatch):
    monkeypatch.setattr(finding, "_TILE", 100)
    monkeypatch.setattr(finding, "_OVERLAP", 10)
    for name, most in (("_MOST", 4), ("_ALTOGETHER", 6), ("_INVERTED", 1)):
        monkeypatch.setattr(finding, name, most)
    said = []
    with listening(said.append):
        candidates = propose(model, as_source(scene[0]), RunSettings())
    assert len(candidates.crops) == 6
    assert "the 6 that stand out most were compared." in candidates.how
    assert said[0].note.startswith("Regions are proposed in ")
    assert "; the 6 that stand out most" in said[0].note
    candidates.search(model, embed_expression(model, "frog"))
    assert len(candidates.embedded) == 1


def test_a_line_says_what_sam_proposed_and_in_what(model, scene):
    class Sam:
        name, words, side, device = "vit_b", "", 32, torch.device("cpu")
        found = ()

        def segment_everything(self, source, config):
            return self.found

    with pytest.raises(InputError, match=r"^vit_b proposed no regions\.$"):
        propose(model, as_source(scene[0]), RunSettings(), Sam())
    Sam.found = [SimpleNamespace(region=lambda: Region.from_mask(1, scene[1]))]
    how = propose(model, as_source(scene[0]), RunSettings(), Sam()).how
    assert how == "vit_b proposed 1 regions (whole image, reduced to 32 px)."
    Sam.side = 1024
    assert propose(model, as_source(scene[0]), RunSettings(), Sam()).how == (
        "vit_b proposed 1 regions."
    )
    # Its masks are objects: all are embedded by the run's method, not a third.
    squares = [(slice(y, y + 20), slice(x, x + 20)) for y in (0, 40) for x in (0, 40)]
    masks = [np.zeros_like(scene[1]) for _ in squares]
    for mask, square in zip(masks, squares, strict=True):
        mask[square] = True
    Sam.found = [SimpleNamespace(region=partial(Region.from_mask, 1, mask)) for mask in masks]
    few = RunSettings().changed({"inversion.steps": 1})
    candidates = propose(model, as_source(scene[0]), few, Sam())
    assert len(candidates.search(model, embed_expression(model, "frog"))) == 4
    assert len(candidates.embedded) == 4


def test_an_image_of_one_colour_has_nothing_to_find(model):
    with pytest.raises(InputError, match="nothing to see"):
        find_regions(np.full((64, 64, 3), 9, np.uint8), "a frog", model=model)


def test_a_search_stops_where_the_listener_raises(model, scene):
    said = []

    def listener(news):
        said.append(news.text)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        find_regions(scene[0], "frog", model=model, on_progress=listener)
    assert said == ["Proposals, part 0 of 1"]


@given(st.tuples(st.integers(1, 9000), st.integers(1, 9000)))
@settings(deadline=None)
def test_parts_cover_a_plane_of_any_size_at_each_scale(shape):
    by_scale = {}
    for box, reduce in finding._parts(shape):
        by_scale.setdefault(reduce, []).append(box)
        assert max(box[2] - box[0], box[3] - box[1]) <= 1024 * reduce
    for boxes in by_scale.values():
        seen = np.zeros([-(-side // 32) for side in shape], bool)
        for y0, x0, y1, x1 in boxes:
            assert y0 < y1
            assert x0 < x1
            seen[y0 // 32 : -(-y1 // 32), x0 // 32 : -(-x1 // 32)] = True
        assert seen.all()
    assert len(by_scale[max(by_scale)]) == 1  # the coarsest sees the whole plane


@given(st.integers(1, 4), st.tuples(st.integers(5, 40), st.integers(5, 40)))
@settings(deadline=None, max_examples=30)
def test_a_reduced_region_lies_where_its_pixels_are(reduce, shape):
    height, width = (-(-side // reduce) for side in shape)
    mask = np.zeros((height, width), bool)
    mask[height // 2 :, width // 2 :] = True
    region = finding.Region.from_mask(1, mask)
    placed = finding._placed(region, (0, 0), reduce, shape)
    assert placed.bbox[2:] == shape
    assert placed.bbox[:2] == (height // 2 * reduce, width // 2 * reduce)
    assert placed.mask.all()


def test_a_large_plane_is_seen_reduced_and_a_line_says_so(model, scene, monkeypatch):
    for name, value in (("_TILE", 100), ("_OVERLAP", 10), ("_MOST_PARTS", 4), ("_MOST", 4)):
        monkeypatch.setattr(finding, name, value)
    said = []
    with listening(said.append):
        large = np.tile(scene[0], (4, 4, 1))[:448, :448]
        candidates = propose(model, as_source(large), RunSettings())
    # A quarter of the pixels of each side: four parts, and one of the whole.
    assert said[0].note.startswith("Regions are proposed in 5 parts of the image, at 1/4 of its")
    assert "at 1/4 of its resolution: for smaller ones cut the image." in candidates.how
    assert all(region.area >= 16 for region in candidates.task.regions)
