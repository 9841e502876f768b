"""Pascal VOC's boxes as regions."""

import pytest

from napari_maskinversion.base.errors import EmptyMaskError, InputError, MaskShapeError
from napari_maskinversion.regions.annotations.reading import read_annotations

BOX = "<object><name>{}</name><bndbox>{}</bndbox></object>"


def box(name, *edges):
    sides = zip(("xmin", "ymin", "xmax", "ymax"), edges, strict=True)
    return BOX.format(name, "".join(f"<{side}>{edge}</{side}>" for side, edge in sides))


def page(*objects, size="<size><width>20</width><height>10</height><depth>3</depth></size>"):
    return f"<annotation><filename>a.jpg</filename>{size}{''.join(objects)}</annotation>"


@pytest.fixture
def read(tmp_path):
    def read(text, shape=(10, 20), image="a.jpg"):
        path = tmp_path / "theirs.xml"
        path.write_text(text, "utf-8")
        return read_annotations(path, shape, image=image)

    return read


def test_boxes_count_from_one_and_hold_their_last_pixel(read):
    result = read(page(box("Hund 犬", 1, 1, 20, 10), box("cat", 3, 4, 3, 4)))
    assert [item.region.bbox for item in result.items] == [(0, 0, 10, 20), (3, 2, 4, 3)]
    assert [item.label for item in result.items] == ["Hund 犬", "cat"]
    assert [item.region.id for item in result.items] == [1, 2]
    assert not result.notes


def test_the_file_says_how_large_its_image_is(read):
    assert read(page(box("dog", 2, 2, 5, 5)), shape=None).shape == (10, 20)
    with pytest.raises(MaskShapeError, match="10 x 20 px; this one is 20 x 10 px"):
        read(page(box("dog", 2, 2, 5, 5)), shape=(20, 10))


def test_boxes_beyond_the_image_are_cut_and_those_outside_refused(read):
    result = read(page(box("dog", 15, 5, 40, 8)))
    assert result.items[0].region.bbox == (4, 14, 8, 20)
    assert r"object 1 (dog) reaches beyond the image and was cut" in result.notes_text
    with pytest.raises(EmptyMaskError, match=r"theirs.xml, object 2 \(cat\) covers no pixel"):
        read(page(box("dog", 2, 2, 5, 5), box("cat", 30, 5, 40, 8)))


@pytest.mark.parametrize(
    "more",
    [
        "<bndbox><xmin>9</xmin><ymin>9</ymin><xmax>12</xmax><ymax>10</ymax></bndbox>",
        "<polygon><x1>1</x1><y1>1</y1><x2>5</x2><y2>1</y2><x3>5</x3><y3>5</y3></polygon>",
    ],
    ids=["a second box", "a polygon"],
)
def test_what_an_object_has_besides_its_box_is_said(read, more):
    result = read(page(box("dog", 2, 2, 5, 5), box("cat", 3, 4, 3, 4).replace("</o", f"{more}</o")))
    assert [item.region.bbox for item in result.items] == [(1, 1, 5, 5), (3, 2, 4, 3)]
    assert len(result.notes) == 1
    assert "object 2 (cat) has more than one box, or a polygon" in result.notes[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<annotation><object>", "broken XML: .* line 1"),
        ("", "broken XML"),
        ("<svg></svg>", "a root 'svg'"),
        (page(), "contains no region"),
        (page(box("dog", 1, 1, "wide", 4)), r"object 1 \(dog\) .* no box of .* save turned boxes"),
        (page("<object><name>dog</name></object>"), r"object 1 \(dog\) .* no box"),
        (page(box("dog", "nan", 1, 3, 4)), r"object 1 \(dog\) .* no box"),
        (
            '<!DOCTYPE a [<!ENTITY b "b"><!ENTITY c "&b;&b;">]><annotation>&c;</annotation>',
            "contains XML entities",
        ),
        *(
            (f'<?xml version="1.0" encoding="{name}"?>{page(box("dog", 1, 1, 3, 4))}', "as UTF-8")
            for name in ("foo-bar", "big5", "utf-7")
        ),
    ],
)
def test_what_is_broken_is_refused_by_file_and_record(read, text, reason):
    with pytest.raises(InputError, match=f"theirs.xml.*{reason}"):
        read(text)
