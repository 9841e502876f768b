from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from napari_maskinversion.core.backbone import load_model
from napari_maskinversion.core.config import InversionConfig
from napari_maskinversion.demo import evaluate as module
from napari_maskinversion.demo.evaluate import LEAST, WAYS, Measurement, draw_scenes, report
from napari_maskinversion.demo.probe import crops


@pytest.fixture
def plain_drawings(shapes: list[Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    sprites = (shapes[0].permute(0, 1, 3, 4, 2) * 255).to(torch.uint8).numpy()
    monkeypatch.setattr(module, "load_sprites", lambda *_, **__: sprites)


def test_fresh_scenes_show_every_object(shapes: list[Tensor]) -> None:
    first, again = (list(draw_scenes(shapes, 4, 3, first_seed=5)) for _ in range(2))
    assert all(s.masks.mean((1, 2)).min() >= LEAST for s in first)
    assert all(np.array_equal(a.image, b.image) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0].image, first[1].image)
    assert all(len(set(s.labels.tolist())) == 3 for s in first)


def test_hits_are_first_and_among_five() -> None:
    measured = Measurement(load_model("demo", device="cpu"), 96, InversionConfig())
    names = measured.names
    labels = np.arange(len(names))
    assert measured.hits(3 * names, labels).all()
    shifted: NDArray[np.bool_] = measured.hits(names, (labels + 1) % len(names))
    assert not shifted[:, 0].any()
    assert shifted[:, 1].mean() < 0.5


def test_the_whole_measurement_runs(plain_drawings: None) -> None:
    model = load_model("demo", device="cpu")
    found = module.evaluate(model, scenes=2, resolution=96)
    assert found["resolution"] == 96
    text = report(found)
    for kind in ("seen", "unseen"):
        assert set(found["regions"][kind]) == set(WAYS)
        assert 0 <= found["regions"][kind]["maskinversion"]["iou"] <= 1
    assert all(title in text for title in WAYS.values())
    json.dumps(found)


def test_missing_drawings_are_one_line_and_exit_code_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        module.main(["--scenes", "1", "--sprites", str(tmp_path)])
    assert stop.value.code == 2
    told: Any = capsys.readouterr().err.strip()
    assert len(told.splitlines()) == 1
    assert str(tmp_path) in told


def test_a_masked_crop_hides_what_is_not_the_object() -> None:
    image = torch.zeros(1, 3, 32, 32)
    image[0, 0, 8:16, 8:24] = 1  # red object
    image[0, 1, 12:16, 8:12] = 1  # green on it, outside the mask
    mask = torch.zeros(1, 1, 32, 32)
    mask[0, 0, 8:16, 8:24] = 1
    mask[0, 0, 12:16, 8:12] = 0
    plain, hidden = (crops(image, mask, 16, masked=m)[0, 0] for m in (False, True))
    assert plain.shape == (3, 16, 16)
    assert plain[1].max() > 0.9
    assert hidden[1].max() < 0.1
    assert hidden[0].mean() > 0.7
