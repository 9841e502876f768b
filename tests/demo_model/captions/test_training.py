"""Training a caption decoder on text alone, on a tiny model; and the bundled one."""

import hashlib
import json
from pathlib import Path

import pytest
import torch

from napari_maskinversion import wrap_open_clip
from napari_maskinversion.demo_model.captions.sentences import names_in, names_of
from napari_maskinversion.demo_model.captions.training import CaptionRecipe, train_captions
from napari_maskinversion.language.generation.registry import bundled_decoder
from napari_maskinversion.language.generation.small_gpt import SmallDecoder, read_record
from tests.engine.tiny import tiny_clip
from tests.scenes import demo_model

NAMES = ["frog", "apple", "car", "house", "water"]
RECIPE = CaptionRecipe(steps=300, batch=32, width=32, layers=1, heads=2, several=40)
FIGURES = Path(__file__).parents[3] / "benchmarks" / "results" / "generated-captions.json"


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


def test_the_bundled_decoder_belongs_to_the_bundled_weights():
    record = read_record(bundled_decoder())
    assert record.fingerprint == demo_model().fingerprint  # else: bash scripts/demo_captions.sh
    assert bundled_decoder().stat().st_size < 2_000_000
    card = bundled_decoder().with_name("CARD.md").read_text()
    assert record.fingerprint in card
    assert "sentence names the right thing" in card
    figures = json.loads(FIGURES.read_text())["settings"]
    weights = hashlib.sha256(bundled_decoder().read_bytes()).hexdigest()
    assert figures["decoder weights"] == weights
    assert figures["fingerprint"] == record.fingerprint


def test_its_sentences_name_the_right_thing_about_as_often_as_the_nearest_label():
    parts = json.loads(FIGURES.read_text())["parts"]
    for name in ("regions/seen", "regions/unseen", "real/blood"):
        assert parts[name]["named"]["value"] > parts[name]["class"]["low"] - 0.05
        assert parts[name]["class"]["low"] < parts[name]["class"]["value"]
