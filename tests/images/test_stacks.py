"""Zarr folders, label stacks and files that are closed: what is opened is not read."""

import numpy as np
import pytest
import skimage.io
import tifffile
import zarr

from napari_maskinversion.base.errors import EmptyMaskError, InputError, MaskShapeError
from napari_maskinversion.images.channels import Channel, ChannelPlane
from napari_maskinversion.images.lazy_plane import LazyPlane
from napari_maskinversion.images.opening import open_image, stack_of
from napari_maskinversion.images.stack import Stack
from napari_maskinversion.regions.label_images import has_planes, read_plane_regions
from napari_maskinversion.regions.region_reading import read_regions
from tests.scenes import label_image, picture

SHAPE = (60, 80)


def ome_zarr(folder, *, version="0.4"):
    """Two channels on three planes, two levels, half a micrometre a pixel."""
    fine = np.stack([picture(seed=i)[:, :, 0] for i in range(6)]).reshape(2, 3, *SHAPE)
    group = zarr.open_group(str(folder), mode="w", zarr_format=2 if version == "0.4" else 3)
    for name, array in (("0", fine), ("1", fine[..., ::2, ::2])):
        group.create_array(name, data=np.ascontiguousarray(array), chunks=(1, 1, 20, 20))
    space = {"type": "space", "unit": "micrometer"}
    about = {
        "multiscales": [
            {
                "axes": [
                    {"name": "c", "type": "channel"},
                    {"name": "z", **space},
                    {"name": "y", **space},
                    {"name": "x", **space},
                ],
                "datasets": [
                    {
                        "path": name,
                        "coordinateTransformations": [{"type": "scale", "scale": [1, 2, s, s]}],
                    }
                    for name, s in (("0", 0.5), ("1", 1.0))
                ],
            }
        ],
        "omero": {"channels": [{"label": "DAPI"}, {"label": "GFP"}]},
    }
    group.attrs.update(about if version == "0.4" else {"ome": about})
    return fine


def test_of_a_file_with_several_images_one_is_opened(tmp_path):
    pixels = [picture(seed=seed)[:, :, 0] for seed in range(3)]
    with tifffile.TiffWriter(tmp_path / "a.ome.tif", ome=True) as writer:
        for number, image in enumerate(pixels):
            size = 0.5 + number
            about = {"axes": "YX", "Name": f"Pos {number}", "PhysicalSizeX": size}
            writer.write(image, metadata=about | {"PhysicalSizeY": size})
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", zarr_format=2)
    group.attrs["bioformats2raw.layout"] = 3
    for number, image in enumerate(pixels):
        ome_zarr(tmp_path / "a.zarr" / str(number))
        zarr.open(str(tmp_path / "a.zarr" / str(number) / "0"))[0, 0] = image
    with tifffile.TiffWriter(tmp_path / "a.tif") as writer:
        writer.write(pixels[0])
        writer.write(pixels[1][:30])
    for name, names in (("a.ome.tif", ("Pos 0", "Pos 1", "Pos 2")), ("a.zarr", ("0", "1", "2"))):
        for series in (0, 1, 2):
            with open_image(tmp_path / name, series) as stack:
                assert (stack.images, stack.series) == (names, series)
                place = {"z": 0} if name == "a.zarr" else {}
                channels = ["0"] if name == "a.zarr" else None
                read = stack.source(place, channels).read(0, (0, 0, *SHAPE))
                np.testing.assert_array_equal(read, pixels[series])
                if name == "a.ome.tif":
                    assert stack.units.pixel == (0.5 + series, 0.5 + series)
        with pytest.raises(InputError, match=f"{name} has no image 3; it holds 3 .*--series"):
            open_image(tmp_path / name, 3)
    with open_image(tmp_path / "a.tif", 1) as stack:
        assert stack.images == ("60 x 80", "30 x 80")
        assert stack.shape == (30, 80)
    np.save(tmp_path / "a.npy", pixels[0])
    with pytest.raises(InputError, match="a.npy has no image 1; it holds 1"):
        open_image(tmp_path / "a.npy", 1)


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_an_ome_zarr_is_a_pyramid_with_channels_and_units(tmp_path, version):
    fine = ome_zarr(tmp_path / "a.zarr", version=version)
    stack = open_image(tmp_path / "a.zarr")
    assert stack.axes == ("c", "z", "y", "x")
    assert stack.plane_axes == {"z": 3}
    assert stack.channels == ("DAPI", "GFP")
    assert stack.units.pixel == (0.5, 0.5)
    assert stack.units.unit == "µm"
    source = stack.source({"z": 2}, ["GFP"])
    assert [level.step for level in source.levels] == [(1, 1), (2, 2)]
    np.testing.assert_array_equal(source.read(0, (5, 6, 50, 70)), fine[1, 2, 5:50, 6:70])
    np.testing.assert_array_equal(source.read(1, (0, 0, 30, 40)), fine[1, 2, ::2, ::2])


def test_only_the_chunks_of_a_box_are_read_of_a_zarr_folder(tmp_path):
    ome_zarr(tmp_path / "a.zarr")
    source = open_image(tmp_path / "a.zarr").source({"z": 1}, ["0"])
    for chunk in (tmp_path / "a.zarr" / "0").rglob("*"):
        # All others are spoilt: reading one of them would fail.
        if chunk.is_file() and chunk.name not in (".zarray", ".zattrs", "0.1.0.0"):
            chunk.write_bytes(b"no chunk")
    assert source.read(0, (0, 0, 20, 20)).shape == (20, 20)
    with pytest.raises(Exception, match="."):
        source.read(0, (0, 0, 21, 21))


def test_a_plain_zarr_array_and_a_group_of_one_are_images_and_others_say_what_is_there(tmp_path):
    zarr.save_array(str(tmp_path / "plain.zarr"), picture())
    assert open_image(tmp_path / "plain.zarr").axes == ("y", "x", "s")
    group = zarr.open_group(str(tmp_path / "group.zarr"), mode="w")
    with pytest.raises(InputError, match=r"its members \(none\)"):
        open_image(tmp_path / "group.zarr")
    group.create_array("raw", data=picture()[:, :, 0])
    assert open_image(tmp_path / "group.zarr").shape == SHAPE
    group.create_array("other", data=picture()[:, :, 0])
    with pytest.raises(InputError, match="other, raw"):
        open_image(tmp_path / "group.zarr")


def test_a_flat_label_file_is_read_in_blocks_and_never_whole(tmp_path, monkeypatch):
    labels = label_image(5)
    tifffile.imwrite(tmp_path / "a.tif", labels, tile=(16, 16), compression="zlib")
    zarr.create_array(str(tmp_path / "a.zarr"), data=labels, chunks=(20, 20))
    monkeypatch.setattr("napari_maskinversion.base.label_blocks.BLOCK", 32 * 32)
    monkeypatch.setattr(tifffile.TiffFile, "asarray", None)
    for name in ("a.tif", "a.zarr"):
        regions = read_regions(tmp_path / name, SHAPE)
        assert regions.ids == [1, 2, 3, 4, 5]
        np.testing.assert_array_equal(regions.full_mask(2), labels == 3)
        with pytest.raises(MaskShapeError, match="60 x 80 px but the image is 60 x 81"):
            read_regions(tmp_path / name, (60, 81))


@pytest.fixture
def planes(tmp_path):
    """A stack of four planes and its labels: 1 on z=0 and 1 (larger there), 7 on z=3."""
    image = np.stack([picture(seed=i)[:, :, 0] for i in range(4)])
    labels = np.zeros((4, *SHAPE), np.uint16)
    labels[0, 5:15, 5:15] = 1
    labels[1, 5:25, 5:25] = 1
    labels[3, 30:40, 30:40] = 7
    tifffile.imwrite(
        tmp_path / "image.tif", image, photometric="minisblack", metadata={"axes": "ZYX"}
    )
    tifffile.imwrite(tmp_path / "labels.tif", labels, photometric="minisblack", compression="zlib")
    return open_image(tmp_path / "image.tif"), tmp_path / "labels.tif"


def ids_by_plane(image, path, position=None, **options):
    return [
        (dict(item.position), item.regions.ids)
        for item in read_plane_regions(path, image, position or {}, **options)
    ]


def test_label_stacks_are_taken_plane_by_plane_or_where_a_region_is_largest(planes):
    image, path = planes
    assert ids_by_plane(image, path, mode="largest") == [({"z": 1}, [1]), ({"z": 3}, [7])]
    each = [({"z": 0}, [1]), ({"z": 1}, [1]), ({"z": 3}, [7])]
    assert ids_by_plane(image, path, mode="each") == each
    assert ids_by_plane(image, path, mode="each", only={7}) == [({"z": 3}, [7])]
    assert has_planes(path, image)
    assert ids_by_plane(image, path, {"z": 0}, mode=None) == [({"z": 0}, [1])]
    with pytest.raises(EmptyMaskError, match="plane z=2"):
        ids_by_plane(image, path, {"z": 2}, mode=None)
    with pytest.raises(InputError, match="use only one of the two"):
        ids_by_plane(image, path, {"z": 0}, mode="each")
    with pytest.raises(InputError, match="choose one"):
        ids_by_plane(image, path, mode=None)


def test_labels_of_z_belong_to_one_chosen_time(planes):
    _, path = planes
    image = stack_of(np.zeros((2, 4, *SHAPE), np.uint8))
    where = [({"t": 1, "z": 1}, [1]), ({"t": 1, "z": 3}, [7])]
    assert ids_by_plane(image, path, {"t": 1}, mode="largest") == where
    with pytest.raises(InputError, match="planes along t"):
        ids_by_plane(image, path, mode="largest")


def test_planes_of_the_same_names_may_come_in_another_order(tmp_path):
    labels = np.zeros((2, 3, *SHAPE), np.uint16)
    labels[1, 2, 5:15, 5:15] = 1
    group = zarr.open_group(tmp_path / "labels.zarr", mode="w", zarr_format=2)
    group.create_array("0", data=labels)
    axes = [{"name": name, "type": "time" if name == "t" else "space"} for name in "tzyx"]
    group.attrs["multiscales"] = [{"version": "0.4", "axes": axes, "datasets": [{"path": "0"}]}]
    image = Stack(levels=(np.zeros((3, 2, *SHAPE), np.uint8),), axes=("z", "t", "y", "x"), name="")
    path = tmp_path / "labels.zarr"
    assert ids_by_plane(image, path, mode="each") == [({"z": 2, "t": 1}, [1])]


@pytest.mark.parametrize("unnamed", ["labels", "image"])
def test_planes_of_as_many_are_matched_in_order_where_axes_have_no_names(tmp_path, unnamed):
    labels, pixels = np.zeros((3, 3, *SHAPE), np.uint16), np.zeros((3, 3, *SHAPE), np.uint8)
    labels[2, 1, 5:15, 5:15] = 1
    if unnamed == "labels":
        path = tmp_path / "labels.npy"
        np.save(path, labels)
        image = Stack(levels=(pixels,), axes=("z", "t", "y", "x"), name="")
        place = {"z": 2, "t": 1}
    else:
        path = tmp_path / "labels.ome.tif"
        tifffile.imwrite(path, labels, ome=True, metadata={"axes": "ZTYX"})
        image, place = stack_of(pixels), {"t": 2, "z": 1}
    assert ids_by_plane(image, path, mode="each") == [(place, [1])]


def test_planes_of_other_numbers_are_matched_by_name_also_where_names_are_the_usual_ones(tmp_path):
    labels = np.zeros((2, 3, *SHAPE), np.uint16)
    labels[1, 2, 5:15, 5:15] = 1
    np.save(tmp_path / "labels.npy", labels)
    image = Stack(levels=(np.zeros((3, 2, *SHAPE), np.uint8),), axes=("z", "t", "y", "x"), name="")
    assert ids_by_plane(image, tmp_path / "labels.npy", mode="each") == [({"z": 2, "t": 1}, [1])]


def test_labels_with_other_planes_than_the_image_are_refused(planes):
    _, path = planes
    image = stack_of(np.zeros((5, *SHAPE), np.uint8))
    with pytest.raises(InputError, match=r"\(4\).*z \(5\)"):
        ids_by_plane(image, path, mode="largest")
    assert not has_planes(path, image)
    with pytest.raises(MaskShapeError, match="60 x 80 px but the image is 60 x 90"):
        ids_by_plane(stack_of(np.zeros((4, 60, 90), np.uint8)), path, mode="each")


def test_pages_with_a_flat_image_stay_binary_masks(planes):
    _, path = planes
    assert not has_planes(path, stack_of(picture()))


def test_a_place_named_twice_is_refused_by_name():
    stack = stack_of(np.zeros((4, *SHAPE), np.uint8))
    with pytest.raises(InputError, match="names z twice"):
        stack.position("z=1,z=2")
    assert stack.position("2") == {"z": 2}


def test_a_closed_stack_has_let_go_of_its_file(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", picture(), tile=(16, 16), compression="zlib")
    with open_image(tmp_path / "a.tif") as stack:
        file = stack.on_close.__self__.filehandle
        stack.source().read(0, (0, 0, 20, 20))
        assert not file.closed
    assert file.closed
    stack_of(picture()).close()  # nothing to close, nothing happens


class Counted:
    """An array that counts how often it is cut."""

    def __init__(self, array):
        self.array, self.shape, self.dtype, self.cuts = array, array.shape, array.dtype, 0

    def __getitem__(self, key):
        self.cuts += 1
        return self.array[key]


def test_contrast_limits_are_looked_for_once():
    array = Counted(picture()[:, :, 0].astype(np.uint16) * 9)
    plane = ChannelPlane([Channel(plane=LazyPlane([array]))])
    plane.check()
    assert plane.limits
    plane.read(0, (0, 0, 10, 10))
    assert array.cuts == 2  # once for the limits, once for the box


def test_png_labels_with_a_stack_lie_on_the_chosen_plane(tmp_path):
    skimage.io.imsave(tmp_path / "a.png", label_image(3), check_contrast=False)
    assert not has_planes(tmp_path / "a.png", stack_of(np.zeros((4, *SHAPE), np.uint8)))
