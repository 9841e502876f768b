"""The command line's ``segment``: files in, a label image and a table out."""

import re

import numpy as np
import pytest
import tifffile
from PIL import Image

from napari_maskinversion.regions.region_reading import read_regions
from tests.regions.sam.tiny import save_tiny

from .conftest import ok, refusal

SHAPE = (60, 90)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("sam") / "sam_tiny.pth")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An image and boxes.csv in the working folder."""
    noise = np.random.default_rng(2).integers(0, 255, (*SHAPE, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "photo.png")
    (tmp_path / "boxes.csv").write_text("y0,x0,y1,x1\n5,5,25,30\n30,40,55,80\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def segment(folder, checkpoint, call):
    """Run the command; return its exit code, standard output and standard error."""

    def run(*arguments, model=checkpoint):
        chosen = () if model is None else ("--checkpoint", model, "--device", "cpu")
        return call("segment", "photo.png", *arguments, *chosen)

    return run


def labels(path="regions.tif"):
    return read_regions(path, SHAPE)


def test_boxes_become_a_label_image_that_run_takes(segment):
    code, out, err = segment("--boxes", "boxes.csv")
    assert code == 0, err
    assert "2 objects" in out
    assert out.count("box") == 2
    assert "Wrote" in err
    regions = labels()
    assert set(regions.ids) <= {1, 2}
    assert len(regions)


def test_boxes_that_the_image_cuts_are_said(segment, folder):
    height, width = SHAPE
    rows = [f"0,0,{height},{width}", f"5,5,{height + 2},20", "-3,5,9,20"]
    (folder / "boxes.csv").write_text("y0,x0,y1,x1\n" + "\n".join(rows))
    err = ok(segment("--boxes", "boxes.csv", model=None))
    assert "Cut at the edge of the image: boxes.csv, line 3, boxes.csv, line 4" in err


def test_the_table_tells_the_scores_and_the_candidate_chosen_is_written(segment):
    areas = {}
    for candidate in (1, 4):
        code, out, _ = segment(
            "--boxes", "boxes.csv", "--candidate", candidate, "--out", f"{candidate}.tif"
        )
        assert code == 0
        areas[candidate] = tifffile.imread(f"{candidate}.tif")
        row = next(line for line in out.splitlines() if "box" in line)
        cells = [cell.strip() for cell in row.strip("│┃ ").split("│")]
        own, others = float(cells[2]), [float(value) for value in cells[3].split(",")]
        assert len(others) == 3
        assert own == (max if candidate == 1 else min)(own, *others)
    assert not np.array_equal(areas[1], areas[4])


def test_points_positive_and_negative_and_of_one_object(segment, folder):
    (folder / "points.csv").write_text(
        "y,x,label,object\n10,10,positive,\n12,12,negative,\n50,20,1,7\n55,25,1,7\n52,80,0,7\n"
    )
    code, out, err = segment("--boxes", "boxes.csv", "--points", "points.csv")
    assert code == 0, err
    assert "box, 1 point, 1 negative point" in out
    assert "2 points, 1 negative point" in out
    assert set(labels().ids) <= {1, 2, 7}


def test_layers_that_napari_saved_are_read(segment, folder):
    (folder / "shapes.csv").write_text(
        "index,shape-type,vertex-index,axis-0,axis-1\n"
        "0,rectangle,0,5,5\n0,rectangle,1,5,30\n0,rectangle,2,25,30\n0,rectangle,3,25,5\n"
    )
    (folder / "dots.csv").write_text(
        "index,axis-0,axis-1,label\n0,10,10,negative\n1,50,70,positive\n"
    )
    code, out, err = segment("--boxes", "shapes.csv", "--points", "dots.csv")
    assert code == 0, err
    assert "box, 1 negative point" in out
    assert "│ 1 point" in out


def test_without_a_checkpoint_the_boxes_are_the_regions_and_it_says_so(segment):
    assert "each box is a region" in ok(segment("--boxes", "boxes.csv", model=None))
    assert [region.bbox for region in labels()] == [(5, 5, 25, 30), (30, 40, 55, 80)]


@pytest.mark.parametrize("kind", ["image", "boxes", "points", "checkpoint"])
@pytest.mark.parametrize("way", ["itself", "a link"])
def test_an_input_is_never_replaced(segment, folder, checkpoint, kind, way):
    picture, mine = folder / "photo.png", folder / "mine.tif"
    texts = {"boxes": "y0,x0,y1,x1\n5,5,25,30\n", "points": "y,x\n10,10\n"}
    for name, text in texts.items():
        (folder / f"{name}.csv").write_text(text)
    files = {name: f"{name}.csv" for name in texts} | {"checkpoint": checkpoint}
    if kind == "image":
        tifffile.imwrite(mine, np.asarray(Image.open(picture)))
        picture.unlink()
        picture.symlink_to(mine)
    else:
        mine.write_bytes((folder / files[kind]).read_bytes())
        files[kind] = "mine.tif"
    out = mine
    if way == "a link":
        out = folder / "other.tif"
        out.hardlink_to(mine)
    before = mine.read_bytes()
    marks = ("--boxes", files["boxes"], "--points", files["points"])
    err = refusal(segment(*marks, "--out", out, "--overwrite", model=files["checkpoint"]))
    assert "which is an input" in err
    assert mine.read_bytes() == out.read_bytes() == before


def test_everything_in_the_image(segment):
    code, out, err = segment(
        "--automatic", "--points-per-side", 4, "--min-score", 0, "--min-stability", 0
    )
    assert code == 0, err
    assert "the image" in out
    assert labels().ids[0] == 1
    assert "--min-score" in refusal(segment("--automatic", "--points-per-side", 2, "--overwrite"))


def test_of_masks_that_overlap_more_than_is_said_the_better_one_stays(segment):
    limits = ("--automatic", "--points-per-side", 3, "--min-score", 0, "--min-stability", 0)
    counts = {}
    for overlap in (0.2, 1):
        code, out, err = segment(*limits, "--max-overlap", overlap, "--overwrite")
        assert code == 0, err
        counts[overlap] = int(out.split(" object")[0].split()[-1])
    assert 0 < counts[0.2] < counts[1]


def test_models_lists_and_fetches_checkpoints_too(call, hub, checkpoint, monkeypatch):
    content = checkpoint.read_bytes()
    spec = hub.publish_sam(content, monkeypatch)

    def row():
        return next(line for line in call("models", "list")[1].splitlines() if "vit_b" in line)

    assert "to fetch" in row()
    code, out, err = call("models", "fetch", "vit_b")
    assert code == 0
    assert "Fetching sam_vit_b_01ec64.pth" in err
    assert f"vit_b is at {spec.path}" in out.replace("\n", "")
    assert spec.path.read_bytes() == content
    assert "on disk" in row()


def test_masks_are_cleaned(segment):
    segment("--boxes", "boxes.csv", "--erode", 3, model=None)
    assert [region.bbox for region in labels()] == [(8, 8, 22, 27), (33, 43, 52, 77)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("y0,x0,y1,x1\n5,5,9,9\n70,5,80,9\n", "boxes.csv, line 3.*outside the image of 60 rows"),
        ("y0,x0,y1,x1\n5,5,5,9\n", "boxes.csv, line 2: the box has no area"),
        ("y0,x0,y1,x1\n5,5,x,9\n", "boxes.csv, line 2: y1 is 'x'"),
        ("y0,x0,y1,x1,object\n5,5,9,9,1.5\n", "line 2: object is '1.5'"),
        ("a,b\n1,2\n", "boxes.csv has the columns a, b; it needs y0, x0, y1, x1"),
        ("y0,x0,y1,x1\n", "no rows"),
        ("", "no rows"),
    ],
)
def test_boxes_that_cannot_be_used_are_named_by_file_and_line(segment, folder, text, words):
    (folder / "boxes.csv").write_text(text)
    err = refusal(segment("--boxes", "boxes.csv"))
    assert re.search(words, err), err
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert not (folder / "regions.tif").exists()


def test_points_only_negative_are_refused(segment, folder):
    (folder / "points.csv").write_text("y,x,label\n5,5,negative\n")
    assert "only negative points (points.csv, line 2" in refusal(segment("--points", "points.csv"))
    (folder / "points.csv").write_text("y,x,label\n5,5,maybe\n")
    assert "line 2: label is 'maybe'" in segment("--points", "points.csv")[2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--boxes FILE or --points FILE"),
        (("--automatic", "--boxes", "boxes.csv"), "leave --boxes and --points out"),
        (("--boxes", "boxes.csv", "--out", "regions.png"), r".tif"),
        (("--boxes", "nothing.csv"), "no table of marks at nothing.csv"),
        (("--boxes", "boxes.csv", "--erode", "99"), "No object has any pixels left"),
    ],
)
def test_what_cannot_work_is_one_line(segment, folder, arguments, words):
    assert words in refusal(segment(*arguments))
    assert not list(folder.glob("regions*"))


def test_a_checkpoint_that_cannot_be_used_is_one_line(segment, folder):
    assert "vit_b, vit_l, vit_h" in refusal(segment("--boxes", "boxes.csv", model="sam_vit_x.pth"))
    (folder / "sam.pth").write_bytes(b"not a checkpoint")
    assert "sam.pth" in refusal(segment("--boxes", "boxes.csv", model="sam.pth"))
    err = segment("--automatic", model=None)[2]
    assert "--checkpoint" in err


def test_a_published_checkpoint_is_fetched_by_name_once(segment, hub, checkpoint, monkeypatch):
    hub.publish_sam(checkpoint.read_bytes(), monkeypatch)
    assert "Fetching sam_vit_b_01ec64.pth" in ok(segment("--boxes", "boxes.csv", model="vit_b"))
    err = segment("--boxes", "boxes.csv", "--overwrite", model="vit_b")[2]
    assert "Fetching" not in err
    assert len(hub.gets()) == 1
