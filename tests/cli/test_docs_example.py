"""The example of the page on methods, as it stands there."""

from __future__ import annotations

import re
import shlex
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from napari_maskinversion.cli import app, bench_data
from tests.scenes import demo_model

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"


def rows_of(text: str) -> dict[str, list[str]]:
    """Cells of tables by their first one, without times."""
    rows = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if line.startswith("| ") and len(cells) > 2 and re.match(r"\d", cells[1]):
            rows[cells[0]] = cells[1:-1]
    return rows


def test_the_example_runs_and_gives_the_table_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example = PAGE.read_text("utf-8").split("### An example")[1].split("\n## ")[0]
    code = re.search(r"```python\n(.*?)```", example, re.S)
    typed = re.search(r"^    (napari-maskinversion .*?[^\\])\n", example, re.S | re.M)
    assert code is not None
    assert typed is not None
    monkeypatch.chdir(tmp_path)
    exec(compile(code[1], str(PAGE), "exec"), {})
    monkeypatch.setattr(bench_data, "load", lambda *_: demo_model())
    monkeypatch.setattr(sys, "argv", shlex.split(typed[1].replace("\\\n", " ")))
    with suppress(SystemExit):
        app.main()
    said = capsys.readouterr().out
    shown = example.split("<!-- bench folder -->")[1].split("<!-- end")[0]
    ours, page = rows_of(said), rows_of(shown)
    assert list(ours) == list(page)
    assert len(page) == 10
    for title, cells in page.items():
        # Another processor may take a region or two for something else.
        assert float(ours[title][0].split()[0]) == pytest.approx(float(cells[0].split()[0]), abs=8)
    assert "5 images, 26 regions" in shown
