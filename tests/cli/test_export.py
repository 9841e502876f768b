"""Formats on the command line: written by a run, and from results that were saved."""

import json

import pandas as pd
import pytest
import skimage.io

from napari_maskinversion.results.columns import columns_in
from napari_maskinversion.results.export.catalogue import FORMATS, check_formats
from tests.scenes import picture, write_scene


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    skimage.io.imsave(folder / "other.png", picture(seed=1), check_contrast=False)
    return write_scene(folder, 4)


def test_a_run_writes_every_format_and_export_writes_them_again(files, call):
    everything = ",".join(FORMATS)
    names = sorted(check_formats(list(FORMATS)))
    command = ["run", files / "image.png", files / "masks.png", "--labels", "car,key"]
    command += ["--steps", 1, "--format", everything, "--out", files / "one"]
    code, _, err = call(*command)
    assert code == 0, err
    assert sorted(path.name for path in (files / "one").iterdir()) == names
    code, _, err = call(*command)
    assert code == 2
    assert "already has" in err

    saved = files / "one" / "results.npz"
    again = ["export", saved, "--format", everything, "--out", files / "two"]
    code, _, err = call(*again, "--image", files / "image.png")
    assert code == 0, err
    for name in names:
        one, two = (files / folder / name for folder in ("one", "two"))
        if name.endswith((".csv", ".tif", ".npy")):
            assert one.read_bytes() == two.read_bytes(), name
    one, two = (json.loads((files / f / "coco.json").read_text()) for f in ("one", "two"))
    assert one["annotations"] == two["annotations"]
    assert len(pd.read_parquet(files / "two" / "regions.parquet")) == 4

    code, _, err = call(*again)
    assert code == 2
    assert "already has" in err

    before = saved.read_bytes()
    itself = ("--out", files / "one", "--overwrite")
    code, _, err = call("export", saved, "--format", "csv,npz", *itself)
    assert code == 2
    assert "results.npz, which is an input" in err
    assert saved.read_bytes() == before

    code, _, err = call(*again, "--image", files / "other.png", "--overwrite")
    assert code == 2
    assert "results of another image than" in err
    assert "of the same size with other pixels" in err


def test_the_columns_of_the_table_are_listed_with_their_meaning(call):
    code, out, _ = call("export", "--columns")
    assert code == 0
    for column in columns_in("files"):
        assert column.name in out
        assert column.explanation.split()[0] in out
