"""Sentences about names, and a caption decoder trained on them, on a tiny model."""

import pytest
import torch

from napari_maskinversion import wrap_open_clip
from napari_maskinversion.demo_model.scene_words import names_in, names_of
from napari_maskinversion.language.generation.small_gpt import SmallDecoder
from research.demo_model.captions import (
    CaptionRecipe,
    sentences_about,
    train_captions,
)
from tests.engine.tiny import tiny_clip

NAMES = ["frog", "apple", "car", "house", "water"]
RECIPE = CaptionRecipe(steps=300, batch=32, width=32, layers=1, heads=2, several=40)


@pytest.fixture(scope="module")
def model():
    return wrap_open_clip(tiny_clip())


@pytest.fixture(scope="module")
def trained(model):
    return train_captions(model, NAMES, RECIPE)


def test_the_decoder_inverts_the_text_tower(model, trained):
    decoder = SmallDecoder(*trained)
    entries = names_of(NAMES)
    texts = ["a frog", "a picture of an apple", "a drawing of a car", "a house", "water"]
    sentences = decoder.generate(model.encode_text(texts))
    named = [names_in(sentence, entries) for sentence in sentences]
    assert sum([name] == one for name, one in zip(NAMES[:4], named, strict=False)) >= 3


def test_the_record_names_the_model(model, trained):
    _, record, memory = trained
    assert record.fingerprint == model.fingerprint
    assert {"frog", "an", "and", "."} <= set(record.words)
    torch.testing.assert_close(memory.norm(dim=1), torch.ones(len(memory)))


def test_the_seed_decides_and_the_users_random_state_stays(model, trained):
    short = CaptionRecipe(steps=3, batch=8, width=16, layers=1, heads=2, several=10)
    torch.manual_seed(1)
    first = torch.rand(1)
    torch.manual_seed(1)
    one = train_captions(model, NAMES, short)[0].state_dict()
    assert torch.equal(torch.rand(1), first)
    two = train_captions(model, NAMES, short)[0].state_dict()
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, two[name])


def test_real_things_are_named_with_their_place():
    cell, road, thing = names_of(["red blood cell", "road", "teapot"])
    assert "a red blood cell in a blood smear ." in sentences_about(cell)
    assert "a road seen from above ." in sentences_about(road)
    assert "a drawing of a teapot ." in sentences_about(thing)
