"""What is kept with an image to make later masks cheap, and when it goes."""

import weakref

import numpy as np
import pytest
import torch

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.engine.compute import trial
from napari_maskinversion.engine.invert import map_builder
from tests.engine.towers import assert_same_embeddings, image, inverter, masks, tower

SIDE = 224
MANY = 40  # so many masks that a decomposition pays


def engine(memory_mb=64):
    made = inverter(tower(image_size=SIDE, layers=3), memory_mb=memory_mb)
    made.set_image_tensor(image(SIDE, SIDE))
    return made


def invert(made, count=MANY, **settings):
    return made.invert(masks(count, SIDE, SIDE), InversionConfig(**{"steps": 6, **settings}))


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


@pytest.fixture
def kept(monkeypatch):
    """The decompositions that are still in memory."""
    routes, build = weakref.WeakSet(), map_builder.decompose

    def noting(layer, rows):
        route = build(layer, rows)
        routes.add(route)
        return route

    monkeypatch.setattr(map_builder, "decompose", noting)
    return routes


def test_a_decomposition_serves_later_masks(built):
    made = engine()
    first = invert(made)
    again = invert(made)
    np.testing.assert_array_equal(first.raw_embeddings, again.raw_embeddings)
    assert built == [197]
    invert(made, layers=3)  # encodes the image again
    assert built == [197] * 4


def test_without_memory_nothing_is_kept_and_nothing_changes(built):
    made = engine(0)
    result = invert(made, steps=10)
    assert not built
    expected = invert(engine(64), steps=10)
    assert_same_embeddings(result.raw_embeddings, expected.raw_embeddings)


def test_another_image_releases_what_was_kept_for_the_last_one(kept):
    made = engine(64)
    invert(made)
    assert len(kept) == 1
    made.set_image_tensor(image(SIDE, SIDE, seed=9))
    assert not kept
    result = invert(made)
    alone = inverter(tower(image_size=SIDE, layers=3), memory_mb=64)
    alone.set_image_tensor(image(SIDE, SIDE, seed=9))
    np.testing.assert_array_equal(result.raw_embeddings, invert(alone).raw_embeddings)


def test_release_frees_the_image_too(kept):
    made = engine(64)
    invert(made)
    assert kept
    made.release()
    assert not kept
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

    monkeypatch.setattr(map_builder, "decompose", build)
    made = engine(64)
    result = made.invert(masks(MANY, SIDE, SIDE), InversionConfig())
    assert_same_embeddings(result.raw_embeddings, expected.raw_embeddings)
    monkeypatch.setattr(trial, "is_out_of_memory", lambda _: False)
    with pytest.raises(type(error)):
        made.invert(masks(MANY, SIDE, SIDE), InversionConfig())
