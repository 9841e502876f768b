"""Methods and towers against the numbers of their authors' own code, on random weights.

`tests/authors/README.md` says which code, settings and seeds made the numbers; no code is there.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import timm
import torch
import torch.nn.functional as F

from napari_maskinversion.base.errors import ModelError
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.bench.measures.relations import (
    Phrase,
    class_token_maps,
    map_scores,
    related,
)
from napari_maskinversion.engine.encode.token_grid import TokenGrid
from napari_maskinversion.engine.methods.factory import region_embedder
from napari_maskinversion.engine.models.loading import wrap_open_clip
from napari_maskinversion.engine.models.state_layouts import translated
from napari_maskinversion.engine.models.towers import tower_of
from napari_maskinversion.language.labels.label import TEMPLATES
from tests.engine.random_weights import drawn, picture
from tests.engine.timm_towers import Visual
from tests.engine.tiny import random_clip

AUTHORS = Path(__file__).parents[2] / "authors"
ATOL = 1e-5  # of numbers up to about one: float32, in another order
SIDE = 112

METHODS_OF_TOKENS = ["naclip", "sclip", "clearclip", "maskclip", "maskclip-values", "resclip"]


def numbers_of(name):
    return np.load(AUTHORS / f"{name}.npz")


def fill(module, seed, convert=lambda state: state):
    """Give a module the authors' weights of this seed, by their names of its tensors."""
    shapes = {name: tuple(value.shape) for name, value in module.state_dict().items()}
    state = {name: torch.from_numpy(value) for name, value in drawn(shapes, seed).items()}
    module.load_state_dict(convert(state))


@pytest.fixture(scope="module")
def clip():
    """open_clip's ViT of twelve blocks, QuickGELU."""
    vision = {"layers": 12, "width": 128, "head_width": 64, "patch_size": 16, "image_size": SIDE}
    text = {"width": 32, "heads": 2, "layers": 1}
    module = random_clip({"embed_dim": 64, "vision_cfg": vision, "text_cfg": text}, quick_gelu=True)
    fill(module.visual, seed=7)
    return wrap_open_clip(module)


@pytest.fixture(scope="module")
def clip_numbers():
    return numbers_of("clip_methods")


def embedded(model, name, image, masks, **options):
    """Embeddings (N, e) of a method before they are normalised."""
    method = region_embedder(name, model, resolution=SIDE, **options)
    encoded = method.encode(image, 1.0, True)
    return method.embed_regions(encoded, Regions.from_masks(masks)).numpy()


def means(tokens, masks):
    """Means (N, e) of unit tokens (49, e), each by the share of it that a mask covers."""
    cells = masks.reshape(len(masks), 7, 16, 7, 16).mean((2, 4)).reshape(len(masks), 49)
    return cells @ tokens / cells.sum(1, keepdims=True)


@pytest.mark.parametrize("name", METHODS_OF_TOKENS)
def test_tokens_are_those_of_the_authors_code(clip, clip_numbers, name):
    masks = clip_numbers["masks"]
    embeddings = embedded(clip, name, clip_numbers["image"], masks)
    np.testing.assert_allclose(embeddings, means(clip_numbers[name], masks), rtol=0, atol=ATOL)


def test_clip_surgery_averages_the_unit_tokens_of_the_authors_code(clip, clip_numbers):
    tokens = clip_numbers["clip-surgery"]
    tokens = tokens / np.linalg.norm(tokens, axis=1, keepdims=True)
    masks = clip_numbers["masks"]
    embeddings = embedded(clip, "clip-surgery", clip_numbers["image"], masks)
    np.testing.assert_allclose(embeddings, means(tokens, masks), rtol=0, atol=ATOL)


def test_the_image_is_that_of_the_authors_code(clip, clip_numbers):
    masks = np.ones((1, SIDE, SIDE), bool)
    (embedding,) = embedded(clip, "cls", clip_numbers["image"], masks)
    np.testing.assert_allclose(embedding, clip_numbers["cls"], rtol=0, atol=ATOL)


@pytest.mark.parametrize("layers", [4, 9])
def test_resclip_needs_the_blocks_that_its_authors_look_at(layers):
    vision = {"layers": layers, "width": 32, "head_width": 16, "patch_size": 8, "image_size": 64}
    text = {"width": 32, "heads": 2, "layers": 1}
    model = wrap_open_clip(random_clip({"embed_dim": 24, "vision_cfg": vision, "text_cfg": text}))
    with pytest.raises(ModelError, match=rf"blocks 6 to 9; .* has {layers} blocks.*NACLIP"):
        region_embedder("resclip", model)


@pytest.mark.parametrize("which", ["masks", "whole"])
def test_textregion_pools_all_tokens_of_a_mask_as_the_authors_code(clip, which):
    numbers = numbers_of("textregion")
    masks = numbers[which]
    embeddings = embedded(clip, "textregion", numbers["image"], masks, threshold=-2.0)
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    np.testing.assert_allclose(unit, numbers[f"clip/{which}/all"], rtol=0, atol=ATOL)


def test_maps_of_reclip_are_those_of_its_code(clip, clip_numbers):
    image = clip.preprocess(clip_numbers["image"], resolution=SIDE)
    maps = class_token_maps(clip, image, clip_numbers["reclip-texts"])
    expected = clip_numbers["reclip-maps"] / 100  # theirs are of the cosine times the temperature
    scale = float(np.abs(expected).max())
    np.testing.assert_allclose(maps.reshape(expected.shape), expected, rtol=0, atol=1e-4 * scale)


def test_boxes_get_the_shares_of_the_map_that_reclips_code_gives_them(clip, clip_numbers):
    image = clip.preprocess(clip_numbers["image"], resolution=SIDE)
    maps = class_token_maps(clip, image, clip_numbers["reclip-texts"][:1])
    (scores,) = map_scores(maps, Regions.from_masks(clip_numbers["masks"]))
    shares = scores / scores.sum()
    np.testing.assert_allclose(shares, [0.2025, 0.1334, 0.2384, 0.4258], rtol=0, atol=2e-4)


def test_sentences_with_relations_rank_boxes_as_reclips_code():
    numbers = numbers_of("relations")
    masks = np.zeros((len(numbers["boxes"]), 100, 100), bool)
    for mask, (y0, x0, y1, x1) in zip(masks, numbers["boxes"], strict=True):
        mask[y0:y1, x0:x1] = True
    regions = Regions.from_masks(masks)
    texts = ["sentence", "head", "other"]
    for case in range(len(numbers["best"])):
        phrase = Phrase(
            "head",
            relation=str(numbers["relation"][case]),
            other="other",
            extreme=str(numbers["extreme"][case]),
        )
        (scores,) = related(numbers["logits"][case], [phrase], texts, regions)
        probabilities = np.exp(scores - scores.max())
        probabilities /= probabilities.sum()
        np.testing.assert_allclose(
            probabilities, numbers["probabilities"][case], rtol=1e-3, atol=1e-9
        )
        assert scores.argmax() == numbers["best"][case]


@pytest.mark.parametrize("side", [192, 480, 1200])
def test_fgvp_blurs_alike_whatever_the_size_of_the_image(side):
    """Resizing differs from the authors', so blocks of 8 x 8 pixels are compared."""
    image, mask = picture(side, side * 4 // 3)
    model = wrap_open_clip(
        random_clip(
            {
                "embed_dim": 24,
                "vision_cfg": {
                    "layers": 1, "width": 32, "head_width": 16, "patch_size": 16, "image_size": 224,
                },
                "text_cfg": {"width": 32, "heads": 2, "layers": 1},
            }
        )
    )  # fmt: skip
    method = region_embedder("fgvp", model, resolution=224)
    encoded = method.encode(image, 1.0, False)
    (region,) = Regions.from_masks(mask[None])
    (tensor,) = method.pictures(encoded, region)
    blocks = F.avg_pool2d(tensor, 8)[0].numpy()
    expected = numbers_of("pictures")[f"blur_mask/{side}"]
    difference = np.abs(blocks - expected)
    assert difference.max() < 0.2  # at the mask's edge
    assert np.mean(difference > 0.1) < 0.01


def perception_encoder():
    """timm's PE-Core, tiny, with the authors' weights under their names."""
    trunk = timm.create_model(
        "vit_pe_core_base_patch16_224",
        img_size=SIDE,
        embed_dim=128,
        depth=4,
        num_heads=2,
        ref_feat_shape=(7, 7),
        attn_pool_num_heads=2,
        num_classes=64,
    )
    shapes = {"class_embedding": (128,), "positional_embedding": (50, 128), "proj": (128, 64)}
    shapes["conv1.weight"] = (128, 3, 16, 16)
    layer = {
        "attn.in_proj_weight": (384, 128),
        "attn.in_proj_bias": (384,),
        "attn.out_proj.weight": (128, 128),
        "attn.out_proj.bias": (128,),
    }
    mlp = {
        "mlp.c_fc.weight": (512, 128),
        "mlp.c_fc.bias": (512,),
        "mlp.c_proj.weight": (128, 512),
        "mlp.c_proj.bias": (128,),
    }
    for norm in ("ln_pre", "ln_post"):
        shapes |= {f"{norm}.weight": (128,), f"{norm}.bias": (128,)}
    for number in range(4):
        block = f"transformer.resblocks.{number}."
        for norm in ("ln_1", "ln_2"):
            shapes |= {f"{block}{norm}.weight": (128,), f"{block}{norm}.bias": (128,)}
        shapes |= {f"{block}{name}": shape for name, shape in {**layer, **mlp}.items()}
    shapes["attn_pool.probe"] = (1, 1, 128)
    shapes |= {"attn_pool.layernorm.weight": (128,), "attn_pool.layernorm.bias": (128,)}
    shapes |= {f"attn_pool.{name}": shape for name, shape in {**layer, **mlp}.items()}
    state = {name: torch.from_numpy(value) for name, value in drawn(shapes, 21).items()}
    trunk.load_state_dict(timm.models.eva._convert_pe(state, trunk, prefix=""))
    return Visual(trunk).eval()


@pytest.mark.parametrize("size", ["112x112", "96x160", "160x160", "224x224"])
def test_pe_core_is_that_of_its_authors_at_any_size(size):
    height, width = map(int, size.split("x"))
    generator = np.random.default_rng([21, height, width])
    image = torch.from_numpy(generator.standard_normal((1, 3, height, width), np.float32))
    tower = tower_of(perception_encoder())
    embedding = tower.embed_images(image)
    np.testing.assert_allclose(embedding.numpy(), numbers_of("pe_core")[size], rtol=0, atol=ATOL)


def tipsv2():
    """timm's TIPSv2, tiny, with the authors' weights under their names."""
    trunk = timm.create_model(
        "vit_base_patch14_reg1_tipsv2",
        img_size=SIDE,
        embed_dim=128,
        depth=4,
        num_heads=2,
        num_classes=0,
    )
    shapes = {
        "cls_token": (1, 1, 128),
        "mask_token": (1, 128),
        "pos_embed": (1, 65, 128),
        "register_tokens": (1, 1, 128),
        "patch_embed.proj.weight": (128, 3, 14, 14),
        "patch_embed.proj.bias": (128,),
        "norm.weight": (128,),
        "norm.bias": (128,),
    }
    for number in range(4):
        block = f"blocks.{number}."
        for part in ("norm1", "norm2"):
            shapes |= {f"{block}{part}.weight": (128,), f"{block}{part}.bias": (128,)}
        shapes |= {f"{block}ls{which}.gamma": (128,) for which in (1, 2)}
        for part, rows, columns in (
            ("attn.qkv", 384, 128),
            ("attn.proj", 128, 128),
            ("mlp.fc1", 512, 128),
            ("mlp.fc2", 128, 512),
        ):
            shapes |= {f"{block}{part}.weight": (rows, columns), f"{block}{part}.bias": (rows,)}
    state = {
        f"vision_encoder.{name}": torch.from_numpy(value)
        for name, value in drawn(shapes, 31).items()
    }
    names = {name.removeprefix("visual.trunk."): value for name, value in translated(state).items()}
    names.pop("logit_scale")
    trunk.load_state_dict(names)
    return Visual(trunk).eval()


@pytest.mark.parametrize("size", ["112x112", "98x126", "168x168"])
def test_tipsv2_is_that_of_its_authors_at_any_size(size):
    height, width = map(int, size.split("x"))
    generator = np.random.default_rng([31, height, width])
    image = torch.from_numpy(generator.random((1, 3, height, width), np.float32))
    numbers, tower = numbers_of("tipsv2"), tower_of(tipsv2())
    embedding = tower.embed_images(image)
    np.testing.assert_allclose(embedding.numpy(), numbers[f"cls/{size}"], rtol=0, atol=ATOL)
    tokens, grid = tower.value_tokens(image)
    assert grid == TokenGrid(height // 14, width // 14)
    unit = F.normalize(tokens, dim=-1).numpy()
    np.testing.assert_allclose(unit, numbers[f"values/{size}"], rtol=0, atol=ATOL)


def test_nine_templates_are_those_of_tcl():
    """As TIPSv2's authors measure: seven of CLIP's, one of them with another article, and two."""
    assert TEMPLATES["nine"] == (
        "itap of a {}.",
        "a bad photo of a {}.",
        "a origami {}.",
        "a photo of the large {}.",
        "a {} in a video game.",
        "art of the {}.",
        "a photo of the small {}.",
        "a photo of many {}.",
        "a photo of {}s.",
    )
    assert TEMPLATES["ensemble"][1] == "a bad photo of the {}."
