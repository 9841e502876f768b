"""Tiny checkpoints in the published formats, written as their authors' code writes them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import torch
from open_clip.tokenizer import bytes_to_unicode
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

WIDTH = 128
WORDS = (".", "a", "Ġred", "Ġfrog", "Ġhouse", "Ġon", "Ġthe", "Ġgrass", "!", "ĠÃ©", "x", "y")


class _Mlp(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        layers = []
        for before, after in pairwise(sizes):
            layers += [nn.Linear(before, after), nn.Tanh()]
        self.model = nn.Sequential(*layers[:-1])


class ClipCaptionModel(nn.Module):
    """The modules of CLIPCap by their published names."""

    def __init__(self, embed_dim, prefix=3):
        super().__init__()
        config = GPT2Config(
            vocab_size=len(WORDS), n_positions=64, n_embd=WIDTH, n_layer=2, n_head=WIDTH // 64
        )
        self.gpt = GPT2LMHeadModel(config)
        self.clip_project = _Mlp(embed_dim, WIDTH * prefix // 2, WIDTH * prefix)


def lively(module, seed):
    """Give a module weights that say different things about different embeddings."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim > 1:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.15)
    return module.eval()


def stale_buffers(state, inside):
    """Add the constants that old versions of transformers saved with the weights."""
    for layer in range(2):
        name = f"{inside}.transformer.h.{layer}.attn"
        state[f"{name}.bias"] = torch.ones(1, 1, 64, 64, dtype=torch.uint8).tril()
        state[f"{name}.masked_bias"] = torch.tensor(-1e4)
    return state


def clipcap_model(embed_dim=24, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return lively(ClipCaptionModel(embed_dim), seed)


def clipcap_state(embed_dim=24, seed=0):
    return stale_buffers(dict(clipcap_model(embed_dim, seed).state_dict()), "gpt")


def write_clipcap(folder: Path, embed_dim=24, seed=0, **changes) -> Path:
    """Write ``coco_weights.pt`` and GPT-2's ``vocab.json``."""
    path = folder / "coco_weights.pt"
    torch.save(clipcap_state(embed_dim, seed) | changes, path)
    write_vocabulary(folder / "vocab.json")
    return path


def write_vocabulary(path: Path) -> Path:
    path.write_text(json.dumps({word: token for token, word in enumerate(WORDS)}), "utf-8")
    return path


def write_decap(folder: Path, embed_dim=24, seed=1) -> Path:
    """Write a checkpoint of DeCap: CLIP's tokens, four heads, two blocks."""
    model = nn.Module()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = GPT2Config(vocab_size=50257, n_positions=64, n_embd=32, n_layer=2, n_head=4)
        model.decoder = GPT2LMHeadModel(config)
        model.clip_project = _Mlp(embed_dim, 32)
    lively(model, seed)
    path = folder / "decap.pt"
    torch.save(stale_buffers(dict(model.state_dict()), "decoder"), path)
    return path


assert set("".join(WORDS)) <= set(bytes_to_unicode().values())
