"""Python in the documentation runs as it stands there."""

import json
import re
import shutil
from pathlib import Path

import pytest

import napari_maskinversion as nmi
from napari_maskinversion.images.sample_scenes import load_scene, sample_folder

ROOT = Path(__file__).parents[1]
TUTORIAL = ROOT / "docs" / "tutorials" / "python.ipynb"


@pytest.mark.parametrize(
    "page", ["README.md", "docs/reference/python.md", "docs/reference/settings.md"]
)
def test_the_snippets_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(sample_folder() / "everyday-1.png", "photo.png")
    shutil.copy(sample_folder() / "everyday-1_regions.png", "masks.png")
    names = {}
    text = (ROOT / page).read_text("utf-8")
    for snippet in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(compile(snippet, page, "exec"), names)
    assert len(names["results"]) == len(load_scene("everyday-1").truth)
    assert names["results"].regions[0].suggestion in ("cat", "dog")


def test_the_cells_of_the_tutorial_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cells = json.loads(TUTORIAL.read_text("utf-8"))["cells"]
    codes = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in codes)
    names = {}
    for cell in codes:
        exec(compile("".join(cell["source"]), TUTORIAL.name, "exec"), names)
    assert {path.name for path in tmp_path.iterdir()} == {"regions.csv", "regions.json"}
    assert "from_labels" in capsys.readouterr().out
    truth = list(load_scene("everyday-1").truth.values())
    right = [
        region.suggestion == label
        for region, label in zip(names["results"].regions, truth, strict=True)
    ]
    assert sum(right) >= 3
    shown = set(re.findall(r"\bnmi\.(\w+)", "".join("".join(cell["source"]) for cell in cells)))
    assert shown <= set(nmi.__all__)
