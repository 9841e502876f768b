"""Decoders by name: what fits which model, what is refused beforehand, and downloads."""

import hashlib
import importlib.util

import numpy as np
import pytest

from napari_maskinversion import wrap_open_clip
from napari_maskinversion.base.errors import ConfigError, InputError, ModelError, OfflineError
from napari_maskinversion.language.captions.bank_building import build_bank
from napari_maskinversion.language.captions.caption_files import read_captions
from napari_maskinversion.language.generation import registry
from napari_maskinversion.language.generation.decoder import CaptionDecoder
from napari_maskinversion.language.generation.registry import (
    check_decoder,
    get_decoder,
    load_decoder,
)
from napari_maskinversion.language.generation.settings import (
    GenerationSettings,
    scaled,
)
from tests.engine.tiny import tiny_clip
from tests.language.generation.checkpoints import write_clipcap, write_decap, write_vocabulary
from tests.listeners import collect

CLIPCAP_MODEL = "ViT-B-32/openai"


@pytest.fixture(scope="module")
def tower():
    """A tiny stand-in for OpenAI's ViT-B/32."""
    return named(CLIPCAP_MODEL)


def named(name, **changes):
    model = wrap_open_clip(tiny_clip(**changes))
    model.name = name
    return model


def one_line(error):
    text = str(error.value)
    assert "\n" not in text
    return text


def test_a_decoder_generates_a_sentence_for_each_embedding(tower, tmp_path):
    decoder: CaptionDecoder = load_decoder(
        "clipcap-coco", tower, file=write_clipcap(tmp_path), settings=GenerationSettings()
    )
    sentences = decoder.generate(np.random.default_rng(0).normal(size=(3, 24)).astype(np.float32))
    assert len(sentences) == 3
    assert all(isinstance(sentence, str) for sentence in sentences)
    assert decoder.generate(np.zeros((0, 24), np.float32)) == []


def test_weights_copied_by_hand_are_compared_by_their_width(tmp_path):
    file = write_clipcap(tmp_path, embed_dim=24)
    own = tmp_path / "vit.pt"
    own.write_bytes(b"")
    assert check_decoder("clipcap-coco", str(own), file=file).name == "clipcap-coco"
    assert load_decoder("clipcap-coco", named("vit"), file=file).embed_dim == 24
    with pytest.raises(ModelError, match="reads embeddings of 32 numbers, and vit has 24"):
        load_decoder("clipcap-coco", named("vit"), file=write_clipcap(tmp_path, embed_dim=32))
    with pytest.raises(InputError, match="not of weights/other.pt"):
        check_decoder("clipcap-coco", "weights/other.pt", file=file)


@pytest.mark.parametrize("name", ["demo", "ViT-B-16/openai"])  # as wide, and of another space
def test_clipcap_is_refused_for_another_tower_before_anything_is_read(tmp_path, name):
    with pytest.raises(InputError, match=f"reads embeddings of ViT-B-32/openai.*not of {name}"):
        check_decoder("clipcap-coco", name, file=tmp_path / "missing.pt")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("gpt5",), "no caption decoder called 'gpt5'; choose one of demo, clipcap-coco"),
        (("decap",), "needs a file"),
        (("clipcap-coco", CLIPCAP_MODEL, "missing.pt"), "no decoder file at missing.pt"),
        (("decap", None, "published.pt"), "name a bank"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "published.pt").write_bytes(b"")
    name, model, file = (*arguments, None, None)[:3]
    with pytest.raises((InputError, ModelError), match=said) as error:
        check_decoder(name, model, file=file and tmp_path.__class__(file))
    one_line(error)


def test_without_transformers_one_line_says_what_to_install(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        "napari_maskinversion.language.generation.gpt2.find_spec",
        lambda name: None if name == "transformers" else real(name),
    )
    with pytest.raises(ModelError, match=r'pip install "napari-maskinversion\[captioning\]"'):
        check_decoder("clipcap-coco", CLIPCAP_MODEL)
    check_decoder("demo", "demo")


@pytest.mark.parametrize(
    "wrong",
    [
        {"search": "best"},
        {"beams": 51},
        {"temperature": 0.0},
        {"max_tokens": 0},
        {"norm": "unit"},
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))) as error:
        GenerationSettings(**wrong)
    one_line(error)


def test_longer_sentences_than_the_decoder_can_write_are_refused(tower, tmp_path):
    decoder = load_decoder("clipcap-coco", tower, file=write_clipcap(tmp_path))
    with pytest.raises(ConfigError, match="at most 61 tokens; got max_tokens 62"):
        decoder.generate(np.ones((1, 24), np.float32), GenerationSettings(max_tokens=62))


def test_embeddings_are_scaled_to_the_norm_of_the_whole_image():
    rows = np.array([[3.0, 4.0], [0.6, 0.8]], np.float32)
    np.testing.assert_allclose(scaled(rows, [10.0, 2.0]), [[6, 8], [1.2, 1.6]], rtol=1e-6)
    with pytest.raises(InputError, match="norm of the whole image's embedding is unknown"):
        scaled(rows, [10.0, 0.0])


def test_decap_takes_a_bank_of_the_same_model_as_its_memory(tower, tmp_path):
    captions = tmp_path / "captions.txt"
    captions.write_text("a frog\na house\na red car\n")
    bank = build_bank(tower, read_captions(captions), tmp_path / "bank")
    path = write_decap(tmp_path)
    decoder = load_decoder("decap", tower, file=path, memory=bank)
    np.testing.assert_allclose(
        decoder.memory.vectors.float().numpy(),
        tower.encode_text(["a frog", "a house", "a red car"]),
        atol=1e-3,
    )
    assert len(decoder.generate(np.ones((2, 24), np.float32))) == 2
    other = named("other", quick_gelu=True)
    with pytest.raises(InputError, match="built with the model ViT-B-32/openai, not with other"):
        load_decoder("decap", other, file=path, memory=bank)


@pytest.fixture
def published(hub, monkeypatch, tmp_path):
    """A hub that has CLIPCap's COCO weights and GPT-2's vocabulary, both tiny."""
    spec = get_decoder("clipcap-coco")
    weights = write_clipcap(tmp_path).read_bytes()
    vocabulary = write_vocabulary(tmp_path / "vocab.json").read_bytes()
    hub.files[(spec.repository, spec.file)] = weights
    hub.files[("openai-community/gpt2", "vocab.json")] = vocabulary
    monkeypatch.setattr(registry, "_VOCABULARY_BYTES", len(vocabulary))
    monkeypatch.setattr(registry, "_VOCABULARY_SHA256", hashlib.sha256(vocabulary).hexdigest())
    return hub


def test_weights_are_fetched_once_and_verified(published, tower, own_cache_folder):
    spec = get_decoder("clipcap-coco")
    assert not spec.is_on_disk
    progress, decoder = collect(lambda: load_decoder("clipcap-coco", tower))
    assert max(news.total for news in progress if news.done == news.total) > 100_000
    assert (
        decoder.weights == hashlib.sha256(published.files[(spec.repository, spec.file)]).hexdigest()
    )
    assert spec.is_on_disk
    before = len(published.requests)
    load_decoder("clipcap-coco", tower)
    assert len(published.requests) == before  # nothing is asked again
    assert (own_cache_folder / "captioners" / "clipcap-coco" / "coco_weights.pt").is_file()


def test_a_vocabulary_that_is_not_the_published_one_is_not_used(published, tower, monkeypatch):
    monkeypatch.setattr(registry, "_VOCABULARY_SHA256", "0" * 64)
    with pytest.raises(ModelError, match="checksum of GPT-2's vocabulary differs"):
        load_decoder("clipcap-coco", tower)


def test_offline_one_line_says_what_else_works(tower):
    with pytest.raises(OfflineError, match="use the decoder 'demo'") as error:
        load_decoder("clipcap-coco", tower)
    one_line(error)


def test_the_demo_decoder_is_refused_for_other_weights(monkeypatch):
    class Changed:
        name, fingerprint, embed_dim = "demo", "0" * 16, 128

    with pytest.raises(InputError, match="other weights of it.*train it again") as error:
        load_decoder("demo", Changed())
    one_line(error)
