"""``bench folder`` and the shared sets: readers, figures, records that go on, and bad input."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from napari_maskinversion import InversionConfig, region_embedder
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.bench.datasets.coco_dataset import readable
from napari_maskinversion.bench.datasets.dataset import BadRecordError, Sample, windowed
from napari_maskinversion.bench.datasets.label_image_dataset import ImageFolder
from napari_maskinversion.bench.datasets.registry import DATASETS
from napari_maskinversion.bench.datasets.scene_dataset import RealDomains
from napari_maskinversion.bench.measures import entries
from napari_maskinversion.bench.measures.entries import changed
from napari_maskinversion.bench.measures.measuring import Measuring, MeasuringPlan, open_records
from napari_maskinversion.bench.measures.statistics import figures
from napari_maskinversion.cli.bench import data_sets
from napari_maskinversion.demo_model.domains import files_of
from napari_maskinversion.engine.explain.registry import MAPS
from napari_maskinversion.engine.methods.registry import METHODS
from tests.scenes import demo_model

from .conftest import Bench, Measured
from .sets import CLASSES, changed_panoptic, folder_call, ok, one_line, panoptic, panoptic_set

# As in the paper's tables: VOC, Context, COCO, OpenImagesV7.
PAPER = """CLIP [CLS] | ViT-B/16 | 40.1 | 17.8 | 25.0 | 28.9
Crop | ViT-B/16 | 27.9 | 5.6 | 23.9 | 0.8
Masked Crop (full image) | ViT-B/16 | 75.0 | 40.4 | 38.2 | 33.8
RedCircle | ViT-B/16 | 47.5 | 21.3 | 28.8 | 40.5
AlphaCLIP | ViT-B/16 | 52.6 | 27.7 | 30.9 | 43.0
FGVP | ViT-B/16 | 71.8 | 32.6 | 35.9 | 39.4
RIS | ViT-B/16 | 78.0 | 38.1 | 43.6 | 34.5
MaskCLIP | ViT-B/16 | 74.9 | 43.0 | 40.2 | 45.6
CLIPSurgery | ViT-B/16 | 70.8 | 53.5 | 41.7 | 49.5
SCLIP | ViT-B/16 | 64.3 | 43.0 | 33.4 | 45.5
MaskInversion | ViT-B/32 | 79.5 | 46.7 | 38.0 | 42.6
MaskInversion | ViT-B/16 | 85.4 | 58.1 | 44.7 | 46.3
MaskInversion | ViT-L/14 | 91.0 | 59.0 | 56.0 | 48.7
MaskInversion | ViT-H/14 | 93.5 | 61.8 | 63.7 | 51.2
MaskInversion, Acc@5 | ViT-B/16 | 96.4 | 83.7 | 71.6 | 80.4
MaskInversion, Acc@10 | ViT-B/16 | 98.8 | 90.5 | 83.0 | 87.9"""
QUICK = InversionConfig(steps=1)


@pytest.fixture
def bench(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Call ``bench`` with a model that is loaded once."""
    monkeypatch.setattr(data_sets, "load", lambda *_: demo_model())
    return bench


# -- readers ----------------------------------------------------------------------------------


def test_connected_parts_of_a_class_map_are_regions(own: Path) -> None:
    dataset = ImageFolder(own / "images", own / "masks", own / "names.txt")
    assert dataset.classes == CLASSES
    assert dataset.keys() == ["p0", "p1", "p2"]
    sample = dataset.read("p1")
    assert [CLASSES[label] for label in sample.labels] == ["apple", "car", "fish", "apple"]
    assert [region.area for region in sample.regions] == [400, 500, 500, 300]
    assert sample.image.shape == (60, 80, 3)


def test_a_table_names_each_region(own: Path) -> None:
    rows = ["image,region,name", "p0.jpg,2,bus", "p0,3,key", "p1,1,bus"]
    (own / "names.csv").write_text("\n".join(rows))
    dataset = ImageFolder(own / "images", own / "masks", own / "names.csv")
    assert dataset.classes == ("bus", "key")
    sample = dataset.read("p0")
    assert sample.regions.ids == [2, 3]
    assert sample.labels.tolist() == [0, 1]
    assert dataset.read("p1").regions[0].area == 700  # both parts of value 1


def test_coco_panoptic_is_read_by_colour(tmp_path: Path) -> None:
    dataset = panoptic_set(panoptic(tmp_path))
    assert dataset.classes == ("car", "bottle", "wall")
    first, second = dataset.read("i1"), dataset.read("i2")
    assert first.labels.tolist() == [2, 0, 1]
    assert [region.area for region in first.regions] == [40 * 50 - 225 - 266, 225, 266]
    assert second.labels.tolist() == [2, 0]  # without the crowd
    assert readable("wall-brick") == "brick wall"
    assert readable("tree-merged") == "tree"


def test_the_shared_sets_are_read(real_images: Path) -> None:
    coco = panoptic_set(real_images)
    assert len(coco.keys()) == 33
    assert len(coco.classes) == 133
    for kind, most in (("aerial", 8), ("blood", 3), ("nuclei", 3)):
        dataset = RealDomains(real_images, "", DATASETS[kind], per_class=most)
        sample = dataset.read(dataset.keys()[0])
        assert np.bincount(sample.labels).max() <= most
        assert sample.labels.max() < len(dataset.classes)
        again = RealDomains(real_images, "", DATASETS[kind], per_class=most).read(dataset.keys()[0])
        assert again.regions.ids == sample.regions.ids
    # What is measured was not trained on.
    trained = {file.stem for file in files_of(real_images, "train", "aerial")}
    assert trained
    assert not trained & set(DATASETS["aerial"].open(real_images).keys())


def test_a_window_holds_its_region_whole() -> None:
    image = np.arange(60 * 80 * 3, dtype=np.uint8).reshape(60, 80, 3)
    wide = np.zeros((60, 80), bool)
    wide[20:24, 2:78] = True
    masks = np.stack([wide, np.pad(np.ones((6, 6), bool), ((50, 4), (70, 4)))])
    sample = Sample(image, Regions.from_masks(masks), np.array([1, 0]))
    for context in (1.0, 2.0):
        views = list(windowed(sample, context))
        assert [view.labels.tolist() for view in views] == [[1], [0]]
        for view, mask in zip(views, masks, strict=True):
            assert view.image.shape[:2] == view.regions.shape
            np.testing.assert_array_equal(view.image[view.regions.full_mask(0)], image[mask])
    assert views[1].regions.shape == (32, 32)


# -- masks ------------------------------------------------------------------------------------


def test_masks_are_redrawn_by_a_tenth_of_their_diameter() -> None:
    y, x = np.mgrid[:100, :100]
    disc = (y - 50) ** 2 + (x - 50) ** 2 <= 30**2
    thin = np.zeros((100, 100), bool)
    thin[3, 5:25] = True
    regions = Regions.from_masks(np.stack([disc, thin]), ids=[4, 9])
    areas = {}
    for how in ("mask", "eroded", "dilated", "box"):
        redrawn = changed(regions, how)
        assert redrawn.ids == [4, 9]
        areas[how] = [region.area for region in redrawn]
    assert areas["mask"] == [disc.sum(), 20]
    assert areas["eroded"][0] == pytest.approx(np.pi * 24**2, rel=0.03)
    assert areas["dilated"][0] == pytest.approx(np.pi * 36**2, rel=0.03)
    assert areas["box"] == [61 * 61, 20]
    assert areas["eroded"][1] == 20  # nothing would be left of a line
    assert areas["dilated"][1] > 20
    full = changed(Regions.from_masks(np.ones((1, 9, 9), bool)), "dilated")
    assert full[0].bbox == (0, 0, 9, 9)


# -- figures ----------------------------------------------------------------------------------


def test_figures_are_what_the_records_say() -> None:
    records = [
        ("a", {"labels": [0, 0, 1], "ranks": [0, 3, 0], "seconds": 0.3, "iou": [0.5, 0.1, 0.9]}),
        ("b", {"labels": [0], "ranks": [7], "seconds": 0.5, "iou": [0.1]}),
    ]
    summary = figures(records, 9)
    assert summary["acc1"]["value"] == 0.5
    assert summary["acc5"]["value"] == 0.75
    assert "acc10" not in summary  # among nine names everything is
    assert summary["macro"]["value"] == pytest.approx((1 / 3 + 1) / 2)
    assert summary["iou"]["value"] == pytest.approx(0.4)
    assert summary["seconds"] == pytest.approx(0.2)
    assert (summary["images"], summary["regions"]) == (2, 4)
    assert "expressions" not in summary
    asked = [[[0, 100, 100, 0, 100, 100]], [[1, 0, 300, 1, 0, 300]]]
    rows = zip(records, asked, strict=True)
    summary = figures([(name, {**one, "mask": words}) for (name, one), words in rows], 20)
    assert summary["expressions"]["acc1"]["value"] == 0.5
    assert summary["expressions"]["miou"]["value"] == 0.5
    assert summary["expressions"]["oiou"]["value"] == 0.25


def measured_on(data: ImageFolder, methods: str) -> dict[Any, dict[str, Any]]:
    plan = MeasuringPlan(models=("demo",), entries=tuple(entries.methods(methods, QUICK)))
    job = Measuring(data, plan, open_records(None, "folder", plan, data), lambda _: demo_model())
    job.run()
    return job.store.records


def test_a_record_holds_what_the_embeddings_say(own: Path) -> None:
    data = ImageFolder(own / "images", own / "masks", own / "names.txt")
    records = measured_on(data, "crop,maskinversion")
    sample = data.read("p1")
    masks = np.stack([sample.regions.full_mask(i) for i in range(4)])
    texts = demo_model().encode_text([f"a photo of a {name}" for name in CLASSES])
    for method in ("crop", "maskinversion"):
        embedder = region_embedder(method, demo_model(), inversion=QUICK)
        embedder.set_image(sample.image)
        unit = embedder.embed(masks)
        order = (-(unit @ texts.T)).argsort(1)
        ranks = [int(np.flatnonzero(o == n)[0]) for o, n in zip(order, sample.labels, strict=True)]
        record = records["demo", method, "p1"]
        assert record["ranks"] == ranks
        assert ("iou" in record) == (method == "maskinversion")
        # Two apples: only the car and the fish can be asked for by name.
        chosen = [int((unit @ texts[n]).argmax()) for n in (1, 2)]
        for answer, place, true in zip(record["mask"], chosen, (1, 2), strict=True):
            both = (masks[place] & masks[true]).sum()
            either = (masks[place] | masks[true]).sum()
            assert (answer[0] == 0) == (place == true)
            assert answer[1:3] == [both, either]


def test_regions_that_a_method_cannot_tell_apart_are_not_found_by_words(own: Path) -> None:
    """The whole image's embedding is that of each region: their order must not choose."""
    data = ImageFolder(own / "images", own / "masks", own / "names.txt")
    records = measured_on(data, "cls,crop")
    sizes = [region.area for region in data.read("p0").regions]
    answers = records["demo", "cls", "p0"]["mask"]
    for place, (rank, both, either, *_) in zip(range(3), answers, strict=True):
        others = [size for other, size in enumerate(sizes) if other != place]
        assert (rank, both, either) == (2, 0, sizes[place] + max(others))
    # One that tells them apart chooses.
    assert any(row[0] == 0 for row in records["demo", "crop", "p0"]["mask"])


# -- the commands -----------------------------------------------------------------------------


def test_own_images_are_tabled_drawn_and_kept(bench: Bench, own: Path, tmp_path: Path) -> None:
    file, page = tmp_path / "out" / "mine.json", tmp_path / "page.md"
    call = folder_call(own, "--json", file, "--markdown", page, "--plots", tmp_path / "plots")
    out = ok(bench(*call))
    for spec in METHODS.values():
        assert f"| {spec.title} |" in out
    figures_page = json.loads(file.read_text("utf-8"))
    assert set(figures_page["parts"]) == {f"demo: {name}" for name in METHODS}
    assert "| AlphaCLIP | needs weights (--method-weights FILE) |" in out
    part = figures_page["parts"]["demo: crop"]
    assert part["acc1"]["low"] <= part["acc1"]["value"] <= part["acc1"]["high"]
    assert figures_page["regions"] == 11
    assert figures_page["settings"]["fingerprints"] == {"demo": demo_model().fingerprint}
    assert "regions found by words" in out
    assert "guessing | 33.3" in out
    assert out.strip() in page.read_text("utf-8")
    drawn = {p.name: p.read_text("utf-8") for p in (tmp_path / "plots").iterdir()}
    assert set(drawn) == {"folder-light.svg", "folder-dark.svg"}
    assert bench("show", file)[1] == out


def test_everything_the_paper_reports_stands_beside(bench: Bench, tmp_path: Path) -> None:
    root = panoptic(tmp_path / "coco-panoptic")
    out = ok(bench("coco-panoptic", "--data", root, "--methods", "cls,crop", "--steps", 1))
    lines = out.splitlines()
    head = next(line for line in lines if line.startswith("| %, model demo"))
    assert head.endswith("| the paper: COCO, 80 classes, ViT-B/16 |")
    for title, figure in (("CLIP [CLS]", "25.0"), ("Crop", "23.9")):
        row = next(line for line in lines if line.startswith(f"| {title} |"))
        assert row.endswith(f"| {figure} |")
    for row in PAPER.split("\n"):
        assert f"| {row} |" in out
    for figure in ("57.2", "93.3", "98.3", "56.1", "56.8", "44.5", "58.3", "59.0", "46.5"):
        assert figure in out


@pytest.mark.parametrize("kind", ["maps", "masks", "methods"])
def test_methods_maps_and_masks_are_measured_on_scenes(
    bench: Bench, tmp_path: Path, kind: str
) -> None:
    file = tmp_path / "out.json"
    options = ["--methods", "cls,fgvp"] if kind == "methods" else []
    out = ok(bench(kind, *options, "--scenes", 2, "--steps", 1, "--json", file))
    keys = [part["key"] for part in json.loads(file.read_text("utf-8"))["parts"].values()]
    if kind == "masks":
        assert keys == [f"maskinversion/{how}" for how in ("mask", "eroded", "dilated", "box")]
        assert "| the paper, ViT-B/16, Acc@1, %, by mask: COCO, 80 classes | mask |" in out
        assert "| MaskInversion | 44.7 | 42.7 | 44.3 | 42.9 | 45.0 |" in out
    elif kind == "methods":
        assert keys == ["cls", "fgvp"]
        assert "the paper" not in out  # it has no drawings
    else:
        assert keys[:2] == ["legrad", "legrad-2"]
        assert "legrad-4" in keys
        assert "| the paper, ViT-B/16, Acc@1, %, by map: VOC, 19 classes | legrad |" in out
        assert "| MaskInversion | 85.4 | 34.6 | 47.6 | 12.6 |" in out
        assert set(keys) >= set(MAPS)


def test_a_stopped_measurement_goes_on(
    bench: Bench, own: Path, tmp_path: Path, measured: Measured
) -> None:
    file, records = tmp_path / "mine.json", tmp_path / "mine.records.jsonl"
    call = folder_call(own, "--methods", "crop,cls", "--json", file)
    measured.stop(4)
    code, _, err = bench(*call)
    assert code == 130
    assert "3 finished parts" in err
    lines = records.read_text("utf-8").splitlines()
    assert len(lines) == 4
    records.write_text("\n".join(lines)[:-5])  # the last line is torn, as by a power cut
    measured.stop(0)
    ok(bench(*call))
    assert len(measured) == 4

    def kept() -> dict[str, Any]:
        parts = json.loads(file.read_text("utf-8"))["parts"]
        return {name: part["acc1"] for name, part in parts.items()}

    before = kept()
    measured.clear()
    assert bench(*call)[0] == 0
    assert measured == []
    # Another method is added to what is there; other settings are not.
    assert bench(*folder_call(own, "--methods", "crop,cls,sclip", "--json", file))[0] == 0
    assert {one.split()[1] for one in measured} == {"sclip"}
    assert kept().items() > before.items()
    one_line(bench(*call, "--alpha", 2), "another inversion", "--overwrite")
    assert bench(*call, "--alpha", 2, "--overwrite")[0] == 0


# -- bad input --------------------------------------------------------------------------------


def test_a_wrong_root_is_named(bench: Bench, own: Path, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    one_line(bench("coco-panoptic", "--data", gone), str(gone))
    one_line(bench("coco-panoptic", "--data", own), str(own), "panoptic.json")
    one_line(bench("blood", "--data", own), str(own), "bccd/images")
    call = folder_call(own)
    call[call.index("--masks") + 1] = gone
    one_line(bench(*call), str(gone), "--masks")
    shutil.copytree(own / "images", tmp_path / "other", dirs_exist_ok=True)
    for file in (tmp_path / "other").iterdir():
        file.rename(file.with_name(f"x{file.name}"))
    call[call.index("--masks") + 1] = own / "masks"
    call[call.index("--images") + 1] = tmp_path / "other"
    one_line(bench(*call), "xp0.png")


def spoil(own: Path, how: str) -> None:
    """Make the middle image unusable."""
    mask, image = own / "masks" / "p1.png", own / "images" / "p1.jpg"
    if how == "no annotation":
        mask.unlink()
    elif how == "mask outside":
        Image.fromarray(np.ones((90, 80), np.uint8)).save(mask)
    elif how == "broken PNG":
        mask.write_bytes(mask.read_bytes()[:60])
    elif how == "broken image":
        image.write_bytes(image.read_bytes()[:100])
    elif how == "no region":
        Image.fromarray(np.zeros((60, 80), np.uint8)).save(mask)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("no annotation", "has no annotation"),
        ("mask outside", "90 x 80 px and reach outside the image"),
        ("broken PNG", "p1.png is broken"),
        ("broken image", "p1.jpg is broken"),
        ("no region", "no region"),
    ],
)
def test_a_bad_record_is_named_and_can_be_skipped(
    bench: Bench, own: Path, tmp_path: Path, how: str, says: str
) -> None:
    spoil(own, how)
    file = tmp_path / "mine.json"
    call = folder_call(own, "--methods", "cls", "--json", file)
    one_line(bench(*call), "p1: ", says, "--skip-bad")
    assert len((tmp_path / "mine.records.jsonl").read_text("utf-8").splitlines()) == 2  # p0 is kept
    code, out, err = bench(*call, "--skip-bad")
    assert code == 0, err
    assert says in err
    assert "- p1: " in out
    page = json.loads(file.read_text("utf-8"))
    assert list(page["skipped"]) == ["p1"]
    assert page["images"] == 2


def test_a_set_without_one_usable_image_is_refused(bench: Bench, own: Path) -> None:
    for file in (own / "masks").iterdir():
        file.write_bytes(b"no image")
    one_line_err = bench(*folder_call(own, "--methods", "cls", "--skip-bad"))
    assert one_line_err[0] == 2
    assert "No image of folder can be used" in one_line_err[2]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda page: page["annotations"].pop(0), "does not fit the set"),
        (lambda page: page["categories"].pop(1), "does not fit the set .3"),
        (
            lambda page: page["annotations"][0]["segments_info"].append(
                {"id": 9, "category_id": 3}
            ),
            "segment 9 has no pixel",
        ),
        (lambda page: page["images"][0].update(file_name="i9.jpg"), "i9"),
        (
            lambda page: page["annotations"][0].update(file_name="gone.png"),
            "There are no masks at .*gone",
        ),
    ],
)
def test_records_of_coco_panoptic_that_do_not_fit_are_named(
    tmp_path: Path, change: Any, says: str
) -> None:
    changed_panoptic(tmp_path, change)
    with pytest.raises(BadRecordError, match=f"i[19]: .*{says}"):
        panoptic_set(tmp_path).read("i9" if says == "i9" else "i1")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--methods", "crops"), "Did you mean crop"),
        (("--methods", "alphaclip"), "needs weights"),
        (("--methods", ","), "names no method"),
        (("--models", ","), "names no model"),
        (("--steps", "0"), "steps"),
    ],
)
def test_options_that_cannot_work_are_refused_before_the_work(
    bench: Bench, own: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...], says: str
) -> None:
    def too_late(*_: Any) -> Any:
        raise AssertionError("the model was loaded")

    monkeypatch.setattr(data_sets, "load", too_late)
    one_line(bench(*folder_call(own), *more), says)
