"""Reading files of others: what is no plain file, too large or nested too deeply is refused."""

import os
import socket
from pathlib import Path

import pytest
from pydantic import BaseModel, Field

from napari_maskinversion import export, read_image, read_regions
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


def bound_socket(path):
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(path))
    return path


PATHS = {
    "image": read_image,
    "regions": lambda path: read_regions(path, (60, 80)),
    "results": lambda path: export(None, path),
}


@pytest.mark.parametrize("what", PATHS)
@pytest.mark.parametrize(
    ("path", "says"),
    [
        (None, "None is no path of .*{what}"),
        (5, "5 is no path of .*{what}"),
        ("a\0b.csv", "no path of .*{what} .*null"),
        ("\ud800.csv", "no path of .*{what} .*surrogates"),
        ("x" * 300 + ".csv", "There is no .*{what} at x.*: the name is too long"),
    ],
)
def test_what_can_be_no_path_is_refused_in_one_line(what, path, says):
    with pytest.raises(InputError, match=says.format(what=what)) as refusal:
        PATHS[what](path)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (pipe, "is a pipe"),
        (bound_socket, "is a socket"),
        (lambda path: path.with_name("no file"), "There is no file"),
        (lambda path: Path("https://example.org/a.png"), "an address on the network; download"),
        (lambda path: Path("s3://bucket/a.zarr"), "an address on the network; download"),
        (lambda path: path.with_name("x" * 300), "the name is too long"),
        (lambda path: path.parent, "is a folder"),
        (lambda path: path.with_name("null\0"), "cannot be read"),
    ],
)
def test_what_is_no_plain_file_is_refused_before_it_is_opened(tmp_path, make, says):
    with pytest.raises(InputError, match=says):
        check_file(make(tmp_path / "a"))


def test_a_device_is_refused():
    with pytest.raises(InputError, match=f"{os.devnull} is a device, not a file"):
        read_bytes(Path(os.devnull))


def test_a_file_that_is_larger_than_its_kind_is_refused(tmp_path):
    (tmp_path / "a.json").write_bytes(b" " * 3_000_000)
    with pytest.raises(InputError, match="a.json has 3 MB; a file has at most 2 MB"):
        read_bytes(tmp_path / "a.json", most=2_000_000)


@pytest.mark.parametrize("levels", [101, 100_000])
def test_yaml_that_is_nested_too_deeply_is_refused(levels):
    with pytest.raises(InputError, match="a.yaml is broken YAML: it is nested too deeply"):
        parse_yaml(b"[" * levels, "a.yaml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[" * 100_000, "nested more than 100 levels"),
        ("[" * 101 + "]" * 101, "nested more than 100 levels"),
        ('{"a":' * 101 + "1" + "}" * 101, "nested more than 100 levels"),
        ("1" * 5000, "broken JSON: Exceeds"),
        ('{"a": }', "line 1, column 7"),
        ('[{"ids": [1, 2], "n": 1, "ids": []}]', "an object has the key 'ids' twice"),
        (b"\xff\xfe", "not text in UTF-8"),
    ],
)
def test_broken_json_is_one_line_that_names_the_file(text, says):
    with pytest.raises(InputError, match=rf"^a\.json is .*{says}") as refusal:
        parse_json(text, "a.json")
    assert "\n" not in str(refusal.value)


def test_json_of_usual_depth_and_with_a_mark_is_read():
    assert parse_json("[" * 100 + "]" * 100, "a") is not None
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
        (b'image\n"a\n', "line 2, is not CSV"),
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
