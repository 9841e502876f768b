"""The engine in a host's process: the host's modes of torch change no bit, and come back."""

import itertools
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from napari_maskinversion import InversionConfig, MaskInverter, load_model, wrap_open_clip
from napari_maskinversion.base.errors import ModelError
from napari_maskinversion.base.progress import listening
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.engine.invert import inverter as inverters
from napari_maskinversion.engine.invert import map_builder
from napari_maskinversion.engine.methods.factory import inverter_maker, region_embedder
from napari_maskinversion.engine.methods.registry import Method
from tests.listeners import at, collect

from .timm_towers import build
from .tiny import tiny_clip, tiny_siglip
from .towers import inverter as engine
from .towers import masks

SIDE = 64
TWO = InversionConfig(steps=2)


@contextmanager
def default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextmanager
def default_device():
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_device(None)


MODES = {
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "default dtype": default_dtype,
    "default device": default_device,
    "device block": lambda: torch.device("meta"),
    "no_grad": torch.no_grad,
    "gradients": torch.enable_grad,
}


def modes_now():
    return (
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.empty(0).device,
    )


def pixels(seed=0):
    return np.random.default_rng(seed).integers(0, 255, (SIDE, SIDE, 3)).astype(np.uint8)


def results(model, config=TWO, method="maskclip"):
    """What a host can ask of a model, as arrays."""
    inverter = MaskInverter(model)
    inverter.set_image(pixels(), resolution=SIDE)
    stack = masks(3, SIDE, SIDE)
    inverted = inverter.invert(stack, config)
    others = {"method": region_embedder(method, model), "crop": region_embedder("crop", model)}
    for embedder in others.values():
        embedder.set_image(pixels())
    return {
        "embeddings": inverted.embeddings,
        "losses": inverted.losses,
        "heatmaps": inverted.heatmaps,
        "image": inverter.image_embedding,
        "explained": inverter.explain(inverted.embeddings),
        "texts": model.encode_text(["a photo of a dog", "cat"]),
        **{name: embedder.embed(stack) for name, embedder in others.items()},
    }


def assert_same_bits(actual, expected):
    for name, array in expected.items():
        assert actual[name].dtype == array.dtype, name
        np.testing.assert_array_equal(actual[name], array, err_msg=name)


@pytest.mark.parametrize(
    ("name", "fast"), list(zip(MODES, itertools.cycle((False, True)), strict=False))
)
def test_modes_of_the_host_change_no_bit_of_a_class_token_tower(name, fast):
    clip = tiny_clip()
    config = InversionConfig(steps=4, fast=fast)
    expected = results(wrap_open_clip(clip), config)
    with MODES[name]():
        before = modes_now()
        actual = results(wrap_open_clip(clip), config)
        assert modes_now() == before
    assert_same_bits(actual, expected)


@pytest.mark.parametrize("name", ["inference_mode", "autocast", "default dtype", "device block"])
def test_modes_of_the_host_change_no_bit_of_a_tower_derived_by_autograd(name, monkeypatch):
    clip = tiny_siglip(monkeypatch)
    expected = results(wrap_open_clip(clip), method="crop")
    with MODES[name]():
        actual = results(wrap_open_clip(clip), method="crop")
    assert_same_bits(actual, expected)


@pytest.mark.parametrize("name", MODES)
def test_a_model_is_loaded_the_same_in_every_mode_and_can_be_used_outside_of_it(name):
    expected = load_model("demo", device="cpu")
    with MODES[name]():
        model = load_model("demo", device="cpu")
    assert model.fingerprint == expected.fingerprint
    texts = ["a photo of a dog"]
    np.testing.assert_array_equal(model.encode_text(texts), expected.encode_text(texts))


@pytest.mark.parametrize("name", MODES)
def test_between_two_steps_the_modes_are_those_of_the_host(name):
    inverter = MaskInverter(wrap_open_clip(tiny_clip()))
    with MODES[name]():
        before = modes_now()
        seen = []
        with listening(lambda _: seen.append(modes_now())):
            inverter.set_image(pixels(), resolution=SIDE)
            inverter.invert(masks(3, SIDE, SIDE), TWO)
            assert modes_now() == before
        assert len(seen) > 4
        assert set(seen) == {before}


def test_the_modes_come_back_after_an_error():
    inverter = MaskInverter(wrap_open_clip(tiny_clip()))
    with default_dtype():
        before = modes_now()
        with pytest.raises(Exception, match="NaN"):
            inverter.set_image_tensor(torch.full((1, 3, SIDE, SIDE), torch.nan))
        assert modes_now() == before


def test_an_image_tensor_may_come_from_inference_mode_and_change_afterwards():
    inverter, stack = MaskInverter(wrap_open_clip(tiny_clip())), masks(2, SIDE, SIDE)
    with torch.inference_mode():
        image = torch.linspace(-1, 1, 3 * SIDE * SIDE).reshape(1, 3, SIDE, SIDE)
    two_layers = InversionConfig(steps=2, layers=2)
    inverter.set_image_tensor(image.clone())
    expected = inverter.invert(stack, two_layers).embeddings
    inverter.set_image_tensor(image)
    with torch.inference_mode():
        image.zero_()
    np.testing.assert_array_equal(inverter.invert(stack, two_layers).embeddings, expected)


def test_weights_of_inference_mode_are_refused_in_one_line():
    with torch.inference_mode():
        clip = tiny_clip()
    with pytest.raises(ModelError, match=r"inference_mode\(\).*load the model outside") as refused:
        wrap_open_clip(clip)
    assert "\n" not in str(refused.value)


def test_a_model_that_was_converted_afterwards_works_as_if_it_had_been_before():
    clip = tiny_clip()
    model = wrap_open_clip(clip)
    first = results(model)
    fingerprint = model.fingerprint
    clip.double()
    assert model.dtype == torch.float64
    assert model.fingerprint != fingerprint
    assert_same_bits(results(model), results(wrap_open_clip(clip)))
    clip.float()
    assert_same_bits(results(model), first)
    clip.to("meta")
    assert model.device == torch.device("meta")


def test_an_image_that_was_set_before_the_model_was_converted_stays_usable():
    model = wrap_open_clip(tiny_clip())
    inverter = MaskInverter(model)
    set_image(inverter, 0)
    expected, rollout = work_of(inverter).raw_embeddings, inverter.rollout()
    model.clip.double()
    np.testing.assert_array_equal(work_of(inverter).raw_embeddings, expected)
    np.testing.assert_allclose(inverter.rollout(), rollout, rtol=1e-3)
    two_layers = InversionConfig(steps=2, layers=2)
    converted = work_of(inverter, two_layers).embeddings
    plain = embeddings_of(0, two_layers)
    cosines = (converted * plain).sum(1) / np.linalg.norm(plain, axis=1)
    np.testing.assert_array_less(1 - cosines, 1e-5)


CONFIGS = {
    "exact": InversionConfig(steps=3),
    "fast": InversionConfig(steps=4, fast=True),
    "more layers": InversionConfig(steps=2, layers=2),
    "another map": InversionConfig(steps=2, explainer="gradcam"),
}
METHODS = ["maskinversion", "maskclip"]


def inverter_of(method="maskinversion"):
    return inverter_maker(Method.of(method), TWO, SIDE)(wrap_open_clip(tiny_clip()))


def set_image(inverter, seed):
    inverter.set_image(pixels(seed), resolution=SIDE)


def work_of(inverter, config=TWO):
    return inverter.invert(Regions.from_masks(masks(3, SIDE, SIDE)), config)


def embeddings_of(seed, config=TWO, method="maskinversion"):
    inverter = inverter_of(method)
    set_image(inverter, seed)
    return work_of(inverter, config).raw_embeddings


@pytest.mark.parametrize("name", CONFIGS)
def test_an_inversion_ends_on_the_image_on_which_it_began(name):
    expected = embeddings_of(0, CONFIGS[name])
    inverter = inverter_of()
    set_image(inverter, 0)
    told, _ = collect(lambda: work_of(inverter, CONFIGS[name]))
    assert len(told) > 2
    for number in range(1, len(told) + 1):
        set_image(inverter, 0)
        with listening(at(number, lambda _: set_image(inverter, 1))):
            result = work_of(inverter, CONFIGS[name])
        np.testing.assert_array_equal(result.raw_embeddings, expected)


@pytest.mark.parametrize("method", METHODS)
def test_an_image_stays_until_the_next_one_is_encoded(method):
    expected = embeddings_of(0, method=method)
    inverter = inverter_of(method)
    set_image(inverter, 0)
    seen = []

    def look(news):
        if news.done < news.total:
            seen.append(work_of(inverter).raw_embeddings)

    with listening(look):
        set_image(inverter, 1)
    assert seen
    for embeddings in seen:
        np.testing.assert_array_equal(embeddings, expected)


@pytest.mark.parametrize("method", METHODS)
def test_an_image_that_does_not_fit_into_memory_leaves_the_one_before(method):
    expected = embeddings_of(0, method=method)
    inverter = inverter_of(method)
    set_image(inverter, 0)

    def run_out(*_):
        raise torch.OutOfMemoryError("out of memory")

    hook = inverter.model.clip.visual.transformer.resblocks[0].register_forward_pre_hook(run_out)
    with pytest.raises(torch.OutOfMemoryError):
        set_image(inverter, 1)
    hook.remove()
    np.testing.assert_array_equal(work_of(inverter).raw_embeddings, expected)


@contextmanager
def before_line(number, module, act):
    """Act once: before this thread comes to the line of this number of a module."""
    lines, tracer = itertools.count(), sys.gettrace()

    def trace(frame, event, _):
        if frame.f_code.co_filename != module.__file__:
            return None
        if event == "line" and next(lines) == number:
            act()
        return trace

    sys.settrace(trace)
    try:
        yield lambda: next(lines) > number
    finally:
        sys.settrace(tracer)


CALLS = {
    "embeddings": lambda inverter: work_of(inverter, CONFIGS["more layers"]),
    "less memory": MaskInverter.spare_memory,
}


@pytest.mark.parametrize("name", CALLS)
def test_an_image_that_another_thread_sets_at_any_moment_is_the_image_from_then_on(name):
    config = CONFIGS["more layers"]
    of_either = [embeddings_of(seed, config) for seed in (0, 1)]
    inverter = inverter_of()
    setting = []

    def set_another():
        setting[:] = [other.submit(set_image, inverter, 1)]
        wait(setting, 0.05)  # it may have to wait until this thread has come further

    with ThreadPoolExecutor(1) as other:
        for number in itertools.count():
            set_image(inverter, 0)
            with before_line(number, inverters, set_another) as was_reached:
                result = CALLS[name](inverter)
            if not was_reached():
                break
            setting[0].result(60)
            if result is not None:
                assert any((result.raw_embeddings == one).all() for one in of_either), number
            now = work_of(inverter, config).raw_embeddings
            np.testing.assert_array_equal(now, of_either[1], err_msg=str(number))
    assert number > 5


@pytest.mark.parametrize("name", ["fast", "more layers", "another map"])
def test_what_an_image_keeps_may_be_dropped_at_any_moment(name, monkeypatch):
    monkeypatch.setattr(map_builder, "estimates_pay", lambda *_: True)  # of a tiny model too
    config = CONFIGS[name]
    expected = embeddings_of(0, config)
    inverter = inverter_of()
    for number in itertools.count():
        set_image(inverter, 0)
        # In this thread no lock is in its way.
        with before_line(number, map_builder, lambda: set_image(inverter, 1)) as was_reached:
            result = work_of(inverter, config).raw_embeddings
        if not was_reached():
            break
        np.testing.assert_array_equal(result, expected, err_msg=str(number))
    assert number > 5


@pytest.mark.parametrize("explainer", ["chefer", "gradcam"])
def test_inversions_whose_groups_alternate_on_one_image_do_not_mix(explainer, monkeypatch):
    """A map that another thread uses between two groups of masks gives them other gradients."""
    monkeypatch.setattr(map_builder, "make_map", with_groups_of(2, map_builder.make_map))
    config = InversionConfig(steps=2, explainer=explainer)
    inverter = inverter_of()
    set_image(inverter, 0)
    stack = Regions.from_masks(masks(6, SIDE, SIDE))
    expected = inverter.invert(stack, config).raw_embeddings
    others = Regions.from_masks(masks(3, SIDE, SIDE, seed=9))
    for number in range(1, 8):
        with listening(at(number, lambda _: inverter.invert(others, config))):
            result = inverter.invert(stack, config)
        np.testing.assert_array_equal(result.raw_embeddings, expected)


def with_groups_of(size, make):
    """Let maps work on so many masks at once."""

    def made(*arguments):
        explained = make(*arguments)
        explained.group_size = size
        return explained

    return made


@pytest.mark.parametrize("change", ["converted", "trained"])
def test_weights_that_changed_under_a_tower_derived_by_autograd_are_told(change):
    visual = build("eva")
    inverter = engine(visual, "cpu")  # that very tower
    inverter.set_image_tensor(torch.randn(1, 3, 32, 32, dtype=torch.float64))
    if change == "converted":
        visual.float()
    else:
        with torch.no_grad():
            for parameter in visual.parameters():
                parameter.mul_(1.3)
    with pytest.raises(ModelError, match="after the image was set; call set_image again"):
        inverter.invert(masks(1, 32, 32), TWO)
    inverter.set_image_tensor(torch.randn(1, 3, 32, 32, dtype=torch.float64))
    assert np.isfinite(inverter.invert(masks(1, 32, 32), TWO).raw_embeddings).all()


def test_maskinversion_as_a_method_takes_a_configuration():
    method = region_embedder("maskinversion", wrap_open_clip(tiny_clip()), resolution=SIDE)
    inverter = inverter_of()
    for one in (method, inverter):
        set_image(one, 0)
    config = InversionConfig(steps=3, alpha=5)
    result = work_of(method, config)
    assert result.losses.shape[1] == 4
    assert result.route == "direct"
    expected = work_of(inverter, config)
    np.testing.assert_array_equal(result.raw_embeddings, expected.raw_embeddings)


def test_the_memory_budget_is_that_of_the_device_to_which_the_model_was_moved(monkeypatch):
    clip = tiny_clip()
    made = MaskInverter(wrap_open_clip(clip))
    memory = {"cpu": 16 << 30, "meta": 8 << 30}
    monkeypatch.setattr(inverters, "total_memory", lambda device: memory[device.type])
    assert made.memory_mb == 2048
    clip.to("meta")
    assert made.memory_mb == 1024
    made.spare_memory()
    assert made.memory_mb == 512
