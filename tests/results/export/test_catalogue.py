"""Files that other programs read, each whole or not at all."""

import json
import math
import pkgutil
from dataclasses import replace
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
import tifffile

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.errors import ConfigError, InputError
from napari_maskinversion.language.labels.vocabulary import Vocabulary
from napari_maskinversion.results import export
from napari_maskinversion.results.export import catalogue
from napari_maskinversion.results.export.bundle import Bundle
from napari_maskinversion.results.export.catalogue import FORMATS
from tests.scenes import demo_model, picture, regions, run


def write(name, results, path, **options):
    FORMATS[name].write(Bundle(results=results, **options), path)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    words = Vocabulary(("Äpfel, rote", "car", 'a "key"'))
    return run(demo_model(), picture(), regions(4), words, InversionConfig(steps=2))


def test_embeddings_are_unit_float32_and_the_sidecar_gives_the_norms(results, tmp_path):
    write("npy", results, tmp_path / "mine.npy")
    array = np.load(tmp_path / "mine.npy")
    assert array.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(array, axis=1), 1, atol=1e-6)
    sidecar = json.loads((tmp_path / "mine.json").read_text("utf-8"))
    assert sidecar["embeddings"]["ids"] == [1, 2, 3, 4]
    norms = np.array(sidecar["embeddings"]["norms"])
    np.testing.assert_allclose(array * norms[:, None], results.raw_embeddings, rtol=1e-5)
    assert sidecar["model"]["name"] == "demo"
    assert sidecar["config"]["steps"] == 2
    assert {"napari-maskinversion", "torch", "open_clip_torch", "numpy"} <= set(sidecar["software"])


def test_the_csv_is_the_table(results, tmp_path):
    write("csv", results, tmp_path / "regions.csv")
    read = pd.read_csv(tmp_path / "regions.csv", encoding="utf-8")
    pd.testing.assert_frame_equal(read, results.to_frame(), check_dtype=False, rtol=0)


FORMULAS = {
    **{
        text: f"'{text}" for text in ("=cmd|' /C calc'!A0", "-1", "@SUM(A1)", "\t=1", "\n=1", "＝1")
    },
    "\r=1": "'\n=1",
    # Where the comma is the decimal mark, programs split at semicolons.
    **{"a;=1": "a;'=1", 'a; "=1': "a; \"'=1", "a;b\t-1;@x": "a;b\t'-1;'@x", "a\n=1": "a\n'=1"},
    **{text: text for text in ("plain", "a=b", "", "a;b = 1; c-d")},
}


@pytest.mark.parametrize("text", FORMULAS)
def test_texts_that_a_spreadsheet_would_run_are_escaped(results, tmp_path, text):
    name = text.strip("\r")
    bundle = Bundle(results=results, columns={"note": [text] * 4, "value": [-1] * 4, name: [1] * 4})
    FORMATS["csv"].write(bundle, tmp_path / "safe.csv")
    safe = pd.read_csv(tmp_path / "safe.csv", keep_default_na=False, dtype={"note": str})
    assert list(safe["note"]) == [FORMULAS[text]] * 4
    assert list(safe["value"]) == [-1] * 4
    assert not name or FORMULAS.get(name, f"'{name}") in safe.columns
    FORMATS["csv"].write(replace(bundle, raw_csv=True), tmp_path / "raw.csv")
    raw = pd.read_csv(tmp_path / "raw.csv", keep_default_na=False, dtype={"note": str})
    assert raw["note"][0].strip() == text.strip()


def test_the_record_holds_every_label_of_every_region(results, tmp_path):
    write("json", results, tmp_path / "r.json", source={"image": {"file": "a.png"}})
    record = json.loads((tmp_path / "r.json").read_text("utf-8"))
    assert record["source"]["image"]["file"] == "a.png"
    assert record["vocabulary"]["labels"] == ["Äpfel, rote", "car", 'a "key"']
    frame = results.to_frame()
    for row, region in zip(frame.to_dict("records"), record["regions"], strict=True):
        assert region["id"] == row["region"]
        assert region["ranking"][0]["label"] == row["suggestion"]
        assert region["ranking"][0]["similarity"] == pytest.approx(row["similarity"])
        assert len(region["ranking"]) == 3
        assert len(region["losses"]) == 3


def test_heatmaps_come_back_region_by_region(results, tmp_path):
    write("tif", results, tmp_path / "h.tif")
    stack = tifffile.imread(tmp_path / "h.tif")
    assert stack.shape == (4, 60, 80)
    assert stack.dtype == np.float32
    for index in range(4):
        np.testing.assert_array_equal(stack[index], results.heatmap(index))


def test_json_has_no_nan_even_for_a_single_label(tmp_path):
    only = run(demo_model(), picture(), regions(1), Vocabulary(("car",)), InversionConfig(steps=1))
    assert math.isnan(only.regions[0].ranking.margin)
    write("json", only, tmp_path / "r.json")
    record = json.loads((tmp_path / "r.json").read_text(), parse_constant=pytest.fail)
    assert record["regions"][0]["margin"] is None


def test_an_unknown_format_is_refused_by_name():
    with pytest.raises(ConfigError, match="'xml'; choose from npy, csv, parquet, tif"):
        catalogue.check_formats(["csv", "xml"])


def test_a_file_that_cannot_be_written_is_named(results, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written to"):
        write("csv", results, tmp_path / "file" / "regions.csv")

    # Simulated: an administrator may write everywhere.
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    with pytest.raises(InputError, match="cannot be written to .Permission denied"):
        write("csv", results, tmp_path / "a.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_every_module_with_formats_is_in_the_catalogue():
    start = f"{export.__name__}."
    modules = {
        module.name.removeprefix(start) for module in pkgutil.walk_packages(export.__path__, start)
    }
    defining = {
        name
        for name in modules
        if hasattr(import_module(f"{start}{name}"), "FORMATS") and name != "catalogue"
    }
    assert defining == set(catalogue._MODULES)
    assert set(catalogue.DEFAULT) <= set(FORMATS)


def test_export_writes_one_file_in_the_format_of_its_suffix(results, tmp_path):
    table = tmp_path / "new folder" / "mine.csv"
    assert catalogue.export(results, table) == [table]
    pd.testing.assert_frame_equal(pd.read_csv(table), results.to_frame(), check_dtype=False)
    files = catalogue.export(results, str(tmp_path / "mine.npy"))
    assert files == [tmp_path / "mine.npy", tmp_path / "mine.json"]
    with pytest.raises(InputError, match=r"mine\.csv exists.*overwrite=True"):
        catalogue.export(results, table)
    assert catalogue.export(results, table, overwrite=True) == [table]
    assert sorted(tmp_path.rglob("*.*")) == sorted([table, *files])


def test_export_takes_the_regions_for_formats_that_hold_their_pixels(results, tmp_path):
    with pytest.raises(InputError, match="pixels of region 1 are unknown"):
        catalogue.export(results, tmp_path / "cells.json", "coco")
    catalogue.export(results, tmp_path / "cells.json", "coco", regions=regions(4))
    assert len(json.loads((tmp_path / "cells.json").read_text())["annotations"]) == 4


@pytest.mark.parametrize(
    ("name", "format", "says"),
    [
        ("a.xyz", None, r"'\.xyz' does not name a format; pass format= one of npy, csv"),
        ("a", None, "does not name a format"),
        ("a.json", None, "one of coco, json"),
        ("a.csv", "excel", "Unknown format 'excel'"),
    ],
)
def test_export_refuses_what_names_no_format(results, tmp_path, name, format, says):
    with pytest.raises(ConfigError, match=says):
        catalogue.export(results, tmp_path / name, format)


def test_results_print_in_one_line(results):
    assert repr(results) == "<Results: 4 regions, model demo, method maskinversion>"
    first = results.regions[0]
    assert repr(first) == f"<RegionResult: region 1, {first.suggestion}, {first.status}>"
