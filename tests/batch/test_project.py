"""The file of a project, and its commands."""

import re
import shutil
import threading
import time
from pathlib import Path

import pandas as pd
import pytest
import yaml

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.batch.opened import changed_image, edit
from napari_maskinversion.batch.project import (
    Project,
    ProjectImage,
    read_project,
    write_project,
)
from tests.scenes import picture

from .conftest import FAST, save


@pytest.fixture
def change(project):
    """Change the file as somebody with an editor."""

    def edit(**values):
        file = project / "project.yaml"
        file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text("utf-8")) | values), "utf-8")
        return project

    return edit


def test_a_project_holds_relative_paths_words_and_changed_settings(project):
    assert yaml.safe_load((project / "project.yaml").read_text("utf-8")) == {
        "format": "napari-maskinversion project",
        "version": 1,
        "labels": "car,dog",
        "settings": {"inversion.steps": 1, "resolution": 64},
        "images": [
            {"name": f"{n}.png", "image": f"images/{n}.png", "regions": f"masks/{n}_mask.png"}
            for n in ("cell-1", "cell-2")
        ],
    }


def test_a_project_is_written_as_it_was_read(project):
    before = (project / "project.yaml").read_bytes()
    write_project(read_project(project), project / "project.yaml")
    assert (project / "project.yaml").read_bytes() == before


def test_a_moved_folder_stays_a_project_with_its_file_of_labels(images, call, fine, monkeypatch):
    (images / "words.txt").write_text("car\ndog\n")
    new = ("project", "new", "p", "--images", "images", "--regions", "masks/{name}_mask.png")
    fine(*new, "--labels", "words.txt")
    moved = images.parent / f"{images.name} moved"
    monkeypatch.chdir(images.parent)
    shutil.move(images, moved)
    code, out, err = call("project", "check", moved / "p")
    assert (code, out) == (0, "2 images can be run.\n"), err
    assert Project.vocabulary(read_project(moved / "p"), moved / "p", None).labels == ("car", "dog")


@pytest.mark.parametrize(
    "name",
    [
        "Screenshot 2024-05-01 at 3.45.12\u202fPM.png",
        "細胞\u300001.tif",
        "می\u200cخواهم.png",
        "a\u00a0b.tif",
        "a\tb.tif",
        "\ufeff a  b \ufffe \ue000.tif",
        " " * 200 + "- #:" + "a b\u3000" * 90,
    ],
)
def test_names_with_unusual_spaces_and_joiners_come_back(tmp_path, name):
    project = Project(images=(ProjectImage(name=name, image=name),))
    write_project(project, tmp_path / "project.yaml")
    assert read_project(tmp_path) == project


@pytest.mark.parametrize("sign", "\n\r\x0b\x0c\x1b\x1c\x7f\x85\x9b\u2028\u2029\ud800")
@pytest.mark.parametrize("name", ["a{}b.png", "a.png{}"])
def test_names_with_line_breaks_and_control_signs_are_refused(sign, name):
    with pytest.raises(ValueError, match="one line without control signs"):
        ProjectImage(name=name.format(sign), image="a.png")


def test_check_names_each_image_that_cannot_be_run_in_one_line(project, call):
    (project / "images" / "cell-1.png").write_bytes(b"no picture")
    save(project / "images" / "cell-2.png", picture(32, 64))
    save(project / "images" / "cell-3.png", picture(64, 64))
    call("project", "add", ".", "--images", "images/cell-3.png")
    code, out, err = call("project", "check", ".")
    assert code == 2
    assert [line.split(":")[0] for line in out.splitlines()] == ["cell-1.png", "cell-2.png"]
    assert "cell-3.png is left out: it has no regions" in err
    assert "32 x 64" in out
    assert "2 images of 3 cannot be run" in err


def test_a_check_says_what_to_do_and_names_files_as_a_user_does(images, call):
    call("project", "new", "p", "--images", "images", "--regions", "masks")
    _, out, _ = call("project", "check", "p")
    file = Path("masks") / "cell-1_mask.png"
    assert out.splitlines()[0] == (
        f"cell-1.png: {file} has no names of regions; name labels: batch --labels dog,cat, or "
        "labels: dog,cat in project.yaml."
    )
    (images / file).unlink()
    _, out, _ = call("project", "check", "p")
    assert out.splitlines()[0] == f"cell-1.png: There are no masks at {file}; check the path."


def test_regions_of_another_image_are_said_before_the_work(images, call, fine):
    box = "<bndbox><xmin>8</xmin><ymin>8</ymin><xmax>28</xmax><ymax>28</ymax></bndbox>"
    for image, about in (("cell-1", "cell-1"), ("cell-2", "other")):
        (images / "masks" / f"{image}_mask.png").unlink()
        (images / "masks" / f"{image}.xml").write_text(
            f"<annotation><filename>{about}.png</filename>"
            f"<object><name>car</name>{box}</object></annotation>"
        )
    call("project", "new", ".", "--images", "images", "--regions", "masks")
    file = Path("masks") / "cell-2.xml"
    line = f"cell-2.png: {file} says it is about other.png, and the image is cell-2.png."
    for words in (("project", "check", "."), ("batch", ".", "--out", "out", "--steps", 1)):
        err = fine(*words)
        assert [one for one in err.splitlines() if "about" in one] == [line]


def test_images_with_long_names_are_computed_and_known_again(images, fine):
    long = (
        "\u7d30\u80de" * 35 + ".png"
    )  # 214 bytes; three times as many where signs are written as %E7
    (images / "images" / "cell-2.png").rename(images / "images" / long)
    (images / "masks" / "cell-2_mask.png").rename(images / "masks" / long)
    words = ("batch", "--images", "images", "--regions", "masks", *FAST, "--out", "out")
    fine(*words)
    assert set(pd.read_parquet("out/regions.parquet")["image"]) == {"cell-1.png", long}
    assert "2 images of out are kept." in fine(*words)


def test_of_many_lines_of_one_kind_the_first_few_are_said(images, fine):
    for number in range(8):
        (images / f"images/notes-{number}.txt").write_text("no image")
    err = fine("project", "new", ".", "--images", "images/*", "--regions", "masks")
    lines = [line for line in err.splitlines() if "notes-" in line]
    assert lines == [f"images/notes-{n}.txt is not an image and was left out." for n in range(5)]
    assert "And 3 more lines like these." in err


def test_images_and_regions_are_added(project, call, fine):
    save(project / "images" / "cell-3.png", picture(64, 64))
    assert "Added 1 image to" in fine("project", "add", ".", "--images", "images/*.png")
    shutil.copy(project / "masks" / "cell-1_mask.png", project / "masks" / "cell-3.png")
    _, _, err = call("project", "add", ".", "--images", "images", "--regions", "masks")
    assert "Added regions of 1 image to" in err
    kept = read_project(project).images
    assert [image.regions for image in kept] == [
        "masks/cell-1_mask.png",
        "masks/cell-2_mask.png",
        "masks/cell-3.png",
    ]
    assert call("project", "status", ".")[1] == "3 images, 0 done, 0 to skip, 0 without regions\n"


def test_a_project_is_replaced_only_if_wanted(project, call, fine, refused):
    new = ("project", "new", ".", "--images", "images")
    assert "already has project.yaml" in refused(*new)
    fine(*new, "--overwrite")
    assert call("project", "status", ".")[1] == "2 images, 0 done, 0 to skip, 2 without regions\n"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"version": 2}, "was written by a newer version"),
        ({"format": "another"}, "is not a project"),
        ({"settings": {"inversion.speed": 2}}, "There is no setting 'inversion.speed'"),
        ({"settings": {"inversion.steps": 0}}, "steps must be greater than or equal to 1; got 0"),
        ({"images": [{"name": "a"}]}, "images.0.image is missing"),
        ({"images": [{"name": "..", "image": "a"}]}, "and begins with no dot"),
        ({"colour": "red"}, "There is no setting 'colour'"),
        (
            {"images": [{"name": "A", "image": "x/a"}, {"name": "a", "image": "y/a"}]},
            "project.yaml: 2 images are called A (x/a, y/a); name them in a table with the columns "
            "image, regions and name, or rename the files.\n",
        ),
    ],
)
def test_a_project_that_cannot_be_used_is_refused_in_one_line(change, refused, values, message):
    err = refused("project", "status", change(**values))
    assert len(err.splitlines()) == 1
    assert "project.yaml" in err
    assert message in err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: 1\nformat: ]\n", "is not YAML in line 2"),
        ("- 1\n", "is not a project"),
        ("", "is not a project"),
    ],
)
def test_a_file_that_is_no_project_is_refused(tmp_path, content, message):
    (tmp_path / "project.yaml").write_text(content, "utf-8")
    with pytest.raises(InputError, match=message):
        read_project(tmp_path)


@pytest.mark.parametrize("options", [(), ("--images", "images", "--table", "t.csv")])
def test_images_are_named_in_one_way(images, refused, options):
    err = refused("project", "new", ".", *options)
    assert "Name images by --images and --regions, or both by --table." in err


@pytest.mark.parametrize("content", ["images: []", "version: 1", "labels: cat"])
def test_a_key_that_is_there_twice_is_refused_with_its_lines(project, refused, content):
    file = project / "project.yaml"
    file.write_text(file.read_text() + content + "\n")
    err = refused("project", "add", ".", "--images", "images")
    assert re.search(rf"project.yaml has '{content.split(':')[0]}' twice, in the lines", err)
    assert file.read_text().endswith(content + "\n")


def test_two_changes_at_once_are_both_kept(project, call):
    """One begins while the other one, of the panel, is under way."""
    file, begun = project / "project.yaml", threading.Event()
    save(project / "images" / "cell-3.png", picture(64, 64, 3))

    def slowly(content):
        begun.set()
        time.sleep(0.5)
        return changed_image(content, "cell-1.png", state="done")

    panel = threading.Thread(target=edit, args=(file, slowly))
    panel.start()
    assert begun.wait(10)
    code, _, err = call("project", "add", ".", "--images", "images")
    panel.join()
    assert code == 0, err
    images = {one.name: one.state for one in read_project(file).images}
    assert images == {"cell-1.png": "done", "cell-2.png": "open", "cell-3.png": "open"}


@pytest.mark.parametrize("command", [("project", "check", "."), ("batch", ".", "--out", "out")])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"labels": ["car"], "colors": {"car": "red"}}, "The colour 'red' of 'car'"),
        ({"labels": []}, "There are no labels"),
        ({"templates": ["no slot"]}, "Unknown template 'no slot'"),
    ],
)
def test_words_that_cannot_be_used_name_the_project(change, call, command, values, message):
    change(**values)
    code, _, err = call(*command)
    assert (code, f"Error: project.yaml: {message}" in err) == (2, True), err
