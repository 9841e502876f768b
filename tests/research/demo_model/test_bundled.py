"""The bundled weights: open_clip reads them as training does, and the card says how they came."""

from __future__ import annotations

import json
import re

import open_clip
import torch
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg
from safetensors.torch import load_file

from napari_maskinversion.demo_model.scene_words import NAMES, taught
from napari_maskinversion.engine.models.specs import bundled_folder
from research.demo_model import card
from research.demo_model.maps import encode
from research.demo_model.model import (
    CONFIG_FILE,
    WEIGHTS_FILE,
    load_model_file,
    normalise,
    tokenize,
)
from research.demo_model.pictograms import EVERY_SET
from research.demo_model.recipe import ON_GPU, WARM, Recipe

FOLDER = bundled_folder()
CARD = FOLDER / card.CARD


def test_open_clip_builds_the_model_from_the_configuration() -> None:
    config = json.loads((FOLDER / CONFIG_FILE).read_text("utf-8"))
    model = CLIP(
        embed_dim=config["model_cfg"]["embed_dim"],
        vision_cfg=CLIPVisionCfg(**config["model_cfg"]["vision_cfg"]),
        text_cfg=CLIPTextCfg(**config["model_cfg"]["text_cfg"]),
    ).eval()
    tensors = load_file(FOLDER / WEIGHTS_FILE)
    assert set(model.state_dict()) == set(tensors)
    model.load_state_dict({k: v.float() for k, v in tensors.items()})
    assert config["preprocess_cfg"]["mean"] == config["preprocess_cfg"]["std"] == [0.5] * 3
    side = config["model_cfg"]["vision_cfg"]["image_size"]
    images = normalise(torch.rand(2, 3, side, side, generator=torch.Generator().manual_seed(1)))
    ours = load_model_file(FOLDER)
    with torch.no_grad():
        embeddings = encode(ours.visual, images).embedding
        torch.testing.assert_close(embeddings, model.encode_image(images), atol=1e-4, rtol=1e-4)
        tokens = open_clip.tokenizer.SimpleTokenizer(context_length=32)(["a photo of a key"])
        assert torch.equal(tokens, tokenize(["a photo of a key"]))
        torch.testing.assert_close(ours.encode_text(tokens), model.encode_text(tokens))


def test_names_are_far_apart_in_the_text_tower() -> None:
    model = load_model_file(FOLDER)
    with torch.no_grad():
        embeddings = model.encode_text(
            tokenize([f"a photo of a {n}" for n in NAMES]), normalize=True
        )
    cosines = embeddings @ embeddings.T - torch.eye(len(NAMES))
    assert cosines.max() < 0.6


def test_the_card_is_the_template_filled_but_for_command_and_scores() -> None:
    recipe = Recipe(**(WARM | ON_GPU))
    made = card.model_card(FOLDER, "COMMAND", "TRAINING", recipe, taught())
    kept = CARD.read_text("utf-8")
    scores = re.compile(r"<!-- bench scenes -->.*?<!-- end of bench scenes -->", re.S)
    pieces = re.split(r"`COMMAND`: TRAINING", scores.sub("", made))
    assert len(pieces) == 2
    assert all(" ".join(part.split()) in " ".join(scores.sub("", kept).split()) for part in pieces)


def test_the_card_credits_every_set_of_drawings() -> None:
    text = CARD.read_text("utf-8")
    for one in EVERY_SET:
        assert f"{one.package} {one.version} | {one.author} | {one.licence}" in text
