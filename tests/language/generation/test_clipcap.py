"""CLIPCap on a tiny GPT-2 whose checkpoint has the published names, shapes and stale constants."""

import numpy as np
import pytest
import torch
from transformers import GPT2Tokenizer

from napari_maskinversion.base.errors import ModelError
from napari_maskinversion.language.generation.gpt2 import ClipCap, decode_bytes
from napari_maskinversion.language.generation.settings import GenerationSettings
from tests.language.generation.checkpoints import (
    WORDS,
    clipcap_model,
    clipcap_state,
    write_clipcap,
    write_vocabulary,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("clipcap")


@pytest.fixture(scope="module")
def decoder(folder):
    return ClipCap(write_clipcap(folder), folder / "vocab.json")


@pytest.fixture
def embeddings():
    return np.random.default_rng(0).normal(size=(4, 24)).astype(np.float32)


def oracle_prefix(embeddings):
    model = clipcap_model()
    with torch.no_grad():
        return model, model.clip_project.model(torch.from_numpy(embeddings)).view(-1, 3, 128)


def words_of(tokens):
    return decode_bytes([WORDS[token] for token in tokens])


def test_greedy_sentences_are_those_of_transformers(decoder, embeddings):
    model, prefix = oracle_prefix(embeddings)
    settings = GenerationSettings(max_tokens=12)
    expected = []
    for row in prefix:
        tokens = model.gpt.generate(
            inputs_embeds=row[None],
            attention_mask=torch.ones(1, 3, dtype=torch.long),
            do_sample=False,
            max_new_tokens=12,
            eos_token_id=0,
            pad_token_id=0,
        )[0].tolist()
        expected.append(words_of(tokens))
    assert decoder.generate(embeddings, settings) == expected
    assert len(set(expected)) > 1  # or the test would see nothing


def beam_oracle(model, prefix, beams, longest):
    """Write sentences as lists, one model call each; sort by the mean at every step."""

    def scores(tokens):
        words = model.gpt.transformer.wte(torch.tensor([tokens], dtype=torch.long))
        with torch.no_grad():
            logits = model.gpt(inputs_embeds=torch.cat([prefix, words], 1)).logits
        return logits[0, -1].log_softmax(-1).tolist()

    kept = sorted(((s, [t]) for t, s in enumerate(scores([]))), key=lambda pair: -pair[0])[:beams]
    for _ in range(longest - 1):
        if all(0 in tokens for _, tokens in kept):
            break
        ahead = []
        for total, tokens in kept:
            if 0 in tokens:
                ahead.append((total, tokens))
            else:
                ahead += [(total + s, [*tokens, t]) for t, s in enumerate(scores(tokens))]
        kept = sorted(ahead, key=lambda pair: -pair[0] / len(pair[1]))[:beams]
    return max(kept, key=lambda pair: pair[0] / len(pair[1]))[1]


def test_beam_search_sorts_by_the_mean_at_every_step(decoder, embeddings):
    model, prefix = oracle_prefix(embeddings)
    settings = GenerationSettings(search="beam", beams=3, max_tokens=8)
    expected = [words_of(beam_oracle(model, row[None], 3, 8)) for row in prefix]
    assert decoder.generate(embeddings, settings) == expected
    assert expected != decoder.generate(embeddings, GenerationSettings(max_tokens=8))


def test_the_embedding_is_not_normalised(decoder, embeddings):
    assert decoder.generate(embeddings) != decoder.generate(embeddings / 20)


def test_sentences_end_with_the_full_stop_or_after_67_tokens(decoder, embeddings):
    assert decoder.usual_tokens == 67
    assert decoder.most_tokens == 61  # this GPT-2 has 64 positions
    assert all("." not in text.rstrip(".") for text in decoder.generate(embeddings))


def test_byte_pairs_are_decoded_as_by_gpt2s_tokenizer(tmp_path):
    vocabulary = write_vocabulary(tmp_path / "vocab.json")
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    theirs = GPT2Tokenizer(str(vocabulary), str(tmp_path / "merges.txt"))
    tokens = [1, 2, 3, 5, 9, 0]
    assert words_of(tokens) == theirs.decode(tokens).strip() == "a red frog on é."


def refused(tmp_path, state, said):
    path = tmp_path / "changed.pt"
    torch.save(state, path)
    with pytest.raises(ModelError, match=said) as error:
        ClipCap(path, write_vocabulary(tmp_path / "vocab.json"))
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value) or "vocab.json" in str(error.value)


def test_the_transformer_mapper_is_refused_by_name(tmp_path):
    state = {k: v for k, v in clipcap_state().items() if not k.startswith("clip_project")}
    state |= {
        "clip_project.linear.weight": torch.zeros(40, 640),
        "clip_project.prefix_const": torch.zeros(40, 128),
        "clip_project.transformer.layers.0.norm1.weight": torch.zeros(128),
    }
    refused(tmp_path, state, "RN50x4")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: s.pop("gpt.transformer.h.1.mlp.c_fc.bias"), "1 tensor is missing"),
        (lambda s: s.update({"extra": torch.zeros(1)}), "not part of the architecture"),
        (
            lambda s: s.pop("clip_project.model.2.weight"),
            "not a checkpoint of this decoder .*model.2",
        ),
        (lambda s: s.pop("gpt.transformer.wte.weight"), "not a checkpoint of this decoder"),
        (lambda s: s["gpt.transformer.wte.weight"].fill_(torch.nan), "not finite"),
    ],
)
def test_weights_are_loaded_strictly(tmp_path, change, said):
    state = clipcap_state()
    change(state)
    refused(tmp_path, state, said)


def test_a_vocabulary_of_another_gpt2_is_refused(tmp_path):
    path = write_clipcap(tmp_path)
    (tmp_path / "vocab.json").write_text('{".": 0, "a": 1}')
    with pytest.raises(ModelError, match="not a vocabulary of 12 tokens"):
        ClipCap(path, tmp_path / "vocab.json")
