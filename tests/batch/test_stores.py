"""Projects and batches of files with several images: plates, positions, labels within."""

import numpy as np
import pandas as pd
import pytest
import tifffile
import zarr

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.batch.pairing import pair, read_table
from tests.scenes import label_image, picture
from tests.stores import image_store, plate, positions

from .conftest import FAST


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(pairs):
    return {one.name: one.regions and one.regions.as_posix() for one in pairs.pairs}


def ome_tiff(path, arrays):
    with tifffile.TiffWriter(path, ome=True) as writer:
        for number, array in enumerate(arrays):
            writer.write(array, metadata={"axes": "YX", "Name": f"Pos {number}"})


def test_a_batch_of_a_plate_has_each_field_of_each_well(here, fine):
    plate(here / "plate.zarr", labels=["cells"])
    fine("batch", "--images", "plate.zarr", *FAST, "--out", "out")
    table = pd.read_parquet("out/regions.parquet")
    assert dict(table["image"].value_counts()) == dict.fromkeys(
        ("plate_A1_0", "plate_A1_1", "plate_B2_0", "plate_B2_1"), 2
    )
    fine("run", "plate.zarr", "plate.zarr", "--series", 3, *FAST, "--out", "one")
    one = np.load("one/embeddings.npy")
    own = np.load("out/archives/plate_B2_1/results.npz")["embeddings"]
    np.testing.assert_allclose(own / np.linalg.norm(own, axis=1, keepdims=True), one, atol=1e-6)


def test_a_project_of_positions_runs_each_with_the_labels_of_its_number(here, call, fine):
    ome_tiff("scan.ome.tif", [picture(64, 64, seed)[:, :, 0] for seed in range(3)])
    ome_tiff("cells.ome.tif", [label_image(count, 64, 64) for count in (1, 2, 3)])
    options = ("--images", "scan.ome.tif", "--regions", "cells.ome.tif", *FAST)
    fine("project", "new", ".", *options, "--positions")
    fine("project", "check", ".")
    fine("batch", ".", "--out", "out")
    table = pd.read_parquet("out/regions.parquet")
    assert dict(table["image"].value_counts()) == {"scan_0": 1, "scan_1": 2, "scan_2": 3}
    err = call("project", "add", ".", *options[:4], "--positions")[2]
    assert "Added 0 images" in err


def test_without_positions_the_first_image_is_used_and_said(here, fine, refused):
    ome_tiff("scan.ome.tif", [picture(64, 64, seed)[:, :, 0] for seed in range(2)])
    tifffile.imwrite("cells.tif", label_image(2, 64, 64))
    options = ("--images", "scan.ome.tif", "--regions", "cells.tif", *FAST)
    err = fine("batch", *options, "--out", "out")
    text = " ".join(err.split())
    assert "scan.ome.tif holds 2 images (Pos 0, Pos 1); the first one is used." in text
    err = refused("batch", *options, "--series", 2, "--out", "other")
    assert "scan.ome.tif has no image 2; it holds 2" in " ".join(err.split())


def test_label_images_that_are_not_as_many_as_the_positions_are_refused(here, refused):
    ome_tiff("scan.ome.tif", [picture(64, 64, seed)[:, :, 0] for seed in range(3)])
    ome_tiff("cells.ome.tif", [label_image(count, 64, 64) for count in (1, 2)])
    err = refused("run", "scan.ome.tif", "cells.ome.tif", *FAST)
    assert "cells.ome.tif holds 2 label images and scan.ome.tif 3 images" in " ".join(err.split())


def test_positions_of_a_store_are_images_where_they_are_asked_for(here):
    positions(here / "many.zarr", 2, labels=["cells"])
    assert names(pair("many.zarr", None, positions=True)) == {
        "many_0": "many.zarr/0/labels/cells",
        "many_1": "many.zarr/1/labels/cells",
    }
    assert names(pair("many.zarr", None)) == {"many.zarr": "many.zarr/0/labels/cells"}


def test_of_several_label_images_a_template_chooses(here):
    image_store(here / "in/a.zarr", labels=["cells", "nuclei"])
    image_store(here / "in/b.zarr", labels=["nuclei"])
    with pytest.raises(InputError, match=r"has 2 label images .* --regions '{image}/labels/cells'"):
        pair("in", None)
    assert names(pair("in", "{image}/labels/nuclei")) == {
        "a.zarr": "in/a.zarr/labels/nuclei",
        "b.zarr": "in/b.zarr/labels/nuclei",
    }


def test_a_pattern_within_a_plate_chooses_wells(here):
    plate(here / "plate.zarr", wells=("A/1", "A/2", "B/1"), fields=1, labels=["cells"])
    pairs = pair("plate.zarr/A/*/0", None).pairs
    assert [one.image.as_posix() for one in pairs] == ["plate.zarr/A/1/0", "plate.zarr/A/2/0"]
    assert {one.regions.name for one in pairs} == {"cells"}


def test_masks_of_positions_are_found_by_their_number(here):
    ome_tiff("scan.ome.tif", [picture(64, 64, seed)[:, :, 0] for seed in range(2)])
    (here / "masks").mkdir()
    for number in (0, 1):
        tifffile.imwrite(f"masks/scan_{number}_mask.tif", label_image(2, 64, 64))
    expected = {"scan_0": "masks/scan_0_mask.tif", "scan_1": "masks/scan_1_mask.tif"}
    assert names(pair("scan.ome.tif", "masks", positions=True)) == expected
    template = "masks/{name}_{series}_mask.tif"
    assert names(pair("scan.ome.tif", template, positions=True)) == expected


@pytest.mark.parametrize("regions", ["masks", "masks/{name}.tif"])
def test_masks_of_fields_and_positions_are_found_where_names_have_dots(here, regions):
    ome_tiff("run.2.ome.tif", [picture(64, 64, seed)[:, :, 0] for seed in range(2)])
    plate(here / "run.3.zarr", wells=("A/1", "A/2"), fields=1)
    (here / "masks").mkdir()
    for names_, images in (
        (("run.2_0", "run.2_1"), "run.2.ome.tif"),
        (("run.3_A1_0", "run.3_A2_0"), "run.3.zarr"),
    ):
        tifffile.imwrite(f"masks/{names_[1]}.tif", label_image(2, 64, 64))
        expected = {names_[0]: None, names_[1]: f"masks/{names_[1]}.tif"}
        assert names(pair(images, regions, positions=True)) == expected


def test_a_table_names_the_number_of_an_image(here):
    (here / "t.csv").write_text("image,regions,series,name\na.tif,a.json,2,third\nb.tif,,,\n")
    pairs = read_table(here / "t.csv").pairs
    assert [(one.name, one.series) for one in pairs] == [("third", 2), ("b.tif", None)]
    (here / "t.csv").write_text("image,regions,series\na.tif,a.json,-1\n")
    with pytest.raises(InputError, match=r"line 2: series is a number from 0; got '-1'"):
        read_table(here / "t.csv")


def test_stores_are_results_of_a_batch_like_files(here, call, fine, refused):
    image_store(here / "a.zarr", labels=["cells"])
    formats = ("--format", "ome-zarr,geopackage")
    batch = ("batch", "--images", "a.zarr", *FAST, *formats, "--out", "out")
    fine(*batch)
    store = here / "out/archives/a.zarr/regions.ome.zarr"
    np.testing.assert_array_equal(
        zarr.open_group(str(store), mode="r")["0"][:], label_image(2, 64, 64)
    )
    assert "1 image of out is kept" in call(*batch)[2]
    (store / "0/c/0/0").unlink()
    err = fine(*batch)
    assert "Computed again, since files of their results changed or are gone: a.zarr" in err
    np.testing.assert_array_equal(
        zarr.open_group(str(store), mode="r")["0"][:], label_image(2, 64, 64)
    )
    run = ("run", "a.zarr", "a.zarr", *FAST, *formats, "--out", "one")
    fine(*run)
    assert "one already has" in refused(*run)
    fine(*run, "--overwrite")
