"""What names of architectures say, against open_clip's own list of them."""

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from napari_maskinversion.engine.models.registry import list_models
from napari_maskinversion.pipeline.architecture_sizes import patch_of, tower_size

# Image towers that this method cannot explain.
OTHERS = re.compile(r"RN|convnext|swin|vit_relpos|MobileCLIP2?-S|naflex")
TIMM = {"base": 768, "large": 1024, "small": 384, "tiny": 192, "medium": 512, "giant": 1408} | {
    "so400m": 1152,
    "enormous": 1792,
    "giantopt": 1536,
    "large2": 1024,
    "xlarge": 1152,
}


def towers():
    """Name, patch and width of each architecture, as open_clip's files have them."""
    folder = Path(find_spec("open_clip").origin).parent / "model_configs"
    for file in sorted(folder.glob("*.json")):
        if OTHERS.match(file.stem):
            continue
        vision = json.loads(file.read_text())["vision_cfg"]
        timm = vision.get("timm_model_name")
        if timm is None:
            heads = vision["width"] // vision.get("head_width", 64)
            yield file.stem, vision["patch_size"], vision["width"], heads
            continue
        patch = re.search(r"patch(\d+)", timm)
        width = next((TIMM[word] for word in timm.split("_") if word in TIMM), None)
        yield file.stem, int(patch[1]) if patch else 16, width, None


TOWERS = list(towers())


def test_all_of_open_clips_towers_are_looked_at():
    assert len(TOWERS) > 90


@pytest.mark.parametrize(("name", "patch", "width", "heads"), TOWERS, ids=lambda value: value)
def test_a_name_says_patch_and_width(name, patch, width, heads):
    assert patch_of(name) == patch
    size = tower_size(name)
    if width is not None:
        assert size[0] == width
    if heads is not None:
        assert size[1] == heads


@pytest.mark.parametrize("spec", list_models(), ids=lambda spec: spec.name)
def test_models_known_by_name_have_names_that_say_it(spec):
    said = re.search(r"patch(\d+)", spec.source)
    sizes = {"demo": (8, 128), "B": (0, 768), "L": (0, 1024), "H": (0, 1280), "bigG": (0, 1664)}
    letter = spec.architecture.removeprefix("ViT-").split("-")[0]
    assert tower_size(spec.architecture)[0] == sizes[letter][1]
    if said:
        assert patch_of(spec.architecture) == int(said[1])


def test_those_whose_names_say_little():
    assert (patch_of("demo"), tower_size("demo")) == (8, (128, 4))
    assert (patch_of("ViTamin-L-336"), tower_size("ViTamin-L-336")) == (16, (1024, 16))
    assert tower_size("PE-Core-B-16") == (768, 12)
    assert tower_size("PE-Core-bigG-14-448")[0] >= 1536
    assert tower_size("what-is-this") == (1024, 16)
