"""The engine gives what the published implementation gives, to its printed digits."""

from pathlib import Path

import numpy as np
import pytest
import torch
from open_clip.transformer import QuickGELU, VisionTransformer

from napari_maskinversion import InversionConfig
from napari_maskinversion.engine.explain.interpolation import heatmap
from napari_maskinversion.engine.explain.legrad import LeGrad, MapLayer
from napari_maskinversion.engine.explain.routes import DirectRoute
from napari_maskinversion.engine.models.towers import tower_of

from .libraries import all_by_onednn
from .towers import inverter

FILES = sorted((Path(__file__).parents[1] / "reference").glob("*.npz"))


def load_tower(case):
    embed_dim, size, layers, width, head_width, patch, quick_gelu = map(int, case["config"])
    visual = VisionTransformer(
        size,
        patch,
        width,
        layers,
        width // head_width,
        4.0,
        output_dim=embed_dim,
        act_layer=QuickGELU if quick_gelu else torch.nn.GELU,
    )
    weights = {k[7:]: torch.tensor(case[k]) for k in case.files if k.startswith("visual.")}
    visual.load_state_dict(weights)
    return visual


def load_config(case):
    steps, rate, alpha, decay, layer_index = case["hyper"]
    return InversionConfig(
        steps=int(steps),
        learning_rate=float(rate),
        alpha=float(alpha),
        weight_decay=float(decay),
        layers=int(-layer_index),
        keep_last_step_heatmaps=True,
    )


def test_all_seven_reference_files_are_here():
    assert len(FILES) == 7


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def case(request):
    return np.load(request.param)


@pytest.fixture(params=["blas", "onednn"])
def library(request, monkeypatch):
    if request.param == "onednn":
        all_by_onednn(monkeypatch)


@pytest.fixture
def heads(request, monkeypatch):
    explain = "napari_maskinversion.engine.explain"
    if request.param != "all heads":
        for module in ("legrad", "routes"):
            monkeypatch.setattr(f"{explain}.{module}.rows_at_once", lambda _: 0)
    if request.param == "few queries":
        monkeypatch.setattr(f"{explain}.legrad._CPU_NUMBERS", 50)


@pytest.mark.usefixtures("library", "heads")
@pytest.mark.parametrize(
    ("heads", "memory_mb"),  # without memory mask by mask, with it all in one group
    [("all heads", 0), ("all heads", 1024), ("head by head", 1024), ("few queries", 0)],
    indirect=["heads"],
)
def test_embeddings_maps_and_losses_agree(case, memory_mb):
    engine = inverter(load_tower(case), memory_mb=memory_mb)
    engine.set_image_tensor(torch.tensor(case["image"]))
    result = engine.invert(case["masks"], load_config(case))

    np.testing.assert_allclose(engine.image_embedding, case["cls_embedding"], atol=1e-5)
    expected = case["localized_embeddings"]
    lengths = np.linalg.norm(result.raw_embeddings, axis=1) * np.linalg.norm(expected, axis=1)
    assert ((result.raw_embeddings * expected).sum(1) / lengths).min() >= 0.99999
    assert np.abs(result.last_step_heatmaps - case["last_step_maps"]).max() <= 1e-3
    # The file holds means over the masks, rounded to three digits.
    np.testing.assert_allclose(result.losses[:, :-1].mean(0), case["loss_per_step"], atol=5.1e-4)


def test_maps_of_given_embeddings_agree(case):
    layers = int(-case["hyper"][4])
    encoding = tower_of(load_tower(case)).encode(torch.tensor(case["image"]), layers)
    legrad = LeGrad(
        [MapLayer(c.values, DirectRoute(c), c.offset) for c in encoding.layers],
        2**28,
    )
    maps = legrad.forward(torch.tensor(case["query_embeddings"]))
    for tokens, expected in zip(maps, case["legrad_maps"], strict=True):
        heat = heatmap(tokens.reshape(encoding.grid).numpy(), encoding.input_size)
        assert np.abs(heat - expected).max() <= 1e-3
