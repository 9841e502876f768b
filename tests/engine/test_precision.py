"""Precisions of the large products: what they need, what they change, what stays as it was."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from napari_maskinversion import InversionConfig, MaskInverter, load_model, wrap_open_clip
from napari_maskinversion.base.errors import ConfigError
from napari_maskinversion.base.progress import listening
from napari_maskinversion.engine.compute import matmul
from napari_maskinversion.engine.compute.matmul import check_precision, float32_products
from napari_maskinversion.engine.invert import map_builder

from .invert.test_fast import engine as smooth_engine
from .tiny import tiny_clip, tiny_siglip
from .towers import image, masks

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from half_products import HalfProducts

SIDE = 64
CPU = torch.device("cpu")


@pytest.fixture
def any_hardware(monkeypatch):
    """Hardware for every precision, as far as numbers go."""
    monkeypatch.setattr(matmul, "_missing", lambda *_: "")
    with HalfProducts():
        yield


def cosines(first, second):
    return (first.embeddings * second.embeddings).sum(1)


class TestHalfPrecision:
    # bfloat16 keeps 8 bits of a factor, float16 11. Single masks of two tokens move more than most:
    # benchmarks/results/precision.json.
    LEAST = {"bfloat16": 0.95, "float16": 0.99}  # noqa: RUF012
    MEAN = {"bfloat16": 0.985, "float16": 0.999}  # noqa: RUF012

    @pytest.mark.parametrize(("name", "route"), [("bfloat16", "direct"), ("float16", "decomposed")])
    def test_embeddings_point_where_those_of_float32_do(self, any_hardware, name, route):
        inverter = MaskInverter(load_model("demo", device="cpu"))
        inverter.set_image_tensor(image(SIDE, SIDE))
        exact = inverter.invert(masks(6, SIDE), steps=5, route=route)
        half = inverter.invert(masks(6, SIDE), steps=5, route=route, precision=name)
        assert cosines(exact, half).min() > self.LEAST[name]
        assert cosines(exact, half).mean() > self.MEAN[name]
        np.testing.assert_allclose(half.grid_maps, exact.grid_maps, atol=exact.grid_maps.max() / 5)
        assert not np.array_equal(exact.raw_embeddings, half.raw_embeddings)
        assert half.raw_embeddings.dtype == half.grid_maps.dtype == np.float32
        assert half.route == f"{route}, {name}"

    @pytest.mark.parametrize("name", LEAST)
    def test_estimates_work_with_it(self, any_hardware, monkeypatch, name):
        monkeypatch.setattr(map_builder, "estimates_pay", lambda *_: True)
        inverter = smooth_engine()
        exact = inverter.invert(masks(4, 224, 224), fast=True)
        half = inverter.invert(masks(4, 224, 224), fast=True, precision=name)
        assert half.route == f"fast, direct, {name}"
        assert cosines(exact, half).min() > self.LEAST[name]

    def test_weak_attention_is_not_too_small_for_float16(self, any_hardware):
        """Maps are a million times smaller then; p of float16 would vanish unscaled."""
        clip = tiny_clip(image_size=SIDE)
        with torch.no_grad():
            for parameter in clip.visual.transformer.resblocks[-1].attn.parameters():
                parameter.mul_(1e-3)
        inverter = MaskInverter(wrap_open_clip(clip))
        inverter.set_image_tensor(image(SIDE, SIDE))
        exact = inverter.invert(masks(3, SIDE))
        half = inverter.invert(masks(3, SIDE), precision="float16")
        assert cosines(exact, half).min() > 0.99

    def test_gradients_too_small_for_float16_are_passed_on_in_proportion(self, any_hardware):
        inverter = MaskInverter(load_model("demo", device="cpu"))
        inverter.set_image_tensor(image(SIDE, SIDE))
        maps = inverter._current().maps
        explained = maps.exact(InversionConfig(precision="float16"), 2)
        grads = torch.randn(2, 64, generator=torch.Generator().manual_seed(0))
        products = []
        for factor in (1.0, 1e-9):
            explained.forward(maps.encoding.embedding.expand(2, -1))
            products.append(explained.vjp(grads * factor) / factor)
        torch.testing.assert_close(*products, rtol=1e-3, atol=float(products[0].abs().max()) / 1e3)

    def test_several_layers_are_stored_in_it(self, any_hardware):
        inverter = MaskInverter(wrap_open_clip(tiny_clip(image_size=SIDE)))
        inverter.set_image_tensor(image(SIDE, SIDE))
        exact = inverter.invert(masks(3, SIDE), layers=2)
        half = inverter.invert(masks(3, SIDE), layers=2, precision="float16")
        assert cosines(exact, half).min() > 0.98

    @pytest.mark.parametrize("name", LEAST)
    def test_the_image_is_encoded_in_it_too_by_whichever_call(self, any_hardware, name):
        half, model = InversionConfig(precision=name), load_model("demo", device="cpu")
        told, asked, usual = (MaskInverter(model) for _ in range(3))
        told.set_image_tensor(image(SIDE, SIDE), half)
        for inverter in (asked, usual):
            inverter.set_image_tensor(image(SIDE, SIDE))
        at_once = told.image_embedding
        results = [inverter.invert(masks(2, SIDE), half) for inverter in (told, asked)]
        np.testing.assert_array_equal(results[0].raw_embeddings, results[1].raw_embeddings)
        for later in (told, asked):
            np.testing.assert_array_equal(at_once, later.image_embedding)
        rounded, exact = told.image_embedding, usual.image_embedding
        assert 0 < np.abs(rounded - exact).max() < 0.05 * np.linalg.norm(exact)

    def test_float32_afterwards_gives_the_same_bits_as_before(self, any_hardware):
        inverter = MaskInverter(load_model("demo", device="cpu"))
        inverter.set_image_tensor(image(SIDE, SIDE))
        before = inverter.invert(masks(3, SIDE))
        inverter.invert(masks(3, SIDE), precision="bfloat16")
        after = inverter.invert(masks(3, SIDE))
        np.testing.assert_array_equal(before.raw_embeddings, after.raw_embeddings)

    @pytest.mark.parametrize("explainer", ["gradcam", "chefer"])
    def test_other_maps_stay_float32(self, any_hardware, explainer):
        inverter = MaskInverter(load_model("demo", device="cpu"))
        inverter.set_image_tensor(image(SIDE, SIDE))
        exact = inverter.invert(masks(2, SIDE), steps=2, explainer=explainer)
        half = inverter.invert(masks(2, SIDE), steps=2, explainer=explainer, precision="bfloat16")
        np.testing.assert_array_equal(exact.raw_embeddings, half.raw_embeddings)

    def test_other_towers_stay_float32(self, any_hardware, monkeypatch):
        inverter = MaskInverter(wrap_open_clip(tiny_siglip(monkeypatch)))
        inverter.set_image_tensor(image(32, 32))
        exact = inverter.invert(masks(2, 32), steps=2)
        half = inverter.invert(masks(2, 32), steps=2, precision="float16")
        np.testing.assert_array_equal(exact.raw_embeddings, half.raw_embeddings)


class TestHardware:
    @pytest.mark.parametrize(
        ("name", "need"), [("float16", "a GPU"), ("tf32", "an NVIDIA GPU"), ("bfloat16", "AMX")]
    )
    def test_a_precision_that_the_device_lacks_is_refused_before_work(
        self, monkeypatch, name, need
    ):
        monkeypatch.setattr(matmul, "cpu_has_bfloat16", lambda: False)
        model = load_model("demo", device="cpu")
        with pytest.raises(ConfigError, match=f"'{name}' needs .*{need}"):
            model.check(InversionConfig(precision=name))
        inverter = MaskInverter(model)
        inverter.set_image_tensor(image(SIDE, SIDE))
        with pytest.raises(ConfigError, match=f"'{name}' needs .*{need}"):
            inverter.invert(masks(2, SIDE), precision=name)

    def test_the_message_names_the_processor(self):
        with pytest.raises(ConfigError) as error:
            check_precision("float16", CPU)
        assert matmul.processor() in str(error.value)

    def test_bfloat16_is_for_processors_with_amx_or_avx512_bf16(self, monkeypatch):
        flags = ["_is_amx_tile_supported", "_is_avx512_bf16_supported"]
        for flag in flags:
            monkeypatch.setattr(torch.cpu, flag, lambda: False, raising=False)
        assert not matmul.has_precision("bfloat16", CPU)
        for flag in flags:
            with monkeypatch.context() as patch:
                patch.setattr(torch.cpu, flag, lambda: True, raising=False)
                assert matmul.has_precision("bfloat16", CPU)

    def test_an_older_gpu_has_neither_tf32_nor_bfloat16(self, monkeypatch):
        gpu = torch.device("cuda", 0)
        for capability, has in (((7, 5), False), ((8, 0), True)):
            monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, c=capability: c)
            for name in ("tf32", "bfloat16"):
                assert matmul.has_precision(name, gpu) == has
            assert matmul.has_precision("float16", gpu)


class TestSwitchesOfTorch:
    """They belong to the process: set while the engine computes, and put back."""

    @staticmethod
    def switches():
        cuda, cudnn, mkldnn = torch.backends.cuda, torch.backends.cudnn, torch.backends.mkldnn
        parts = (cuda.matmul, cudnn.conv, mkldnn.matmul, mkldnn.conv)
        return [part.fp32_precision for part in parts]

    @pytest.fixture(autouse=True)
    def restore(self):
        before = torch.get_float32_matmul_precision()
        yield
        torch.set_float32_matmul_precision(before)

    @pytest.mark.parametrize("host", ["highest", "high", "medium"])
    def test_a_hosts_precision_is_not_the_engines_and_comes_back(self, host):
        torch.set_float32_matmul_precision(host)
        before = self.switches()
        with float32_products():
            assert set(self.switches()) <= {"ieee", "none"}
        assert self.switches() == before
        assert torch.get_float32_matmul_precision() == host

    def test_tf32_is_on_for_gpus_while_it_is_asked_for(self):
        before = self.switches()
        with float32_products(tf32=True):
            assert self.switches()[:2] == ["tf32", "tf32"]
            assert set(self.switches()[2:]) <= {"ieee", "none"}
        assert self.switches() == before

    def test_the_engine_asks_for_tf32_during_an_inversion_alone(self, monkeypatch, any_hardware):
        inverter = MaskInverter(wrap_open_clip(tiny_clip(image_size=SIDE)))
        inverter.set_image_tensor(image(SIDE, SIDE))
        config = InversionConfig(steps=2, precision="tf32")
        seen = []
        adam = "napari_maskinversion.engine.invert.loop.Descent.adam"
        monkeypatch.setattr(adam, self.noting(seen))

        def look(_):
            assert torch.backends.cuda.matmul.fp32_precision in ("none", "ieee")

        with listening(look):
            inverter.invert(masks(2, SIDE), config)
        assert set(seen) == {"tf32"}

    @staticmethod
    def noting(seen):
        from napari_maskinversion.engine.invert.loop import Descent

        adam = Descent.adam

        def noted(self):
            seen.append(torch.backends.cuda.matmul.fp32_precision)
            adam(self)

        return noted
