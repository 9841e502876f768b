"""OME-Zarr stores of several images, and the labels in them."""

import json

import numpy as np
import pytest
import zarr

from napari_maskinversion import read_regions
from napari_maskinversion.base.errors import InputError, MaskShapeError
from napari_maskinversion.images.ome_zarr import label_images
from napari_maskinversion.images.opening import open_image
from tests.scenes import label_image
from tests.stores import SHAPE, group_at, image_store, plate, positions

both_versions = pytest.mark.parametrize("version", ["0.4", "0.5"])


def pixels_of(path, series=None):
    with open_image(path, series) as stack:
        return stack.images, stack.source().read(0, (0, 0, *SHAPE))


@both_versions
def test_a_plate_holds_the_fields_of_its_wells(tmp_path, version):
    fields = plate(tmp_path / "plate.zarr", version=version)
    assert list(fields) == ["A/1/0", "A/1/1", "B/2/0", "B/2/1"]
    for number, (place, expected) in enumerate(fields.items()):
        names, pixels = pixels_of(tmp_path / "plate.zarr", number)
        assert names == tuple(fields)
        np.testing.assert_array_equal(pixels, expected)
        np.testing.assert_array_equal(pixels_of(tmp_path / "plate.zarr" / place)[1], expected)
    names, pixels = pixels_of(tmp_path / "plate.zarr/B/2", 1)
    assert names == ("0", "1")
    np.testing.assert_array_equal(pixels, fields["B/2/1"])
    with pytest.raises(InputError, match=r"has no image 4; it holds 4 \(0 A/1/0, .*--series"):
        open_image(tmp_path / "plate.zarr", 4)


@both_versions
def test_labels_in_an_image_are_its_regions(tmp_path, version):
    image_store(tmp_path / "a.zarr", labels=["cells"], version=version)
    positions(tmp_path / "many.zarr", labels=["cells"], version=version)
    expected = label_image(2, *SHAPE)
    for path in ("a.zarr", "a.zarr/labels/cells", "a.zarr/labels", "many.zarr/2", "many.zarr"):
        regions = read_regions(tmp_path / path, SHAPE)
        assert regions.ids == [1, 2]
        np.testing.assert_array_equal(regions.full_mask(1), expected == 2)


def test_labels_of_spatialdata_stand_beside_all_its_images(tmp_path):
    root = group_at(tmp_path / "a.zarr", "0.5")
    root.attrs["spatialdata_attrs"] = {"version": "0.2"}
    root.create_group("images")
    expected = image_store(tmp_path / "a.zarr/images/tissue", version="0.5")
    image_store(tmp_path / "b.zarr", labels=["cells"], version="0.5")
    (tmp_path / "b.zarr/labels").rename(tmp_path / "a.zarr/labels")
    names, pixels = pixels_of(tmp_path / "a.zarr")
    assert names == ("images/tissue",)
    np.testing.assert_array_equal(pixels, expected)
    for path in (tmp_path / "a.zarr", tmp_path / "a.zarr/images/tissue"):
        assert label_images(path) == (tmp_path / "a.zarr/labels/cells",)


def test_of_several_label_images_one_is_to_be_chosen(tmp_path):
    image_store(tmp_path / "a.zarr", labels=["cells", "nuclei"])
    with pytest.raises(InputError, match=r"has 2 label images \(cells, nuclei\); choose one, such"):
        read_regions(tmp_path / "a.zarr", SHAPE)
    assert read_regions(tmp_path / "a.zarr/labels/nuclei", SHAPE).ids == [1, 2, 3]


def test_labels_of_another_shape_are_refused(tmp_path):
    image_store(tmp_path / "a.zarr", labels=["cells"])
    with pytest.raises(MaskShapeError, match=r"a\.zarr is 64 x 64 px but the image is 32 x 64"):
        read_regions(tmp_path / "a.zarr", (32, 64))


def test_a_store_with_shards_at_the_border_lacks_nothing(tmp_path):
    pixels = np.ones((128, 128), np.uint8)
    zarr.create_array(tmp_path / "s.zarr", data=pixels, chunks=(48, 48), shards=(96, 96))
    with open_image(tmp_path / "s.zarr") as stack:
        assert stack.notes == ()


@pytest.mark.parametrize("scale", [{"path": "elsewhere"}, {"scale": [1, 1, 1, 0.5, 0.5]}])
def test_a_scale_that_does_not_fit_the_axes_is_no_pixel_size(tmp_path, scale):
    image_store(tmp_path / "a.zarr")
    about = json.loads((tmp_path / "a.zarr" / ".zattrs").read_text())
    about["multiscales"][0]["datasets"][0]["coordinateTransformations"] = [
        {"type": "scale", **scale}
    ]
    (tmp_path / "a.zarr" / ".zattrs").write_text(json.dumps(about))
    with open_image(tmp_path / "a.zarr") as stack:
        assert stack.units is None or stack.units.pixel == (1.0, 1.0)


def test_a_pyramid_that_grows_is_refused(tmp_path):
    """The coarse level would be taken for the image, or read where the fine one lies."""
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2)
    for name, shape in (("small", (30, 40)), ("large", (60, 80))):
        group.create_array(name, data=np.ones(shape, np.uint8))
    axes, levels = [{"name": "y"}, {"name": "x"}], [{"path": "small"}, {"path": "large"}]
    group.attrs["multiscales"] = [{"version": "0.4", "axes": axes, "datasets": levels}]
    with pytest.raises(InputError, match=r"a\.zarr lists a level of shape \(60, 80\) after one of"):
        open_image(tmp_path / "a.zarr")


def change(file, edit):
    about = json.loads(file.read_text())
    edit(about)
    file.write_text(json.dumps(about))


def test_a_plate_without_wells_is_refused(tmp_path):
    plate(tmp_path / "a.zarr", wells=("A/1",))
    change(tmp_path / "a.zarr/.zattrs", lambda about: about["plate"].update(wells=[]))
    with pytest.raises(InputError, match="zarr group without an image of its own"):
        open_image(tmp_path / "a.zarr")


def test_a_well_that_is_listed_and_not_there_is_named(tmp_path):
    plate(tmp_path / "a.zarr")
    (tmp_path / "a.zarr/B").rename(tmp_path / "gone")
    with pytest.raises(InputError, match=r"a\.zarr could not be read as image: .*B/2"):
        open_image(tmp_path / "a.zarr")


@pytest.mark.parametrize(
    ("make", "file", "edit"),
    [
        (image_store, "zarr.json", lambda a: a["attributes"]["ome"].update(version="0.6")),
        (plate, "zarr.json", lambda a: a["attributes"]["ome"].update(version="1.0")),
        (
            lambda path, version: image_store(path),
            ".zattrs",
            lambda a: a["multiscales"][0].update(version="0.6.dev1"),
        ),
    ],
)
def test_a_store_of_a_newer_version_is_refused(tmp_path, make, file, edit):
    make(tmp_path / "a.zarr", version="0.5")
    change(tmp_path / "a.zarr" / file, edit)
    with pytest.raises(InputError, match=r"a\.zarr is OME-Zarr (0\.6|1\.0).*; versions up to 0\.5"):
        open_image(tmp_path / "a.zarr")
