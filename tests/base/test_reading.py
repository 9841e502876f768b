"""Reading files of others: what is no file, too large or broken is refused in one line."""

import os
from pathlib import Path

import pytest
from pydantic import BaseModel, Field

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.reading import (
    check_file,
    parse_json,
    parse_yaml,
    read_bytes,
    read_rows,
    validated,
)


def pipe(path):
    os.mkfifo(path)
    return path


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (pipe, "is not a file; save its content in a file"),
        (lambda path: Path(os.devnull), "is not a file; save its content in a file"),
        (lambda path: path.with_name("no file"), "There is no file at .*check the path"),
        (lambda path: Path("https://example.org/a.png"), "an address on the network; download"),
        (lambda path: Path("s3://bucket/a.zarr"), "an address on the network; download"),
        (lambda path: path.with_name("x" * 300), "cannot be read as file .File name too long"),
        (lambda path: path.parent, "is a folder; name one file"),
        (lambda path: path.with_name("null\0"), "cannot be read as file"),
    ],
)
def test_what_is_no_file_is_refused_before_it_is_opened(tmp_path, make, says):
    with pytest.raises(InputError, match=says):
        check_file(make(tmp_path / "a"))


def test_a_file_that_is_larger_than_its_kind_is_refused(tmp_path):
    (tmp_path / "a.json").write_bytes(b" " * 3_000_000)
    with pytest.raises(InputError, match="a.json has 3 MB; a file has at most 2 MB"):
        read_bytes(tmp_path / "a.json", most=2_000_000)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a: 1\nb: ]\n", "is not YAML in line 2"),
        (b"a: 1\nb: 2\na: 3\n", "has 'a' twice, in the lines 1 and 3; keep one"),
        (b"[" * 100_000, "is not YAML"),
        (b"- 2020-13-01", "is not YAML .month must be in"),
        (b"\xff\xfe", "not text in UTF-8"),
    ],
)
def test_broken_yaml_is_one_line_that_names_the_file(content, says):
    with pytest.raises(InputError, match=rf"^a\.yaml {says}|^a\.yaml is .*{says}") as refusal:
        parse_yaml(content, "a.yaml")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[" * 100_000, "broken JSON: maximum recursion"),
        ('{"a": }', "line 1 column 7"),
        (b"\xff\xfe", "not text in UTF-8"),
    ],
)
def test_broken_json_is_one_line_that_names_the_file(text, says):
    with pytest.raises(InputError, match=rf"^a\.json is .*{says}") as refusal:
        parse_json(text, "a.json")
    assert "\n" not in str(refusal.value)


def test_json_with_a_byte_order_mark_is_read():
    assert parse_json(b'\xef\xbb\xbf{"a": 1}', "a") == {"a": 1}


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_a_table_has_commas_semicolons_or_tabs_between_its_cells(tmp_path, mark):
    lines = ("", "Image,regions,name", "", ' a.png ,"x y"', "b.png,,c,")
    (tmp_path / "t.csv").write_text("\ufeff" + "\n".join(lines).replace(",", mark), "utf-8")
    assert list(read_rows(tmp_path / "t.csv", needed=("image",))) == [
        (4, {"image": "a.png", "regions": "x y", "name": ""}),
        (5, {"image": "b.png", "regions": "", "name": "c"}),
    ]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"image,regions\na,b,c\n", "line 2 has more cells than there are columns"),
        (b"x,y,X\n1,2,3\n", "has two columns 'x'; keep one"),
        (b"x,y\n1,2\n", "has no column 'image'; it has x, y and needs image"),
        (b"image\n\n", "has no rows below the names of its columns"),
        (b"", "has no rows below the names of its columns"),
        (b'image\n"a\n', "line 2: this is not CSV"),
        (b"\xff\xfe", "is not text in UTF-8"),
    ],
)
def test_a_table_of_which_a_part_would_be_lost_is_refused(tmp_path, content, says):
    (tmp_path / "t.csv").write_bytes(content)
    needed = ("image",) if b"image" in content or b"1,2\n" in content else ()
    with pytest.raises(InputError, match=f"t.csv.* ?{says}"):
        list(read_rows(tmp_path / "t.csv", needed=needed))


class Page(BaseModel):
    steps: int = Field(ge=1)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"steps": 0}, "^a.json: steps must be greater than or equal to 1; got 0.$"),
        ({"steps": "x" * 10_000}, "^a.json: steps must be .{,100}$"),
        ({}, "^a.json: steps is missing.$"),
        ([], r"^a.json: its content must be an object; got \[\].$"),
    ],
)
def test_values_that_do_not_fit_are_named_by_file_and_key(values, says):
    with pytest.raises(InputError, match=says):
        validated(Page, values, "a.json")
