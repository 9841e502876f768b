"""The files in the package: size, configuration, and that open_clip reads them as we do."""

from __future__ import annotations

import json
from importlib.resources import files

import open_clip
import torch
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg
from safetensors.torch import load_file

from napari_maskinversion.demo_model.maps import encode
from napari_maskinversion.demo_model.model import (
    CONFIG_FILE,
    VOCABULARY_FILE,
    WEIGHTS_FILE,
    load_model_file,
    normalise,
    tokenize,
)
from napari_maskinversion.demo_model.vocabulary import NAMES, taught
from napari_maskinversion.engine.models.specs import bundled_folder

FOLDER = bundled_folder()
CARD = FOLDER / "MODEL_CARD.md"


def test_weights_are_small_half_precision_and_finite() -> None:
    path = FOLDER / WEIGHTS_FILE
    assert path.stat().st_size < 16e6
    tensors = load_file(path)
    assert {t.dtype for t in tensors.values()} == {torch.float16}
    assert all(torch.isfinite(t).all() for t in tensors.values())


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


def test_the_vocabulary_is_the_one_it_was_trained_on() -> None:
    listed = (FOLDER / VOCABULARY_FILE).read_text("utf-8").splitlines()
    assert listed == list(NAMES)
    assert listed == [name.name for name in taught()]
    assert len(listed) >= 40


def test_names_are_far_apart_in_the_text_tower() -> None:
    model = load_model_file(FOLDER)
    with torch.no_grad():
        embeddings = model.encode_text(
            tokenize([f"a photo of a {n}" for n in NAMES]), normalize=True
        )
    cosines = embeddings @ embeddings.T - torch.eye(len(NAMES))
    assert cosines.max() < 0.6


def test_the_card_states_what_a_card_must() -> None:
    card = CARD.read_text("utf-8")
    for said in (
        "Limits",
        "napari-maskinversion bench scenes",
        "Apache-2.0",
        "MIT",
        "CC-BY-4.0",
        "twemoji",
    ):
        assert said in card


def test_the_card_says_what_the_template_says() -> None:
    template = files("napari_maskinversion.demo_model").joinpath("card_template.md")
    card = " ".join(CARD.read_text("utf-8").split())
    told = [
        " ".join(paragraph.split())
        for paragraph in template.read_text("utf-8").split("\n\n")
        if "$" not in paragraph and "Not measured yet" not in paragraph
    ]
    assert len(told) > 8
    assert [paragraph for paragraph in told if paragraph not in card] == []
