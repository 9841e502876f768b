"""Methods to embed a region, each against a plain re-derivation on a tiny random open_clip model.

The re-derivations use open_clip's own forward, hooks and PIL, one region at a time.
"""

from __future__ import annotations

import copy
import math
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFilter
from safetensors.torch import save_file

from napari_maskinversion.base.errors import ConfigError, InputError, MaskShapeError, ModelError
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.engine.invert.inverter import MaskInverter, regions_of
from napari_maskinversion.engine.methods.factory import region_embedder
from napari_maskinversion.engine.methods.registry import METHODS, Method, list_methods
from napari_maskinversion.engine.models.loading import wrap_open_clip
from napari_maskinversion.engine.settings import InversionConfig
from tests.engine.timm_towers import build
from tests.engine.tiny import random_clip, snapshot, tiny_clip

SIDE = 64  # eight by eight tokens of eight pixels
BOXES = ((16, 24, 40, 56), (0, 0, 8, 64), (32, 8, 64, 24))  # whole tokens: y0, x0, y1, x1
TWO = InversionConfig(steps=2)


# How many of the last blocks RIS masks and CLIPSurgery adds a path to, by the number of blocks.
RIS_BLOCKS = {4: 1, 12: 3}
SURGERY_BLOCKS = {4: 4, 12: 6}
RES_BLOCKS = [5, 6, 7, 8]


def of_layers(layers):
    vision = {"layers": layers, "width": 32, "head_width": 16, "patch_size": 8, "image_size": SIDE}
    text = {"width": 32, "heads": 2, "layers": 1}
    config = {"embed_dim": 24, "vision_cfg": vision, "text_cfg": text}
    return random_clip(config, quick_gelu=True)


@pytest.fixture(scope="module")
def model():
    return wrap_open_clip(of_layers(4))


@pytest.fixture(scope="module")
def deep():
    """As deep as a ViT-B."""
    return wrap_open_clip(of_layers(12))


@pytest.fixture
def tower(model, deep):
    """By a method's name, a model on which it works: ResCLIP looks at the sixth to ninth block."""
    return lambda name: deep if name == "resclip" else model


@pytest.fixture(scope="module")
def image():
    rng = np.random.default_rng(0)
    return rng.integers(0, 255, (SIDE, SIDE, 3)).astype(np.uint8)


@pytest.fixture(scope="module")
def masks():
    stack = np.zeros((len(BOXES), SIDE, SIDE), bool)
    for mask, (y0, x0, y1, x1) in zip(stack, BOXES, strict=True):
        mask[y0:y1, x0:x1] = True
    stack[0, 16:24, 24:40] = False  # a corner of two tokens is not part of the first
    return stack


def plain(model, pixels):
    """open_clip's own embedding of a square of RGB pixels at the native size."""
    picture = Image.fromarray(pixels)
    if picture.size != (SIDE, SIDE):
        # Resizing is preprocessing's, and tested with it.
        return clip_of(model, model.preprocess(pixels, resolution=SIDE, keep_aspect=False))
    x = torch.from_numpy(np.asarray(picture)).permute(2, 0, 1)[None].float() / 255
    x = (x - torch.tensor(model.mean)[:, None, None]) / torch.tensor(model.std)[:, None, None]
    return clip_of(model, x)


@torch.no_grad()
def clip_of(model, tensor):
    return model.clip.encode_image(tensor)[0].numpy()


def tokens_before(model, image, block):
    """Input (n, d) of a block in open_clip's own forward."""
    kept = {}
    handle = model.clip.visual.transformer.resblocks[block].register_forward_hook(
        lambda _, inputs, out: kept.update(x=inputs[0])
    )
    try:
        plain(model, image)
    finally:
        handle.remove()
    return kept["x"][0]


def qkv(block, x):
    """Queries, keys, values per head, (h, n, d / h), of tokens (n, d)."""
    weight, bias = block.attn.in_proj_weight, block.attn.in_proj_bias
    parts = (block.ln_1(x) @ weight.T + bias).chunk(3, -1)
    heads, size = block.attn.num_heads, x.shape[-1] // block.attn.num_heads
    return [torch.stack([p[:, h * size : (h + 1) * size] for h in range(heads)]) for p in parts]


def attend(block, attention, values):
    """Output projection of a plain loop over heads."""
    mixed = torch.cat([a @ v for a, v in zip(attention, values, strict=True)], -1)
    return mixed @ block.attn.out_proj.weight.T + block.attn.out_proj.bias


def own(one):
    """Softmax of the scaled products with themselves, head by head."""
    return torch.stack([torch.softmax(o @ o.T / math.sqrt(o.shape[-1]), -1) for o in one])


def average(model, tokens, mask, unit=True):
    """Mean of the projected patch tokens that lie in a mask of whole tokens."""
    visual = model.clip.visual
    rows = visual.ln_post(tokens)[1:] @ visual.proj
    rows = F.normalize(rows, dim=-1) if unit else rows
    inside = torch.from_numpy(mask[4::8, 4::8].reshape(-1))
    return rows[inside].mean(0).detach().numpy()


def crop_oracle(model, image, mask):
    ys, xs = np.nonzero(mask)
    return plain(model, image[ys.min() : ys.max() + 1, xs.min() : xs.max() + 1])


def painted(image, mask):
    mean = np.array([124, 116, 104], np.uint8)  # the data set's, of 0..255
    return np.where(mask[..., None], image, mean)


def masked_oracle(model, image, mask):
    return plain(model, painted(image, mask))


def masked_box_oracle(model, image, mask):
    return crop_oracle(model, painted(image, mask), mask)


def circle(image, mask, outside):
    ys, xs = np.nonzero(mask)
    box = (int(xs.min()), int(ys.min()), int(xs.max()), int(ys.max()))
    picture = Image.fromarray(image)
    disc = Image.new("1", picture.size)
    ImageDraw.Draw(disc).ellipse(box, fill=1)
    changed = {
        "as it is": picture,
        "grey": Image.merge("RGB", [picture.convert("L")] * 3),
        "blurred": picture.filter(ImageFilter.GaussianBlur(10)),
    }[outside].copy()
    changed.paste(picture, (0, 0), disc)
    ImageDraw.Draw(changed).ellipse(box, outline="red", width=2)
    return np.asarray(changed)


def circle_oracle(outside):
    return lambda model, image, mask: plain(model, circle(image, mask, outside))


def circle_mean_oracle(model, image, mask):
    looks = [plain(model, circle(image, mask, o)) for o in ("as it is", "grey", "blurred")]
    return np.mean([row / np.linalg.norm(row) for row in looks], axis=0)


def fgvp_oracle(model, image, mask):
    radius = 100 * min(image.shape[:2]) / 384
    blurred = Image.fromarray(image).filter(ImageFilter.GaussianBlur(radius))
    blurred.paste(Image.fromarray(image), (0, 0), Image.fromarray(mask))
    return plain(model, np.asarray(blurred))


def corners(mask):
    """The corners of a box, the last one included, as PIL draws them."""
    y, x = np.nonzero(mask)
    return x.min(), y.min(), x.max(), y.max()


def box_blur_oracle(model, image, mask):
    box = Image.new("L", image.shape[1::-1])
    ImageDraw.Draw(box).rectangle(corners(mask), fill=255)
    blurred = Image.fromarray(image).filter(ImageFilter.GaussianBlur(100))
    blurred.paste(Image.fromarray(image), mask=box)
    return plain(model, np.asarray(blurred))


def shade_oracle(model, image, mask):
    overlay = Image.new("RGBA", image.shape[1::-1])
    ImageDraw.Draw(overlay).rectangle(corners(mask), fill=(240, 0, 30, 127))
    shaded = Image.alpha_composite(Image.fromarray(image).convert("RGBA"), overlay)
    return plain(model, np.asarray(shaded.convert("RGB")))


@torch.no_grad()
def ris_oracle(model, image, mask):
    """The patch tokens are weighed before each of the last blocks, however soft the mask is."""
    visual = model.clip.visual
    blocks = visual.transformer.resblocks
    first = len(blocks) - RIS_BLOCKS[len(blocks)]
    x = tokens_before(model, image, first).clone()
    shares = mask.reshape(8, 8, 8, 8).astype(np.float32).mean((1, 3)).reshape(-1)
    for block in blocks[first:]:
        for row, inside in enumerate(shares):
            x[1 + row] *= float(inside)
        x = block(x[None])[0]
    own_share = (visual.ln_post(x[0]) @ visual.proj).numpy()
    cut = crop_oracle(model, painted(image, mask >= 0.5), mask > 0)
    return 0.95 * own_share + 0.05 * cut


@torch.no_grad()
def maskclip_oracle(model, image, mask, values_only=False):
    block = model.clip.visual.transformer.resblocks[-1]
    x = tokens_before(model, image, -1)
    values = qkv(block, x)[2]
    y = attend(block, [torch.eye(len(x))] * len(values), values)
    if not values_only:
        y = x + y
        y = y + block.mlp(block.ln_2(y))
    return average(model, y, mask)


@torch.no_grad()
def surgery_oracle(model, image, mask):
    """The last blocks have both paths, the new one fed by the old one's values."""
    blocks = model.clip.visual.transformer.resblocks
    first = len(blocks) - SURGERY_BLOCKS[len(blocks)]
    old = tokens_before(model, image, first)
    new = old
    for block in blocks[first:]:
        queries, keys, values = qkv(block, old)
        new = new + attend(block, own(values), values)
        scale = math.sqrt(queries.shape[-1])
        usual = torch.softmax(queries @ keys.transpose(1, 2) / scale, -1)
        old = old + attend(block, usual, values)
        old = old + block.mlp(block.ln_2(old))
    return average(model, new, mask)


@torch.no_grad()
def sclip_oracle(model, image, mask):
    block = model.clip.visual.transformer.resblocks[-1]
    x = tokens_before(model, image, -1)
    queries, keys, values = qkv(block, x)
    x = x + attend(block, own(queries) + own(keys), values)
    x = x + block.mlp(block.ln_2(x))
    return average(model, x, mask)


def last_attention_alone(model, image, mask, attention_of):
    """The last block without residual and MLP."""
    block = model.clip.visual.transformer.resblocks[-1]
    queries, keys, values = qkv(block, tokens_before(model, image, -1))
    return average(model, attend(block, attention_of(queries, keys), values), mask)


@torch.no_grad()
def clearclip_oracle(model, image, mask):
    return last_attention_alone(model, image, mask, lambda queries, keys: own(queries))


def near_keys(keys):
    """NACLIP's attention; the neighbourhood token by token."""
    near = torch.zeros(65, 65)
    for one in range(64):
        for other in range(64):
            apart = (one // 8 - other // 8) ** 2 + (one % 8 - other % 8) ** 2
            near[1 + one, 1 + other] = math.exp(-apart / (2 * 5**2))
    return torch.stack([torch.softmax(k @ k.T / math.sqrt(k.shape[-1]) + near, -1) for k in keys])


@torch.no_grad()
def naclip_oracle(model, image, mask):
    return last_attention_alone(model, image, mask, lambda queries, keys: near_keys(keys))


@torch.no_grad()
def resclip_oracle(model, image, mask):
    """Blocks 6 to 9, each head by itself; twice 0.6 of NACLIP's attention and 0.4 of theirs."""
    blocks = model.clip.visual.transformer.resblocks
    middle = torch.zeros(())
    for number in RES_BLOCKS:
        queries, keys, _ = qkv(blocks[number], tokens_before(model, image, number))
        heads = [
            torch.softmax(q @ k.T / math.sqrt(q.shape[-1]), -1)
            for q, k in zip(queries, keys, strict=True)
        ]
        middle = middle + torch.stack(heads) / len(RES_BLOCKS)
    return last_attention_alone(
        model, image, mask, lambda queries, keys: 2 * (0.6 * near_keys(keys) + 0.4 * middle)
    )


def kept_tokens(seen, mask):
    """Tokens of a mask that are more like those inside than like those outside, one by one."""
    inside = [place for place, one in enumerate(mask[4::8, 4::8].reshape(-1)) if one]
    outside = sorted(set(range(len(seen))) - set(inside))
    kept = []
    for token in inside:
        like = [
            np.mean([float(F.cosine_similarity(seen[token], seen[o], dim=0)) for o in others])
            for others in (inside, outside)
        ]
        if like[0] - like[1] >= 0.07:
            kept.append(token)
    return kept or inside


@torch.no_grad()
def textregion_oracle(model, image, mask):
    visual = model.clip.visual
    block = visual.transformer.resblocks[-1]
    values = qkv(block, tokens_before(model, image, -1))[2][:, 1:]
    kept = kept_tokens(values.transpose(0, 1).flatten(1), mask)
    y = attend(block, [torch.ones(1, len(kept))] * len(values), values[:, kept])
    y = y + block.mlp(block.ln_2(y))
    return (visual.ln_post(y) @ visual.proj)[0].numpy()


def inversion_oracle(model, image, mask):
    inverter = MaskInverter(model)
    inverter.set_image(image, resolution=SIDE)
    return inverter.invert(mask[None], TWO).raw_embeddings[0]


def fusion_oracle(model, image, mask):
    parts = [crop_oracle(model, image, mask), maskclip_oracle(model, image, mask)]
    return np.mean([part / np.linalg.norm(part) for part in parts], axis=0)


ORACLES = {
    "maskinversion": inversion_oracle,
    "cls": lambda model, image, mask: plain(model, image),
    "crop": crop_oracle,
    "masked-crop": masked_oracle,
    "masked-crop-box": masked_box_oracle,
    "red-circle": circle_oracle("as it is"),
    "red-circle-grey": circle_oracle("grey"),
    "red-circle-blur": circle_oracle("blurred"),
    "red-circle-mean": circle_mean_oracle,
    "fgvp": fgvp_oracle,
    "box-blur": box_blur_oracle,
    "shade": shade_oracle,
    "ris": ris_oracle,
    "maskclip": maskclip_oracle,
    "maskclip-values": lambda *arguments: maskclip_oracle(*arguments, values_only=True),
    "clip-surgery": surgery_oracle,
    "sclip": sclip_oracle,
    "clearclip": clearclip_oracle,
    "naclip": naclip_oracle,
    "resclip": resclip_oracle,
    "textregion": textregion_oracle,
    "crop+maskclip": fusion_oracle,
}


def embedder(model, name, **more):
    return region_embedder(name, model, resolution=SIDE, inversion=TWO, **more)


def embed(method, image, masks):
    """As the authors, before anything is normalised."""
    return method.embed_regions(
        method.encode(image, 1.0, True), regions_of(masks, image.shape[:2])
    ).numpy()


@pytest.mark.parametrize("name", ORACLES)
def test_a_method_is_what_its_authors_describe(tower, image, masks, name):
    model = tower(name)
    before = snapshot(model.clip)
    embeddings = embed(embedder(model, name), image, masks)
    assert embeddings.dtype == np.float32
    expected = np.stack([ORACLES[name](model, image, mask) for mask in masks])
    np.testing.assert_allclose(embeddings, expected, atol=5e-5 * np.abs(expected).max())
    assert snapshot(model.clip) == before


@pytest.mark.parametrize("name", ["box-blur", "shade"])
def test_boxes_of_reclip_are_of_the_whole_region(model, image, name):
    corner = np.zeros(image.shape[:2], bool)
    corner[8:40, 8:16] = corner[32:40, 8:48] = True
    embeddings = embed(embedder(model, name), image, corner[None])
    expected = ORACLES[name](model, image, corner)[None]
    np.testing.assert_allclose(embeddings, expected, atol=1e-3 * np.abs(expected).max())


def test_a_shaded_box_costs_its_pixels_not_those_of_the_image(model):
    image = np.zeros((1000, 1500, 3), np.uint8)
    mask = np.zeros(image.shape[:2], bool)
    mask[100:200, 300:400] = True
    method = embedder(model, "shade")
    tracemalloc.start()
    try:
        next(method.pictures(method.encode(image, 1.0, True), Regions.from_masks(mask)[0]))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4 * image.nbytes


@pytest.mark.parametrize("name", ["ris", "clip-surgery", "resclip"])
def test_twelve_blocks_are_changed_as_by_the_authors(deep, image, masks, name):
    embeddings = embed(embedder(deep, name), image, masks)
    expected = np.stack([ORACLES[name](deep, image, mask) for mask in masks])
    np.testing.assert_allclose(embeddings, expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("depth", ["model", "deep"])
def test_ris_weighs_tokens_by_a_soft_mask(depth, image, masks, request):
    model = request.getfixturevalue(depth)
    soft = masks.astype(np.float32)
    soft[0, 16:24, 40:56] = 0.3  # less than half: not of the masked crop, but of the tokens
    soft[1, :, 4:12] = 0.6  # of one token a half is whole
    soft[2, 40:48] *= 0.5
    embeddings = embed(embedder(model, "ris"), image, soft)
    expected = np.stack([ris_oracle(model, image, mask) for mask in soft])
    np.testing.assert_allclose(embeddings, expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("name", "resolution"),
    [("crop", 0), ("maskclip", -448), ("crop+maskclip", 1), ("maskinversion", 1)],
)
def test_a_resolution_that_is_too_small_is_refused(model, image, name, resolution):
    with pytest.raises(InputError, match=f"resolution of {resolution} px is too small"):
        region_embedder(name, model, resolution=resolution)
    embedder = region_embedder(name, model)
    with pytest.raises(InputError, match=f"resolution of {resolution} px is too small"):
        embedder.set_image(image, resolution=resolution)


@pytest.mark.parametrize("name", [*METHODS, "crop+maskclip", "MaskInverter"])
def test_set_image_and_embed_are_all_that_a_method_needs(tower, image, masks, tmp_path, name):
    model = tower(name)
    if name == "MaskInverter":
        embedder_of_regions = MaskInverter(model)
    else:
        method = Method(name)
        if name == "alphaclip":
            file = alpha_checkpoint(tmp_path, model, random_kernel(model), alone=True)
            method = Method(name, file)
        embedder_of_regions = region_embedder(method, model, inversion=TWO)
    with pytest.raises(InputError, match="call set_image"):
        embedder_of_regions.embed(masks)
    embedder_of_regions.set_image(image[::-1])
    embedder_of_regions.set_image(image)
    embeddings = embedder_of_regions.embed(masks)
    assert (embeddings.shape, embeddings.dtype) == ((3, model.embed_dim), np.float32)
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-5)
    for regions in (Regions.from_masks(masks), masks * 255, torch.from_numpy(masks)):
        np.testing.assert_allclose(embedder_of_regions.embed(regions), embeddings, atol=1e-5)
    np.testing.assert_allclose(embedder_of_regions.embed(masks[1]), embeddings[1:2], atol=1e-4)
    if name != "MaskInverter":
        raw = embed(embedder_of_regions, image, masks)
        unit = raw / np.linalg.norm(raw, axis=1, keepdims=True)
        np.testing.assert_allclose(embeddings, unit, atol=1e-5)


def test_every_method_has_an_oracle_or_needs_weights():
    assert set(METHODS) - set(ORACLES) == {"alphaclip"}


@pytest.mark.parametrize("name", sorted(set(ORACLES) - {"maskinversion"}))
def test_regions_of_one_call_do_not_touch_each_other(tower, masks, name):
    """Also on an image that is not square, and of 16 bits."""
    model = tower(name)
    rng = np.random.default_rng(1)
    image = rng.integers(0, 65535, (48, 80, 3)).astype(np.uint16)
    stack = np.concatenate([masks[:, :48], masks[:, :48]])
    stack = np.pad(stack, ((0, 0), (0, 0), (0, 16)))
    stack[3:] = stack[3:, ::-1, ::-1]
    method = embedder(model, name)
    together = embed(method, image, stack)
    assert together.shape == (6, model.embed_dim)
    alone = np.concatenate([embed(method, image, mask[None]) for mask in stack])
    np.testing.assert_allclose(together, alone, atol=1e-4)


MEANS = ["maskclip", "maskclip-values", "sclip", "clip-surgery", "clearclip", "naclip", "resclip"]


@pytest.mark.parametrize("name", MEANS)
def test_half_a_token_counts_half(tower, image, name):
    method = embedder(tower(name), name)
    masks = np.zeros((3, SIDE, SIDE), bool)
    masks[0, 8:16, 8:16] = masks[1, 8:16, 16:24] = True  # a token each
    masks[2, 8:16, 8:20] = True  # the first and half of the second
    first, second, both = embed(method, image, masks)
    np.testing.assert_allclose(both, (first + second / 2) / 1.5, atol=1e-4)
    soft = masks[:1].astype(np.float32)
    soft[0, 8:16, 16:24] = 0.5
    np.testing.assert_allclose(embed(method, image, soft)[0], both, atol=1e-4)


def test_textregion_weighs_tokens_by_a_soft_mask(model, image):
    method = embedder(model, "textregion")
    values, seen, grid = method.encode(image, 1.0, True)
    whole = np.ones((1, SIDE, SIDE), np.float32)
    doubled = method.embed_regions((2 * values, seen, grid), Regions.from_masks(whole / 2))
    plain = method.embed_regions((values, seen, grid), Regions.from_masks(whole))
    np.testing.assert_allclose(doubled, plain, atol=1e-4)


def test_textregion_keeps_a_region_in_which_every_token_is_global(model, image, masks):
    method, all_kept = embedder(model, "textregion"), embedder(model, "textregion", threshold=-2)
    values, seen, grid = method.encode(image, 1.0, True)
    alike = (values, seen * 0 + seen[:1], grid)
    regions = Regions.from_masks(masks)
    kept = all_kept.embed_regions(alike, regions)
    np.testing.assert_array_equal(method.embed_regions(alike, regions), kept)
    assert not np.allclose(method.embed_regions((values, seen, grid), regions), kept, atol=1e-3)


@pytest.mark.parametrize("kind", ["siglip", "pe"])
@torch.no_grad()
def test_textregion_pools_the_mask_s_tokens_with_the_head_of_siglip_and_pe(image, kind):
    clip = with_tower(of_layers(2), kind)
    model = wrap_open_clip(clip)
    side = model.native_resolution
    small = np.ascontiguousarray(image[:side, :side])
    rows = side // model.patch_size
    mask = np.zeros((side, side), bool)
    mask[: side // 2, model.patch_size :] = True
    vit = clip.visual.trunk
    tokens = vit.forward_features(model.preprocess(small, resolution=side))[0, -rows * rows :]
    step = model.patch_size
    wide = mask[step // 2 :: step, step // 2 :: step].repeat(8, 0).repeat(8, 1)
    kept = kept_tokens(tokens, wide)
    pool = vit.attn_pool
    both = tokens[kept] @ pool.kv.weight.T + pool.kv.bias
    expected = clip.visual.head(
        vit.head(vit.fc_norm(pool.proj(both[:, both.shape[1] // 2 :].mean(0))))
    )
    method = region_embedder("textregion", model, resolution=side)
    np.testing.assert_allclose(embed(method, small, mask[None])[0], expected, atol=1e-4)
    with pytest.raises(ModelError, match="needs an open_clip VisionTransformer"):
        embedder(wrap_open_clip(with_tower(clip, "mean")), "textregion")


def with_tower(clip, kind):
    clip.visual = build(kind, dtype=torch.float32)
    return clip


def alpha_checkpoint(folder: Path, model, kernel, *, prefix="", alone=False) -> Path:
    visual = model.clip.visual
    state = {} if alone else {k: v.clone() for k, v in visual.state_dict().items()}
    state = {k.replace("attn.in_proj_", "attn.in_proj."): v for k, v in state.items()}
    state = {prefix + k: v for k, v in {**state, "conv1_alpha.weight": kernel}.items()}
    file = folder / "alpha.safetensors"
    save_file(state, file)
    return file


def random_kernel(model):
    first = model.clip.visual.conv1.weight
    return torch.randn(first[:, :1].shape, generator=torch.Generator().manual_seed(5)) * 0.1


@pytest.mark.parametrize("prefix", ["", "visual."])
def test_alphaclip_with_a_zero_alpha_branch_is_clip(model, image, masks, tmp_path, prefix):
    zero = torch.zeros_like(random_kernel(model))
    file = alpha_checkpoint(tmp_path, model, zero, prefix=prefix)
    embeddings = embed(embedder(model, Method("alphaclip", file)), image, masks)
    np.testing.assert_allclose(embeddings, [plain(model, image)] * 3, atol=1e-4)


@pytest.mark.parametrize("alone", [False, True])
def test_alphaclip_adds_a_convolution_of_the_normalised_mask(model, image, masks, tmp_path, alone):
    kernel = random_kernel(model)
    file = alpha_checkpoint(tmp_path, model, kernel, alone=alone)
    before = snapshot(model.clip)
    embeddings = embed(embedder(model, Method("alphaclip", file)), image, masks)
    for mask, row in zip(masks, embeddings, strict=True):
        alpha = (torch.from_numpy(mask).float()[None, None] - 0.5) / 0.26
        visual = copy.deepcopy(model.clip).visual
        visual.conv1.register_forward_hook(
            lambda _, x, out, alpha=alpha: out + F.conv2d(alpha, kernel, stride=8)
        )
        with torch.no_grad():
            tensor = model.preprocess(image, resolution=SIDE)
            expected = visual(tensor)[0].numpy()
        np.testing.assert_allclose(row, expected, atol=1e-4)
    assert snapshot(model.clip) == before


def test_alphaclip_takes_the_image_tower_of_a_whole_model(model, image, masks, tmp_path):
    # The text tower's blocks are named as the image tower's, and come after them.
    state = dict(model.clip.state_dict())
    state["visual.conv1_alpha.weight"] = torch.zeros_like(random_kernel(model))
    torch.save(state, tmp_path / "whole.pt")
    other = wrap_open_clip(of_layers(4))
    with torch.no_grad():
        other.clip.visual.proj.mul_(-1)
    embeddings = embed(
        embedder(other, Method("alphaclip", tmp_path / "whole.pt")), image, masks[:1]
    )
    np.testing.assert_allclose(embeddings[0], plain(model, image), atol=1e-4)


def test_alphaclip_without_a_file_says_that_it_needs_weights(model, tmp_path):
    with pytest.raises(ConfigError, match="needs weights"):
        embedder(model, "alphaclip")
    with pytest.raises(ConfigError, match=r"gone\.pt"):
        embedder(model, Method("alphaclip", tmp_path / "gone.pt"))


def test_a_foreign_checkpoint_is_refused_without_running_code(model, tmp_path):
    small = torch.zeros(3, 1, 8, 8)
    with pytest.raises(ModelError, match="another architecture"):
        embedder(model, Method("alphaclip", alpha_checkpoint(tmp_path, model, small)))
    save_file({"conv1.weight": torch.zeros(1)}, tmp_path / "plain.safetensors")
    with pytest.raises(ModelError, match="not a checkpoint of AlphaCLIP"):
        embedder(model, Method("alphaclip", tmp_path / "plain.safetensors"))
    marker = tmp_path / "ran"
    evil = tmp_path / "evil.pt"
    torch.save({"conv1_alpha.weight": _Touch(marker)}, evil)
    with pytest.raises(ModelError, match="could run code"):
        embedder(model, Method("alphaclip", evil))
    assert not marker.exists()


class _Touch:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["maskinvers", "crop+crop", "crop+cls+ris", ""])
def test_an_unknown_method_is_refused_by_name(name):
    with pytest.raises(ConfigError) as error:
        Method(name)
    if name == "maskinvers":
        assert "Did you mean maskinversion" in str(error.value)


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("crop", {"fill": "blured"}, "fill must be one of .*blurred.*; got 'blured'"),
        ("red-circle", {"outside": ("as it is", "gray")}, "outside must .*grey.*; got 'gray'"),
        ("maskclip", {"reading": "value"}, "reading must be one of block, values; got 'value'"),
    ],
)
def test_an_option_that_a_method_does_not_know_is_refused_with_the_choices(
    model, name, options, says
):
    with pytest.raises(ConfigError, match=says):
        embedder(model, name, **options)


@pytest.fixture(scope="module")
def usual():
    """As deep as a ViT-B, trained at 224 px, and used at 448 px for whole images."""
    vision = {"layers": 12, "width": 32, "head_width": 16, "patch_size": 32, "image_size": 224}
    text = {"width": 32, "heads": 2, "layers": 1}
    return wrap_open_clip(random_clip({"embed_dim": 24, "vision_cfg": vision, "text_cfg": text}))


class Passes:
    """Counts tokens through a tower's blocks, in passes over an image of the native size."""

    def __init__(self, model):
        blocks = model.clip.visual.transformer.resblocks
        self.pass_of_tokens = len(blocks) * (1 + 7 * 7)
        self.tokens = 0.0
        for block in blocks:
            block.mlp.c_proj.register_forward_hook(self.count(1))
            # A module of its own only where a method attends by itself: a third of the products.
            block.attn.out_proj.register_forward_hook(self.count(1 / 3))

    def count(self, share):
        def hook(module, inputs, out):
            self.tokens += share * out.shape[:-1].numel()

        return hook

    def taken(self):
        tokens, self.tokens = self.tokens, 0.0
        return tokens / self.pass_of_tokens


@pytest.mark.parametrize("name", [*sorted(set(ORACLES) - {"crop+maskclip"}), "alphaclip"])
def test_what_a_method_costs_is_what_goes_through_the_tower(usual, tmp_path, name):
    model = wrap_open_clip(copy.deepcopy(usual.clip))
    passes, method = Passes(model), Method(name)
    if name == "alphaclip":
        zero = torch.zeros_like(random_kernel(model))
        method = Method(name, alpha_checkpoint(tmp_path, model, zero, alone=True))
    method_on_model = region_embedder(method, model, inversion=InversionConfig(steps=1))
    pixels = np.random.default_rng(3).integers(0, 255, (448, 448, 3)).astype(np.uint8)
    stack = np.zeros((10, 448, 448), bool)
    for place, mask in enumerate(stack):
        mask[20 * place : 20 * place + 150, 40:200] = True
    encoded = method_on_model.encode(pixels, 1.0, True)
    image = passes.taken()
    method_on_model.embed_regions(encoded, Regions.from_masks(stack))
    regions, spec = passes.taken(), METHODS[name]
    if name == "maskinversion":
        # Measured: more than the image's tokens, and steps that run no tokens through the tower.
        assert regions == 0
        assert 1.05 < spec.image / image < 1.25
    elif name == "cls":
        assert image + regions == pytest.approx(spec.image, rel=0.01)
    else:
        assert image == pytest.approx(spec.image, rel=0.08)
        assert regions / 10 == pytest.approx(spec.region, rel=0.08)


def test_methods_say_what_they_do_and_cost():
    for spec in list_methods():
        assert spec.about.endswith(".")
        assert len(spec.about) < 130
        assert re.fullmatch(
            r"10 regions cost \d+ pass(es)? of the model at its .*", Method(spec.name).cost
        )
    assert Method("Masked_Crop").name == "masked-crop"
    assert Method("cls").cost == "10 regions cost 1 pass of the model at its native size"
    assert Method("cls+crop").cost == "10 regions cost 11 passes of the model at its native size"
    assert Method().lacks == ""
    assert "no heatmaps" in Method("crop").lacks


def test_masks_that_do_not_fit_are_refused(model, image, masks):
    method = embedder(model, "crop")
    with pytest.raises(MaskShapeError, match="drawn on this image"):
        embed(method, image, masks[:, :40])
    with pytest.raises(InputError, match="at least one"):
        embed(method, image, Regions((SIDE, SIDE), []))


def test_two_methods_tell_the_input_of_the_one_that_sees_the_whole_image(image):
    model = wrap_open_clip(tiny_clip(image_size=224, patch=32))
    for name in ("crop+maskclip", "maskclip+crop"):
        averaged = region_embedder(name, model)
        averaged.set_image(image)
        assert averaged.input_size == (model.working_resolution,) * 2 == (448, 448)
        assert averaged.grid == (14, 14)


@pytest.mark.parametrize("name", ["cls", "red-circle", "crop+maskclip"])
def test_the_shape_of_one_image_says_nothing_about_the_next(usual, name):
    method = embedder(usual, name)
    pixels = np.random.default_rng(0).integers(0, 255, (40, 80, 3)).astype(np.uint8)
    sizes = []
    for keep_aspect in (None, False, None, True):
        method.set_image(pixels, keep_aspect=keep_aspect)
        sizes.append(method.input_size)
    assert sizes[0] == sizes[2] == sizes[3] != sizes[1] == (SIDE, SIDE)
