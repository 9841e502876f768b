"""The table of models: what it says, what it refuses, and what it costs to look at."""

import subprocess
import sys

import pytest

from napari_maskinversion.base.errors import ModelError
from napari_maskinversion.engine.models.loading import load_model
from napari_maskinversion.engine.models.registry import (
    get_spec,
    list_models,
    model_state,
    own_model,
)
from napari_maskinversion.engine.models.specs import MODELS, default_working_resolution

OF_OPEN_CLIP = [name for name in MODELS if "/" in name]


def test_the_bundled_model_comes_first():
    first = list_models()[0]
    assert first.name == "demo"
    assert first.bundled
    assert model_state(first) == "bundled"


@pytest.mark.parametrize("name", OF_OPEN_CLIP)
def test_the_table_says_what_open_clip_says(name):
    from open_clip.factory import get_model_config
    from open_clip.pretrained import get_pretrained_cfg

    spec = get_spec(name)
    tag = get_pretrained_cfg(spec.architecture, spec.tag)
    config = get_model_config(spec.architecture)
    assert tag["hf_hub"].rstrip("/") == spec.source
    assert tag.get("quick_gelu", False) == spec.quick_gelu
    assert tuple(tag["mean"]) == spec.mean
    assert tuple(tag["std"]) == spec.std
    assert tag["interpolation"] == spec.interpolation
    assert config["vision_cfg"]["image_size"] == spec.native_resolution


@pytest.mark.parametrize("name", OF_OPEN_CLIP)
def test_a_table_entry_equals_what_is_derived_from_its_tag(name):
    from napari_maskinversion.engine.models.openclip import tag_spec

    derived, listed = tag_spec(name), get_spec(name)
    facts = ("architecture", "tag", "source", "license", "quick_gelu", "mean", "std", "tokenizer")
    for fact in facts:
        assert getattr(derived, fact) == getattr(listed, fact)
    assert derived.working_resolution == listed.working_resolution
    assert derived.size_mb == pytest.approx(listed.size_mb, rel=0.005)


def test_models_of_224_pixels_work_at_448():
    assert get_spec("ViT-B-16/openai").working_resolution == 448
    assert default_working_resolution(32) == 32
    assert default_working_resolution(512) == 512


def test_any_other_tag_of_open_clip_is_accepted():
    spec = get_spec("ViT-B-16/metaclip-400m")
    assert spec.name == "ViT-B-16/metaclip_400m"
    assert spec.quick_gelu
    assert spec.source == "timm/vit_base_patch16_clip_224.metaclip_400m"
    assert "NC" in spec.license
    assert spec.size_mb == pytest.approx(599, abs=3)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("Demo", "demo"),
        ("vit-b-16/openai", "ViT-B-16/openai"),
        ("ViT-B-16/opneai", "ViT-B-16/openai"),
        ("ViT-B-16/laion2b", "ViT-B-16/laion2b_s34b_b88k"),
    ],
)
def test_an_unknown_model_names_the_nearest(name, near):
    with pytest.raises(ModelError, match="Did you mean") as error:
        get_spec(name)
    assert near in str(error.value)


@pytest.mark.parametrize("name", ["./mine", "~/models/mine", "/models/mine", "a/b/c", "mine/"])
def test_a_folder_that_is_not_there_is_said_to_be_no_folder(name):
    with pytest.raises(ModelError, match=r"no folder or file .*(mine|c); name a folder with"):
        get_spec(name)


@pytest.mark.parametrize("name", ["~p", "~nosuchuser/m.pt", "x" * 300, "x" * 300 + ".pt", ""])
def test_what_can_be_no_path_is_none_and_refused_as_any_name(name):
    assert own_model(name) is None
    with pytest.raises(ModelError, match="There is no "):
        load_model(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("RN50/openai", "ResNet"),
        ("convnext_base_w/laion2b_s13b_b82k", "convolutional"),
        ("MobileCLIP-S1/datacompdr", "convolutional"),
        ("roberta-ViT-B-32/laion2b_s12b_b32k", "roberta"),
    ],
)
def test_models_that_cannot_be_explained_are_refused_by_name_and_reason(name, reason):
    with pytest.raises(ModelError, match=reason) as error:
        get_spec(name)
    assert name in str(error.value)
    assert "Choose another model" in str(error.value)


@pytest.mark.parametrize(
    "name",
    ["coca_ViT-B-32/laion2b_s13b_b90k", "EVA02-B-16/merged2b_s8b_b131k", "PE-Core-T-16-384/meta"],
)
def test_models_of_other_families_are_known_by_name(name):
    spec = get_spec(name)
    assert spec.name == name
    assert spec.size_mb > 100


def test_looking_at_the_table_loads_neither_torch_nor_open_clip():
    code = (
        "import sys\n"
        "from napari_maskinversion.engine.models import registry\n"
        "states = [registry.model_state(spec) for spec in registry.list_models()]\n"
        "assert 'to fetch' in states, states\n"
        "print([m for m in ('torch', 'open_clip', 'huggingface_hub') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
