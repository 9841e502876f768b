"""A tiny random SAM in the format of the published checkpoints, as segment-anything builds it."""

from __future__ import annotations

from functools import partial

import torch
from segment_anything.modeling import (
    ImageEncoderViT,
    MaskDecoder,
    PromptEncoder,
    Sam,
    TwoWayTransformer,
)
from torch import nn

GRID, PATCH = 8, 8
SIDE = GRID * PATCH
WIDTH = 16


def tiny_sam(seed: int = 0) -> Sam:
    """A SAM of two blocks that sees 64 pixels; lively weights."""
    state = torch.get_rng_state()
    torch.manual_seed(seed)
    sam = Sam(
        ImageEncoderViT(
            img_size=SIDE,
            patch_size=PATCH,
            embed_dim=24,
            depth=2,
            num_heads=3,
            mlp_ratio=2,
            out_chans=WIDTH,
            norm_layer=partial(nn.LayerNorm, eps=1e-6),
            use_rel_pos=True,
            window_size=3,
            global_attn_indexes=(1,),
        ),
        PromptEncoder(
            embed_dim=WIDTH,
            image_embedding_size=(GRID, GRID),
            input_image_size=(SIDE, SIDE),
            mask_in_chans=8,
        ),
        MaskDecoder(
            num_multimask_outputs=3,
            transformer=TwoWayTransformer(depth=2, embedding_dim=WIDTH, mlp_dim=32, num_heads=8),
            transformer_dim=WIDTH,
            iou_head_depth=3,
            iou_head_hidden_dim=WIDTH,
        ),
        pixel_mean=[123.675, 116.28, 103.53],
        pixel_std=[58.395, 57.12, 57.375],
    )
    with torch.no_grad():
        for parameter in sam.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    torch.set_rng_state(state)
    return sam.eval()


def save_tiny(path, seed: int = 0):
    """Write it as the published files are written."""
    torch.save(tiny_sam(seed).state_dict(), path)
    return path


def tiny_sam2_config():
    """Sizes of a SAM 2 that sees 64 pixels."""
    from transformers import Sam2Config

    hiera = {
        "model_type": "sam2_hiera_det_model",
        "hidden_size": 8,
        "image_size": [SIDE, SIDE],
        "blocks_per_stage": [1, 1, 2, 1],
        "embed_dim_per_stage": [8, 16, 32, 64],
        "num_attention_heads_per_stage": [1, 1, 2, 2],
        "window_size_per_stage": [4, 4, 4, 4],
        "global_attention_blocks": [3],
        "window_positional_embedding_background_size": [2, 2],
        "mlp_ratio": 2.0,
    }
    vision = {
        "model_type": "sam2_vision_model",
        "backbone_config": hiera,
        "backbone_channel_list": [64, 32, 16, 8],
        "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
        "fpn_hidden_size": WIDTH,
    }
    prompts = {"hidden_size": WIDTH, "image_size": SIDE, "mask_input_channels": 8}
    decoder = {
        "hidden_size": WIDTH,
        "mlp_dim": 32,
        "num_attention_heads": 2,
        "iou_head_hidden_dim": WIDTH,
    }
    return Sam2Config(
        vision_config=vision, prompt_encoder_config=prompts, mask_decoder_config=decoder
    )


def tiny_sam2(seed: int = 0):
    """A SAM 2 of five blocks; lively weights."""
    from transformers import Sam2Model

    return lively(Sam2Model, tiny_sam2_config(), seed)


def lively(architecture, config, seed=0):
    state = torch.get_rng_state()
    torch.manual_seed(seed)
    model = architecture(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    torch.set_rng_state(state)
    return model.eval()


SIDE3 = 56  # of SAM 3's input


def save_sam3(folder):
    """Write a tiny SAM 3 with a tokenizer of letters, as transformers writes it."""
    from transformers import CLIPTokenizerFast, Sam3Config, Sam3Model

    vit = {
        "model_type": "sam3_vit_model",
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": SIDE3,
        "patch_size": 14,
        "window_size": 2,
        "global_attn_indexes": [1],
        "pretrain_image_size": 28,
    }
    vision = {
        "model_type": "sam3_vision_model",
        "backbone_config": vit,
        "fpn_hidden_size": 32,
        "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
    }
    letters = [chr(ord("a") + i) for i in range(26)]
    ends = ["<|startoftext|>", "<|endoftext|>"]
    names = [*letters, *(f"{letter}</w>" for letter in letters), *ends]
    text = {
        "model_type": "clip_text_model",
        "vocab_size": len(names),
        "hidden_size": 24,
        "intermediate_size": 32,
        "projection_dim": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "max_position_embeddings": 32,
        "bos_token_id": len(names) - 2,
        "eos_token_id": len(names) - 1,
        "pad_token_id": len(names) - 1,
    }
    heads = {"hidden_size": 32, "num_attention_heads": 2}
    layers = {**heads, "intermediate_size": 32, "num_layers": 1}
    config = Sam3Config(
        vision_config=vision,
        text_config=text,
        geometry_encoder_config=layers,
        detr_encoder_config=layers,
        detr_decoder_config={**layers, "num_queries": 6},
        mask_decoder_config=heads,
    )
    lively(Sam3Model, config).save_pretrained(folder)
    vocabulary = {name: number for number, name in enumerate(names)}
    CLIPTokenizerFast(vocab=vocabulary, merges=[]).save_pretrained(folder)
    return folder
