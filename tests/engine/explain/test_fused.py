"""The fused kernels of LeGrad agree with plain products, and step aside where they cannot work.

Triton's interpreter runs them without a GPU, and its compiler compiles them without one.
"""

import importlib.util
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from napari_maskinversion import InversionConfig, wrap_open_clip
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.engine.compute import devices
from napari_maskinversion.engine.explain import fused, legrad
from napari_maskinversion.engine.invert.several import ImageBatch
from tests.engine.test_reference import FILES, load_config, load_tower
from tests.engine.tiny import tiny_clip
from tests.engine.towers import image, inverter, masks, tower

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="this build of PyTorch has no Triton"
)


def load_kernels(name):
    """A copy of the module: Triton decides how kernels run when they are defined."""
    path = Path(fused.__file__).with_name("kernels.py")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def interpreted(monkeypatch):
    import triton.language as tl

    monkeypatch.setenv("TRITON_INTERPRET", "1")
    # Triton's own functions were defined before, for the compiler.
    add = tl.standard._sum_combine
    monkeypatch.setattr(tl, "sum", lambda numbers, axis: tl.reduce(numbers, axis, add))
    return load_kernels("interpreted_kernels")


@pytest.fixture
def use(monkeypatch):
    """Let a module of kernels, or what stands for one, compute maps on this processor."""

    def install(module):
        monkeypatch.setattr(fused, "lacks_for_kernels", lambda _: "")
        monkeypatch.setattr(fused, "kernels", lambda: module)

    monkeypatch.setattr(fused.KERNELS, "works", True)
    fused._tried.cache_clear()
    yield install
    fused._tried.cache_clear()


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(
    masks=st.integers(1, 3),
    queries=st.integers(1, 140),
    heads=st.integers(1, 3),
    width=st.sampled_from([16, 24, 64, 80, 128]),
    tokens=st.integers(1, 140),
    images=st.integers(0, 2),
    shared=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float16]),
)
@example(5, 17, 16, 64, 9, 0, False, torch.float32)
@example(1, 129, 1, 80, 129, 0, True, torch.float32)
@example(2, 65, 2, 16, 65, 3, True, torch.float16)
def test_whole_numbers_give_the_sums_of_plain_products_to_the_last_bit(
    interpreted, masks, queries, heads, width, tokens, images, shared, dtype
):
    """Many products are 0: there nothing passes the ReLU. ``images`` 0: without an index."""
    random = torch.Generator().manual_seed(queries * tokens)

    def whole(*shape):
        return torch.randint(-2, 3, shape, generator=random).to(dtype)

    values, every = whole(heads, max(images, 1), tokens, width), torch.arange(masks)
    index = (every + 1) % images if images else None
    of_mask = index if images else torch.zeros_like(every)
    p, columns = (
        whole(values.shape[1] if shared else masks, queries, heads * width),
        whole(masks, tokens),
    )
    vectors = (p[of_mask] if shared else p).float().view(masks, queries, heads, width)
    products = torch.einsum("mqhw,hmnw->mhqn", vectors, values[:, of_mask].float())
    passed = (products > 0) * columns.float()[:, None, None]
    gradient = torch.einsum("mhqn,hmnw->mqhw", passed, values[:, of_mask].float()).flatten(2)

    if not shared:
        sums = interpreted.positive_sums(p, values, index)
        assert torch.equal(sums, products.clamp_min(0).sum((1, 2)))
    out = torch.full((masks, *p.shape[1:]), torch.nan, dtype=dtype)
    interpreted.vjp(p, values, columns.float(), out, index, shared=shared)
    assert torch.equal(out, gradient.to(dtype))


def test_an_inversion_gives_what_the_published_implementation_gives(interpreted, use):
    use(interpreted)
    case = np.load(next(path for path in FILES if path.stem == "gelu_native"))
    engine = inverter(load_tower(case), device="cpu")
    engine.set_image_tensor(torch.tensor(case["image"]))
    result = engine.invert(case["masks"], load_config(case))
    assert result.route == "direct, fused"
    expected = case["localized_embeddings"]
    lengths = np.linalg.norm(result.raw_embeddings, axis=1) * np.linalg.norm(expected, axis=1)
    assert (1 - (result.raw_embeddings * expected).sum(1) / lengths).max() < 1e-5


def small_inverter(**keywords):
    engine = inverter(tower(layers=2), device="cpu", **keywords)
    engine.set_image_tensor(image())
    return engine


CALL = {"steps": 3, "layers": 2, "alpha": 1.0}


@pytest.mark.parametrize("route", ["direct", "decomposed"])
@pytest.mark.parametrize("memory_mb", [0, 1024], ids=["one by one", "one group"])
def test_an_inversion_is_the_same_with_and_without_kernels(interpreted, use, route, memory_mb):
    engine = small_inverter(memory_mb=memory_mb)
    plain = engine.invert(masks(2), route=route, **CALL)
    use(interpreted)
    kernels = engine.invert(masks(2), route=route, **CALL)
    assert (plain.route, kernels.route) == (route, f"{route}, fused")
    assert (1 - (plain.embeddings * kernels.embeddings).sum(1)).max() < 1e-6
    np.testing.assert_allclose(kernels.grid_maps, plain.grid_maps, rtol=0, atol=1e-4)


def test_each_mask_of_several_images_meets_the_values_of_its_own(interpreted, use):
    model, side = wrap_open_clip(tiny_clip()), 32
    tensors = torch.cat([image(side, side, seed) for seed in (1, 2, 3)])
    regions = [Regions.from_masks(masks(count, side, side)) for count in (1, 2, 1)]
    batch = ImageBatch(model, tensors, [(side, side)] * 3, InversionConfig(steps=3, alpha=1.0))
    plain = batch.invert(regions)
    use(interpreted)
    for alone, result in zip(plain, batch.invert(regions), strict=True):
        assert (alone.route, result.route) == ("direct", "direct, fused")
        assert (1 - (alone.embeddings * result.embeddings).sum(1)).max() < 1e-6


class Broken:
    """Kernels of a driver that fails at a call, and never answers again."""

    def __init__(self, module, calls, error=None):
        self._module, self.left = module, calls
        self._error = error or RuntimeError("CUDA error:\nunknown error")

    def __getattr__(self, name):
        def call(*arguments, **keywords):
            self.left -= 1
            if self.left < 0:
                raise self._error
            return getattr(self._module, name)(*arguments, **keywords)

        return call


@pytest.mark.parametrize(
    "calls", [0, 1, 2, 3, 9], ids=["compiling", "trying", "forward", "backward", "later"]
)
def test_a_driver_that_fails_is_told_once_and_the_work_goes_on_without(interpreted, use, calls):
    engine = small_inverter()
    plain = engine.invert(masks(2), **CALL)
    broken = Broken(interpreted, calls)
    use(broken)
    with pytest.warns(UserWarning, match=r"failed on this GPU .*CUDA error: unknown error") as told:
        result = engine.invert(masks(2), **CALL)
    assert len(told) == 1
    assert result.route == "direct"
    assert (1 - (plain.embeddings * result.embeddings).sum(1)).max() < 1e-6
    broken.left = 1000
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = engine.invert(masks(2), **CALL)
    assert broken.left == 1000
    np.testing.assert_array_equal(again.raw_embeddings, plain.raw_embeddings)


def test_memory_that_runs_out_is_no_failure_of_the_kernels(interpreted, use):
    engine = small_inverter()
    use(Broken(interpreted, 3, torch.OutOfMemoryError("CUDA out of memory")))
    with pytest.raises(torch.OutOfMemoryError):
        engine.invert(masks(2), **CALL)
    use(interpreted)
    assert engine.invert(masks(2), steps=1).route == "direct, fused"


def test_kernels_that_compute_something_else_are_not_used(interpreted, use):
    def wrong(*arguments):
        return 2 * interpreted.positive_sums(*arguments)

    use(SimpleNamespace(positive_sums=wrong, vjp=interpreted.vjp))
    with pytest.warns(UserWarning, match="disagree"):
        assert small_inverter().invert(masks(1), steps=1).route == "direct"


@pytest.mark.parametrize(
    ("width", "dtype"), [(8, torch.float32), (160, torch.float32), (64, torch.float64)]
)
def test_other_heads_and_types_go_the_plain_way(use, width, dtype):
    use(None)
    assert not fused.usable(torch.zeros(2, 5, width, dtype=dtype))


@pytest.mark.parametrize(
    ("kind", "capability", "cuda", "triton", "lacking"),
    [
        ("cuda", (8, 0), "13.0", True, ""),
        ("cuda", (9, 0), "13.0", False, "Triton"),
        ("cuda", (7, 5), "13.0", True, "8.0 or higher"),
        ("cuda", (9, 4), None, True, "NVIDIA"),  # AMD
        ("mps", None, None, False, "NVIDIA"),
        ("cpu", None, "13.0", True, "NVIDIA"),
    ],
)
def test_a_device_says_what_it_lacks(monkeypatch, kind, capability, cuda, triton, lacking):
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    monkeypatch.setattr(devices, "find_spec", lambda _: triton or None)
    device = torch.device(kind)
    said = devices.lacks_for_kernels(device)
    assert lacking in said
    assert bool(said) == bool(lacking)
    assert devices.kernels_text(device).startswith("maps not" if lacking else "maps fused")


def test_kernels_compile_and_need_no_more_shared_memory_than_small_gpus_have(monkeypatch, tmp_path):
    """99 KiB, with the compute capabilities 8.6 and 8.9."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    kernels = load_kernels("compiled_kernels")
    options = {"heads": 12, "precision": "tf32x3", "width": 64, "padded": 64, "shared": True}
    for kernel, table in (
        (kernels._sums_kernel, kernels._SUMS),
        (kernels._vjp_kernel, kernels._VJP),
    ):
        queries, tokens, warps, stages = table[False, True]
        constants = options | {"query_block": queries, "token_block": tokens}
        kinds = {"images": "i32", "queries": "i32", "tokens": "i32", "image_start": "*i64"}
        kinds |= dict.fromkeys(constants, "constexpr")
        names = kernel.arg_names
        source = ASTSource(
            fn=kernel,
            signature={name: kinds.get(name, "*fp32") for name in names},
            constexprs={(names.index(n),): v for n, v in constants.items() if n in names},
        )
        compiled = triton.compile(
            source,
            target=GPUTarget("cuda", 86, 32),
            options={"num_warps": warps, "num_stages": stages},
        )
        assert compiled.metadata.shared <= 99 * 1024


def test_a_gpu_takes_more_masks_at_once_where_no_gradients_are_kept(monkeypatch):
    from torch._subclasses.fake_tensor import FakeTensorMode

    from tests.engine.invert.test_map_memory import MB, a_layer

    sizes = []
    for usable in (False, True):
        monkeypatch.setattr(fused, "usable", lambda _, usable=usable: usable)
        with FakeTensorMode():
            sizes.append(legrad.LeGrad([a_layer("cuda")], 1024 * MB).group_size)
    assert sizes[1] > 2 * sizes[0]
