"""What a user may open as a project, and what is refused in one line."""

import pytest
import yaml

from napari_maskinversion.app.project.project_files import is_project, new_project, open_place
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.batch.project import Project
from tests.scenes import label_image, picture

from .conftest import save

WORDS = Project(labels=("car", "dog"))


def names(opened):
    return [(one.name, one.regions) for one in opened.project.project.images]


def test_a_project_opens_by_its_file_and_by_its_folder(project):
    for place in (project, project / "project.yaml"):
        opened = open_place([place], WORDS)
        assert list(opened.project.by_name) == ["cell-1.png", "cell-2.png", "cell-3.png"]
        assert opened.note == ""


@pytest.mark.parametrize("masks", ["masks/{}.png", "{}_mask.png", "labels/{}.tif"])
def test_a_folder_becomes_a_project_with_the_regions_that_lie_there(tmp_path, masks):
    for number in (1, 2):
        save(tmp_path / f"c{number}.png", picture(64, 64, number))
        save(tmp_path / masks.format(f"c{number}"), label_image(number, 64, 64))
    opened = open_place([tmp_path], WORDS)
    assert names(opened) == [(f"c{n}.png", masks.format(f"c{n}")) for n in (1, 2)]
    assert opened.project.project.labels == ("car", "dog")
    assert "2 images, 2 with regions" in opened.note
    assert names(open_place([tmp_path], Project())) == names(opened)  # opened again, not made


def test_images_and_masks_beside_one_another(tmp_path):
    save(tmp_path / "images" / "a.png", picture(64, 64, 1))
    save(tmp_path / "masks" / "a.png", label_image(1, 64, 64))
    assert names(open_place([tmp_path], WORDS)) == [("a.png", "masks/a.png")]


def test_some_images_become_a_project_and_more_are_added_to_it(tmp_path):
    files = [save(tmp_path / f"{n}.png", picture(64, 64, n)) for n in (1, 2, 3)]
    assert names(open_place(files[:1], WORDS)) == [("1.png", None)]
    more = open_place(files[1:], WORDS)
    assert [name for name, _ in names(more)] == ["1.png", "2.png", "3.png"]
    assert "2 images added" in more.note


def test_a_new_project_never_replaces_a_file(project, tmp_path):
    with pytest.raises(InputError, match="exists"):
        new_project(project / "project.yaml", project / "images", None, WORDS)
    opened = new_project(project / "other.yaml", project / "images", project / "masks", WORDS)
    assert len(opened.project.by_name) == 3
    assert opened.project.out != open_place([project], WORDS).project.out


def test_what_cannot_be_a_project_is_refused(project, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match="no file|no image"):
        open_place([empty], WORDS)
    text = save(tmp_path / "a.png", picture(64, 64, 1)).with_suffix(".txt")
    text.write_text("hello")
    with pytest.raises(InputError, match="a.txt is not an image"):
        open_place([tmp_path / "a.png", text], WORDS)
    file = project / "project.yaml"
    content = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump({**content, "version": 99}))
    with pytest.raises(InputError, match="newer version"):
        open_place([file], WORDS)
    twice = [dict(content["images"][0]) for _ in range(2)]
    file.write_text(yaml.safe_dump({**content, "images": twice}))
    with pytest.raises(InputError, match="2 images are called cell-1.png"):
        open_place([file], WORDS)


def test_a_project_that_was_moved_without_its_images_says_so(project):
    (project / "images" / "cell-2.png").unlink()
    assert "1 image not there: cell-2.png" in open_place([project], WORDS).note
    (project / "images").rename(project / "elsewhere")
    with pytest.raises(InputError, match="move project and images together"):
        open_place([project], WORDS)


def test_only_files_of_projects_and_folders_are_taken_for_projects(project):
    assert is_project(project)
    assert is_project(project / "project.yaml")
    assert not is_project(project / "masks" / "cell-1.png")


def test_captions_of_a_project_are_left_to_batch(project):
    (project / "captions.txt").write_text("a car\na dog\n")
    file = project / "project.yaml"
    file.write_text(file.read_text() + "captions: captions.txt\n")
    assert "'batch' adds the project's captions" in open_place([project], WORDS).note
