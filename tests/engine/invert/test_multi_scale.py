"""MaskInversion at several sizes of the input: the mean of what each size finds."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some
from torch.nn.functional import interpolate

from napari_maskinversion import InversionConfig, MaskInverter, wrap_open_clip
from napari_maskinversion.base.errors import ConfigError, InputError, MaskShapeError
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.base.steps import Steps, drive
from napari_maskinversion.engine.invert import map_builder
from napari_maskinversion.engine.invert.multi_scale import MultiScaleInverter
from napari_maskinversion.engine.settings import SCALES, input_sides
from napari_maskinversion.images.sample_scenes import load_scene
from tests.engine.tiny import tiny_siglip
from tests.scenes import demo_model, picture, regions

SIDES = (128, 96, 160)
CONFIG = InversionConfig(steps=3, alpha=2.0)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def at(side, config=CONFIG):
    inverter = MaskInverter(demo_model())
    inverter.set_image(picture(), resolution=side)
    return inverter, inverter.invert(regions(3), config)


@pytest.fixture
def several():
    inverter = MultiScaleInverter(demo_model())
    inverter.set_image(picture())
    return inverter


def test_embeddings_are_the_mean_of_those_of_each_size_as_long_as_at_the_usual_one(several):
    result = drive(several.invert_steps(regions(3), CONFIG))
    parts = [at(side)[1] for side in SIDES]
    mean = unit(np.mean([part.embeddings for part in parts], axis=0))
    np.testing.assert_allclose(result.embeddings, mean, atol=1e-5)
    lengths = np.linalg.norm(parts[0].raw_embeddings, axis=1)
    np.testing.assert_allclose(np.linalg.norm(result.raw_embeddings, axis=1), lengths, rtol=1e-5)
    # They differ from those of any one size by more than rounding.
    assert all((part.embeddings * result.embeddings).sum(1).max() < 0.9999 for part in parts)


def stretched(maps):
    low, high = (find(maps, axis=(1, 2), keepdims=True) for find in (np.min, np.max))
    return (maps - low) / (high - low)


def test_maps_are_the_mean_of_those_of_each_size_in_the_range_of_the_usual_one(several):
    result = drive(several.invert_steps(regions(3), CONFIG))
    parts = []
    for side in SIDES:
        maps = torch.from_numpy(at(side)[0].explain(result.raw_embeddings))[:, None]
        size = result.grid_maps.shape[1:]
        parts.append(interpolate(maps, size, mode="bilinear", antialias=True)[:, 0].numpy())
    mean = np.mean([stretched(part) for part in parts], axis=0)
    np.testing.assert_allclose(stretched(result.grid_maps), stretched(mean), atol=1e-4)
    assert (result.grid_maps <= parts[0].max((1, 2), keepdims=True) * (1 + 1e-5)).all()
    assert (result.grid_maps >= 0).all()
    np.testing.assert_allclose(several.explain(result.raw_embeddings), result.grid_maps)


def test_in_a_sample_scene_the_mean_map_fits_better_than_that_of_one_size():
    scene = load_scene("everyday-1")
    one, several = MaskInverter(demo_model()), MultiScaleInverter(demo_model())
    overlaps = []
    for inverter in (one, several):
        inverter.set_image(scene.image)
        overlaps.append(
            drive(inverter.invert_steps(Regions.from_labels(scene.regions))).mask_ious.mean()
        )
    assert overlaps[1] > overlaps[0] + 0.01  # 0.66 and 0.63


def test_losses_and_overlaps_are_those_of_the_result(several):
    config = replace(CONFIG, keep_last_step_heatmaps=True)
    result = drive(several.invert_steps(regions(3), config))
    inverter, usual = at(128, config)
    assert result.input_size == usual.input_size
    np.testing.assert_array_equal(result.low_resolution, usual.low_resolution)
    np.testing.assert_allclose(result.losses[:, :-1], usual.losses[:, :-1], rtol=1e-4)
    own = inverter.evaluate(regions(3), result.raw_embeddings, result.grid_maps, config)
    np.testing.assert_allclose(result.losses[:, -1:], own.losses, rtol=1e-4)
    np.testing.assert_allclose(result.mask_ious, own.mask_ious, atol=1e-5)
    np.testing.assert_allclose(result.last_step_heatmaps, usual.last_step_heatmaps, atol=1e-4)
    assert result.route == f"{usual.route}, 3 sizes"


@pytest.mark.parametrize("settings", [{}, {"explainer": "gradcam"}, {"fast": True}])
def test_what_an_inversion_ends_in_is_evaluated_as_it_was_itself(settings):
    config = replace(CONFIG, **settings)
    inverter, result = at(128, config)
    again = inverter.evaluate(regions(3), result.raw_embeddings, result.grid_maps, config)
    np.testing.assert_array_equal(again.grid_maps, result.grid_maps)
    np.testing.assert_allclose(again.losses[:, 0], result.losses[:, -1], rtol=1e-4)
    np.testing.assert_allclose(again.mask_ious, result.mask_ious, atol=1e-4)


@pytest.mark.parametrize(
    "settings",
    [{"explainer": "gradcam"}, {"explainer": "chefer"}, {"layers": 2}, {"fast": True, "steps": 6}],
)
def test_other_maps_and_settings_are_averaged_as_well(several, settings):
    config = replace(CONFIG, **settings)
    result = drive(several.invert_steps(regions(3), config))
    mean = unit(np.mean([at(side, config)[1].embeddings for side in SIDES], axis=0))
    np.testing.assert_allclose(result.embeddings, mean, atol=1e-4)
    how = {"layers": config.layers, "explainer": config.explainer}
    again = several.explain(result.raw_embeddings, **how)
    np.testing.assert_allclose(stretched(again), stretched(result.grid_maps), atol=1e-3)


def test_towers_that_pool_by_attention_work_too(monkeypatch):
    model = wrap_open_clip(tiny_siglip(monkeypatch))
    one, several = MaskInverter(model), MultiScaleInverter(model)
    for inverter in (one, several):
        inverter.set_image(picture(), resolution=64)
    config = InversionConfig(steps=2)
    result = drive(several.invert_steps(regions(2), config))
    assert result.route == "3 sizes"
    assert result.grid_maps.shape == one.invert(regions(2), config).grid_maps.shape
    assert np.isfinite(result.embeddings).all()


def test_a_chosen_route_is_kept_for_the_last_maps(several, monkeypatch):
    made = []
    decompose = map_builder.decompose
    monkeypatch.setattr(
        map_builder, "decompose", lambda *given: made.append(1) or decompose(*given)
    )
    masks = np.repeat([regions(1).full_mask(0)], 200, axis=0)
    config = InversionConfig(steps=1, route="direct")
    drive(several.invert_steps(masks, config))
    assert made == []
    drive(several.invert_steps(masks[:2], replace(config, route="decomposed")))
    assert len(made) == 3  # once a size, for the last maps as well


def test_what_is_cached_for_an_image_is_freed_before_the_next_is_encoded(several):
    drive(several.invert_steps(regions(3), replace(CONFIG, route="decomposed")))
    before = [inverter._image.maps for inverter in several._image.inverters]
    assert all(maps._decomposed for maps in before)
    next(several.set_image_steps(picture()))
    assert not any(maps._decomposed for maps in before)


def test_a_map_that_is_constant_at_one_size_says_nothing(several, monkeypatch):
    explain = MaskInverter.explain_steps

    def constant(self, *given, **options):
        maps = yield from explain(self, *given, **options)
        return np.ones_like(maps) if self is several._image.inverters[0] else maps

    monkeypatch.setattr(MaskInverter, "explain_steps", constant)
    maps = several.explain(several.image_embedding[None])
    assert maps.max() > maps.min()


def test_all_sizes_take_a_step_before_the_next_and_tell_of_it(several):
    said = []
    with Steps(several.invert_steps(regions(3), CONFIG)) as steps:
        for state in steps:
            copy = None if state.embeddings is None else state.embeddings()
            said.append((state.step, state.steps, copy))
    counts = [step for step, _, _ in said]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (0, CONFIG.steps)
    assert {steps for _, steps, _ in said} == {CONFIG.steps}
    for wanted in (1, 2, 3):
        parts = [at(side, replace(CONFIG, steps=wanted))[1] for side in SIDES]
        mean = unit(np.mean([part.embeddings for part in parts], axis=0))
        copies = [copy for step, _, copy in said if step == wanted and copy is not None]
        assert copies
        np.testing.assert_allclose(unit(copies[-1]), mean, atol=1e-5)
    np.testing.assert_allclose(said[-1][2], steps.result.raw_embeddings, rtol=1e-4, atol=1e-5)


def test_encoding_goes_forward_over_all_sizes_and_a_stopped_one_keeps_the_image(several):
    before = drive(several.invert_steps(regions(3), CONFIG)).embeddings
    done = list(MultiScaleInverter(demo_model()).set_image_steps(picture()))
    assert [part for part, _ in done] == sorted(part for part, _ in done)
    assert done[-1] == (4, 4)
    work = several.set_image_steps(picture(90, 90))
    for _ in done[: len(done) // 2]:
        next(work)
    work.close()
    np.testing.assert_array_equal(
        drive(several.invert_steps(regions(3), CONFIG)).embeddings, before
    )


def test_the_image_is_embedded_as_its_regions_are(several):
    parts = [at(side)[0].image_embedding for side in SIDES]
    mean = unit(np.mean([unit(part) for part in parts], axis=0))
    np.testing.assert_allclose(unit(several.image_embedding), mean, atol=1e-5)
    assert several.image_norm == pytest.approx(np.linalg.norm(parts[0]), rel=1e-5)


def test_sizes_follow_the_resolution_and_the_aspect():
    inverter = MultiScaleInverter(demo_model())
    inverter.set_image(picture(), resolution=64, keep_aspect=False)
    assert inverter.input_size == (64, 64)
    result = drive(inverter.invert_steps(regions(2), CONFIG))
    parts = []
    for side in (64, 48, 80):
        one = MaskInverter(demo_model())
        one.set_image(picture(), resolution=side, keep_aspect=False)
        parts.append(one.invert(regions(2), CONFIG).embeddings)
    np.testing.assert_allclose(result.embeddings, unit(np.mean(parts, axis=0)), atol=1e-5)


@given(some.integers(1, 4000), some.sampled_from([8, 14, 16, 32]))
def test_inputs_are_whole_patches_and_the_usual_one_is_as_chosen(resolution, patch):
    usual, *others = input_sides(resolution, patch)
    assert usual == resolution
    assert len({usual, *others}) == 1 + len(others)
    for side in others:
        assert side % patch == 0
        nearest = min(abs(side - scale * resolution) for scale in SCALES[1:])
        assert nearest <= patch / 2 or side == 2 * patch
    if resolution >= 6 * patch:
        assert len(others) == 2


def test_all_sizes_share_the_memory_and_give_half_of_it_back(several):
    inverter = MultiScaleInverter(demo_model(), memory_mb=300)
    assert inverter.memory_mb == 300
    assert several.memory_mb == MaskInverter(demo_model()).memory_mb
    inverter.set_image(picture())
    assert sum(part.memory_mb for part in inverter._image.inverters) == 300
    before = drive(inverter.invert_steps(regions(3), CONFIG)).embeddings
    inverter.spare_memory()
    assert inverter.memory_mb == 150
    assert sum(part.memory_mb for part in inverter._image.inverters) == 150
    np.testing.assert_allclose(
        drive(inverter.invert_steps(regions(3), CONFIG)).embeddings, before, atol=1e-5
    )
    inverter.release()
    with pytest.raises(InputError, match="No image is set"):
        inverter.embed(regions(3))


def test_what_one_size_refuses_several_refuse_as_well(several):
    with pytest.raises(ConfigError, match="memory_mb must be"):
        MultiScaleInverter(demo_model(), memory_mb=-1)
    with pytest.raises(MaskShapeError):
        several.embed(np.ones((1, 9, 9), bool))
    with pytest.raises(ConfigError, match="layers is 9"):
        drive(several.invert_steps(regions(1), InversionConfig(layers=9)))
