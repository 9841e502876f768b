"""Every name of the registry, loaded from a stand-in hub with tiny random weights.

The truth is written down here a second time, from the papers and model cards, not read from the
registry or from open_clip: a wrong activation or normalisation loads without an error and is
wrong in silence.
"""

import warnings

import numpy as np
import pytest
import torch
from open_clip.tokenizer import SimpleTokenizer
from open_clip.transformer import QuickGELU
from safetensors.torch import save
from torch import nn

from napari_maskinversion.base.errors import ModelError, OfflineError
from napari_maskinversion.engine.models.loading import load_model
from napari_maskinversion.engine.models.registry import get_spec
from napari_maskinversion.engine.models.specs import MODELS
from tests.engine.tiny import cut_architecture, random_clip

CLIP_NORM = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
HALF_NORM = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
# name: QuickGELU, normalisation, native resolution, patch
TRUTH = {
    "ViT-B-32/openai": (True, CLIP_NORM, 224, 32),
    "ViT-B-16/openai": (True, CLIP_NORM, 224, 16),
    "ViT-L-14/openai": (True, CLIP_NORM, 224, 14),
    "ViT-L-14-336/openai": (True, CLIP_NORM, 336, 14),
    "ViT-B-16/laion2b_s34b_b88k": (False, CLIP_NORM, 224, 16),
    "ViT-B-16/datacomp_xl_s13b_b90k": (False, CLIP_NORM, 224, 16),
    "ViT-L-14/laion2b_s32b_b82k": (False, HALF_NORM, 224, 14),
    "ViT-L-14/datacomp_xl_s13b_b90k": (False, CLIP_NORM, 224, 14),
    "ViT-H-14/laion2b_s32b_b79k": (False, CLIP_NORM, 224, 14),
    "ViT-bigG-14/laion2b_s39b_b160k": (False, CLIP_NORM, 224, 14),
}
# Not in the table: reached by open_clip's name.
DYNAMIC = {
    "ViT-B-32/laion400m_e32": (True, CLIP_NORM, 224, 32),
    "ViT-B-32/laion2b_s34b_b79k": (False, CLIP_NORM, 224, 32),
    "ViT-B-16-quickgelu/dfn2b": (True, CLIP_NORM, 224, 16),
    "ViT-H-14-378/dfn5b": (True, CLIP_NORM, 378, 14),
}
TEXTS = ["a photo of a cat", "", "two dogs and a very long tail of words " * 20]


def stock(hub, monkeypatch, name, *, quick_gelu, dtype=torch.float32):
    spec = get_spec(name)
    clip = random_clip(cut_architecture(monkeypatch, spec.architecture), quick_gelu=quick_gelu)
    state = {key: value.to(dtype).contiguous() for key, value in clip.state_dict().items()}
    clip.load_state_dict(state)  # what rounding left over
    hub.files[(spec.source, "open_clip_model.safetensors")] = save(state)
    return clip


def test_the_truth_covers_the_table():
    """Models of a field and those with other tokenizers or pooling have tests of their own."""
    own = {name for name in MODELS if name.startswith(("PE-Core", "ViT-H-14-w", "ViT-bigG-14-w"))}
    assert set(TRUTH) == {name for name in MODELS if "/" in name} - own


@pytest.mark.parametrize("name", [*TRUTH, *DYNAMIC])
def test_a_model_by_name_is_what_its_authors_trained(hub, monkeypatch, capfd, name):
    quick_gelu, (mean, std), native, patch = {**TRUTH, **DYNAMIC}[name]
    reference = stock(hub, monkeypatch, name, quick_gelu=quick_gelu)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = load_model(name, device="cpu")
    assert capfd.readouterr() == ("", "")

    activations = {type(m) for m in model.clip.modules() if isinstance(m, nn.GELU | QuickGELU)}
    assert activations == {QuickGELU if quick_gelu else nn.GELU}
    assert (model.mean, model.std) == (mean, std)
    assert (model.native_resolution, model.patch_size) == (native, patch)
    assert model.working_resolution == 448
    assert model.name == name
    assert not model.clip.training

    image = torch.randn(1, 3, native, native, generator=torch.Generator().manual_seed(1))
    tokens = SimpleTokenizer()(TEXTS)
    with torch.no_grad():
        torch.testing.assert_close(model.clip.visual(image), reference.visual(image))
        texts = nn.functional.normalize(reference.encode_text(tokens), dim=-1)
    np.testing.assert_allclose(model.encode_text(TEXTS), texts.numpy(), atol=1e-6)
    assert model.logit_scale == pytest.approx(np.exp(3.0))


def test_the_wrong_activation_would_be_noticed(hub, monkeypatch):
    """The comparison above has teeth: the two activations give different vectors."""
    reference = stock(hub, monkeypatch, "ViT-B-16/openai", quick_gelu=False)
    model = load_model("ViT-B-16/openai", device="cpu")
    image = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        difference = (model.clip.visual(image) - reference.visual(image)).abs().max()
    assert difference > 1e-3


def test_after_the_first_load_no_network_is_asked(hub, monkeypatch):
    stock(hub, monkeypatch, "ViT-B-16/openai", quick_gelu=True)
    first = load_model("ViT-B-16/openai", device="cpu")
    hub.requests.clear()
    monkeypatch.setenv("NAPARI_MASKINVERSION_OFFLINE", "1")
    again = load_model("ViT-B-16/openai", device="cpu")
    assert hub.requests == []
    assert again.fingerprint == first.fingerprint


def test_weights_of_another_model_are_refused(hub, monkeypatch):
    stock(hub, monkeypatch, "ViT-B-32/openai", quick_gelu=True)
    cut_architecture(monkeypatch, "ViT-B-16")
    foreign = hub.files[(get_spec("ViT-B-32/openai").source, "open_clip_model.safetensors")]
    hub.files[(get_spec("ViT-B-16/openai").source, "open_clip_model.safetensors")] = foreign
    with pytest.raises(ModelError, match=r"does not fit the architecture ViT-B-16: .*visual\."):
        load_model("ViT-B-16/openai", device="cpu")


def test_a_file_truncated_on_disk_is_never_loaded(hub, monkeypatch):
    stock(hub, monkeypatch, "ViT-B-16/openai", quick_gelu=True)
    from napari_maskinversion.engine.models.registry import fetch

    path = fetch("ViT-B-16/openai")
    path.write_bytes(path.read_bytes()[:-100])
    monkeypatch.setenv("NAPARI_MASKINVERSION_OFFLINE", "1")
    with pytest.raises(OfflineError, match="'demo'"):
        load_model("ViT-B-16/openai", device="cpu")


def test_loading_an_absent_model_reports_progress_and_can_be_cancelled(hub, monkeypatch):
    stock(hub, monkeypatch, "ViT-B-16/openai", quick_gelu=True)
    seen = []

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_model("ViT-B-16/openai", device="cpu", on_progress=stop)
    load_model("ViT-B-16/openai", device="cpu", on_progress=lambda *state: seen.append(state))
    assert seen[-1][0] == seen[-1][1]
