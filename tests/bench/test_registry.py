"""The table of data sets: every set is a command, and its sets are read from one folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.bench.datasets.coco_dataset import CocoPanoptic
from napari_maskinversion.bench.datasets.registry import DATASETS

from .conftest import Bench
from .sets import one_line, panoptic


@pytest.mark.parametrize("name", DATASETS)
def test_every_data_set_is_a_command_and_named_by_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv("NAPARI_MASKINVERSION_DATA", raising=False)
    one_line(bench(name), "set NAPARI_MASKINVERSION_DATA, or --data")
    one_line(bench("maps", "--on", "moon"), "one of scenes, ", name)


def test_a_set_is_opened_in_its_folder_or_the_folder_of_sets(tmp_path: Path) -> None:
    panoptic(tmp_path / "coco-panoptic")
    spec = DATASETS["coco-panoptic"]
    for folder in (tmp_path, tmp_path / "coco-panoptic"):
        dataset = spec.open(folder)
        assert isinstance(dataset, CocoPanoptic)
        assert dataset.keys()
    with pytest.raises(InputError, match="no-such-folder"):
        spec.open(tmp_path / "no-such-folder")
