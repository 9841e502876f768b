"""Explainability maps by plain autograd, differentiable in the embedding. Imports nothing of ours.

Slow and obvious, meant for float64: attention and inputs are leaves of the graph, one embedding at
a time. Every score is the cosine with the projected mean token of the layer that is explained.
"""

import torch
import torch.nn.functional as F

from .oracle import forward_with_attention


def score(visual, tokens, embedding):
    feature = visual.ln_post(tokens[0].mean(0)) @ visual.proj
    return F.cosine_similarity(embedding, feature, dim=0)


def block_from(block, residual, entering):
    """The block's tokens when ``entering`` (1, n, d) is what its attention is given."""
    heads, width = block.attn.num_heads, entering.shape[-1]
    qkv = F.linear(entering, block.attn.in_proj_weight, block.attn.in_proj_bias)[0]
    q, k, v = (p.reshape(-1, heads, width // heads).transpose(0, 1) for p in qkv.chunk(3, -1))
    weights = (q @ k.transpose(1, 2) / (width // heads) ** 0.5).softmax(-1)
    out = (weights @ v).transpose(0, 1).reshape(1, -1, width)
    x = residual + block.ls_1(block.attn.out_proj(out))
    return x + block.ls_2(block.mlp(block.ln_2(x))), weights


def entering_tokens(visual, image):
    """Tokens before every block, all of the model's layers (native grid)."""
    x = visual.conv1(image).flatten(2).transpose(1, 2)
    x = torch.cat([visual.class_embedding.expand(1, 1, -1), x], 1) + visual.positional_embedding
    entering_tokens = [visual.ln_pre(x)]
    for block in visual.transformer.resblocks:
        entering_tokens.append(block(entering_tokens[-1]))
    return [x.detach() for x in entering_tokens[:-1]]


def gradcam(visual, image, embedding, relu=True):
    block = visual.transformer.resblocks[-1]
    residual = entering_tokens(visual, image)[-1]
    entering = block.ln_1(residual).detach().requires_grad_()
    tokens, _ = block_from(block, residual, entering)
    value = score(visual, tokens, embedding)
    (gradient,) = torch.autograd.grad(value, entering, create_graph=True)
    channels = gradient[0, 1:].mean(0)
    relevance = (entering.detach()[0, 1:] * channels).sum(-1)
    return relevance.relu() if relu else relevance


def chefer(visual, image, embedding, layers=1):
    explained, _ = forward_with_attention(visual, image, layers)
    tokens = explained[0][0].shape[-1]
    flow = torch.eye(tokens, dtype=image.dtype)
    for attention, after in explained:
        value = score(visual, after, embedding)
        (gradient,) = torch.autograd.grad(value, attention, create_graph=True)
        flow = flow + (gradient * attention).relu().mean(0) @ flow
    return flow[0, 1:]


def legrad(visual, image, embedding, layers=1):
    total = 0
    for attention, after in forward_with_attention(visual, image, layers)[0]:
        value = score(visual, after, embedding)
        (gradient,) = torch.autograd.grad(value, attention, create_graph=True)
        total = total + gradient.relu().mean((0, 1))[1:]
    return total


def rollout(visual, image):
    flow = None
    for block, x in zip(visual.transformer.resblocks, entering_tokens(visual, image), strict=True):
        _, weights = block_from(block, x, block.ln_1(x))
        step = (weights.mean(0) + torch.eye(weights.shape[-1])) / 2
        flow = step if flow is None else step @ flow
    return flow[0, 1:]


def invert(make, start, mask, grid, steps, lr=0.1):
    """Embedding and losses of one mask (H, W), ``make(embedding)`` being its token map."""
    embedding = start.clone().requires_grad_()
    optimizer = torch.optim.AdamW([embedding], lr=lr, weight_decay=0)
    losses = []
    for step in range(steps + 1):
        one = make(embedding).reshape(1, 1, *grid)
        heat = F.interpolate(one, size=mask.shape, mode="bilinear")[0, 0]
        heat = (heat - heat.min()) / (heat.max() - heat.min())
        loss = 1 - (2 * (heat * mask).sum() + 1) / (heat.sum() + mask.sum() + 1)
        losses.append(loss.item())
        if step < steps:
            embedding.grad = torch.autograd.grad(loss, embedding)[0]
            optimizer.step()
    return embedding.detach(), losses
