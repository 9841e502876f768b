"""Folders of small images with regions."""

import shutil

import pytest
import skimage.io

from tests.scenes import label_image, picture


def save(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    skimage.io.imsave(path, pixels, check_contrast=False)
    return path


@pytest.fixture
def images(tmp_path, monkeypatch):
    """The working folder, with two images and their label images."""
    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        save(tmp_path / "images" / f"cell-{number}.png", picture(64, 64, number))
        save(tmp_path / "masks" / f"cell-{number}_mask.png", label_image(number, 64, 64))
    return tmp_path


FAST = ("--labels", "car,dog", "--steps", 1, "--resolution", 64)


@pytest.fixture
def project(images, fine):
    """The same as a project."""
    fine("project", "new", ".", "--images", "images", "--regions", "masks", *FAST)
    return images


@pytest.fixture
def batch_once(fine, tmp_path_factory):
    """Run a batch in the working folder; later ones of this name copy what the first one wrote."""

    def results(name, out):
        kept = tmp_path_factory.getbasetemp() / name
        if kept.exists():
            shutil.copytree(kept, out)
            return
        fine("batch", ".", "--out", out)
        shutil.copytree(out, kept)

    return results
