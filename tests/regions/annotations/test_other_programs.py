"""Files that are not read are named with the way out."""

import json
import zipfile
from pathlib import Path

import pytest

from napari_maskinversion.base.errors import InputError, NoRegionsError, NotListedError
from napari_maskinversion.regions.annotations.annotation_reading import (
    is_annotations,
    open_annotations,
    read_annotations,
)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.qpdata", "", "QuPath's own data .* File > Export objects as GeoJSON"),
        ("a.ilp", "", "an ilastik project .* export the object identities as TIFF"),
        ("a.shp", "", "a shapefile .* ogr2ogr -f GeoJSON"),
        ("a.mat", "", "imwrite"),
        ("a.pkl", "", "which can run code"),
        ("a.npz", "", "an archive of arrays .* np.save"),
        ("a.csv", "x,y", "segment IMAGE --boxes FILE"),
        ("a.json", {"project": {}, "attribute": {}, "view": {}}, "Annotator .3.* in VIA 2, export"),
        ("a.json", {"size": {}, "objects": []}, "Supervisely .* as COCO"),
        ("a.json", [{"name": "a", "class": 1, "confidence": 1}], "ultralytics .*save_txt"),
        ("a.json", {"samples": [], "classes": []}, "FiftyOne .* COCODetectionDataset"),
        ("a.json", {"mag": None, "nuc": {}}, "HoVer-Net .* TIFF"),
        ("a.xml", "<Annotations><Annotation/></Annotations>", "Aperio ImageScope .* GeoJSON"),
        ("a.xml", "<ASAP_Annotations/>", "a file of ASAP"),
        ("a.xml", '<OME xmlns="http://x/OME"/>', "OME-XML .* RoiSet.zip"),
    ],
)
def test_the_refusal_names_the_program_and_what_to_export(tmp_path, name, content, reason):
    text = content if isinstance(content, str) else json.dumps(content)
    (tmp_path / name).write_text(text)
    assert is_annotations(tmp_path / name)
    with pytest.raises(InputError, match=f"{name} is .*{reason}"):
        read_annotations(tmp_path / name, (9, 9))


@pytest.mark.parametrize(
    "name", ["via/shapes.json", "label-studio-json/json.json", "create-ml/now.json"]
)
def test_one_file_is_read_for_many_images(name):
    file = open_annotations(Path(__file__).parents[2] / "field" / name)
    assert len(file.read((60, 80), image="photo.png").items)
    with pytest.raises(NoRegionsError, match="contains no region of other.png"):
        file.read((60, 80), image="other.png")
    with pytest.raises(NotListedError, match="none of them is called third.png"):
        file.read((60, 80), image="third.png")


def test_a_zip_file_of_several_files_is_to_be_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "task.zip", "w") as archive:
        archive.writestr("annotations/a.json", "{}")
        archive.writestr("annotations/b.json", "{}")
    with pytest.raises(InputError, match="holds annotations/a.json, .*; unpack it and use one of"):
        read_annotations(tmp_path / "task.zip", (9, 9))
