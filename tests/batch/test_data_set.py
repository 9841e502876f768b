"""The table of many images: one data set whose parts have the same columns."""

import duckdb
import numpy as np
import pandas as pd
import pyarrow.dataset
import pyarrow.parquet
import pytest
import tifffile

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.batch.exporting import export_steps
from napari_maskinversion.batch.opened import OpenProject
from tests.scenes import label_image, picture

from .conftest import FAST, save

NAMES = ["1", "01", "_a", "stack"]


@pytest.fixture
def mixed(tmp_path, monkeypatch, fine):
    """A project of a picture, one with units and one of planes, with its results in ``out``."""
    monkeypatch.chdir(tmp_path)
    grey, labels = picture(64, 64)[:, :, 0], label_image(2, 64, 64)
    save(tmp_path / "plain.png", picture(64, 64))
    save(tmp_path / "masks.png", labels)
    tifffile.imwrite(
        "units.ome.tif",
        grey,
        metadata={"axes": "YX", "PhysicalSizeX": 0.5, "PhysicalSizeY": 0.5}
        | {f"PhysicalSize{axis}Unit": "µm" for axis in "XY"},
    )
    for name, pixels in (("stack.tif", grey), ("stack_masks.tif", labels)):
        tifffile.imwrite(name, np.stack([pixels] * 2), metadata={"axes": "ZYX"}, imagej=True)
    (tmp_path / "table.csv").write_text(
        "image,regions,name\nplain.png,masks.png,1\nplain.png,masks.png,01\n"
        "units.ome.tif,masks.png,_a\nstack.tif,stack_masks.tif,stack\n"
    )
    fine("project", "new", ".", "--table", "table.csv", *FAST, "--planes", "each")
    fine("batch", ".", "--out", "out")
    return tmp_path


def exported(project):
    opened = OpenProject.read(project).with_results(project / "out")
    list(export_steps(opened, project / "export", ["parquet"]))
    return project / "export"


@pytest.mark.parametrize("make", [lambda project: project / "out", exported], ids=["batch", "all"])
def test_images_of_all_kinds_have_one_table_for_all_readers(mixed, make):
    parts = make(mixed) / "regions.parquet"
    table = pd.read_parquet(parts)
    assert sorted(table["image"].unique()) == sorted(NAMES)
    by_name = dict(list(table.groupby("image")))
    assert by_name["_a"]["area"].tolist() == (by_name["_a"]["area_px"] / 4).tolist()
    assert set(by_name["_a"]["unit"]) == {"µm"}
    assert by_name["1"]["unit"].isna().all()
    assert by_name["stack"]["z"].tolist() == [0, 0, 1, 1]
    assert by_name["stack"]["plane"].tolist() == ["z=0", "z=0", "z=1", "z=1"]
    assert set(by_name["1"]["plane"]) == {""}
    schemas = [pyarrow.parquet.read_schema(file) for file in sorted(parts.iterdir())]
    assert len(schemas) == 4
    assert all(one.remove_metadata() == schemas[0].remove_metadata() for one in schemas)
    assert pyarrow.dataset.dataset(parts).count_rows() == len(table) == 10
    rows = duckdb.sql(f"select * from read_parquet('{parts}/*.parquet')").df()
    assert list(rows.columns) == list(table.columns)
    assert sorted(rows["image"]) == sorted(table["image"])
    assert rows["z"].sum() == 2


def test_names_of_digits_stay_names(images, fine):
    (images / "table.csv").write_text(
        "image,regions,name\n"
        "images/cell-1.png,masks/cell-1_mask.png,1\nimages/cell-2.png,masks/cell-2_mask.png,001\n"
    )
    fine("batch", "--table", "table.csv", *FAST, "--out", "out")
    for rows in (
        pd.read_parquet("out/regions.parquet"),
        duckdb.sql("select * from read_parquet('out/regions.parquet/*.parquet')").df(),
    ):
        assert sorted(rows["image"]) == ["001", "001", "1"]


def test_an_export_has_no_rows_of_an_earlier_one_and_keeps_files_of_others(mixed):
    folder = exported(mixed)
    opened = OpenProject.read(mixed).with_results(mixed / "out")
    (mixed / "out/archives/stack/results.npz").unlink()
    list(export_steps(opened, folder, ["parquet"], overwrite=True))
    assert "stack" not in set(pd.read_parquet(folder / "regions.parquet")["image"])
    pd.DataFrame({"a": [1]}).to_parquet(folder / "regions.parquet" / "mine.parquet")
    with pytest.raises(InputError, match="is not a data set of this program"):
        list(export_steps(opened, folder, ["parquet"], overwrite=True))
    assert (folder / "regions.parquet" / "mine.parquet").is_file()
