"""Models of a field, one of each kind: fetched from a stand-in hub, then run without a network.

Weights are random and small; shapes, names and files are those of the published models.
"""

import copy
import io
import json
import shutil

import numpy as np
import pytest
import timm
import torch
from open_clip import factory, timm_model
from open_clip.hf_model import HFTextEncoder
from open_clip.model import CLIPVisionCfg, CustomTextCLIP
from safetensors.torch import save
from timm.models import eva

from napari_maskinversion import MaskInverter, load_model, region_embedder
from napari_maskinversion.base.errors import ModelError, OfflineError
from napari_maskinversion.engine.models import openclip, text_towers
from napari_maskinversion.engine.models.loading import load_where_it_fits
from napari_maskinversion.engine.models.registry import (
    fetch,
    get_spec,
    list_models,
    model_folder,
    model_state,
)
from napari_maskinversion.engine.models.specs import DOMAINS, ELSEWHERE, MODELS
from napari_maskinversion.engine.models.towers import tower_of
from napari_maskinversion.language.labels.label import TEMPLATES
from tests.engine.tiny import cut, cut_architecture, random_clip

WORDS = ("a", "cat", "cell", "tumour", "photo", "of")
TEXTS = ["a photo of a cat", "cell"]
ONE = torch.ones(1)
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
PREPROCESS = {"mean": [0.4, 0.4, 0.4], "std": [0.3, 0.3, 0.3], "interpolation": "bicubic"}


def lively(module, seed=0):
    state = torch.get_rng_state()
    torch.manual_seed(seed)
    for parameter in module.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    torch.set_rng_state(state)
    return module.eval()


def files_of(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path / "saved")
    return {path.name: path.read_bytes() for path in (tmp_path / "saved").iterdir()}


def openclip_config(architecture, **text):
    config = cut(factory._MODEL_CONFIGS[architecture])
    config["text_cfg"].update(text)
    return config, json.dumps({"model_cfg": config, "preprocess_cfg": PREPROCESS}).encode()


def bioclip(hub, *_):
    """A config of open_clip, CLIP's own tokenizer."""
    config, content = openclip_config("ViT-B-32")
    clip = random_clip(config)
    source = get_spec("BioCLIP-2").source
    hub.files[source, "open_clip_config.json"] = content
    hub.files[source, "open_clip_model.safetensors"] = save(clip.state_dict())
    return clip.encode_image, clip.encode_text, 224


def biomedclip(hub, monkeypatch, tmp_path):
    """A timm trunk, a text tower of PubMedBERT, its tokenizer from its own repository."""
    from transformers import BertConfig, BertTokenizerFast

    spec = get_spec("BiomedCLIP")
    vocabulary = {word: i for i, word in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS))}
    sizes = {**SIZES, "num_attention_heads": 2, "vocab_size": len(vocabulary)}
    monkeypatch.setattr(text_towers, "BERT_SIZES", sizes)
    shrink(monkeypatch, img_size=32, patch_size=8)
    text = {
        "hf_model_name": spec.tokenizer,
        "hf_tokenizer_name": spec.tokenizer,
        "hf_proj_type": "mlp",
        "hf_pooler_type": "cls_last_hidden_state_pooler",
        "context_length": 16,
    }
    vision = {"timm_model_name": "vit_base_patch16_224", "timm_pool": "", "timm_proj": "linear"}
    config = {"embed_dim": 24, "vision_cfg": {**vision, "image_size": 32}, "text_cfg": text}
    clip = CustomTextCLIP(24, config["vision_cfg"], {"layers": 1})
    clip.text = HFTextEncoder(
        "bert", 24, BertConfig(**sizes), text["hf_pooler_type"], text["hf_proj_type"]
    )
    clip.text.transformer.pooler = None
    lively(clip)
    # What transformers wrote into weights until 2023
    old = {"text.transformer.embeddings.position_ids": torch.arange(512)[None]}
    weights = io.BytesIO()
    torch.save({**clip.state_dict(), **old}, weights)
    content = {"model_cfg": config, "preprocess_cfg": PREPROCESS}
    hub.files[spec.source, "open_clip_config.json"] = json.dumps(content).encode()
    hub.files[spec.source, "open_clip_pytorch_model.bin"] = weights.getvalue()
    for name, file in files_of(BertTokenizerFast(vocab=vocabulary), tmp_path).items():
        hub.files[spec.tokenizer, name] = file
    return clip.encode_image, clip.encode_text, 32


def plip(hub, *_):
    """A CLIPModel of transformers."""
    from transformers import CLIPConfig, CLIPModel

    sizes = {**SIZES, "num_attention_heads": 2}
    vision = {**sizes, "image_size": 32, "patch_size": 8}
    model = lively(
        CLIPModel(CLIPConfig(vision_config=vision, text_config=sizes, projection_dim=24))
    )
    source = get_spec("PLIP").source
    hub.files[source, "config.json"] = model.config.to_json_string().encode()
    hub.files[source, "preprocessor_config.json"] = b'{"image_mean": [0.4, 0.4, 0.4]}'
    weights = io.BytesIO()
    torch.save(model.state_dict(), weights)
    hub.files[source, "pytorch_model.bin"] = weights.getvalue()
    return (
        lambda images: model.get_image_features(images).pooler_output,
        lambda tokens: model.get_text_features(tokens).pooler_output,
        32,
    )


def checkpoint(hub, monkeypatch, name, **extra):
    """A file of a training, of an architecture of open_clip."""
    spec = get_spec(name)
    clip = random_clip(cut_architecture(monkeypatch, spec.architecture), quick_gelu=spec.quick_gelu)
    weights = io.BytesIO()
    state = {f"module.{key}": value for key, value in {**clip.state_dict(), **extra}.items()}
    torch.save({"epoch": 3, "state_dict": state}, weights)
    owner, project, file = spec.source.split("/", 2)
    hub.files[f"{owner}/{project}", file] = weights.getvalue()
    return clip.encode_image, clip.encode_text, 224


def remoteclip(hub, monkeypatch, _):
    return checkpoint(hub, monkeypatch, "RemoteCLIP-B-32")


def georsclip(hub, monkeypatch, _):
    return checkpoint(hub, monkeypatch, "GeoRSCLIP-B-32", head=torch.zeros(3))


def metaclip2(hub, monkeypatch, tmp_path):
    """Another vocabulary, the tokenizer of a repository of its own."""
    from tokenizers import processors
    from transformers import PreTrainedTokenizerFast

    spec = get_spec("ViT-H-14-worldwide/metaclip2_worldwide")
    words = {word: i for i, word in enumerate(("<s>", "<pad>", "</s>", "<unk>", *WORDS))}
    config = copy.deepcopy(factory._MODEL_CONFIGS[spec.architecture])
    config["text_cfg"]["vocab_size"] = len(words)
    monkeypatch.setitem(factory._MODEL_CONFIGS, spec.architecture, config)
    clip = random_clip(cut_architecture(monkeypatch, spec.architecture), quick_gelu=True)
    hub.files[spec.source, "open_clip_model.safetensors"] = save(clip.state_dict())
    fast = word_level(words)
    fast.post_processor = processors.TemplateProcessing(
        "<s> $A </s>", None, [("<s>", 0), ("</s>", 2)]
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=fast, pad_token="<pad>")
    for name, file in files_of(tokenizer, tmp_path).items():
        hub.files[spec.tokenizer, name] = file
    return clip.encode_image, clip.encode_text, 224


def pe_core(hub, monkeypatch, _):
    """A tower of timm that pools by attention, CLIP's own tokenizer with a short context."""
    spec = get_spec("PE-Core-T-16-384/meta")
    shrink(monkeypatch, img_size=32, patch_size=8)
    config = cut_architecture(monkeypatch, spec.architecture)
    clip = lively(CustomTextCLIP(24, CLIPVisionCfg(**config["vision_cfg"]), config["text_cfg"]))
    hub.files[spec.source, "open_clip_model.safetensors"] = save(clip.state_dict())
    return clip.encode_image, clip.encode_text, 32


def fgclip2(hub, monkeypatch, tmp_path):
    """SigLIP 2 in transformers, with the parts of FG-CLIP 2 that are not read."""
    from transformers import PreTrainedTokenizerFast, Siglip2Config, Siglip2Model
    from transformers.models.siglip2.image_processing_siglip2 import convert_image_to_patches

    spec = get_spec("FG-CLIP2-B")
    sizes = {**SIZES, "num_attention_heads": 2}
    vision = {**sizes, "patch_size": 8, "num_patches": 16}
    text = {**sizes, "vocab_size": 16, "projection_size": 32}
    model = lively(Siglip2Model(Siglip2Config(vision_config=vision, text_config=text)))
    state = model.state_dict()
    state["dense_feature_head.probe"] = torch.ones(1, 1, 32)
    state["boxtext_head.weight"] = torch.ones(32, 32)
    state["text_model.embeddings.position_embedding_res.weight"] = torch.ones(196, 32)
    hub.files[spec.source, "model.safetensors"] = save(state)
    shrink(monkeypatch, mlp_ratio=2.0, img_size=32, patch_size=8)
    config = copy.deepcopy(factory._MODEL_CONFIGS["ViT-B-16-SigLIP2-256"])
    config["embed_dim"] = 32
    small = {"width": 32, "heads": 2, "layers": 2, "mlp_ratio": 2.0, "vocab_size": 16}
    config["text_cfg"].update(small)
    monkeypatch.setitem(factory._MODEL_CONFIGS, "ViT-B-16-SigLIP2-256", config)
    words = {word: i for i, word in enumerate(("<pad>", "<unk>", *WORDS))}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=word_level(words), pad_token="<pad>")
    for name, file in files_of(tokenizer, tmp_path).items():
        hub.files[spec.tokenizer, name] = file

    def embed_images(images):
        patches = convert_image_to_patches(images[0], 8)[None]
        seen = torch.ones(1, 16, dtype=torch.long), torch.tensor([[4, 4]])
        return model.get_image_features(patches, *seen).pooler_output

    return embed_images, lambda tokens: model.get_text_features(tokens).pooler_output, 32


def word_level(words):
    from tokenizers import Tokenizer, models, pre_tokenizers

    fast = Tokenizer(models.WordLevel(words, "<unk>"))
    fast.pre_tokenizer = pre_tokenizers.Whitespace()
    return fast


def tipsv2(hub, monkeypatch, tmp_path, name="TIPSv2-B", mlp_ratio=4.0, **vision_of):
    """The layout that transformers publishes; a tokenizer of its own."""
    from transformers import Tipsv2Config, Tipsv2Model, Tipsv2Tokenizer

    spec = get_spec(name)
    words = {word: i for i, word in enumerate(("<pad>", "<unk>", *(f"▁{w}" for w in WORDS)))}
    # All single signs, so that words can be joined of them
    letters = {sign for word in words for sign in word if word[0] != "<"}
    words |= {sign: len(words) + i for i, sign in enumerate(sorted(letters))}
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    vision = {**sizes, "image_size": 56, "patch_size": 14, **vision_of}
    text = {**sizes, "intermediate_size": 256, "vocab_size": len(words)}
    model = lively(Tipsv2Model(Tipsv2Config(vision_config=vision, text_config=text)))
    model.temperature.data.fill_(0.02)
    model.save_pretrained(tmp_path / "tips")
    shrink(monkeypatch, embed_dim=64, img_size=56, mlp_ratio=mlp_ratio)
    config = copy.deepcopy(text_towers.ARCHITECTURES[spec.architecture])
    config.update(embed_dim=64)
    config["text_cfg"].update(width=64, heads=2, layers=2, hidden=256, vocab_size=len(words))
    monkeypatch.setattr(text_towers, "ARCHITECTURES", {spec.architecture: config})
    weights = (tmp_path / "tips" / "model.safetensors").read_bytes()
    hub.files[spec.source, "model.safetensors"] = weights
    tokenizer = Tipsv2Tokenizer(vocab=words, merges=[])
    for name, file in files_of(tokenizer, tmp_path).items():
        hub.files[spec.tokenizer, name] = file

    def embed_text(tokens):
        return model.get_text_features(tokens, attention_mask=(tokens != 0).long()).pooler_output

    return lambda images: model.get_image_features(images).pooler_output, embed_text, 56


def tipsv2_g(hub, monkeypatch, tmp_path):
    """The giant's MLP has a gate."""
    return tipsv2(hub, monkeypatch, tmp_path, "TIPSv2-g", 5.5, use_swiglu_ffn=True)


def shrink(monkeypatch, **sizes):
    make = timm.create_model
    small = {"depth": 2, "embed_dim": 32, "num_heads": 2, **sizes}
    monkeypatch.setattr(
        timm_model.timm, "create_model", lambda *args, **more: make(*args, **{**more, **small})
    )


KINDS = {
    "BioCLIP-2": bioclip,
    "BiomedCLIP": biomedclip,
    "PLIP": plip,
    "RemoteCLIP-B-32": remoteclip,
    "GeoRSCLIP-B-32": georsclip,
    "ViT-H-14-worldwide/metaclip2_worldwide": metaclip2,
    "PE-Core-T-16-384/meta": pe_core,
    "FG-CLIP2-B": fgclip2,
    "TIPSv2-B": tipsv2,
    "TIPSv2-g": tipsv2_g,
}


@pytest.mark.parametrize("name", KINDS)
def test_one_fetch_brings_everything_and_then_no_socket_is_needed(
    name, hub, monkeypatch, tmp_path, request
):
    embed_images, embed_text, side = KINDS[name](hub, monkeypatch, tmp_path)
    assert model_state(get_spec(name)) == "to fetch"
    fetch(name)
    request.getfixturevalue("no_network")
    assert model_state(get_spec(name)) == "on disk"
    model = load_model(name, device="cpu")
    assert model.name == name
    image = torch.randn(1, 3, side, side, generator=torch.Generator().manual_seed(1))
    tokens = model.tokenize(TEXTS)
    assert not torch.equal(tokens[0], tokens[1])
    with torch.no_grad():
        expected = torch.nn.functional.normalize(embed_text(tokens), dim=-1)
        torch.testing.assert_close(
            torch.nn.functional.normalize(model.embed_images(image), dim=-1),
            torch.nn.functional.normalize(embed_images(image), dim=-1),
            rtol=0,
            atol=1e-6,
        )
    np.testing.assert_allclose(model.encode_text(TEXTS), expected.numpy(), atol=1e-6)
    inverter = MaskInverter(model)
    inverter.set_image(np.random.default_rng(0).random((32, 32, 3)), resolution=side)
    masks = np.zeros((1, 32, 32), bool)
    masks[0, :16, :16] = True
    assert np.isfinite(inverter.invert(masks, steps=1).embeddings).all()


def test_fgclip2_reads_full_stops_and_no_capitals(hub, monkeypatch, tmp_path):
    """As its authors do; open_clip would leave out full stops for SigLIP 2."""
    fgclip2(hub, monkeypatch, tmp_path)
    stop, none, capital = load_model("FG-CLIP2-B").tokenize(["a cat.", "a cat", "A cat."])
    assert stop.tolist() == capital.tolist() != none.tolist()


# name: QuickGELU, tokenizer; None where the repository's own configuration says it
TRUTH = {
    "BiomedCLIP": (None, "microsoft/BiomedNLP-BiomedBERT-base-uncased-abstract"),
    "QuiltNet-B-32": (None, ""),
    "QuiltNet-B-16": (None, ""),
    "QuiltNet-B-16-PMB": (None, "microsoft/BiomedNLP-PubMedBERT-base-uncased-abstract"),
    "PLIP": (None, ""),
    "BioCLIP-2": (None, ""),
    "BioCLIP-2.5": (None, ""),
    "RemoteCLIP-B-32": (False, ""),
    "RemoteCLIP-L-14": (False, ""),
    "GeoRSCLIP-B-32": (True, ""),
    "GeoRSCLIP-H-14": (False, ""),
    "FarSLIP-B-32": (True, ""),
    "FarSLIP-B-16": (True, ""),
    "TIPSv2-B": (False, "google/tipsv2-b14"),
    "TIPSv2-L": (False, "google/tipsv2-l14"),
    "TIPSv2-So": (False, "google/tipsv2-so400m14"),
    "TIPSv2-g": (False, "google/tipsv2-g14"),
    "FG-CLIP2-B": (False, "qihoo360/fg-clip2-base"),
    "FG-CLIP2-L": (False, "qihoo360/fg-clip2-large"),
    "FG-CLIP2-So": (False, "qihoo360/fg-clip2-so400m"),
}


def test_what_the_authors_say_about_their_models():
    assert set(TRUTH) == {name for name in MODELS if "/" not in name} - {"demo"}
    for name, (quick_gelu, tokenizer) in TRUTH.items():
        spec = get_spec(name)
        assert (spec.activation.startswith("as its"), spec.tokenizer) == (
            quick_gelu is None,
            tokenizer,
        )
        assert spec.quick_gelu == bool(quick_gelu)


def test_every_model_says_its_field_licence_and_prompts():
    for spec in list_models():
        assert spec.license
        assert spec.prompts in TEMPLATES
    fields = [spec.domain for spec in list_models()]
    assert fields == sorted(fields, key=DOMAINS.index)
    assert set(fields) == set(DOMAINS)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_model_that_is_not_fetched_says_why_and_what_to_do(name):
    with pytest.raises(ModelError, match=r"is not fetched: .*licence: .*; ") as error:
        load_model(name, device="cpu")
    assert "\n" not in str(error.value)
    with pytest.raises(ModelError, match="is not fetched: "):
        openclip.architecture_config(name)


@pytest.fixture
def plip_folder(hub, monkeypatch, tmp_path):
    plip(hub)
    folder = fetch("PLIP").parent
    return shutil.copytree(folder, tmp_path / "brought")


def test_a_folder_of_transformers_that_a_user_brings_is_loaded(plip_folder):
    model = load_model(plip_folder, device="cpu")
    assert openclip.uses_quick_gelu(model.clip)
    assert model.mean == (0.4, 0.4, 0.4)
    np.testing.assert_array_equal(
        model.encode_text(TEXTS), load_model("PLIP", device="cpu").encode_text(TEXTS)
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"model_type": "dinov3_vit"}, "a model of the kind 'dinov3_vit'"),
        ({"vision_config": {"hidden_act": "relu"}}, "hidden_act"),
        ({"text_config": {"hidden_act": "gelu"}}, "two activations"),
        ({"vision_config": {"hidden_size": "wide"}}, "hidden_size"),
        ({"vision_config": {"num_hidden_layers": 3}}, "does not fit the architecture"),
        ({"text_config": {"vocab_size": 30522}}, "vocabulary of 30522"),
    ],
)
def test_a_configuration_that_cannot_be_meant_is_refused_in_one_line(plip_folder, change, problem):
    path = plip_folder / "config.json"
    config = json.loads(path.read_text())
    for key, value in change.items():
        config[key] = {**config[key], **value} if isinstance(value, dict) else value
    path.write_text(json.dumps(config))
    with pytest.raises(ModelError, match=problem) as error:
        load_model(plip_folder, device="cpu")
    assert "\n" not in str(error.value)


def test_a_folder_that_was_copied_by_half_is_told(plip_folder):
    (plip_folder / "pytorch_model.bin").unlink()
    with pytest.raises(ModelError, match="has a configuration and no weights"):
        load_model(plip_folder, device="cpu")


def test_an_image_tower_alone_is_told(hub, monkeypatch, tmp_path):
    clip = random_clip(cut_architecture(monkeypatch, "ViT-B-32"))
    visual = {k: v for k, v in clip.state_dict().items() if k.startswith("visual.")}
    torch.save(visual, tmp_path / "spatial.pt")
    with pytest.raises(ModelError, match="an image tower and no text tower"):
        load_model(tmp_path / "spatial.pt", architecture="ViT-B-32", device="cpu")


def test_a_file_takes_the_activation_of_the_model_it_is(monkeypatch, tmp_path):
    """Fine-tuned weights do not tell it; open_clip would build GELU."""
    clip = random_clip(cut_architecture(monkeypatch, "ViT-B-16"), quick_gelu=True)
    torch.save(clip.state_dict(), tmp_path / "mine.pt")
    model = load_model(tmp_path / "mine.pt", architecture="FarSLIP-B-16", device="cpu")
    assert openclip.uses_quick_gelu(model.clip)
    with pytest.raises(ModelError, match="name the folder"):
        load_model(tmp_path / "mine.pt", architecture="BiomedCLIP", device="cpu")


PUBLISHED = (
    ("visual.trunk.", "visual_encoder.proxy."),
    (".attn.q_proj.bias", ".attn.q_bias"),
    (".attn.v_proj.bias", ".attn.v_bias"),
    (".attn.norm.", ".attn.inner_attn_ln."),
    (".mlp.norm.", ".mlp.ffn_ln."),
    (".mlp.fc1_g.", ".mlp.w1."),
    (".mlp.fc1_x.", ".mlp.w2."),
    (".mlp.fc2.", ".mlp.w3."),
)


def test_a_file_of_maskclippp_is_loaded_and_read_by_the_mean_of_its_values(monkeypatch, tmp_path):
    """Its image tower under EVA's names, which timm translates, too."""
    shrink(monkeypatch, img_size=56)
    config = cut_architecture(monkeypatch, "EVA02-L-14-336")
    clip = lively(CustomTextCLIP(24, CLIPVisionCfg(**config["vision_cfg"]), config["text_cfg"]))
    state = {"visual_encoder.mask_logit_scale": torch.zeros(3, 2), "psm.corr_proj_in.0.bias": ONE}
    for name, value in clip.state_dict().items():
        if name.startswith("visual."):
            for ours, theirs in PUBLISHED:
                name = name.replace(ours, theirs)
            state[name] = value
        else:
            inner = name.replace("text.", "proxy.", 1)
            state[f"text_encoder.{inner}"] = value
    torch.save({"model": state, "iteration": 19_999}, file := tmp_path / "tuned.pth")
    model = load_model(file, architecture="EVA02-L-14-336", device="cpu")

    begin = "visual_encoder.proxy."
    image = {k.removeprefix(begin): v for k, v in state.items() if k.startswith(begin)}
    for name, value in eva.checkpoint_filter_fn(image, clip.visual.trunk).items():
        torch.testing.assert_close(model.clip.visual.trunk.state_dict()[name], value)
    tokens = model.tokenize(TEXTS)
    with torch.no_grad():
        texts = torch.nn.functional.normalize(clip.encode_text(tokens), dim=-1)
    np.testing.assert_allclose(model.encode_text(TEXTS), texts.numpy(), atol=1e-6)
    method = region_embedder("maskclip", model)
    method.set_image(np.random.default_rng(0).random((56, 56, 3)), resolution=56)
    assert np.isfinite(method.embed(np.ones((1, 56, 56), bool))).all()

    only_image = {k: v for k, v in state.items() if not k.startswith("text_encoder.")}
    torch.save({"model": only_image}, file)
    with pytest.raises(ModelError, match="an image tower and no text tower"):
        load_model(file, architecture="EVA02-L-14-336", device="cpu")


def test_a_guessed_activation_is_told(monkeypatch, tmp_path):
    clip = random_clip(cut_architecture(monkeypatch, "ViT-B-16"))
    torch.save(clip.state_dict(), file := tmp_path / "mine.pt")
    note = load_where_it_fits(str(file), architecture="ViT-B-16", device="cpu").note
    assert note.endswith("activation GELU assumed; models check compares it with QuickGELU.")
    assert not load_where_it_fits(str(file), architecture="FarSLIP-B-16", device="cpu").note


def test_longer_texts_of_longclip_keep_their_positions(monkeypatch, tmp_path):
    cut_architecture(monkeypatch, "ViT-B-16")["text_cfg"]["context_length"] = 248
    clip = random_clip(openclip.architecture_config("ViT-B-16"), quick_gelu=True)
    state = dict(clip.state_dict())
    state["positional_embedding_res"] = state["positional_embedding"].clone()
    state["positional_embedding"] = state["positional_embedding"].clone()
    state["positional_embedding"][20:] = 7  # not used
    state["positional_embedding_res"][:20] = 7
    state |= {"mask1": torch.zeros(248, 1), "mask2": torch.zeros(248, 1)}
    torch.save(state, tmp_path / "long.pt")
    openclip.factory._MODEL_CONFIGS["ViT-B-16"]["text_cfg"].pop("context_length")
    model = load_model(tmp_path / "long.pt", architecture="FarSLIP-B-16", device="cpu")
    tokens = model.tokenize(["a cat " * 60])
    assert tokens.shape == (1, 248)
    with torch.no_grad():
        expected = torch.nn.functional.normalize(clip.encode_text(tokens), dim=-1).numpy()
    np.testing.assert_allclose(model.encode_text(["a cat " * 60]), expected, atol=1e-6)


def test_a_licence_that_must_be_accepted_is_one_line(hub):
    hub.status = 403
    with pytest.raises(ModelError, match=r"refuses imageomics/bioclip-2; if its licence") as error:
        fetch("BioCLIP-2")
    assert "\n" not in str(error.value)
    assert not model_folder(get_spec("BioCLIP-2")).exists()


def test_a_small_file_that_differs_from_its_checksum_is_not_kept(hub):
    bioclip(hub)
    hub.checksum = "0" * 64
    with pytest.raises(ModelError, match="checksum of open_clip_config.json"):
        fetch("BioCLIP-2")


def test_without_a_network_a_model_of_a_field_says_how_to_bring_it(monkeypatch):
    monkeypatch.setenv("NAPARI_MASKINVERSION_OFFLINE", "1")
    with pytest.raises(OfflineError, match="models fetch BiomedCLIP' on a machine with a network"):
        load_model("BiomedCLIP", device="cpu")


@pytest.fixture
def tips(hub, monkeypatch, tmp_path):
    tipsv2(hub, monkeypatch, tmp_path)
    return load_model("TIPSv2-B", device="cpu")


def test_maskclip_reads_the_values_of_tipsv2_as_its_authors_do(tips):
    """Written out: values, projection, residual and MLP of the last block, without attention."""
    image = torch.rand(1, 3, 56, 56, generator=torch.Generator().manual_seed(2))
    trunk = tips.clip.visual.trunk
    seen = {}
    last = trunk.blocks[-1]
    handle = last.register_forward_pre_hook(lambda _, inputs: seen.update(x=inputs[0]))
    with torch.no_grad():
        trunk(image)
        handle.remove()
        x = seen["x"]
        values = last.attn.qkv(last.norm1(x))[..., 2 * 64 :]
        x = x + last.ls1(last.attn.proj(values))
        x = x + last.ls2(last.mlp(last.norm2(x)))
        expected = trunk.norm(x)[0, 2:]  # after the class token and the register
    tokens, grid = tower_of(tips.clip.visual).value_tokens(image)
    assert grid == (4, 4)
    torch.testing.assert_close(tokens, expected, rtol=0, atol=1e-6)


def test_tipsv2_works_with_maskclip_and_two_maps(tips):
    picture = np.random.default_rng(0).random((56, 56, 3))
    masks = np.zeros((2, 56, 56), bool)
    masks[0, :28, :28] = masks[1, 28:, 28:] = True
    method = region_embedder("maskclip", tips)
    method.set_image(picture)
    embeddings = method.embed(masks)
    assert embeddings.shape == (2, 64)
    assert not np.allclose(embeddings[0], embeddings[1], atol=1e-3)
    inverter = MaskInverter(tips)
    inverter.set_image(picture)
    for explainer in ("legrad", "chefer"):
        assert np.isfinite(inverter.invert(masks, steps=1, explainer=explainer).embeddings).all()
