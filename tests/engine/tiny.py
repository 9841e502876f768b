"""Tiny open_clip models with random weights, and open_clip's architectures cut to such a size."""

from __future__ import annotations

import copy
from typing import Any

import torch
from open_clip import factory, timm_model
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

WIDTHS = {
    "embed_dim": 24,
    "vision_cfg": {"layers": 2, "width": 32, "head_width": 16},
    "text_cfg": {"layers": 2, "width": 32, "heads": 2},
}


def cut(config: dict[str, Any]) -> dict[str, Any]:
    """An architecture with its patch, resolution and vocabulary, but cut widths and depth."""
    small = copy.deepcopy(config)
    small["embed_dim"] = WIDTHS["embed_dim"]
    small["vision_cfg"].update(WIDTHS["vision_cfg"])
    small["text_cfg"].update(WIDTHS["text_cfg"])
    return small


def cut_architecture(monkeypatch, architecture: str) -> dict[str, Any]:
    """Let open_clip build this architecture small; returns its configuration."""
    small = cut(factory._MODEL_CONFIGS[architecture])
    monkeypatch.setitem(factory._MODEL_CONFIGS, architecture, small)
    return small


def random_clip(config: dict[str, Any], *, quick_gelu: bool = False, seed: int = 0) -> CLIP:
    """An open_clip CLIP as open_clip itself builds it; evaluation mode, lively weights."""
    arguments = copy.deepcopy(config)
    arguments.pop("quick_gelu", None)
    state = torch.get_rng_state()
    torch.manual_seed(seed)
    clip = CLIP(**arguments, quick_gelu=quick_gelu)
    with torch.no_grad():
        for parameter in clip.parameters():
            # Open_clip's initial weights are so small that no activation would show.
            parameter.add_(torch.randn_like(parameter) * 0.1)
        clip.logit_scale.fill_(3.0)
    torch.set_rng_state(state)
    return clip.eval()


def tiny_clip(
    *, image_size: int = 32, patch: int = 8, quick_gelu: bool = False, **vision: Any
) -> CLIP:
    """A CLIP for tests, with CLIP's own vocabulary."""
    config = {
        "embed_dim": 24,
        "vision_cfg": vars(
            CLIPVisionCfg(
                layers=2,
                width=32,
                head_width=16,
                patch_size=patch,
                image_size=image_size,
                **vision,
            )
        ),
        "text_cfg": vars(CLIPTextCfg(width=32, heads=2, layers=2)),
    }
    return random_clip(config, quick_gelu=quick_gelu)


def tiny_siglip(monkeypatch: Any) -> CLIP:
    """A CLIP whose image tower pools by attention, as SigLIP's; CLIP's own vocabulary."""
    make = timm_model.timm.create_model
    small = {"embed_dim": 32, "depth": 2, "num_heads": 2, "patch_size": 8}
    monkeypatch.setattr(
        timm_model.timm, "create_model", lambda *args, **more: make(*args, **{**more, **small})
    )
    clip = tiny_clip()
    state = torch.get_rng_state()
    torch.manual_seed(1)
    clip.visual = timm_model.TimmModel(
        "vit_base_patch16_siglip_224", 24, image_size=32, pool="", proj="linear", pretrained=False
    )
    torch.set_rng_state(state)
    return clip.eval()


def snapshot(clip: torch.nn.Module) -> list[Any]:
    """Everything about a module that must not change: values, flags, hooks, attributes."""
    facts: list[Any] = []
    for name, module in clip.named_modules():
        facts.append((name, id(module), module.training, sorted(vars(module))))
        facts.append([len(v) for k, v in sorted(vars(module).items()) if "hooks" in k])
        facts.append(module.forward.__qualname__)
    for name, tensor in [*clip.named_parameters(), *clip.named_buffers()]:
        facts.append((name, id(tensor), tensor.requires_grad, tensor.grad, tensor.device))
        facts.append((tensor.dtype, tensor._version, tensor.detach().numpy().tobytes()))
    return facts
