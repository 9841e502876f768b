"""The files in the package: the weights, their vocabulary, card and caption decoder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import torch
from safetensors.torch import load_file

from napari_maskinversion.demo_model.scene_words import NAMES, VOCABULARY_FILE, taught
from napari_maskinversion.engine.models.specs import bundled_folder
from napari_maskinversion.language.generation.registry import bundled_decoder
from napari_maskinversion.language.generation.small_gpt import read_record
from tests.scenes import demo_model

FOLDER = bundled_folder()
CARD = FOLDER / "MODEL_CARD.md"
FIGURES = Path(__file__).parents[2] / "benchmarks" / "results" / "generated-captions.json"


def test_weights_are_small_half_precision_and_finite() -> None:
    path = FOLDER / "open_clip_model.safetensors"
    assert path.stat().st_size < 16e6
    tensors = load_file(path)
    assert {t.dtype for t in tensors.values()} == {torch.float16}
    assert all(torch.isfinite(t).all() for t in tensors.values())


def test_the_vocabulary_is_the_one_it_was_trained_on() -> None:
    listed = (FOLDER / VOCABULARY_FILE).read_text("utf-8").splitlines()
    assert listed == list(NAMES)
    assert listed == [name.name for name in taught()]
    assert len(listed) >= 40


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


def test_the_bundled_decoder_belongs_to_the_bundled_weights() -> None:
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


def test_its_sentences_name_the_right_thing_about_as_often_as_the_nearest_label() -> None:
    parts = json.loads(FIGURES.read_text())["parts"]
    for name in ("regions/seen", "regions/unseen", "real/blood"):
        assert parts[name]["named"]["value"] > parts[name]["class"]["low"] - 0.05
        assert parts[name]["class"]["low"] < parts[name]["class"]["value"]
