"""What belongs to one object, and what cannot be used."""

import pytest

from napari_maskinversion.base.errors import EmptyMaskError, InputError
from napari_maskinversion.regions.sam.prompts import BoxMark, PointMark, gather, read_boxes

SHAPE = (100, 200)


def box(*corners, name="box", number=None):
    return BoxMark(box=corners, name=name, object=number)


def point(y, x, *, positive=True, name="point", number=None):
    return PointMark(point=(y, x), name=name, positive=positive, object=number)


def test_each_box_is_an_object_numbered_from_1():
    prompts = gather([box(1, 1, 5, 5), box(10, 10, 20, 20)], [], SHAPE)
    assert [(p.id, p.boxes) for p in prompts] == [(1, ((1, 1, 5, 5),)), (2, ((10, 10, 20, 20),))]


def test_a_point_belongs_to_the_smallest_box_around_it():
    prompts = gather(
        [box(0, 0, 50, 50), box(10, 10, 20, 20)],
        [point(15, 15), point(40, 40), point(12, 12, positive=False)],
        SHAPE,
    )
    assert [p.positive for p in prompts] == [((40, 40),), ((15, 15),)]
    assert [p.negative for p in prompts] == [(), ((12, 12),)]


def test_positive_points_in_no_box_are_objects_of_their_own():
    prompts = gather([box(0, 0, 5, 5)], [point(50, 50), point(60, 60)], SHAPE)
    assert [(p.id, p.positive) for p in prompts] == [(1, ()), (2, ((50, 50),)), (3, ((60, 60),))]


def test_a_negative_point_in_no_box_counts_for_every_object():
    prompts = gather([box(0, 0, 5, 5)], [point(50, 50), point(70, 70, positive=False)], SHAPE)
    assert [p.negative for p in prompts] == [((70, 70),), ((70, 70),)]


def test_the_same_number_makes_one_object_and_free_numbers_are_given_to_the_rest():
    prompts = gather(
        [box(0, 0, 5, 5, number=2), box(30, 30, 40, 40, number=2), box(60, 60, 70, 70)],
        [point(80, 80, number=2), point(85, 85, positive=False, number=2)],
        SHAPE,
    )
    assert [p.id for p in prompts] == [1, 2]
    assert prompts[1].boxes == ((0, 0, 5, 5), (30, 30, 40, 40))
    assert (prompts[1].positive, prompts[1].negative) == (((80, 80),), ((85, 85),))
    assert prompts[1].text == "2 boxes, 1 point, 1 negative point"


def test_boxes_that_stick_out_are_cut_off_at_the_edge():
    (prompt,) = gather([box(-10, -10, 300, 20)], [], SHAPE)
    assert prompt.boxes == ((-0.5, -0.5, 99.5, 20),)


@pytest.mark.parametrize(
    "corners", [(120, 10, 130, 20), (10, 200, 20, 220), (-30, -30, -1, -1), (99.5, 0, 120, 10)]
)
def test_a_box_outside_the_image_is_named_with_the_image_s_size(corners):
    with pytest.raises(EmptyMaskError, match=r"boxes.csv, line 3.*outside.*100 rows and 200 col"):
        gather([box(0, 0, 9, 9), box(*corners, name="boxes.csv, line 3")], [], SHAPE)


@pytest.mark.parametrize("corners", [(5, 5, 5, 9), (5, 9, 9, 9), (9, 9, 5, 5)])
def test_a_box_without_area_is_named(corners):
    with pytest.raises(InputError, match=r"Shape 4: the box has no area"):
        gather([box(*corners, name="Shape 4")], [], SHAPE)


def test_points_only_negative_are_refused_with_what_to_do():
    with pytest.raises(InputError, match=r"only negative points.*add a positive point or a box"):
        gather([], [point(5, 5, positive=False), point(6, 6, positive=False)], SHAPE)
    with pytest.raises(InputError, match=r"only negative points \(Point 2\)"):
        gather([box(0, 0, 9, 9)], [point(50, 50, positive=False, number=7, name="Point 2")], SHAPE)


@pytest.mark.parametrize("place", [(-1, 5), (5, 200), (100, 5), (float("nan"), 5)])
def test_a_point_outside_the_image_is_named(place):
    with pytest.raises(InputError, match="Point 3.*outside"):
        gather([], [point(*place, name="Point 3")], SHAPE)


def test_corners_that_are_no_numbers_and_nothing_at_all_are_refused():
    with pytest.raises(InputError, match="box.*no area"):
        gather([box(0, 0, float("nan"), 9)], [], SHAPE)
    with pytest.raises(InputError, match="neither a box nor a point"):
        gather([], [], SHAPE)


@pytest.mark.parametrize("number", [0, 2**31])
def test_a_number_that_no_label_can_have_is_refused_by_name(number):
    says = f"^a.csv, line 2 has the object number {number}; count from 1, and to 2147483647"
    with pytest.raises(InputError, match=says):
        gather([box(0, 0, 9, 9, number=number, name="a.csv, line 2")], [], SHAPE)
    with pytest.raises(InputError, match=says):
        gather([], [point(5, 5, number=number, name="a.csv, line 2")], SHAPE)
    assert gather([box(0, 0, 9, 9, number=2**31 - 1)], [], SHAPE)[0].id == 2**31 - 1


def test_a_row_with_more_cells_than_columns_is_refused(tmp_path):
    """A comma in the place of a decimal point would shift all that follows."""
    path = tmp_path / "boxes.csv"
    path.write_text("y0,x0,y1,x1\n1,1,5,5\n1,5,1,20,25\n")
    with pytest.raises(InputError, match=r"boxes\.csv, line 3 has more cells than there are col"):
        read_boxes(path)


def test_of_napari_shapes_the_rectangles_are_boxes_and_others_are_said(tmp_path):
    path, notes = tmp_path / "Shapes.csv", []
    head = "index,shape-type,vertex-index,axis-0,axis-1\n"
    ellipse = "1,ellipse,0,1,1\n1,ellipse,1,1,9\n1,ellipse,2,9,9\n1,ellipse,3,9,1\n"
    path.write_text(f"{head}0,rectangle,0,2,3\n0,rectangle,1,2,8\n0,rectangle,2,6,8\n{ellipse}")
    (box,) = read_boxes(path, notes.append)
    assert box.box == (2, 3, 6, 8)
    (note,) = notes
    assert "the shapes 1 (ellipse) are no rectangles and were left out" in note
    path.write_text(head + ellipse)
    with pytest.raises(InputError, match="no rectangles; to use them as regions: run IMAGE"):
        read_boxes(path)
