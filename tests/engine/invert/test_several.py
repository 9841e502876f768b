"""Several images in one inversion: the same answers as one image after the other."""

import numpy as np
import pytest
import torch

from napari_maskinversion import InversionConfig, MaskInverter, wrap_open_clip
from napari_maskinversion.engine.invert.several import ImageBatch, masks_at_once
from tests.engine.tiny import tiny_clip
from tests.scenes import demo_model, picture, regions

SIZES = [(60, 80), (64, 84), (60, 80), (61, 80)]  # one size of the input
COUNTS = [2, 3, 1, 1]


@pytest.fixture(scope="module")
def images():
    return [picture(*size, seed) for seed, size in enumerate(SIZES)]


def masks(first=0):
    pairs = list(zip(COUNTS, SIZES, strict=True))[first:]
    return [regions(count, height=size[0], width=size[1]) for count, size in pairs]


def batch(images, config):
    model = demo_model()
    tensors = torch.cat([model.preprocess(image) for image in images])
    return ImageBatch(model, tensors, SIZES, config, 1 << 30)


@pytest.mark.parametrize(
    "settings",
    [{}, {"alpha": 5.0, "layers": 2, "keep_last_step_heatmaps": True}],
    ids=["one layer", "two layers, regularised"],
)
def test_every_mask_is_inverted_on_its_own_image(images, settings):
    config = InversionConfig(steps=4, **settings)
    together = batch(images, config)
    results = together.invert(masks())
    for place, (image, chosen, result) in enumerate(zip(images, masks(), results, strict=True)):
        inverter = MaskInverter(demo_model())
        inverter.set_image(image)
        alone = inverter.invert(chosen, config)
        # Products of several images round otherwise, and four steps enlarge that: 1.4e-5 on an AMD.
        np.testing.assert_allclose(result.embeddings, alone.embeddings, atol=1e-4)
        np.testing.assert_allclose(result.losses, alone.losses, atol=1e-4)
        scale = alone.grid_maps.max()
        np.testing.assert_allclose(result.grid_maps, alone.grid_maps, atol=1e-4 * scale)
        np.testing.assert_allclose(result.mask_ious, alone.mask_ious, atol=0.01)
        np.testing.assert_array_equal(result.low_resolution, alone.low_resolution)
        sizes = (alone.mask_size, alone.input_size, alone.route)
        assert (result.mask_size, result.input_size, result.route) == sizes
        assert (result.last_step_grid_maps is None) == (alone.last_step_grid_maps is None)
        np.testing.assert_allclose(
            together.embeddings[place], inverter.image_embedding, rtol=1e-4, atol=1e-5
        )


def test_in_half_precision_every_image_has_a_scale_of_its_own(images):
    """As large as its own values ask for: those of a flat image are larger than others."""
    model = demo_model()
    pictures = [images[0], images[2] // 16 + 100, np.full_like(images[0], 77)]
    tensors = torch.cat([model.preprocess(image) for image in pictures])
    chosen = [regions(2, height=60, width=80)] * 3
    exact, half = (
        ImageBatch(model, tensors, [(60, 80)] * 3, config, 1 << 30).invert(chosen)
        for precision in ("float32", "bfloat16")
        for config in [InversionConfig(steps=3, layers=3, alpha=2.0).changed(precision=precision)]
    )
    for one, other in zip(half, exact, strict=True):
        assert one.grid_maps.max() == pytest.approx(other.grid_maps.max(), rel=0.2)
        assert (one.embeddings * other.embeddings).sum(1).min() > 0.98


def test_images_may_be_inverted_a_few_at_a_time(images):
    config = InversionConfig(steps=2)
    together = batch(images, config)
    whole, rest = together.invert(masks()), together.invert(masks(2), first=2)
    for one, other in zip(whole[2:], rest, strict=True):
        np.testing.assert_allclose(one.embeddings, other.embeddings, atol=1e-6)


def test_a_mean_pooled_tower_of_the_other_activation_can_be_batched_too():
    model = wrap_open_clip(tiny_clip(pool_type="avg", quick_gelu=True))
    side = 4 * model.patch_size
    images = [picture(side, side, seed) for seed in range(3)]
    chosen = [regions(1, height=side, width=side)] * 3
    tensors = torch.cat([model.preprocess(image, resolution=side) for image in images])
    config = InversionConfig(steps=3)
    together = ImageBatch(model, tensors, [(side, side)] * 3, config, 1 << 30).invert(chosen)
    for image, result in zip(images, together, strict=True):
        inverter = MaskInverter(model)
        inverter.set_image(image, resolution=side)
        alone = inverter.invert(chosen[0], config)
        np.testing.assert_allclose(result.embeddings, alone.embeddings, atol=1e-4)


@pytest.mark.parametrize(
    "settings", [{"fast": True}, {"explainer": "gradcam"}, {"route": "decomposed"}]
)
def test_what_needs_an_image_of_its_own_gets_one(settings):
    assert masks_at_once(demo_model(), InversionConfig(**settings), 128, 2**40) == 1


def test_the_memory_decides_how_many():
    few, many = (masks_at_once(demo_model(), InversionConfig(), 128, n * 2**20) for n in (64, 512))
    assert 1 < few < many
    assert masks_at_once(demo_model(), InversionConfig(), 128, 0) == 1
