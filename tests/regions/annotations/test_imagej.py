"""ROIs of ImageJ, made by roifile."""

import zipfile

import numpy as np
import pytest
from roifile import ROI_OPTIONS, ROI_SUBTYPE, ROI_TYPE, ImagejRoi, roiwrite

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.regions.annotations import imagej
from napari_maskinversion.regions.annotations.annotation_reading import read_annotations

from .shapes import full

SHAPE = (20, 30)
SQUARE = [[2, 3], [8, 3], [8, 9], [2, 9]]


def polygon(points=SQUARE, **more):
    return ImagejRoi.frompoints(np.array(points, float), **more)


def box(kind, **more):
    return ImagejRoi(roitype=kind, left=5, top=4, right=15, bottom=12, version=228, **more)


def path_of(*rings):
    """A composite ROI: a path that moves to the first corner of a ring and draws lines."""
    steps = []
    for first, *rest in rings:
        steps += [0.0, *first]
        for corner in rest:
            steps += [1.0, *corner]
        steps.append(4.0)
    path = np.array(steps, np.float32)
    roi = box(ROI_TYPE.RECT, shape_roi_size=len(path))
    roi.multi_coordinates = path
    return roi


@pytest.fixture
def read(tmp_path):
    def read(*rois, name="RoiSet.zip", shape=SHAPE):
        (tmp_path / name).unlink(missing_ok=True)  # roifile appends
        roiwrite(tmp_path / name, list(rois) if name.endswith(".zip") else rois[0])
        return read_annotations(tmp_path / name, shape, image="cells.tif")

    return read


def test_areas_hold_the_pixels_whose_centres_they_hold(read):
    rect, oval, outline = read(
        box(ROI_TYPE.RECT, name="cell"), box(ROI_TYPE.OVAL, name="nucleus"), polygon(name="cell")
    ).items
    assert (rect.region.bbox, rect.region.area) == ((4, 5, 12, 15), 80)
    y, x = np.mgrid[:20, :30] + 0.5
    inside = ((x - 10) / 5) ** 2 + ((y - 8) / 4) ** 2 < 1
    np.testing.assert_array_equal(full(oval.region, SHAPE), inside)
    assert (outline.region.bbox, outline.region.area) == ((3, 2, 9, 8), 36)
    assert [item.label for item in (rect, oval, outline)] == ["cell", "nucleus", "cell"]
    assert [item.region.id for item in (rect, oval, outline)] == [1, 2, 3]


def test_a_composite_roi_has_holes_and_parts(read):
    inner = [[4, 5], [6, 5], [6, 7], [4, 7]]
    far = [[20, 10], [24, 10], [24, 12], [20, 12]]
    result = read(path_of(SQUARE, inner, far))
    (item,) = result.items
    assert not result.notes
    assert item.region.area == 36 - 4 + 8
    assert not full(item.region, SHAPE)[5, 4]


def test_a_single_roi_file_is_one_region(read):
    (item,) = read(polygon(name="left kidney"), name="a.roi").items
    assert (item.label, item.source_id) == ("left kidney", "left kidney")


@pytest.mark.parametrize("name", ["0006-0005", "12", "849b955c-1111-4222-8333-0123456789ab"])
def test_names_that_programs_make_are_no_labels(read, name):
    """The ROI Manager makes them of positions, and Cellpose numbers or UUIDs."""
    (item,) = read(polygon(name=name)).items
    assert (item.label, item.source_id) == ("", name)


def test_positions_in_a_stack_are_planes(read):
    hyper = read(polygon(z=2, t=1, position=8), polygon(z=0, t=0, position=0))
    assert [item.position for item in hyper.items] == [
        (("t", 1), ("z", 2)),
        (("t", 0), ("z", 0)),
    ]
    assert [item.position for item in read(polygon(position=3)).items] == [(("slice", 3),)]
    # A flat image has one plane, which no one needs to name.
    assert [item.position for item in read(polygon(position=0)).items] == [()]


def test_lines_and_texts_and_broken_rois_are_left_out_by_name(tmp_path, read):
    line = ImagejRoi(roitype=ROI_TYPE.LINE, x1=1, y1=1, x2=9, y2=9, version=228, name="axis")
    text = box(ROI_TYPE.RECT, name="50 um", subtype=ROI_SUBTYPE.TEXT)
    far = polygon(np.add(SQUARE, 100), name="far")
    curved = path_of(SQUARE)
    curved.multi_coordinates[5], curved.multi_coordinates[3] = 0, 3
    read(line, text, far, curved, polygon(name="cell"))
    with zipfile.ZipFile(tmp_path / "RoiSet.zip", "a") as archive:
        for number, data in enumerate((b"Iout", b"PNG" * 40, polygon().tobytes()[:66])):
            archive.writestr(f"{number}.roi", data)
    result = read_annotations(tmp_path / "RoiSet.zip", SHAPE)
    assert [item.label for item in result.items] == ["cell"]
    for says in (
        "ROI 1 (axis) is of type line",
        "ROI 2 (50 um) is of type text",
        "ROI 3 (far) covers no pixel",
        "Edit > Selection > Interpolate",
        "ROI 6 (0) is broken",
        "ROI 7 (1) is broken",
        "ROI 8 (2) is broken",
    ):
        assert [note for note in result.notes if says in note and "left out" in note]
    with pytest.raises(InputError, match="contains no region"):
        read(line, name="line.roi")


def test_subpixel_corners_count(read):
    roi = polygon([[2.4, 3.4], [8.6, 3.4], [8.6, 9.6], [2.4, 9.6]])
    assert roi.options & ROI_OPTIONS.SUB_PIXEL_RESOLUTION
    assert read(roi).items[0].region.bbox == (3, 2, 10, 9)


def test_an_archive_that_is_none_or_declares_too_much_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "RoiSet.zip"
    path.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(InputError, match="could not be read as file of regions"):
        read_annotations(path, SHAPE)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.roi", bytes(2_000_000))
    monkeypatch.setattr(imagej, "_MAX_BYTES", 1_000_000)
    with pytest.raises(InputError, match="declares more than 1 MB"):
        read_annotations(path, SHAPE)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "none")
    with pytest.raises(InputError, match="not ImageJ ROIs"):
        read_annotations(path, SHAPE)
