"""Texts are encoded as long as they are, and give what open_clip gives."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from open_clip.model import CLIP

from napari_maskinversion import wrap_open_clip
from napari_maskinversion.engine.models.openclip import clip_tokenizer, encode_tokens
from tests.engine.tiny import tiny_clip

WORDS = ["a", "photo", "of", "the", "nucleus,", "dotted", "line", "7", "été", "猫", "<|endoftext|>"]
sentences = st.lists(st.sampled_from(WORDS), max_size=100).map(" ".join)


@pytest.fixture(scope="module")
def clip():
    return tiny_clip()


def lengths(clip, monkeypatch):
    """Note how many tokens enter the text transformer."""
    seen = []
    forward = type(clip.transformer).forward

    def noted(self, x, attn_mask=None):
        seen.append(x.shape[1])
        return forward(self, x, attn_mask=attn_mask)

    monkeypatch.setattr(type(clip.transformer), "forward", noted)
    return seen


@given(texts=st.lists(sentences, min_size=1, max_size=5))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_texts_of_any_length_give_what_open_clip_gives(clip, texts):
    tokens = clip_tokenizer(clip.context_length)(texts)
    with torch.no_grad():
        torch.testing.assert_close(
            encode_tokens(clip, tokens), clip.encode_text(tokens), rtol=1e-4, atol=1e-5
        )


def test_only_the_longest_text_decides_how_much_is_done(clip, monkeypatch):
    seen = lengths(clip, monkeypatch)
    wrapped = wrap_open_clip(clip)
    wrapped.encode_text(["cell"])
    wrapped.encode_text(["dog", "a photo of a dog"])
    # With a mark at either end.
    assert seen == [3, 7]


@pytest.mark.parametrize("kind", ["linear", "none"])
def test_other_projections(kind):
    clip = tiny_clip()
    width = clip.ln_final.weight.shape[0]
    del clip.text_projection
    clip.text_projection = torch.nn.Linear(width, 5) if kind == "linear" else None
    tokens = clip_tokenizer(clip.context_length)(["a cell", "two cells"])
    with torch.no_grad():
        expected = clip.encode_text(tokens)
        torch.testing.assert_close(encode_tokens(clip, tokens), expected, rtol=1e-4, atol=1e-5)


def whole_context(clip):
    clip.attn_mask = torch.zeros_like(clip.attn_mask)


def no_mask(clip):
    clip.attn_mask = None


def last_token(clip):
    clip.text_pool_type = "last"


def subclass(clip):
    class Own(CLIP):
        pass

    clip.__class__ = Own


def own_method(clip):
    clip.encode_text = clip.encode_text


@pytest.mark.parametrize("change", [whole_context, no_mask, last_token, subclass, own_method])
def test_where_the_rest_may_matter_all_of_it_is_there(change, monkeypatch):
    clip = tiny_clip()
    change(clip)
    seen = lengths(clip, monkeypatch)
    tokens = clip_tokenizer(clip.context_length)(["a cell", "two cells"])
    with torch.no_grad():
        embeddings = encode_tokens(clip, tokens)
        assert torch.equal(embeddings, clip.encode_text(tokens))
    assert seen == [clip.context_length] * 2
