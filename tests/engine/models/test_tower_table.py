"""The table of image tower families: exclusive, and extended by a file and a line."""

import pytest

from napari_maskinversion.engine.models import towers
from napari_maskinversion.engine.models.towers.timm_vit import TimmTower
from tests.engine.timm_towers import BUILDS, build
from tests.engine.towers import tower


@pytest.mark.parametrize("name", BUILDS)
def test_exactly_one_family_fits_a_tower(name):
    visual = build(name)
    assert sum(family.fits(visual) for family in towers.FAMILIES) == 1


def test_open_clips_own_tower_is_of_the_class_token_family():
    assert towers.tower_of(tower()).family == "class-token ViT"


@pytest.mark.parametrize(
    ("vision", "reason"),
    [
        ({"layers": [3, 4, 6, 3]}, "is a ResNet"),
        ({"timm_model_name": "swin_base_patch4_window7_224"}, "sees windows"),
        ({"timm_model_name": "vit_relpos_medium_patch16_cls_224"}, "positions are biases"),
        ({"timm_model_name": "nonesuch"}, "nonesuch, which is not known here"),
        ({"attentional_pool": "parallel"}, "two attentional poolers"),
        ({"pool_type": "none"}, "neither by class token"),
        ({"timm_model_name": "vit_base_patch16_siglip_224"}, ""),
        ({"layers": 12, "attentional_pool": True}, ""),
        ({"layers": 12}, ""),
    ],
)
def test_an_architecture_is_refused_with_the_reason(vision, reason):
    answer = towers.unsupported_config({"vision_cfg": vision})
    assert reason in answer
    assert bool(answer) == bool(reason)


def test_a_new_family_is_a_file_and_a_line(monkeypatch):
    class SwinTower(TimmTower):
        family = "Swin"

        @classmethod
        def fits_config(cls, vision):
            return str(vision.get("timm_model_name")).startswith("swin")

    vision = {"timm_model_name": "swin_base_patch4_window7_224"}
    assert towers.unsupported_config({"vision_cfg": vision})
    monkeypatch.setattr(towers, "FAMILIES", (*towers.FAMILIES, SwinTower))
    assert towers.unsupported_config({"vision_cfg": vision}) == ""
