"""Tiny decoders on disk: the classes, files and names of the published ones, random weights."""

import json
from pathlib import Path

import torch
from diffusers import (
    AutoencoderKL,
    DDPMScheduler,
    PNDMScheduler,
    UNet2DConditionModel,
    VQModel,
)
from diffusers.pipelines.stable_diffusion import StableUnCLIPImageNormalizer
from safetensors.torch import save_file
from transformers import CLIPTextConfig, CLIPTextModel

WIDTH, LENGTH = 128, 32  # values of the demo model's embeddings, tokens of its texts


def kandinsky(folder: Path, *, width: int = WIDTH, clip_model: str | None = "demo") -> Path:
    """Write a tiny Kandinsky 2.2 decoder."""
    torch.manual_seed(0)
    unet = UNet2DConditionModel(
        sample_size=8,
        in_channels=4,
        out_channels=8,
        addition_embed_type="image",
        encoder_hid_dim=width,
        encoder_hid_dim_type="image_proj",
        cross_attention_dim=16,
        attention_head_dim=8,
        block_out_channels=(16, 32),
        layers_per_block=1,
        norm_num_groups=8,
        down_block_types=("ResnetDownsampleBlock2D", "SimpleCrossAttnDownBlock2D"),
        mid_block_type="UNetMidBlock2DSimpleCrossAttn",
        up_block_types=("SimpleCrossAttnUpBlock2D", "ResnetUpsampleBlock2D"),
        resnet_time_scale_shift="scale_shift",
    )
    movq = VQModel(
        block_out_channels=(32, 32, 32, 32),
        down_block_types=(*["DownEncoderBlock2D"] * 3, "AttnDownEncoderBlock2D"),
        up_block_types=("AttnUpDecoderBlock2D", *["UpDecoderBlock2D"] * 3),
        latent_channels=4,
        layers_per_block=1,
        norm_num_groups=8,
        norm_type="spatial",
        num_vq_embeddings=12,
        vq_embed_dim=4,
    )
    scheduler = DDPMScheduler(
        variance_type="learned_range", beta_schedule="linear", clip_sample=True
    )
    for name, part in (("unet", unet), ("movq", movq), ("scheduler", scheduler)):
        part.save_pretrained(folder / name)
    return _name(folder, clip_model)


def unclip(folder: Path, *, width: int = WIDTH, clip_model: str | None = "demo") -> Path:
    """Write a tiny Stable unCLIP."""
    torch.manual_seed(0)
    unet = UNet2DConditionModel(
        sample_size=8,
        in_channels=4,
        out_channels=4,
        class_embed_type="projection",
        projection_class_embeddings_input_dim=2 * width,
        cross_attention_dim=16,
        attention_head_dim=(2, 4),
        use_linear_projection=True,
        block_out_channels=(16, 32),
        layers_per_block=1,
        norm_num_groups=8,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    )
    vae = AutoencoderKL(
        block_out_channels=(32, 32, 32, 32),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        latent_channels=4,
        layers_per_block=1,
        norm_num_groups=8,
    )
    text = CLIPTextModel(
        CLIPTextConfig(
            vocab_size=len(_VOCABULARY),
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=77,
            bos_token_id=_VOCABULARY["<|startoftext|>"],
            eos_token_id=_VOCABULARY["<|endoftext|>"],
        )
    )
    parts = {
        "unet": unet,
        "vae": vae,
        "text_encoder": text,
        "image_normalizer": StableUnCLIPImageNormalizer(embedding_dim=width),
        "scheduler": PNDMScheduler(skip_prk_steps=True, steps_offset=1),
        "image_noising_scheduler": DDPMScheduler(beta_schedule="squaredcos_cap_v2"),
    }
    for name, part in parts.items():
        part.save_pretrained(folder / name)
    tokenizer = folder / "tokenizer"
    tokenizer.mkdir()
    (tokenizer / "vocab.json").write_text(json.dumps(_VOCABULARY))
    (tokenizer / "merges.txt").write_text("#version: 0.2\nd o\ndo g</w>\n")
    special = {
        "bos_token": "<|startoftext|>",
        "eos_token": "<|endoftext|>",
        "unk_token": "<|endoftext|>",
        "pad_token": "!",
    }
    (tokenizer / "special_tokens_map.json").write_text(json.dumps(special))
    config = {**special, "model_max_length": 77, "tokenizer_class": "CLIPTokenizer"}
    (tokenizer / "tokenizer_config.json").write_text(json.dumps(config))
    return _name(folder, clip_model)


_LETTERS = [*"!abcdefghijklmnopqrstuvwxyz", *(f"{letter}</w>" for letter in "!abcdefghijklmnop")]
_VOCABULARY = {
    token: place
    for place, token in enumerate([*_LETTERS, "do", "dog</w>", "<|startoftext|>", "<|endoftext|>"])
}


def prior(folder: Path, *, width: int = WIDTH, length: int = LENGTH, **changes) -> Path:
    """Write a tiny prior of lambda-ECLIPSE under the published names; None removes one."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    inner, layers = 64, 2
    shapes = {
        "positional_embedding": (1, length + 4, inner),
        "prd_embedding": (1, 1, inner),
        "clip_mean": (1, width),
        "clip_std": (1, width),
        "norm_out.weight": (inner,),
        "norm_out.bias": (inner,),
        "proj_to_clip_embeddings.weight": (width, inner),
        "proj_to_clip_embeddings.bias": (width,),
    }
    for name in ("proj_in", "embedding_proj", "embedding_control", "encoder_hidden_states_proj"):
        shapes |= {f"{name}.weight": (inner, width), f"{name}.bias": (inner,)}
    for layer in range(layers):
        block = f"transformer_blocks.{layer}"
        for norm in ("norm1", "norm3"):
            shapes |= {f"{block}.{norm}.weight": (inner,), f"{block}.{norm}.bias": (inner,)}
        for name in ("to_q", "to_k", "to_v", "to_out.0"):
            shapes |= {
                f"{block}.attn1.{name}.weight": (inner, inner),
                f"{block}.attn1.{name}.bias": (inner,),
            }
        shapes |= {
            f"{block}.ff.net.0.proj.weight": (4 * inner, inner),
            f"{block}.ff.net.0.proj.bias": (4 * inner,),
            f"{block}.ff.net.2.weight": (inner, 4 * inner),
            f"{block}.ff.net.2.bias": (inner,),
        }
    state = {name: 0.3 * torch.randn(shape) for name, shape in shapes.items()} | changes
    save_file(
        {name: value for name, value in state.items() if value is not None},
        folder / "diffusion_pytorch_model.safetensors",
    )
    return folder


def _name(folder: Path, clip_model: str | None) -> Path:
    if clip_model is not None:
        (folder / "clip_model.json").write_text(json.dumps({"model": clip_model}))
    return folder
