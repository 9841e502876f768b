"""The page that lists every family of open_clip."""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from open_clip import factory

from napari_maskinversion import InversionConfig, MaskInverter
from napari_maskinversion.engine.models.towers import unsupported_config

from .engine import oracle_maps

ROOT = Path(__file__).parents[1]


pytestmark = pytest.mark.full  # they change with open_clip and timm, hardly with us


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("families", ROOT / "scripts" / "families.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def rows(script):
    page = (ROOT / "benchmarks" / "results" / "image-towers.md").read_text("utf-8")
    table = page.split(script.BEGIN)[1].split(script.END)[0].strip().splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_the_page_lists_every_architecture_once(rows):
    listed = [name for row in rows for name in row[1].split(", ")]
    assert sorted(listed) == sorted(factory._MODEL_CONFIGS)


def test_the_page_says_no_where_the_package_does(rows):
    for family, members, explained, *_ in rows:
        refused = {bool(unsupported_config(factory._MODEL_CONFIGS[m])) for m in members.split(", ")}
        assert refused == {explained.startswith("**no**")}, family


def test_a_tower_as_wide_as_bigg_has_the_maps_of_plain_autograd(script):
    visual = script.build("ViT-bigG-14", layers=1)
    width, heads = visual.conv1.out_channels, visual.transformer.resblocks[0].attn.num_heads
    assert (width, width // heads, visual.proj.shape[1]) == (1664, 104, 1280)
    picture = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(1))
    model = SimpleNamespace(clip=SimpleNamespace(visual=visual), device=torch.device("cpu"))
    inverter = MaskInverter(model)
    inverter.set_image_tensor(picture)
    with torch.no_grad():
        own = visual(picture)[0].numpy()
    np.testing.assert_allclose(inverter.image_embedding, own, atol=1e-4 * abs(own).max())
    embedding = torch.randn(1280, generator=torch.Generator().manual_seed(2))
    embedding /= embedding.norm()
    heatmap = inverter.explain(embedding[None].numpy())[0].ravel()
    expected = oracle_maps.legrad(visual, picture, embedding).detach().numpy()
    np.testing.assert_allclose(heatmap, expected, atol=1e-3 * expected.max())
    mask = np.zeros((1, 224, 224), bool)
    mask[0, 28:112, 28:112] = True
    losses = inverter.invert(mask, InversionConfig(steps=2)).losses[0]
    assert losses[-1] < losses[0]


def test_the_page_says_how_each_reads_texts(script, rows):
    for family, members, explained, _, texts, *_ in rows:
        if not explained.startswith("**no**"):
            assert texts == script.texts_of(members.split(", ")), family
    said = {row[0]: row[4] for row in rows}
    assert said["SigLIP 2"] == "by name, with transformers"
    assert "through `wrap_open_clip`: nllb-clip-base-siglip" in said["SigLIP"]


@pytest.mark.parametrize("name", ["PE-Core", "ConvNeXt"])
def test_a_family_is_examined_by_building_one_of_it(script, name):
    row = next(row for row in script.families() if row.name == name)
    script.examine(row)
    assert row.built in row.members
    if name == "PE-Core":
        assert row.explainers == ("legrad", "chefer")
        assert row.losses[1] < row.losses[0]
        assert not row.reason
    else:
        assert "convolutional" in row.reason
    assert row.built in script.table([row]) or row.reason in script.table([row])
