"""The commands for libraries, and regions that run and batch add."""

import shutil

import numpy as np
import pytest
from skimage.io import imsave

from napari_maskinversion import Library
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.batch.project import read_project
from tests.library.made import bundle, vectors, write_image
from tests.scenes import demo_model, write_scene

FAST = ("--labels", "car,dog", "--steps", 1, "--resolution", 64)


@pytest.fixture
def place(tmp_path, monkeypatch, fine):
    """A library that a run made, in the working folder."""
    monkeypatch.chdir(tmp_path)
    write_scene(tmp_path, 4)
    run = ("run", "image.png", "masks.png", *FAST, "--format", "npz")
    said = fine(*run, "--out", "out", "--library", "cells")
    assert "Added 4 regions to cells, which has 4 now" in said
    return tmp_path / "cells"


def test_a_run_adds_its_regions_and_words_find_them(place, call):
    library = Library.open(place)
    assert all(library.thumbnail(number) is not None for number in range(1, 5))
    code, out, err = call("library", "search", "cells", "a car, not dog", "--top", 2)
    assert code == 0, err
    answers = library.search("a car", "not dog", top=2, model=demo_model())
    assert all(f"{row.similarity:.3f}" in out for row in answers.itertuples())
    code, out, err = call("library", "similar", "cells", 2, "--unlike", 3, "--image", "im*.png")
    assert (code, out.count("image.png")) == (0, 2), err
    code, out, err = call("library", "info", "cells")
    assert "4 regions (4 undecided) of 1 images" in out
    library.add(bundle(7))  # another model has more regions, but not these words
    code, _, err = call("library", "search", "cells", "a car", "--model", "demo")
    assert (code, err.count("Only space 1 is searched")) == (0, 1), err


def test_a_classifier_is_shown_with_its_accuracy_and_with_what_looks_wrong(tmp_path, call):
    library = Library.new(tmp_path / "cells")
    width, kinds = demo_model().embed_dim, vectors(2, 50, demo_model().embed_dim)
    for seed in range(12):
        rows = 2 * kinds[[0, 0, 1, 1]] + 0.5 * vectors(4, seed, width)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        about = {"fingerprint": demo_model().fingerprint, "decisions": ("accepted",) * 4}
        one = bundle(4, seed, rows=rows.astype(np.float32), **about)
        words = ["dog", "dog", "cat", "cat"]
        one.columns["accepted_label"][:] = words if seed else words[::-1]
        library.add(one, image=write_image(tmp_path, seed))
    code, out, err = call("library", "train", tmp_path / "cells", "--out", tmp_path / "pets")
    assert (code, out.count("looks like")) == (0, 4), err
    assert "Right on images that were held out: 92 % of 48 regions (95 %: " in err
    assert "- image-0.png 1 (cat, looks like dog)" in out


def test_the_library_is_exported_and_smaller_where_regions_go(place, call, fine, refused):
    assert "Wrote 4 regions in all.parquet" in fine("library", "export", "cells", "all.parquet")
    assert "Name what to remove" in refused("library", "remove", "cells")
    assert "Removed 1 regions" in fine("library", "remove", "cells", "--region", 2)
    assert "Dropped 1 vectors" in fine("library", "compact", "cells")
    assert "Added 4 regions" in fine("library", "add", "cells", "all.parquet")
    assert "Added 4 regions" in fine("library", "add", "cells", "out")
    assert len(Library.open(place).rows()) == 4
    assert call("library", "verify", "cells")[0] == 0
    (place.parent / "image.png").unlink()
    code, out, _ = call("library", "verify", "cells")
    assert (code, "the image is gone" in out) == (1, True)


def test_bad_folders_files_and_models_are_refused_in_a_line(place, call, refused):
    assert "holds no library" in refused("library", "info", ".")
    run = ("run", "image.png", "masks.png", *FAST, "--out", "new", "--library", "out")
    assert "holds no library" in refused(*run)  # before any work
    for out in ("fresh", "fresh/results"):
        run = ("run", "image.png", "masks.png", *FAST, "--out", out, "--library", "fresh")
        assert "would be in the library" in refused(*run)
    assert not (place.parent / "fresh").exists()
    (place.parent / "other.npz").write_bytes(b"x")
    code, _, err = call("library", "add", "cells", "other.npz", "out")
    assert code == 2
    assert "other.npz holds no results" in err
    assert "1 of 2 files could not be added" in err
    Library.new(place.parent / "more").add(bundle())
    assert "no such embeddings of the model demo" in refused(
        "library", "search", "more", "x", "--model", "demo"
    )


def test_a_batch_adds_to_the_library_of_its_project(tmp_path, monkeypatch, fine, refused):
    monkeypatch.chdir(tmp_path)
    write_scene(tmp_path, 2)
    files = ("--images", "image.png", "--regions", "masks.png")
    said = refused("project", "new", ".", *files, *FAST, "--library", "image.png")
    assert "image.png" in said
    assert not (tmp_path / "project.yaml").exists()
    fine("project", "new", ".", *files, *FAST, "--library", "cells")
    assert "Added 2 regions to cells, which has 2 now" in fine("batch", ".", "--out", "out")
    library = Library.open(tmp_path / "cells")
    assert library.rows()["image"].tolist() == [(tmp_path / "image.png").as_posix()] * 2
    library.remove(ids=[1])
    said = fine("batch", ".", "--out", "out")
    assert "Added 0 regions to cells, which has 1 now" in said
    assert "Not added: 1 image, kept" in said
    assert "'library add cells out' adds all" in said
    assert library.rows()["id"].tolist() == [2]
    Library.new(tmp_path / "other")
    assert "Added 2 regions" in fine("library", "add", "other", "out")
    # Another library from now on.
    said = fine("project", "add", ".", "--library", "third")
    assert "is added to the library third" in said
    assert read_project(tmp_path / "project.yaml").library == "third"
    fine("batch", ".", "--out", "again")
    assert Library.open(tmp_path / "third").info()["regions"] == 2


def test_an_image_without_regions_leaves_the_library(tmp_path, monkeypatch, fine):
    monkeypatch.chdir(tmp_path)
    write_scene(tmp_path, 2)
    for name in ("a", "b"):
        shutil.copy("image.png", f"{name}.png")
        shutil.copy("masks.png", f"{name}_mask.png")
    files = ("--images", "[ab].png", "--regions", "{name}_mask.png", *FAST, "--library", "cells")
    fine("batch", *files, "--out", "out")
    imsave("a_mask.png", np.zeros((60, 80), np.uint8), check_contrast=False)
    said = fine("batch", *files, "--out", "again")
    assert "a.png has no regions any more: 2 removed from the library" in said
    rows = Library.open(tmp_path / "cells").rows()
    assert set(rows["image"]) == {(tmp_path / "b.png").as_posix()}


def test_results_are_said_and_the_rest_is_done_if_the_library_fails(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    write_scene(tmp_path, 2)
    (tmp_path / "image.png").rename(tmp_path / "a.png")
    (tmp_path / "masks.png").rename(tmp_path / "a_mask.png")
    for name in ("a", "a_mask"):
        shutil.copy(f"{name}.png", f"{name.replace('a', 'b', 1)}.png")
    add = Library.add

    def fails_for_a(library, source, *, image, **more):
        if image.name == "a.png":
            raise InputError("The disk is full.")
        return add(library, source, image=image, **more)

    monkeypatch.setattr(Library, "add", fails_for_a)
    files = ("--images", "[ab].png", "--regions", "{name}_mask.png")
    batch = ("batch", *files, *FAST, "--out", "out", "--library", "cells")
    code, out, err = call(*batch)
    assert code == 1, err
    assert "a.png was not added to the library: The disk is full." in out + err
    assert "Wrote 2 images in out" in out + err
    assert "Added 2 regions to cells" in out + err
    code, out, err = call("run", "a.png", "a_mask.png", *FAST, "--out", "run", "--library", "cells")
    assert (code, "Wrote" in out + err, "The disk is full" in err) == (2, True, True)
