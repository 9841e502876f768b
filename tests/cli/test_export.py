"""Formats on the command line: written by a run, and from results that were saved."""

import json
from dataclasses import replace

import pandas as pd
import pytest
import skimage.io

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.identity import RegionKey, identify_all, identify_image
from napari_maskinversion.language.labels.vocabulary import Vocabulary
from napari_maskinversion.regions.label_images import PlaneRegions
from napari_maskinversion.results.columns import columns_in
from napari_maskinversion.results.export.bundle import Bundle, compress_masks
from napari_maskinversion.results.export.catalogue import FORMATS, check_formats, write_results
from napari_maskinversion.review.review import Review
from tests.scenes import demo_model, picture, regions, run, write_scene


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    skimage.io.imsave(folder / "other.png", picture(seed=1), check_contrast=False)
    return write_scene(folder, 4)


def test_a_run_writes_every_format_and_export_writes_them_again(files, fine, refused):
    everything = ",".join(FORMATS)
    names = sorted(check_formats(list(FORMATS)))
    command = ["run", files / "image.png", files / "masks.png", "--labels", "car,key"]
    command += ["--steps", 1, "--format", everything, "--out", files / "one"]
    fine(*command)
    assert sorted(path.name for path in (files / "one").iterdir()) == names
    assert "already has" in refused(*command)

    saved = files / "one" / "results.npz"
    again = ["export", saved, "--format", everything, "--out", files / "two"]
    fine(*again, "--image", files / "image.png")
    for name in names:
        one, two = (files / folder / name for folder in ("one", "two"))
        if name.endswith((".csv", ".tif", ".npy")):
            assert one.read_bytes() == two.read_bytes(), name
    one, two = (json.loads((files / f / "coco.json").read_text()) for f in ("one", "two"))
    assert one["annotations"] == two["annotations"]
    assert len(pd.read_parquet(files / "two" / "regions.parquet")) == 4

    assert "already has" in refused(*again)

    before = saved.read_bytes()
    itself = ("--out", files / "one", "--overwrite")
    err = refused("export", saved, "--format", "csv,npz", *itself)
    assert "results.npz, which is an input" in err
    assert saved.read_bytes() == before

    err = refused(*again, "--image", files / "other.png", "--overwrite")
    assert "results of another image than" in err
    assert "of the same size with other pixels" in err


@pytest.mark.parametrize(
    ("formats", "said"), [("tif,csv", "Wrote regions.csv in"), ("tif", "Wrote nothing in")]
)
def test_only_what_was_written_is_said(files, fine, tmp_path, formats, said):
    results = reviewed(files).results
    settings = results.info.settings.changed({"method": "crop"})
    crops = replace(results, info=replace(results.info, settings=settings))
    write_results(crops, tmp_path, ["npz"])
    command = ("export", tmp_path / "results.npz", "--format", formats, "--out", tmp_path / "out")
    err = fine(*command)
    assert said in err
    assert "heatmap" in err.partition("Wrote")[0]  # why there are none


def test_the_columns_of_the_table_are_listed_with_their_meaning(call):
    code, out, _ = call("export", "--columns")
    assert code == 0
    for column in columns_in("files"):
        assert column.name in out
        assert column.explanation.split()[0] in out


def test_decisions_of_a_results_file_are_exported_and_the_rest_left_out_if_asked(files, fine):
    saved, folder = files / "results.npz", files / "decided"
    write_results(reviewed(files), saved.parent, ["npz"])
    command = ["export", saved, "--format", "coco,csv", "--out", folder]
    fine(*command)
    table = pd.read_csv(folder / "regions.csv", keep_default_na=False)
    assert table["decision"].tolist() == ["accepted", "rejected", "undecided", "undecided"]
    fine(*command, "--accepted-only", "--overwrite")
    (kept,) = json.loads((folder / "coco.json").read_text())["annotations"]
    assert (kept["region"], kept["attributes"]["accepted_label"]) == (1, "key")


def reviewed(folder):
    """Results of four regions, of which one is accepted and one rejected."""
    words = Vocabulary(("car", "key"))
    results = run(demo_model(), picture(), regions(4), words, InversionConfig(steps=1))
    image = identify_image("image.png", picture())
    with Review(image, identify_all(regions(4)), results.info, file=folder / "here.png") as review:
        review.accept(RegionKey(1), "key")
        review.reject(RegionKey(2))
        return Bundle(
            results=results,
            masks=compress_masks([PlaneRegions((), regions(4))]),
            image=image,
            decisions=review.saved(),
        )
