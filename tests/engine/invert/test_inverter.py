"""What an inversion promises, whatever route and grouping it takes."""

import numpy as np
import pytest
import torch

from napari_maskinversion import InversionConfig, MaskInverter, load_model
from napari_maskinversion.base.errors import (
    ConfigError,
    EmptyMaskError,
    InputError,
    MaskShapeError,
    NotEnoughMemoryError,
)
from napari_maskinversion.base.progress import Tick
from napari_maskinversion.engine.models import backbone
from napari_maskinversion.results.settings import RunSettings
from tests.engine import oracle
from tests.engine.towers import assert_same_embeddings, image, inverter, masks, tower
from tests.listeners import stopped
from tests.scenes import demo_model, picture, regions, run


@pytest.fixture
def engine():
    made = inverter(tower())
    made.set_image_tensor(image())
    return made


@pytest.mark.parametrize(
    ("route", "size"),
    [("direct", (64, 64)), ("decomposed", (48, 96))],
    ids=["direct", "decomposed"],
)
@pytest.mark.parametrize(
    ("settings", "config"),
    [
        ({}, {}),
        ({"quick_gelu": True}, {"alpha": 5.0}),
        ({"layer_scale": 0.5}, {"learning_rate": 0.5, "weight_decay": 0.05}),
        ({"layers": 3}, {"layers": 3}),
    ],
    ids=["plain", "quick-gelu-alpha", "layer-scale-decay", "all-layers"],
)
def test_both_routes_agree_with_plain_autograd(route, settings, config, size):
    visual = tower(dtype=torch.float64, **settings)
    picture, stack = image(*size, dtype=torch.float64), masks(2, *size)
    engine = inverter(visual)
    engine.set_image_tensor(picture)
    result = engine.invert(stack, InversionConfig(steps=4, route=route, **config))
    names = {"learning_rate": "lr"}
    keywords = {names.get(key, key): value for key, value in config.items()}
    for index, mask in enumerate(stack):
        target = torch.tensor(mask, dtype=torch.float64)
        expected = oracle.invert(visual, picture, target, steps=4, **keywords)
        np.testing.assert_allclose(result.raw_embeddings[index], expected[0].numpy(), atol=2e-6)
        np.testing.assert_allclose(result.heatmap(index), expected[1].numpy(), atol=2e-5)
        np.testing.assert_allclose(result.losses[index], expected[2], atol=1e-6)


@pytest.mark.parametrize(
    ("size", "mask_size"), [((64, 64), (100, 150)), ((48, 80), None)], ids=["square", "non-square"]
)
def test_heatmaps_are_those_of_the_returned_embeddings(size, mask_size):
    engine = inverter(tower())
    engine.set_image_tensor(image(*size))
    stack = masks(3, *(mask_size or size))
    result = engine.invert(stack, InversionConfig(steps=3))
    later = engine.invert(stack, InversionConfig(steps=4, keep_last_step_heatmaps=True))
    assert result.heatmaps.shape == stack.shape
    np.testing.assert_allclose(result.heatmaps, later.last_step_heatmaps, atol=1e-5)
    np.testing.assert_allclose(result.losses, later.losses[:, :-1], atol=1e-6)
    assert result.last_step_heatmaps is None


def test_masks_of_another_size_are_resampled_by_area(engine):
    small = masks(3)
    large = small.repeat(3, axis=1).repeat(3, axis=2)
    expected, got = engine.invert(small), engine.invert(large)
    assert_same_embeddings(got.raw_embeddings, expected.raw_embeddings)
    assert got.heatmaps.shape == (3, 192, 192)


def test_shapes_types_and_ranges(engine):
    result = engine.invert(masks(3), InversionConfig(steps=2))
    assert result.raw_embeddings.shape == (3, 24)
    assert result.raw_embeddings.dtype == np.float32
    lengths = np.linalg.norm(result.raw_embeddings, axis=1, keepdims=True)
    np.testing.assert_allclose(result.embeddings * lengths, result.raw_embeddings, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(result.embeddings, axis=1), 1, atol=1e-6)
    assert result.grid_maps.shape == (3, 4, 4)
    assert result.grid_maps.min() >= 0
    assert result.losses.shape == (3, 3)
    assert result.heatmaps.min() == 0
    assert result.heatmaps.max() == pytest.approx(1)
    assert ((result.mask_ious >= 0) & (result.mask_ious <= 1)).all()


def test_the_mask_iou_is_that_of_the_heatmap_above_a_half(engine):
    stack = masks(4)
    result = engine.invert(stack)
    for index, heat in enumerate(result.heatmaps):
        hot = heat > 0.5
        expected = (hot & stack[index]).sum() / (hot | stack[index]).sum()
        assert result.mask_ious[index] == pytest.approx(expected, abs=1e-3)


def one_pixel(mask):
    mask[20, 33] = True


def corner(mask):
    mask[-9:, -5:] = True


def everything(mask):
    mask[:] = True


@pytest.mark.parametrize(("draw", "alpha"), [(one_pixel, 0.0), (corner, 5.0), (everything, 0.0)])
def test_degenerate_masks_stay_finite(engine, draw, alpha):
    mask = np.zeros((1, 64, 64), dtype=bool)
    draw(mask[0])
    result = engine.invert(mask, InversionConfig(alpha=alpha))
    for array in (result.raw_embeddings, result.grid_maps, result.heatmaps, result.losses):
        assert np.isfinite(array).all()
    assert result.low_resolution[0] == (draw in (one_pixel, corner))


def test_a_constant_map_gives_no_nan():
    visual = tower()
    with torch.no_grad():
        # Values alone decide the map's shape: without them every token gets the same (nothing).
        visual.transformer.resblocks[-1].attn.in_proj_weight[64:] = 0
        visual.transformer.resblocks[-1].attn.in_proj_bias[64:] = 0
    engine = inverter(visual)
    engine.set_image_tensor(image())
    result = engine.invert(masks(2))
    assert (result.heatmaps == 0).all()
    assert np.isfinite(result.raw_embeddings).all()
    np.testing.assert_allclose(result.raw_embeddings[0], engine.image_embedding, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_half_precision_model_is_inverted_in_float32(dtype):
    full, half = tower(), tower().to(dtype)
    results = []
    for visual in (full, half):
        engine = inverter(visual)
        engine.set_image_tensor(image())
        results.append(engine.invert(masks(2)))
    assert results[1].raw_embeddings.dtype == np.float32
    cosine = (results[0].embeddings * results[1].embeddings).sum(1)
    assert cosine.min() > 0.99


def model_state(visual):
    return (
        {name: tensor.clone() for name, tensor in visual.state_dict().items()},
        [parameter.requires_grad for parameter in visual.parameters()],
        [parameter.grad for parameter in visual.parameters()],
        [module.training for module in visual.modules()],
        [
            (len(module._forward_hooks), len(module._backward_hooks), module.forward.__func__)
            for module in visual.modules()
        ],
    )


@pytest.mark.parametrize(("training", "fails"), [(True, False), (False, True)])
def test_the_model_is_left_bit_for_bit_as_it_was(training, fails):
    visual = tower().train(training)
    next(visual.parameters()).requires_grad_(False)
    before = model_state(visual)
    engine = inverter(visual)
    engine.set_image_tensor(image(96, 64))

    def stop(step, steps):
        if step == 2:
            raise KeyboardInterrupt

    if fails:
        with pytest.raises(KeyboardInterrupt):
            engine.invert(masks(2, 96, 64), on_step=stop)
    else:
        engine.invert(masks(2, 96, 64))
    after = model_state(visual)
    assert all(torch.equal(before[0][name], after[0][name]) for name in before[0])
    assert before[1:] == after[1:]


def test_steps_are_reported_and_can_be_stopped(engine):
    seen = []
    engine.invert(masks(2), InversionConfig(steps=3), on_step=lambda *state: seen.append(state))
    assert seen[0] == (0, 3)
    assert seen[-1] == (3, 3)
    states = stopped(lambda: engine.invert(masks(2), InversionConfig(steps=3)), 3)
    assert states[-1].grid_maps().shape == (2, 4, 4)
    assert engine.invert(masks(2)).raw_embeddings.shape == (2, 24)


def test_encoding_can_be_stopped_between_blocks():
    engine = inverter(tower(layers=3))
    assert stopped(lambda: engine.set_image_tensor(image())) == [Tick("encoding", 1, 3)]
    with pytest.raises(InputError, match="No image is set"):
        engine.invert(masks(1))


@pytest.mark.parametrize(
    ("bad", "error", "says"),
    [
        (np.zeros((2, 64, 64), bool), EmptyMaskError, "Mask 0"),
        (np.zeros(64, bool), MaskShapeError, r"\(64,\)"),
        (np.zeros((64, 64), bool), EmptyMaskError, "Mask 0"),
        (np.zeros((0, 64, 64), bool), InputError, "no masks"),
        (np.full((1, 64, 64), 7), InputError, "0..1.*go from 7 to 7.*from_labels"),
        (np.full((1, 64, 64), np.nan), InputError, "0..1"),
    ],
)
def test_masks_that_cannot_work_are_refused_with_a_reason(engine, bad, error, says):
    with pytest.raises(error, match=says):
        engine.invert(bad)


def test_settings_can_be_passed_by_name(engine):
    stack, base = masks(2), InversionConfig(steps=3, learning_rate=0.2)
    expected = engine.invert(stack, InversionConfig(steps=3, learning_rate=0.2, alpha=5.0))
    for result in (
        engine.invert(stack, base, alpha=5.0),
        engine.invert(stack, alpha=5.0, steps=3, learning_rate=0.2),
    ):
        assert_same_embeddings(result.raw_embeddings, expected.raw_embeddings)
    with pytest.raises(ConfigError, match="no setting 'stepz'.*steps"):
        engine.invert(stack, stepz=3)
    with pytest.raises(ConfigError, match="steps"):
        engine.invert(stack, base, steps=0)


def test_texts_are_ranked_for_each_mask(engine):
    result = engine.invert(masks(2), steps=2)
    texts = np.stack([-result.embeddings[0], result.embeddings[1], result.embeddings[0]])
    order = result.rank(texts)
    assert order.shape == (2, 3)
    assert (order[0, 0], order[0, -1], order[1, 0]) == (2, 0, 1)


def test_an_inverter_says_in_a_line_what_it_sees():
    inverter = MaskInverter(demo_model())
    where = f"<MaskInverter: demo on {demo_model().device}"
    assert repr(inverter) == f"{where}, no image>"
    inverter.set_image(np.zeros((64, 128, 3), np.uint8), resolution=64)
    assert repr(inverter) == f"{where}, image of 6 x 11 tokens>"


def test_an_input_that_does_not_fit_the_patches_is_refused():
    engine = inverter(tower())
    with pytest.raises(InputError, match="multiples"):
        engine.set_image_tensor(image(65, 64))
    picture = image()
    picture[0, 0, 0, 0] = float("nan")
    with pytest.raises(InputError, match="NaN"):
        engine.set_image_tensor(picture)


def test_more_layers_than_the_model_has_are_refused(engine):
    with pytest.raises(ConfigError, match="the model has 2 layers"):
        engine.invert(masks(1), InversionConfig(layers=3))


def test_an_image_may_be_a_tensor():
    made = MaskInverter(demo_model())
    embeddings = []
    for image_of_one_kind in (picture(), torch.from_numpy(picture())):
        made.set_image(image_of_one_kind)
        embeddings.append(made.image_embedding)
    np.testing.assert_array_equal(*embeddings)


@pytest.mark.parametrize("resolution", [50_000, 10**9])
def test_a_resolution_that_no_memory_holds_is_refused_before_work(monkeypatch, resolution):
    monkeypatch.setattr(backbone, "total_memory", lambda device: 16 << 30)
    inverter = MaskInverter(demo_model())
    with pytest.raises(NotEnoughMemoryError, match=f"A resolution of {resolution} px needs more"):
        inverter.set_image(picture(), resolution=resolution)
    with pytest.raises(NotEnoughMemoryError, match=f"A resolution of {resolution} px needs more"):
        run(demo_model(), picture(), regions(1), None, RunSettings(resolution=resolution))


@pytest.mark.parametrize("memory_mb", [-1, 10**9, 1.5, True, "all"])
def test_a_memory_budget_that_the_machine_lacks_is_refused(memory_mb):
    with pytest.raises(ConfigError, match="memory_mb must be a whole number from 0 to"):
        MaskInverter(demo_model(), memory_mb=memory_mb)


def test_weights_changed_in_inference_mode_count_for_the_next_image():
    model = load_model("demo", device="cpu")
    with torch.inference_mode():
        model.clip.double().float()  # from here on, they do not tell of changes
    image, mask = np.full((128, 128, 3), 90, np.uint8), np.zeros((1, 128, 128), bool)
    image[20:40, 20:40], mask[0, 20:80, 20:80] = 200, True

    def embedded():
        inverter = MaskInverter(model)
        inverter.set_image(image)
        return inverter.invert(mask).embeddings

    embedded()
    fingerprint = model.fingerprint
    with torch.inference_mode():
        for name, weights in model.clip.visual.named_parameters():
            if "c_proj.weight" in name:
                weights.mul_(3)
    after = embedded()
    assert model.fingerprint != fingerprint
    copies = {name: weights.clone() for name, weights in model.clip.state_dict().items()}
    model.clip.load_state_dict(copies, assign=True)  # other memory: nothing known holds
    np.testing.assert_allclose(after, embedded(), atol=1e-6)
