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
from napari_maskinversion.engine.compute.matmul import float32_products
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

    for trial in (fused.KERNELS, fused.PRODUCTS):
        monkeypatch.setattr(trial, "works", True)
    for tried in (fused._tried, fused._tried_products):
        tried.cache_clear()
    yield install
    for tried in (fused._tried, fused._tried_products):
        tried.cache_clear()


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


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(
    groups=st.integers(1, 3),
    count=st.integers(1, 140),
    terms=st.integers(1, 70),
    columns=st.integers(1, 140),
    own=st.booleans(),
    turned=st.booleans(),
)
@example(2, 65, 33, 129, True, True)
@example(1, 1, 32, 1, False, False)
def test_products_with_slopes_are_those_of_plain_ones(
    interpreted, groups, count, terms, columns, own, turned
):
    """One slope for all groups, or each its own; the matrix may be a turned view."""
    random = torch.Generator().manual_seed(count * terms)

    def whole(*shape):
        return torch.randint(-3, 4, shape, generator=random).float()

    factors, slope = whole(groups, terms), whole(*((groups,) if own else ()), count, terms)
    matrix = whole(columns, terms).T if turned else whole(terms, columns)
    gradient, out = whole(groups, count, columns), torch.full((groups, count, columns), torch.nan)
    interpreted.scaled_product(factors, slope, matrix, out)
    assert torch.equal(out, (factors[:, None] * slope) @ matrix)
    folded = interpreted.folded_product(gradient, matrix, slope)
    assert torch.equal(folded, (gradient @ matrix.T * slope).sum(1))


def test_an_inversion_gives_what_the_published_implementation_gives(interpreted, use):
    use(interpreted)
    case = np.load(next(path for path in FILES if path.stem == "gelu_native"))
    engine = inverter(load_tower(case), device="cpu")
    engine.set_image_tensor(torch.tensor(case["image"]))
    result = engine.invert(case["masks"], load_config(case))
    assert result.route == "direct, fused, fused products"
    expected = case["localized_embeddings"]
    lengths = np.linalg.norm(result.raw_embeddings, axis=1) * np.linalg.norm(expected, axis=1)
    assert (1 - (result.raw_embeddings * expected).sum(1) / lengths).max() < 1e-5


def small_inverter(**keywords):
    engine = inverter(tower(layers=2), device="cpu", **keywords)
    engine.set_image_tensor(image())
    return engine


CALL = {"steps": 3, "layers": 2, "alpha": 1.0}
SHORT = CALL | {"steps": 1}


@pytest.mark.parametrize("route", ["direct", "decomposed"])
@pytest.mark.parametrize("memory_mb", [0, 1024], ids=["one by one", "one group"])
def test_an_inversion_is_the_same_with_and_without_kernels(interpreted, use, route, memory_mb):
    engine = small_inverter(memory_mb=memory_mb)
    plain = engine.invert(masks(2), route=route, **CALL)
    use(interpreted)
    engine.set_image_tensor(image())
    kernels = engine.invert(masks(2), route=route, **CALL)
    assert (plain.route, kernels.route) == (route, f"{route}, fused, fused products")
    assert (1 - (plain.embeddings * kernels.embeddings).sum(1)).max() < 1e-6
    np.testing.assert_allclose(kernels.grid_maps, plain.grid_maps, rtol=0, atol=1e-4)


def test_each_mask_of_several_images_meets_the_values_of_its_own(interpreted, use):
    model, side = wrap_open_clip(tiny_clip()), 32
    tensors = torch.cat([image(side, side, seed) for seed in (1, 2, 3)])
    regions = [Regions.from_masks(masks(count, side, side)) for count in (1, 2, 1)]
    config = InversionConfig(steps=3, alpha=1.0)
    batch = ImageBatch(model, tensors, [(side, side)] * 3, config, 1 << 30)
    plain = batch.invert(regions)
    use(interpreted)
    for alone, result in zip(plain, batch.invert(regions), strict=True):
        assert (alone.route, result.route) == ("direct", "direct, fused, fused products")
        assert (1 - (alone.embeddings * result.embeddings).sum(1)).max() < 1e-6


MAPS, PRODUCTS = ("positive_sums", "vjp"), ("scaled_product", "folded_product")


class Broken:
    """Kernels of a driver that fails at a call of some, and never answers again."""

    def __init__(self, module, names, calls, error=None):
        self._module, self._names, self.left = module, names, calls
        self._error = error or RuntimeError("CUDA error:\nunknown error")

    def __getattr__(self, name):
        def call(*arguments, **keywords):
            self.left -= name in self._names
            if self.left < 0:
                raise self._error
            return getattr(self._module, name)(*arguments, **keywords)

        return call if name in self._names else getattr(self._module, name)


@pytest.mark.parametrize(
    "calls", [0, 1, 2, 4, 7], ids=["compiling", "trying", "forward", "backward", "later"]
)
@pytest.mark.parametrize(
    ("names", "left"), [(MAPS, "fused products"), (PRODUCTS, "fused")], ids=["maps", "products"]
)
def test_a_driver_that_fails_is_told_once_and_the_work_goes_on_without(
    interpreted, use, names, left, calls
):
    engine = small_inverter()
    plain = engine.invert(masks(2), **SHORT)
    broken = Broken(interpreted, names, calls)
    use(broken)
    engine.set_image_tensor(image())
    with pytest.warns(UserWarning, match=r"failed on this GPU .*CUDA error: unknown error") as told:
        result = engine.invert(masks(2), **SHORT)
    assert len(told) == 1
    assert result.route == f"direct, {left}"
    assert (1 - (plain.embeddings * result.embeddings).sum(1)).max() < 1e-6
    broken.left = 1000
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = engine.invert(masks(2), **SHORT)
    assert broken.left == 1000
    assert (1 - (plain.embeddings * again.embeddings).sum(1)).max() < 1e-6


@pytest.mark.parametrize("names", [MAPS, PRODUCTS])
def test_memory_that_runs_out_is_no_failure_of_the_kernels(interpreted, use, names):
    engine = small_inverter()
    use(Broken(interpreted, names, 3, torch.OutOfMemoryError("CUDA out of memory")))
    with pytest.raises(torch.OutOfMemoryError):
        engine.invert(masks(2), **CALL)
    use(interpreted)
    assert engine.invert(masks(2), steps=1).route == "direct, fused, fused products"


def test_matrices_of_an_image_are_made_without_a_kernel_that_fails(interpreted, use):
    """Of many blocks, from the one on at which it fails."""
    engine = small_inverter()
    plain = engine.invert(masks(2), route="decomposed", **SHORT)
    use(Broken(interpreted, PRODUCTS, 3))
    engine.set_image_tensor(image())
    with pytest.warns(UserWarning, match="kernels of products failed"):
        result = engine.invert(masks(2), route="decomposed", **SHORT)
    assert result.route == "decomposed, fused"
    assert (1 - (plain.embeddings * result.embeddings).sum(1)).max() < 1e-6


def test_kernels_that_compute_something_else_are_not_used(interpreted, use):
    def wrong(name):
        return lambda *arguments: 2 * getattr(interpreted, name)(*arguments)

    right = {name: getattr(interpreted, name) for name in (*MAPS, *PRODUCTS)}
    for name, left in (("positive_sums", "fused products"), ("folded_product", "fused")):
        use(SimpleNamespace(**right | {name: wrong(name)}))
        for tried in (fused._tried, fused._tried_products):
            tried.cache_clear()
        with pytest.warns(UserWarning, match="disagree"):
            assert small_inverter().invert(masks(1), steps=1).route == f"direct, {left}"
        fused.KERNELS.works = fused.PRODUCTS.works = True


def test_products_of_tf32_and_of_half_precision_stay_as_they_are(interpreted, use):
    use(interpreted)
    assert fused.multiplies(torch.zeros(2, 3))
    with float32_products(tf32=True):
        assert not fused.multiplies(torch.zeros(2, 3))
    assert not fused.multiplies(torch.zeros(2, 3, dtype=torch.bfloat16))


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
    options |= {"own": True, "terms": 3072, "columns": 768, "term_step": 1, "column_step": 3072}
    rows, columns, terms, *product = kernels._PRODUCTS
    blocks = {"row_block": rows, "column_block": columns, "term_block": terms}
    for kernel, table, folded in (
        (kernels._sums_kernel, kernels._SUMS, False),
        (kernels._vjp_kernel, kernels._VJP, False),
        (kernels._product_kernel, None, False),
        (kernels._product_kernel, None, True),
    ):
        queries, tokens, warps, stages = table[False, True] if table else (0, 0, *product)
        constants = options | blocks | {"query_block": queries, "token_block": tokens}
        constants["folded"] = folded
        kinds = dict.fromkeys(("images", "queries", "tokens", "rows"), "i32")
        kinds |= {"image_start": "*i64"} | dict.fromkeys(constants, "constexpr")
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
