"""Tiny image towers of timm and CoCa, and their maps by plain autograd. Imports nothing of ours."""

import copy

import timm.models.eva
import timm.models.vision_transformer
import torch
import torch.nn.functional as F
from open_clip.transformer import VisionTransformer

TINY = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 2}
ROTARY = {"use_rot_pos_emb": True, "ref_feat_shape": (4, 4)}


class Visual(torch.nn.Module):
    """As open_clip's TimmModel: a trunk and a head."""

    def __init__(self, trunk, head=None):
        super().__init__()
        self.trunk = trunk
        self.head = torch.nn.Sequential()
        if head is not None:
            self.head.add_module("proj", head)

    def forward(self, image):
        return self.head(self.trunk(image))


def _vit(**settings):
    return timm.models.vision_transformer.VisionTransformer(**TINY, **settings)


def _eva(**settings):
    return timm.models.eva.Eva(**TINY, **settings)


BUILDS = {
    "class-token": lambda: Visual(_vit(num_classes=24, global_pool="token", init_values=0.5)),
    "eva": lambda: Visual(
        _eva(
            num_classes=24,
            global_pool="token",
            swiglu_mlp=True,
            scale_mlp=True,
            qkv_fused=False,
            **ROTARY,
        )
    ),
    "eva-post-norm": lambda: Visual(
        _eva(num_classes=24, global_pool="token", use_post_norm=True)
    ),
    "mean": lambda: Visual(
        _vit(num_classes=0, class_token=False, global_pool="avg"), torch.nn.Linear(32, 24)
    ),
    "siglip": lambda: Visual(_vit(num_classes=0, class_token=False, global_pool="map")),
    "pe": lambda: Visual(
        _eva(num_classes=24, global_pool="map", attn_type="rope", use_fc_norm=False, **ROTARY)
    ),
    "coca": lambda: VisionTransformer(
        32, 8, 32, 2, 2, 4.0, attentional_pool=True, attn_pooler_heads=2, output_dim=24,
        attn_pooler_queries=5, output_tokens=True,
    ),
}  # fmt: skip
TOKENS = ("class-token", "eva", "eva-post-norm", "mean")
POOLED = ("siglip", "pe", "coca")


def build(name, seed=0, dtype=torch.float64):
    """A tower with lively random weights."""
    state = torch.get_rng_state()
    torch.manual_seed(seed)
    visual = BUILDS[name]()
    with torch.no_grad():
        for parameter in visual.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    torch.set_rng_state(state)
    return visual.to(dtype).eval()


def embedding_of(visual, image):
    with torch.no_grad():
        output = visual(image)
    return (output[0] if isinstance(output, tuple) else output)[0]


def product(embedding, feature):
    """The score where the feature is the image's own embedding: a cosine would have no gradient."""
    return F.normalize(embedding, dim=0) @ feature / feature.norm().detach()


def token_map(visual, image, embedding, explainer="legrad"):
    """Map (patches,) at the last block of a tower whose tokens are averaged for the score."""
    visual = copy.deepcopy(visual)
    trunk, block, seen = visual.trunk, visual.trunk.blocks[-1], {}
    block.attn.fused_attn = False

    def leaf(module, inputs, weights):
        seen["attention"] = weights.detach().requires_grad_()
        return seen["attention"]

    block.attn.attn_drop.register_forward_hook(leaf)
    block.register_forward_hook(lambda module, inputs, tokens: seen.update(tokens=tokens))
    visual(image)
    feature = visual.head(trunk.head(trunk.fc_norm(trunk.norm(seen["tokens"].mean(1)))))[0]
    if trunk.global_pool == "token":
        score = F.cosine_similarity(embedding, feature, dim=0)
    else:
        score = product(embedding, feature)
    attention = seen["attention"]
    (gradient,) = torch.autograd.grad(score, attention, create_graph=True)
    prefix = trunk.num_prefix_tokens
    if explainer == "chefer":
        return (gradient * attention).relu()[0].mean(0)[0, prefix:]
    return gradient.relu()[0].mean((0, 1))[prefix:]


def pooled_map(visual, image, embedding, explainer="legrad"):
    """Map (patches,) of the attention of a pooling head."""
    attention, feature = (_coca if hasattr(visual, "attn_pool") else _latent)(visual, image)
    score = product(embedding, feature)
    (gradient,) = torch.autograd.grad(score, attention, create_graph=True)
    relevance = gradient if explainer == "legrad" else gradient * attention
    return relevance.relu().mean(0)[0, -16:]


def _attend(q, k, v, heads):
    split = [part.reshape(-1, heads, part.shape[-1] // heads).transpose(0, 1) for part in (q, k, v)]
    q, k, v = split
    weights = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).softmax(-1).detach().requires_grad_()
    return weights, (weights @ v).transpose(0, 1).flatten(1)


def _latent(visual, image):
    trunk, pool = visual.trunk, visual.trunk.attn_pool
    with torch.no_grad():
        tokens = trunk.forward_features(image)[0]
        q = pool.q(pool.latent[0])
        k, v = pool.kv(tokens).chunk(2, -1)
    attention, out = _attend(q, k, v, pool.num_heads)
    out = pool.proj(out)
    out = out + pool.mlp(pool.norm(out))
    return attention, visual.head(trunk.head(trunk.fc_norm(out)))[0]


def _coca(visual, image):
    seen = {}
    pool = visual.attn_pool
    handle = pool.register_forward_pre_hook(lambda module, inputs: seen.update(tokens=inputs[0]))
    with torch.no_grad():
        visual(image)
    handle.remove()
    attn = pool.attn
    if attn.in_proj_weight is not None:
        weights = attn.in_proj_weight.chunk(3)
    else:
        weights = (attn.q_proj_weight, attn.k_proj_weight, attn.v_proj_weight)
    x, asked = pool.ln_k(seen["tokens"][0]), pool.ln_q(pool.query)[:1]
    parts = [
        F.linear(inputs, weight, bias).detach()
        for inputs, weight, bias in zip(
            (asked, x, x), weights, attn.in_proj_bias.chunk(3), strict=True
        )
    ]
    attention, out = _attend(*parts, attn.num_heads)
    return attention, (visual.ln_post(attn.out_proj(out)) @ visual.proj)[0]
