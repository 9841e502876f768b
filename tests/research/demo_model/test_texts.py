"""The text tower, trained first."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from napari_maskinversion.demo_model.scene_words import find
from napari_maskinversion.demo_model.scenes import generator
from research.demo_model.model import build_model, encode_text, tokenize
from research.demo_model.texts import caption, phrase_table, train_text

NAMES = tuple(find(n) for n in ("apple", "cactus", "key", "soccer ball"))


def test_neither_templates_nor_synonyms_change_what_a_name_means() -> None:
    model = build_model(1)
    names = (*NAMES, find("car"))
    train_text(model, names, 60, report=False)
    table = phrase_table(model, names)  # (ways, names, e)
    same = torch.einsum("tne,sne->tsn", table, table)
    others = torch.einsum("tne,sme->tsnm", table, table)[..., ~torch.eye(5, dtype=torch.bool)]
    assert same.min() > others.max() + 0.1
    car, automobile, cactus = F.normalize(
        model.encode_text(tokenize(["a photo of a car", "an automobile", "a cactus"])), dim=-1
    )
    assert car @ automobile > car @ cactus + 0.3


def test_short_text_encoding_is_open_clips() -> None:
    model = build_model(2).eval()
    tokens = tokenize(["a photo of a soccer ball.", "bus", "a key, a car and a palm tree"])
    torch.testing.assert_close(encode_text(model, tokens), model.encode_text(tokens))


def test_captions_name_everything_once() -> None:
    rng = generator("train", 1)
    seen = {caption([find("key"), find("bus"), find("penguin")], rng) for _ in range(50)}
    assert len(seen) > 10
    assert all(text.count("a key") == text.count("a bus") == 1 for text in seen)
    assert caption([find("key")], rng).endswith("a key")
    assert len({caption([find("car")], rng) for _ in range(50)}) > 4  # its synonym as well
