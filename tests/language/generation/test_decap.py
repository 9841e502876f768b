"""DeCap: the support memory, published checkpoints, and the small decoders of this package."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from napari_maskinversion.base.errors import ModelError
from napari_maskinversion.language.generation.gpt2 import DeCap
from napari_maskinversion.language.generation.settings import GenerationSettings
from napari_maskinversion.language.generation.small_gpt import (
    SmallDecoder,
    SmallGpt,
    SmallGptRecord,
    SupportMemory,
    load_small_decoder,
    save_small_decoder,
)
from tests.language.generation.checkpoints import lively, write_clipcap, write_decap


@pytest.fixture
def rows():
    return np.random.default_rng(5).normal(size=(5, 24)).astype(np.float32)


def unit(seed, count):
    return F.normalize(torch.randn(count, 24, generator=torch.Generator().manual_seed(seed)), dim=1)


def test_the_memory_is_averaged_by_the_softmax_of_a_hundred_cosines(rows):
    memory, embeddings = unit(0, 7), torch.from_numpy(rows)
    expected = []
    for row in F.normalize(embeddings, dim=1):
        weights = [float(torch.exp(100 * (row @ text - (memory @ row).max()))) for text in memory]
        mean = sum(w * text for w, text in zip(weights, memory, strict=True)) / sum(weights)
        expected.append(mean / mean.norm())
    projected = SupportMemory(memory).project(embeddings)
    torch.testing.assert_close(projected, torch.stack(expected), atol=1e-5, rtol=0)
    torch.testing.assert_close(SupportMemory(memory).project(embeddings * 9), projected)


def test_a_published_checkpoint_writes_what_its_own_loop_writes(tmp_path, rows):
    path, memory = write_decap(tmp_path), unit(1, 6)
    decoder = DeCap(path, memory)
    state = torch.load(path, weights_only=True)
    projected = SupportMemory(memory).project(torch.from_numpy(rows))
    weight, bias = state["clip_project.model.0.weight"], state["clip_project.model.0.bias"]
    inputs = (projected @ weight.T + bias)[:, None]
    assert torch.allclose(decoder.prefix(torch.from_numpy(rows)), inputs, atol=1e-5)
    tokens = []
    with torch.no_grad():
        for _ in range(4):
            logits = decoder.gpt(inputs_embeds=inputs[:1]).logits
            tokens.append(int(logits[0, -1].argmax()))
            word = state["decoder.transformer.wte.weight"][tokens[-1]]
            inputs = torch.cat([inputs[:1], word[None, None]], 1)
    settings = GenerationSettings(max_tokens=4)
    assert decoder.generate(rows[:1], settings) == [decoder.text(tokens)]
    assert decoder.gpt.config.n_head == 4


def test_clips_marks_of_start_and_end_are_no_words(tmp_path):
    decoder = DeCap(write_decap(tmp_path), unit(1, 6))
    assert decoder.text([49406, 320, 1929, 49407]) == "a dog"


def test_a_checkpoint_of_clipcap_and_a_memory_of_another_model_are_refused(tmp_path):
    with pytest.raises(ModelError, match="is not a checkpoint of this decoder"):
        DeCap(write_clipcap(tmp_path), unit(1, 6))
    with pytest.raises(ModelError, match="24 numbers; the memory has 8"):
        DeCap(write_decap(tmp_path), unit(1, 6)[:, :8])


RECORD = SmallGptRecord(
    model="demo",
    fingerprint="0123456789abcdef",
    words=(",", ".", "a", "an", "and", "frog", "house"),
    embed_dim=24,
    width=16,
    layers=2,
    heads=2,
    positions=9,
    sharpness=50,
)


@pytest.fixture
def small():
    torch.manual_seed(0)
    return SmallDecoder(lively(SmallGpt(RECORD), 2), RECORD, unit(3, 4))


def test_a_small_decoder_is_the_same_after_saving(tmp_path, small, rows):
    path = tmp_path / "small.safetensors"
    save_small_decoder(path, small.gpt, RECORD, small.memory.vectors)
    again = load_small_decoder(path)
    assert again.record == RECORD
    assert path.stat().st_size < 30_000
    inputs = torch.from_numpy(rows)
    torch.testing.assert_close(again.prefix(inputs), small.prefix(inputs), atol=0.01, rtol=0)
    assert again.generate(rows) == small.generate(rows)


def test_a_word_depends_on_those_before_it_alone(small):
    inputs = torch.randn(1, 6, 16, generator=torch.Generator().manual_seed(0))
    changed = inputs.clone()
    changed[:, 4:] = 0
    with torch.no_grad():
        torch.testing.assert_close(small.gpt(inputs)[:, :4], small.gpt(changed)[:, :4])
        assert not torch.allclose(small.gpt(inputs)[:, 4:], small.gpt(changed)[:, 4:], rtol=1e-3)


def test_words_become_a_sentence(small):
    place = {word: token for token, word in enumerate(RECORD.words)}
    tokens = [place[word] for word in ("a", "frog", ",", "a", "house", ".")]
    assert small.text(tokens) == "A frog, a house."


def test_a_damaged_file_and_weights_of_a_model_are_refused(tmp_path, small):
    from safetensors.torch import save_file

    path = tmp_path / "small.safetensors"
    save_small_decoder(path, small.gpt, RECORD, small.memory.vectors)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ModelError, match="is damaged or no caption decoder"):
        load_small_decoder(path)
    save_file({"visual.proj": torch.zeros(3)}, path)
    with pytest.raises(ModelError, match="no caption decoder of this program"):
        load_small_decoder(path)
