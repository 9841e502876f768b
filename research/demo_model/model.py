"""Architecture and files of the demo model."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from napari_maskinversion.base.atomic_files import write_whole
from napari_maskinversion.demo_model.scene_words import VOCABULARY_FILE

MODEL_CONFIG: Final[dict[str, Any]] = {
    "embed_dim": 128,
    "vision_cfg": {"image_size": 128, "layers": 4, "width": 128, "head_width": 32, "patch_size": 8},
    "text_cfg": {"context_length": 32, "vocab_size": 49408, "width": 128, "heads": 4, "layers": 2},
}
PREPROCESS_CONFIG: Final[dict[str, Any]] = {
    "mean": [0.5, 0.5, 0.5],
    "std": [0.5, 0.5, 0.5],
    "interpolation": "bicubic",
    "resize_mode": "squash",
}
# Ten steps of AdamW at 0.1 move each of the 128 coordinates by up to 1: with this norm an inversion
# neither stays at the image embedding nor forgets it.
EMBEDDING_NORM: Final = 8.0
CONFIG_FILE: Final = "open_clip_config.json"
WEIGHTS_FILE: Final = "open_clip_model.safetensors"


def build_model(seed: int = 0, *, config: dict[str, Any] = MODEL_CONFIG) -> Any:
    """Return an untrained open_clip CLIP."""
    from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

    state = torch.get_rng_state()
    torch.manual_seed(seed)
    model = CLIP(
        embed_dim=config["embed_dim"],
        vision_cfg=CLIPVisionCfg(**config["vision_cfg"]),
        text_cfg=CLIPTextCfg(**config["text_cfg"]),
    )
    torch.set_rng_state(state)
    return model


def tokenize(texts: list[str]) -> Tensor:
    """Return (T, 32) int64 tokens by open_clip's own tokenizer."""
    from open_clip.tokenizer import SimpleTokenizer

    tokenizer = SimpleTokenizer(context_length=MODEL_CONFIG["text_cfg"]["context_length"])
    tokens: Tensor = tokenizer(texts)
    return tokens


def encode_text(model: Any, tokens: Tensor) -> Tensor:
    """Encode like ``model.encode_text``, without the padding after the longest text."""
    length = int((tokens != 0).sum(1).max())
    x = model.token_embedding(tokens[:, :length]) + model.positional_embedding[:length]
    x = model.ln_final(model.transformer(x, attn_mask=model.attn_mask[:length, :length]))
    ends: Tensor = (
        x[torch.arange(len(x), device=x.device), tokens.argmax(-1)] @ model.text_projection
    )
    return ends


def normalise(images: Tensor) -> Tensor:
    """Normalise images in 0..1 for the model."""
    return (images - 0.5) / 0.5


def with_norm(model: Any, images: Tensor, norm: float = EMBEDDING_NORM) -> Any:
    """Return a copy whose embeddings of `images` have a fixed mean norm; cosines stay."""
    scaled = copy.deepcopy(model).eval()
    with torch.no_grad():
        scaled.visual.proj *= norm / scaled.encode_image(images).norm(dim=-1).mean()
    return scaled


def save_model(model: nn.Module, folder: Path, names: list[str]) -> None:
    """Write weights (float16), configuration and vocabulary; each file whole or not at all."""
    from safetensors.torch import save

    folder.mkdir(parents=True, exist_ok=True)
    tensors = {k: v.detach().half().cpu().contiguous() for k, v in model.state_dict().items()}
    config = {"model_cfg": MODEL_CONFIG, "preprocess_cfg": PREPROCESS_CONFIG}
    write_whole(folder / WEIGHTS_FILE, save(tensors, metadata={"format": "pt"}))
    write_whole(folder / CONFIG_FILE, (json.dumps(config, indent=2) + "\n").encode())
    write_whole(folder / VOCABULARY_FILE, ("\n".join(names) + "\n").encode())


def load_model_file(folder: Path) -> Any:
    """Return the model saved in `folder`, in float32, ready for inference."""
    from safetensors.torch import load_file

    config = json.loads((folder / CONFIG_FILE).read_text("utf-8"))["model_cfg"]
    model = build_model(config=config)
    model.load_state_dict({k: v.float() for k, v in load_file(folder / WEIGHTS_FILE).items()})
    return model.eval()
