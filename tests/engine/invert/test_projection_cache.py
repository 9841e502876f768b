"""What is kept with an image to make later masks cheap, and when it goes."""

import numpy as np
import pytest
import torch

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.engine.explain.projections import DecomposedRoute
from napari_maskinversion.engine.invert import map_builder
from napari_maskinversion.engine.invert.projection_cache import ProjectionCache
from tests.engine.towers import assert_same_embeddings, image, inverter, masks, tower

SIDE = 224
MIB = 2**20
MANY = 20  # so many masks that a decomposition pays


def engine(memory_mb):
    made = inverter(tower(image_size=SIDE, layers=3), memory_mb=memory_mb)
    made.set_image_tensor(image(SIDE, SIDE))
    return made


def invert(made, **settings):
    return made.invert(masks(MANY, SIDE, SIDE), InversionConfig(**{"steps": 6, **settings}))


@pytest.fixture
def built(monkeypatch):
    """Count the decompositions that are made."""
    calls, build = [], map_builder.decompose
    monkeypatch.setattr(
        map_builder,
        "decompose",
        lambda layer, rows: calls.append(len(layer.slope)) or build(layer, rows),
    )
    return calls


def test_what_is_kept_serves_later_masks_and_stays_within_half_of_the_memory(built):
    made = engine(64)
    assert made.kept_bytes == 0
    first = invert(made)
    one = made.kept_bytes
    assert one == 24 * 197 * 32 * 4
    again = invert(made)
    np.testing.assert_array_equal(first.raw_embeddings, again.raw_embeddings)
    assert built == [197]
    # Other layers have theirs beside it.
    invert(made, layers=3)
    assert one < made.kept_bytes <= 32 * MIB


def test_a_finer_one_in_the_place_of_a_coarser_one_stays_within_the_memory_too():
    coarse, other, fine = (DecomposedRoute(torch.empty(rows, 2, 3)) for rows in (2, 5, 4))
    kept = ProjectionCache(other.nbytes + coarse.nbytes)
    kept.use("one", coarse)
    kept.use("other", other)
    kept.begin()
    kept.use("one", fine)
    assert kept.get("one") is fine
    assert kept.get("other") is None
    assert kept.nbytes == fine.nbytes


def test_under_pressure_the_one_used_longest_ago_goes(built):
    made = engine(2)  # half of it holds one decomposition, not two
    invert(made)
    kept = made.kept_bytes
    # The last layer but one takes the place of the last one, and the other way round.
    invert(made, layers=2)
    assert (len(built), made.kept_bytes) == (2, kept)
    for _ in range(2):
        invert(made)
        assert (len(built), made.kept_bytes) == (3, kept)
    assert kept <= MIB < 2 * kept


def test_without_memory_nothing_is_kept_and_nothing_changes():
    made = engine(0)
    result = invert(made, steps=10)
    assert made.kept_bytes == 0
    expected = invert(engine(64), steps=10)
    assert_same_embeddings(result.raw_embeddings, expected.raw_embeddings)


def test_another_image_releases_what_was_kept_for_the_last_one():
    made = engine(64)
    invert(made)
    assert made.kept_bytes > 0
    made.set_image_tensor(image(SIDE, SIDE, seed=9))
    assert made.kept_bytes == 0
    result = invert(made)
    alone = inverter(tower(image_size=SIDE, layers=3))
    alone.set_image_tensor(image(SIDE, SIDE, seed=9))
    assert_same_embeddings(result.raw_embeddings, invert(alone).raw_embeddings)


def test_release_lets_go_of_the_image_as_well():
    made = engine(64)
    invert(made)
    made.release()
    assert made.kept_bytes == 0
    with pytest.raises(InputError, match="No image is set"):
        invert(made)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    ],
    ids=["python", "device", "processor"],
)
def test_memory_that_cannot_be_had_costs_time_not_the_run(monkeypatch, error):
    expected = invert(engine(64), steps=10)

    def build(*_):
        raise error
        yield

    monkeypatch.setattr(map_builder, "decompose", build)
    made = engine(64)
    result = made.invert(masks(MANY, SIDE, SIDE), InversionConfig())
    assert made.kept_bytes == 0
    assert_same_embeddings(result.raw_embeddings, expected.raw_embeddings)
    monkeypatch.setattr(map_builder, "is_out_of_memory", lambda _: False)
    with pytest.raises(type(error)):
        made.invert(masks(MANY, SIDE, SIDE), InversionConfig())
