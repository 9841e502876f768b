"""One reader for files of regions of any kind."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import skimage.io
import tifffile
import zarr
from roifile import ImagejRoi, roiwrite

from napari_maskinversion import Regions, read_image, read_regions
from napari_maskinversion.base.errors import InputError, MaskShapeError
from napari_maskinversion.pipeline.inputs import open_inputs
from napari_maskinversion.regions.annotations.label_maps import write_labels
from napari_maskinversion.results.settings import RunSettings
from tests.scenes import label_image, picture, regions, write_scene


def coco(folder, name, **more):
    """Two boxes as COCO."""
    boxes = [
        {"id": n, "image_id": 1, "category_id": 1, "bbox": [10 * n, 5, 4, 3], "area": 12, **more}
        for n in (1, 2)
    ]
    content = {
        "images": [{"id": 1, "file_name": "image.png", "height": 60, "width": 80}],
        "categories": [{"id": 1, "name": "car"}],
        "annotations": boxes,
    }
    (folder / name).write_text(json.dumps(content))
    return folder / name


def test_label_images_and_annotations_are_read(tmp_path):
    skimage.io.imsave(tmp_path / "masks.png", label_image(5), check_contrast=False)
    regions = read_regions(str(tmp_path / "masks.png"), (60, 80, 3))
    expected = Regions.from_labels(label_image(5))
    assert regions.ids == expected.ids
    for index in range(5):
        np.testing.assert_array_equal(regions.full_mask(index), expected.full_mask(index))
    boxes = read_regions(coco(tmp_path, "boxes.json"), (60, 80))
    assert [region.bbox for region in boxes] == [(5, 10, 8, 14), (5, 20, 8, 24)]


def test_a_geojson_finds_the_georeference_of_its_image():
    folder = Path(__file__).parents[1] / "field" / "geojson-without-crs"
    shape = (140, 160)
    for image in (folder / "utm.tif", str(folder / "utm.tif")):
        for name in ("web_mercator.geojson", "crs84.geojson"):
            regions = read_regions(folder / name, shape, image=image)
            assert [region.area for region in regions] == [5940, 4080]
    with pytest.warns(UserWarning, match="read as longitude and latitude"):
        read_regions(folder / "utm_drawn.geojson", shape, image=folder / "utm.tif")
    with pytest.raises(InputError, match=r"the file elsewhere/utm.tif was not found"):
        read_regions(folder / "crs84.geojson", shape, image="elsewhere/utm.tif")
    with pytest.raises(InputError, match=r"no file of the image was given \(image=\)"):
        read_regions(folder / "crs84.geojson", shape)
    with pytest.raises(InputError, match="the image has no georeference"):
        read_regions(folder / "crs84.geojson", shape, image=folder / "plain.tif")


def test_files_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(MaskShapeError):
        read_regions(coco(tmp_path, "boxes.json"), (61, 80))
    with pytest.raises(InputError, match="missing.png"):
        read_regions(tmp_path / "missing.png", (60, 80))


# What macOS writes beside a file on disks and in archives of others.
APPLE_DOUBLE = b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X        \x00\x02" + bytes(100)


def beside(path):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(APPLE_DOUBLE)
    return path


@pytest.mark.parametrize("name", ["._masks.png", "._a.tif", "._a.json", "._a.zip"])
def test_what_macos_keeps_beside_a_file_is_named(tmp_path, name):
    with pytest.raises(InputError, match=f"is what macOS keeps beside .*name {name[2:]} instead"):
        read_regions(beside(tmp_path / name), (60, 80))
    with pytest.raises(InputError, match="is what macOS keeps beside a file"):
        read_image(beside(tmp_path / "._image.png"))


def test_what_macos_adds_to_folders_and_archives_is_no_region(tmp_path):
    masks = tmp_path / "masks"
    for number in (1, 2):
        beside(masks / f"._{number}.png")
        mask = (label_image(2) == number).astype(np.uint8) * 255
        skimage.io.imsave(masks / f"{number}.png", mask, check_contrast=False)
    assert read_regions(masks, (60, 80)).ids == [1, 2]
    corners = np.array([[5, 5], [25, 5], [25, 25], [5, 25]], float)
    roiwrite(tmp_path / "RoiSet.zip", [ImagejRoi.frompoints(corners, name="car")])
    with zipfile.ZipFile(tmp_path / "RoiSet.zip", "a") as archive:
        archive.writestr("__MACOSX/._car.roi", APPLE_DOUBLE)
    assert [region.name for region in read_regions(tmp_path / "RoiSet.zip", (60, 80))] == ["car"]


def test_what_was_changed_or_is_missing_is_a_warning(tmp_path):
    with pytest.warns(UserWarning, match="annotation 1 has no mask; its box is used"):
        read_regions(coco(tmp_path, "boxes.json"), (60, 80))
    with tifffile.TiffWriter(tmp_path / "a.ome.tif", ome=True) as file:
        for _ in range(2):
            file.write(picture(), photometric="rgb")
    with pytest.warns(UserWarning, match="a.ome.tif holds 2 images; the first one is read"):
        read_image(tmp_path / "a.ome.tif")


def notes_of(image, masks):
    inputs = open_inputs(image, masks, RunSettings())
    inputs.stack.close()
    return inputs.notes


def test_results_in_a_folder_of_masks_are_no_regions_of_the_next_run(call, tmp_path):
    write_scene(tmp_path, 2)
    masks = tmp_path / "masks"
    masks.mkdir()
    for number in (1, 2, 3):
        mask = (label_image(3) == number).astype(np.uint8) * 255
        name = masks / f"{number}.{'tif' if number == 3 else 'png'}"
        skimage.io.imsave(name, mask, check_contrast=False)
    command = ("run", tmp_path / "image.png", masks, "--labels", "car,dog", "--steps", 1)
    call(*command, "--resolution", 64, "--out", masks, "--format", "tif,masks")
    written = ("heatmaps.tif", "labels.tif", "labels_classes.tif")
    assert all((masks / name).exists() for name in written)
    assert read_regions(masks, (60, 80)).ids == [1, 2, 3]
    assert f"{', '.join(written)} hold results of this program" in notes_of(command[1], masks)
    write_labels(masks / "4.tif", regions(4)[3:], (60, 80))  # as `segment` does
    assert read_regions(masks, (60, 80)).ids == [1, 2, 3, 4]
    for name in ("1.png", "2.png", "3.tif", "4.tif"):
        (masks / name).unlink()
    with pytest.raises(InputError, match=r"contains no mask pictures .* labels\.tif, .* left out"):
        read_regions(masks, (60, 80))
    # Named itself, a label image of results is read.
    assert read_regions(masks / "labels.tif", (60, 80)).ids == [1, 2, 3]


def test_zarr_does_not_store_chunks_without_labels_and_nothing_is_said(tmp_path):
    skimage.io.imsave(tmp_path / "image.png", picture(), check_contrast=False)
    labels = np.where(np.indices((60, 80))[1] < 40, label_image(2), 0)
    zarr.create_array(tmp_path / "a.zarr", data=labels, chunks=(30, 40))
    assert not (tmp_path / "a.zarr/c/1/1").exists()
    assert not notes_of(tmp_path / "image.png", tmp_path / "a.zarr")
