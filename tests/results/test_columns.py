"""The results table: one list of columns for data frames, files and the terminal."""

import io
import json
import math

import pandas as pd
import pytest
from rich.console import Console

from napari_maskinversion.results import columns
from napari_maskinversion.results.columns import ColumnSpec, columns_in, columns_of
from napari_maskinversion.results.export.catalogue import FORMATS
from napari_maskinversion.results.printing import text_table

from .export.bundles import make_bundle

DOUBLE = ColumnSpec(
    name="double_id",
    title="double",
    explanation="Twice the id",
    kind="integer",
    value=lambda region, info: 2 * region.id,
    places=("files", "panel", "terminal", "layer"),
)


@pytest.fixture(scope="module")
def bundle():
    return make_bundle()


def printed(results):
    out = io.StringIO()
    Console(file=out, width=200).print(text_table(results))
    return out.getvalue()


def test_a_column_that_is_added_to_the_list_is_in_every_file_and_in_the_terminal(
    bundle, tmp_path, monkeypatch
):
    monkeypatch.setattr(columns, "COLUMNS", [*columns.COLUMNS, DOUBLE])
    expected = [2 * region.id for region in bundle.results.regions]
    assert bundle.results.to_frame()["double_id"].tolist() == expected
    for name in ("csv", "parquet", "coco", "geojson"):
        FORMATS[name].write(bundle, tmp_path / name)
    assert pd.read_csv(tmp_path / "csv")["double_id"].tolist() == expected
    assert pd.read_parquet(tmp_path / "parquet")["double_id"].tolist() == expected
    coco = json.loads((tmp_path / "coco").read_text("utf-8"))["annotations"]
    assert [record["attributes"]["double_id"] for record in coco] == expected
    world = json.loads((tmp_path / "geojson").read_text("utf-8"))["features"]
    assert [feature["properties"]["measurements"]["double_id"] for feature in world] == expected
    assert "double" in printed(bundle.results)


def test_names_in_files_stay_what_they_are(bundle):
    assert [column.name for column in columns_of(bundle.results.info, bundle.results.regions)] == [
        *("region", "suggestion", "similarity", "probability", "margin", "iou", "area_px"),
        *("status", "word", "fit", "entropy"),
        *("label_1", "label_2", "similarity_2", "label_3", "similarity_3"),
        *("diameter_px", "height_px", "width_px"),
        *("area", "diameter", "height", "width", "unit", "world_x", "world_y"),
    ]


def test_the_panel_and_the_layer_show_a_choice():
    assert [column.short_title for column in columns_in("panel")] == [
        *("#", "Suggestion", "Conf.", "Status")
    ]
    assert [column.short_title for column in columns_in("menu")] == [
        *("Sim.", "Margin", "Was", "IoU", "Area", "In file", "Generated caption")
    ]
    assert [column.name for column in columns_in("layer")] == [
        *("suggestion", "similarity", "probability", "iou", "status")
    ]


def test_every_column_has_a_name_of_its_own_and_says_what_it_is():
    specs = [column for column in columns.COLUMNS if isinstance(column, ColumnSpec)]
    assert len({column.name for column in specs}) == len(specs)
    assert all(column.title and column.explanation for column in specs)


def test_the_terminal_leaves_columns_out_that_are_empty(bundle):
    text = printed(bundle.results)
    assert "heatmap IoU" in text
    assert "caption" not in text


@pytest.mark.parametrize(
    ("value", "text"), [(0.12345, "0.123"), (math.nan, "-"), (None, "-"), (2, "2.000")]
)
def test_numbers_are_rounded_for_people_and_gaps_are_marked(value, text):
    spec = ColumnSpec(name="x", title="x", explanation="x", value=lambda *_: value)
    assert spec.text(value, missing="-") == text
