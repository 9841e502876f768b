"""A slow, obvious MaskInversion by plain autograd. Imports nothing of the package.

One mask at a time, attention as a leaf of the graph, torch's own AdamW; meant for float64.
"""

import torch
import torch.nn.functional as F


def forward_with_attention(visual, image, layers):
    """Run the tower; for each of the last ``layers`` blocks give (attention leaf, tokens after)."""
    patch = visual.conv1.kernel_size[0]
    grid = (image.shape[2] // patch, image.shape[3] // patch)
    x = visual.conv1(image).flatten(2).transpose(1, 2)
    positions = visual.positional_embedding
    if grid != tuple(visual.grid_size):
        rest = positions[1:].reshape(1, *visual.grid_size, -1).permute(0, 3, 1, 2)
        rest = F.interpolate(rest, size=grid, mode="bicubic", antialias=True)
        positions = torch.cat([positions[:1], rest.flatten(2)[0].T])
    x = torch.cat([visual.class_embedding.expand(1, 1, -1), x], 1) + positions
    x = visual.ln_pre(x)
    blocks = list(visual.transformer.resblocks)
    explained = []
    for number, block in enumerate(blocks):
        if number < len(blocks) - layers:
            x = block(x)
            continue
        heads, width = block.attn.num_heads, x.shape[-1]
        y = block.ln_1(x)
        qkv = F.linear(y, block.attn.in_proj_weight, block.attn.in_proj_bias)[0]
        q, k, v = (
            part.reshape(-1, heads, width // heads).transpose(0, 1) for part in qkv.chunk(3, -1)
        )
        attention = (q @ k.transpose(1, 2) / (width // heads) ** 0.5).softmax(-1)
        attention = attention.detach().requires_grad_()
        out = (attention @ v).transpose(0, 1).reshape(1, -1, width)
        x = x.detach() + block.ls_1(block.attn.out_proj(out))
        x = x + block.ls_2(block.mlp(block.ln_2(x)))
        explained.append((attention, x))
    return explained, grid


def token_map(visual, attention, tokens, embedding, grid):
    """LeGrad map (grid) of one embedding at one layer, differentiable in the embedding."""
    feature = visual.ln_post(tokens[0].mean(0)) @ visual.proj
    score = F.cosine_similarity(embedding, feature, dim=0)
    (gradient,) = torch.autograd.grad(score, attention, create_graph=True, retain_graph=True)
    return gradient.relu().mean((0, 1))[1:].reshape(grid)


def heatmap(visual, explained, embedding, grid, size):
    total = 0
    for attention, tokens in explained:
        one = token_map(visual, attention, tokens, embedding, grid)
        total = total + F.interpolate(one[None, None], size=size, mode="bilinear")[0, 0]
    return (total - total.min()) / (total.max() - total.min())


def invert(visual, image, mask, steps, lr=0.1, alpha=0.0, weight_decay=0.0, layers=1):
    """One mask (H, W) at the image's size: embedding, heatmap of it, losses (steps + 1)."""
    explained, grid = forward_with_attention(visual, image, layers)
    tokens = explained[-1][1]
    start = (visual.ln_post(tokens[0, 0]) @ visual.proj).detach()
    embedding = start.clone().requires_grad_()
    optimizer = torch.optim.AdamW([embedding], lr=lr, weight_decay=weight_decay)
    losses = []
    for step in range(steps + 1):
        heat = heatmap(visual, explained, embedding, grid, tuple(image.shape[2:]))
        dice = 1 - (2 * (heat * mask).sum() + 1) / (heat.sum() + mask.sum() + 1)
        loss = dice + alpha * (1 - F.cosine_similarity(embedding, start, dim=0))
        losses.append(loss.item())
        if step < steps:
            optimizer.zero_grad()
            embedding.grad = torch.autograd.grad(loss, embedding)[0]
            optimizer.step()
    return embedding.detach(), heat.detach(), losses
