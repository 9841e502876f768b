"""``bench paper``: the paper's tables on tiny copies of its data sets, with the bundled model."""

from __future__ import annotations

import csv
import io
import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch.nn.functional import interpolate

from napari_maskinversion.base.errors import ModelError
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.bench import paper as paper_package
from napari_maskinversion.bench.datasets.dataset import Sample
from napari_maskinversion.bench.datasets.registry import DATASETS
from napari_maskinversion.bench.measures import measuring
from napari_maskinversion.bench.measures.entries import SAM, Entry, changed
from napari_maskinversion.bench.measures.measuring import (
    Captioner,
    Measuring,
    MeasuringPlan,
    open_records,
)
from napari_maskinversion.bench.measures.relations import (
    Phrase,
    by_words,
    class_token_maps,
    map_scores,
)
from napari_maskinversion.bench.measures.statistics import (
    READINGS,
    masks_for_sentences,
    overlaps_of,
    retrieval_figures,
    sentences_for_masks,
)
from napari_maskinversion.bench.paper import paper_running
from napari_maskinversion.bench.paper.choices import choose, inversion_of
from napari_maskinversion.bench.paper.paper_running import TimedPart, time_part
from napari_maskinversion.bench.paper.tables import (
    BACKBONES,
    TABLES,
    Cell,
    Column,
    tables_by_name,
)
from napari_maskinversion.bench.paper.tables import (
    SETS as PAPER_SETS,
)
from napari_maskinversion.bench.reports import paper_report
from napari_maskinversion.bench.reports.plots import LOOKS, draw_table
from napari_maskinversion.cli.bench import paper as command
from napari_maskinversion.cli.run_options import load
from napari_maskinversion.engine.invert.inverter import MaskInverter
from napari_maskinversion.engine.methods.registry import Method
from napari_maskinversion.engine.settings import InversionConfig
from napari_maskinversion.language.generation.decoder import CaptionDecoder
from napari_maskinversion.regions.sam.sam_loading import load_segmenter
from napari_maskinversion.results.settings import RunSettings
from tests.language.generation.checkpoints import write_decap
from tests.regions.sam.tiny import save_tiny
from tests.scenes import demo_model

from ..conftest import Bench, Measured
from ..datasets.archives import SETS
from ..sets import ok, one_line

SMALL = ("--resolution", 32, "--steps", 2, "--no-plots")


@pytest.fixture(scope="session")
def all_sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets")
    for name in PAPER_SETS:
        SETS[name](folder)
    return folder


@pytest.fixture
def paper(bench: Bench, all_sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Call ``bench paper`` on the tiny copies, with a model that is loaded once."""
    monkeypatch.setattr(command, "load", lambda *_: demo_model())
    monkeypatch.chdir(tmp_path)
    return partial(bench, "paper", "--data", all_sets, "--models", "demo", *SMALL)


def cells(out: Path, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((out / f"{name}.csv").read_text("utf-8"))))


# -- the paper's figures ----------------------------------------------------------------------


def test_the_means_that_the_paper_prints_are_those_of_its_figures() -> None:
    for row in TABLES["3"].rows:
        *figures, mean = row.values.values()
        assert np.mean(figures) == pytest.approx(mean, abs=0.11), row


def test_a_figure_that_stands_in_two_tables_is_the_same() -> None:
    shared: dict[tuple[str, str], dict[Column, float]] = {}
    for row in (*TABLES["2"].rows, *TABLES["1"].rows):
        shared.setdefault((row.title, row.backbone), {}).update(row.values)
    compared = 0
    for row in TABLES["3"].rows:
        known = shared.get((row.title, row.backbone), {})
        for column, value in row.values.items():
            if column in known:
                assert known[column] == value, (row.title, row.backbone, column)
                compared += 1
    assert compared == 21


def test_all_tables_have_the_rows_that_the_paper_has() -> None:
    counts = {name: len([r for r in table.rows if r.values]) for name, table in TABLES.items()}
    assert counts == {
        **{"1": 17, "2": 11, "3": 12, "4": 5, "5": 4, "6": 3},
        **{"alpha": 17, "steps": 2, "maps": 4, "resolution": 0, "grid": 0},
    }
    assert tables_by_name("all") == tuple(TABLES.values())
    assert tuple(TABLES) == paper_package.TABLES


# -- sentences and regions --------------------------------------------------------------------


def three_regions(*expressions: tuple[str, int]) -> Sample:
    """Two regions that overlap by half, and one apart."""
    masks = np.zeros((3, 10, 10), bool)
    masks[0, :4], masks[1, 2:6], masks[2, 8:] = True, True, True
    image = np.zeros((10, 10, 3), np.uint8)
    return Sample(image, Regions.from_masks(masks), np.array([0, 1, 2]), expressions)


def test_a_mask_for_a_sentence_is_ranked_among_all_masks() -> None:
    sample = three_regions(("a", 0), ("b", 2))
    scores = np.array([[0.1, 0.9, 0.5], [0.2, 0.1, 0.3]])
    rows = masks_for_sentences(sample, scores, overlaps_of(sample))
    assert rows[0] == [2, 20, 60, 2, 20, 60]  # the third place; the chosen one overlaps by half
    assert rows[1] == [0, 20, 20, 0, 20, 20]
    figures = retrieval_figures([("i", {"mask": rows})], "mask")
    assert figures["acc1"]["value"] == 0.5
    assert figures["acc5"]["value"] == 1
    assert figures["miou"]["value"] == pytest.approx((1 / 3 + 1) / 2)
    assert figures["oiou"]["value"] == pytest.approx(40 / 80)


def test_a_sentence_for_a_mask_is_right_if_it_is_one_of_its_own() -> None:
    sample = three_regions(("a", 0), ("b", 0), ("c", 1))
    scores = np.array([[0.1, 0.2, 0], [0.9, 0.8, 0], [0.5, 0.3, 0]])
    rows = sentences_for_masks(sample, scores, overlaps_of(sample))
    assert len(rows) == 2  # nobody speaks of the third region
    assert rows[0] == [0, 40, 40, 0, 40, 40]
    assert rows[1] == [1, 20, 60, 1, 20, 60]  # b is ahead of c


def test_ties_count_against_the_answer_or_for_the_first() -> None:
    sample = three_regions(("a", 0), ("c", 2))
    rows = masks_for_sentences(sample, np.full((2, 3), 0.5), overlaps_of(sample))
    records = [("i", {"mask": rows})]
    assert retrieval_figures(records, "mask")["acc1"]["value"] == 0
    assert retrieval_figures(records, "mask", "first")["acc1"]["value"] == 0.5
    assert [row[0] for row in rows] == [2, 2]
    assert [row[3] for row in rows] == [0, 2]
    assert rows[0][1:3] == [0, 60]  # the worst of the tied ones
    assert rows[0][4:] == [40, 40]


def test_the_whole_images_embedding_finds_masks_by_chance_only(paper: Bench) -> None:
    shown = {}
    for ties in ("last", "first"):
        ok(paper("--table", 1, "--sets", "refcoco", "--ties", ties))
        rows = [c for c in cells(Path("paper"), "table-1") if c["row"] == "CLIP"]
        shown[ties] = next(
            float(c["ours"])
            for c in rows
            if (c["data"], c["metric"], c["reading"]) == ("refcoco", "acc1", "mask")
        )
    assert "alpha 5 (RefCOCO)." in Path("paper/table-1.md").read_text("utf-8")
    assert shown["last"] == 0
    assert shown["first"] == pytest.approx(100 / 3, abs=0.1)  # one of three sentences: the first


# -- the command ------------------------------------------------------------------------------


def test_a_table_shows_the_papers_figure_beside_ours(paper: Bench) -> None:
    out = ok(paper("--table", "2,3", "--limit", 1))
    assert "| AlphaCLIP | B/16 | needs weights (--method-weights FILE) | 52.6 |" in out
    assert "demo stands in for B/32, B/16, L/14, H/14" in out
    rows = cells(Path("paper"), "table-2")
    assert len(rows) == 11 * 12
    measured = [row for row in rows if row["ours"]]
    assert {row["data"] for row in measured} == {"voc", "context", "coco", "openimages"}
    for row in measured:
        low, ours, high = (float(row[name]) for name in ("low", "ours", "high"))
        assert low <= ours + 1e-9
        assert ours <= high + 1e-9
        assert float(row["difference"]) == pytest.approx(ours - float(row["paper"]), abs=0.01)
    mean = [row for row in cells(Path("paper"), "table-3") if row["data"] == "mean"]
    assert {row["reading"] for row in mean} == {"mask", "sentence"}
    one = next(row for row in mean if (row["row"], row["backbone"]) == ("SCLIP", "B/16"))
    same = [
        float(row["ours"])
        for row in cells(Path("paper"), "table-3")
        if (row["row"], row["backbone"]) == ("SCLIP", "B/16")
        and row["reading"] in ("", one["reading"])
        and row["data"] != "mean"
    ]
    assert len(same) == 7
    assert float(one["ours"]) == pytest.approx(np.mean(same), abs=0.01)


def test_tables_are_of_what_was_measured(paper: Bench, all_sets: Path) -> None:
    """The figures are those of the methods themselves."""
    ok(paper("--table", 2, "--sets", "coco", "--resolution", 64))
    dataset = DATASETS["coco"].open(all_sets)
    model = demo_model()
    texts = model.encode_text([f"a photo of a {name}" for name in dataset.classes])
    right, overlaps = [], []
    for key in list(dataset.keys()):
        sample = dataset.read(key)
        inverter = MaskInverter(model)
        inverter.set_image(sample.image, resolution=64, keep_aspect=False)
        result = inverter.invert(sample.regions, steps=2)
        right += (np.argmax(result.embeddings @ texts.T, 1) == sample.labels).tolist()
        overlaps += result.mask_ious.tolist()
    own = next(
        row
        for row in cells(Path("paper"), "table-2")
        if (row["row"], row["backbone"], row["metric"]) == ("MaskInversion", "B/16", "acc1")
        and row["data"] == "coco"
    )
    assert float(own["ours"]) == pytest.approx(100 * np.mean(right), abs=0.1)
    assert int(own["count"]) == len(right)
    head, *lines = Path("paper/records/coco-val2017.records.jsonl").read_text("utf-8").splitlines()
    assert json.loads(head)["settings"]["pictures_native"]  # crops as large as the model's input
    kept = [one for one in map(json.loads, lines) if one["entry"] == "maskinversion"]
    told = [value for one in kept for value in one["iou"]]
    np.testing.assert_allclose(told, overlaps, atol=2e-4)  # of the same squares
    others = [r for r in cells(Path("paper"), "table-2") if r["data"] == "voc"]
    notes = {row["note"] for row in others if row["row"] != "AlphaCLIP"}
    assert notes == {"not among --sets"}


def test_a_stopped_run_goes_on(paper: Bench, measured: Measured) -> None:
    call = ("--table", 2, "--sets", "voc,coco")
    measured.stop(5)
    code, _, err = paper(*call)
    assert code == 130
    assert "4 finished parts are in paper" in err
    assert "1 of 2 images" in Path("paper/table-2.md").read_text("utf-8")
    measured.stop(0)
    assert paper(*call)[0] == 0
    assert len(measured) == 4 * 7 - 4  # four images, seven methods that can be run
    measured.clear()
    code, out, _ = paper(*call)
    assert code == 0
    assert "Table 2" in out
    assert measured == []
    assert paper("--table", "4", "--sets", "coco")[0] == 0  # shares records of the same rows
    changes = {one.split()[1] for one in measured}
    assert changes == {f"maskinversion/{how}" for how in ("eroded", "dilated", "box")}


def test_the_curves_of_alpha_steps_and_maps(paper: Bench) -> None:
    out = ok(paper("--table", "alpha,steps,maps", "--limit", 1, "--sets", "voc,refcoco"))
    assert len(cells(Path("paper"), "alpha")) == 2 * 17
    assert "alpha as named." in Path("paper/alpha.md").read_text("utf-8")
    assert "alpha 0 (VOC)" in Path("paper/steps.md").read_text("utf-8")
    assert "| step 10 | B/16 |" in out
    assert all(row["ours"] for row in cells(Path("paper"), "steps"))
    assert [row["row"] for row in cells(Path("paper"), "maps") if row["ours"]] == [
        "legrad",
        "gradcam",
        "gradcam-no-relu",
        "chefer",
    ]


def test_every_figure_of_a_table_is_in_its_plot(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Panels without figures of a metric too: RIS has oIoU alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NAPARI_MASKINVERSION_DATA", raising=False)
    figures = []
    draw = lambda name, at, make: figures.append(make(LOOKS["light"]))  # noqa: E731
    monkeypatch.setattr(paper_report, "in_both_looks", draw)
    ok(bench("paper", "--table", 1))
    frames = [frame for frame in figures[0].axes if frame.axison]
    assert len(frames) == 3 * 3 * 2
    names = [label.get_text() for label in frames[0].get_yticklabels()]
    assert all(
        frame.get_yticklabels()[0].get_visible() for frame in frames[::3]
    )  # each row's first
    assert names[:2] == [
        "CPT \N{DOUBLE DAGGER}, RN50x16+B/32",
        "GradCAM \N{DOUBLE DAGGER}, RN50x16+B/32",
    ]
    place = names.index("RIS, B/32")
    at = {
        frame.get_title(): dict(frame.lines[0].get_xydata()[:, ::-1].tolist()).get(place)
        for frame in frames
    }
    assert {title: x for title, x in at.items() if x is not None} == {
        f"{data}, oIoU\n{reading}": x
        for data, x in (("RefCOCO", 42.6), ("RefCOCO+", 37.1))
        for reading in READINGS.values()
    }


def drawn(
    table: str, rows: dict[str, tuple[float | None, tuple[float, float, float] | None]]
) -> Any:
    """The first panel of a plot of rows: the paper's figure, and ours with its interval."""
    made = [
        Cell(
            table=table,
            row=row,
            backbone="B/16",
            model="demo",
            data="voc",
            metric="acc1",
            paper=paper,
            ours=None if ours is None else dict(zip(("value", "low", "high"), ours, strict=True)),
        )
        for row, (paper, ours) in rows.items()
    ]
    return draw_table(TABLES[table], made, LOOKS["light"]).axes[0]


def test_rows_are_drawn_at_their_figures_and_intervals() -> None:
    frame = drawn("maps", {"legrad": (85.4, (80, 70, 95)), "chefer": (12.6, None)})
    paper, ours = (line.get_xydata().tolist() for line in frame.lines)
    assert paper == [[85.4, 0], [12.6, 1]]
    assert ours == [[80, 0]]
    (bars,) = frame.containers[0].lines[2]
    assert [segment.tolist() for segment in bars.get_segments()] == [[[70, 0], [95, 0]]]


def test_points_of_a_curve_are_drawn_at_their_figures_and_intervals() -> None:
    frame = drawn("steps", {"0": (None, (40, 30, 50)), "10": (85.4, (80, 70, 95))})
    paper, ours = (line.get_xydata().tolist() for line in frame.lines)
    assert paper == [[10, 85.4]]
    assert ours == [[0, 40], [10, 80]]
    corners = {tuple(corner) for corner in frame.collections[0].get_paths()[0].vertices.tolist()}
    assert corners == {(0, 30), (0, 50), (10, 70), (10, 95)}


def test_a_plot_explains_only_what_it_shows() -> None:
    part = {"table": "resolution", "backbone": "B/16", "model": "demo", "data": "inversion"}
    ours = {"value": 2.0, "low": 1.0, "high": 3.0}
    resolution = TABLES["resolution"]
    for names, more in (
        (["measured"], {"ours": ours}),
        (["paper"], {"paper": 1.0}),
        (["paper", "measured"], {"ours": ours, "paper": 1.0}),
        ([], {}),
    ):
        cell = Cell(row="224", metric="direct", **part, **more)
        figure = draw_table(resolution, [cell], LOOKS["light"])
        assert [text.get_text() for one in figure.legends for text in one.get_texts()] == names
        assert figure.axes[0].get_title() == "inversion, without decomposition"


def test_sets_that_are_missing_are_words_in_their_rows(paper: Bench, tmp_path: Path) -> None:
    SETS["coco"](tmp_path / "some")
    code, out, err = paper("--table", 2, "--data", tmp_path / "some", "--limit", 1)
    assert code == 0, err
    assert "voc: Pascal VOC 2012 is not in --data." in err
    assert "| MaskInversion | B/16 | Pascal VOC 2012 is not in --data | 85.4 |" in out


# -- what is missing, damaged or stopped ------------------------------------------------------


def test_without_models_or_data_the_tables_show_the_papers_figures(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NAPARI_MASKINVERSION_DATA", raising=False)
    code, out, err = bench("paper", "--table", "1,5", *SMALL)
    assert code == 0, err
    assert "| ReCLIP ‡ | RN50x16+B/32 |" in out
    assert "needs weights: napari-maskinversion models fetch ViT-B-16/openai" in out
    assert "Nothing can be measured: the tables show the paper's figures alone." in err
    assert len(cells(Path("paper"), "table-1")) == 21 * 18
    out = ok(bench("paper", "--table", "2", "--models", "demo", *SMALL))
    assert "| MaskInversion | B/16 | needs the folder of data sets (--data, or" in out
    assert "Nothing is measured. demo stands in for" in out
    code, out, err = bench("paper", "--table", "6", *SMALL)
    assert "| AlphaCLIP | B/32 | no weights of this size are published" in out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--table", "2,6", "--decoder", "demo", "--decoder-file", "bad.safetensors"), "damaged"),
        (("--table", "2,4", "--sam", "bad.pth"), "bad.pth"),
        (("--table", 2, "--method-weights", "other.pt"), "not a checkpoint of AlphaCLIP"),
        (("--table", 2, "--models", "L/14=demo,B/16=other.pt:ViT-B-16"), "other.pt does not fit"),
    ],
)
def test_a_damaged_checkpoint_is_refused_before_anything_is_measured(
    paper: Bench, monkeypatch: pytest.MonkeyPatch, options: tuple[Any, ...], says: str
) -> None:
    for name in ("bad.safetensors", "bad.pth"):
        Path(name).write_bytes(b"no weights" * 100)
    torch.save({"other": torch.zeros(3)}, "other.pt")
    monkeypatch.setattr(
        command, "load", lambda chosen: demo_model() if chosen.model == "demo" else load(chosen)
    )
    monkeypatch.setattr(measuring._OneModel, "measure", lambda *_: pytest.fail("too late"))
    one_line(paper(*options), says)
    assert not Path("paper").exists()


def test_what_fails_on_the_way_is_words_in_its_row_and_the_others_go_on(
    paper: Bench, measured: Measured
) -> None:
    measured.stop(9, ModelError("The crop is too small."))  # seven methods of the first image
    out = ok(paper("--table", 2, "--sets", "coco"))
    assert measured[8] == "000000000002 crop"
    assert "1 of 2 images: 000000000002: The crop is too small. | 23.9 |" in out
    others = [c for c in cells(Path("paper"), "table-2") if c["row"] == "MaskInversion"]
    assert [c["note"] for c in others if (c["data"], c["metric"]) == ("coco", "acc1")] == [""] * 4


def test_after_an_error_the_tables_show_what_is_measured(
    paper: Bench, all_sets: Path, tmp_path: Path
) -> None:
    data = tmp_path / "own"
    shutil.copytree(all_sets, data)
    sorted((data / "coco/val2017").iterdir())[1].write_bytes(b"no image")
    code, out, err = paper("--table", 2, "--sets", "coco,voc", "--data", data)
    assert code == 2
    assert "Not everything was measured: 000000000002: " in err
    assert "1 of 2 images: 000000000002: " in out
    rows = cells(Path("paper"), "table-2")
    assert all(c["ours"] for c in rows if c["data"] == "voc" and c["row"] == "MaskInversion")


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[TimedPart]:
    """What was timed; each part takes a second longer than the one before."""
    parts: list[TimedPart] = []

    def clock(model: Any, part: TimedPart, inversion: InversionConfig) -> dict[str, Any]:
        parts.append(part)
        value = float(len(parts))
        route = "direct" if part.masks == 100 else part.route
        ends = {"value": value, "low": value - 0.1, "high": value + 0.2}
        return {**ends, "encoding": 0.1, "route": route, "side": 32}

    monkeypatch.setattr(paper_running, "time_part", clock)
    return parts


def test_seconds_are_of_this_device_and_these_weights(
    paper: Bench, monkeypatch: pytest.MonkeyPatch, timed: list[TimedPart]
) -> None:
    def table() -> list[str]:
        assert paper("--table", 5)[0] == 0
        return [row["ours"] for row in cells(Path("paper"), "table-5")]

    first, honest = table(), TimedPart.key
    with monkeypatch.context() as patch:
        patch.setattr(TimedPart, "key", lambda *a: honest(*a).replace(" on cpu", " on cuda"))
        assert table() != first
    count = len(timed)
    assert table() == first
    assert len(timed) == count


def test_seconds_are_of_both_routes(paper: Bench, timed: list[TimedPart]) -> None:
    out = ok(paper("--table", "5,resolution"))
    assert "| masks 10 | B/16 | 3.00 (2.90–3.20) | 0.15 | +2.9" in out
    assert "memory allows direct alone" in out
    assert {part.side for part in timed} == {224, 320, 448, 512, 640, 768}
    assert len(timed) == 8 + 12 - 2  # ten masks at 224 px are of both tables


def test_an_inversion_is_timed_by_the_route_that_is_asked_for() -> None:
    for route in get_args(paper_running.Route):
        part = time_part(demo_model(), TimedPart(2, 64, route), InversionConfig(steps=1))
        assert part["route"] == route
        assert 0 < part["low"] <= part["value"] <= part["high"]
        assert part["side"] == 40  # of a model of 128 px, in proportion to 64 of 224


# -- methods, masks and captions --------------------------------------------------------------


def record_of(all_sets: Path, name: str, entry: Entry, **more: Any) -> dict[str, Any]:
    job = {name: more.pop(name) for name in ("captioner", "parser") if name in more}
    data = DATASETS[name].open(all_sets)
    plan = MeasuringPlan(
        models=("demo",), entries=(entry,), resolution=32, keep_aspect=False, limit=1, **more
    )
    store = open_records(None, "paper", plan, data)
    Measuring(data, plan, store, lambda _: demo_model(), **job).run()
    (record,) = store.records.values()
    return record


def test_a_curve_over_steps_is_that_of_separate_inversions(all_sets: Path) -> None:
    config = InversionConfig(steps=5, learning_rate=2.0)
    entry = Entry(key="curve", title="", inversion=config, points=(0, 2, 5))
    curve = record_of(all_sets, "voc", entry)["curve"]
    for steps in (2, 5):
        one = Entry(key="one", title="", inversion=InversionConfig(steps=steps, learning_rate=2.0))
        assert curve[str(steps)] == record_of(all_sets, "voc", one)["ranks"]
    whole = record_of(all_sets, "voc", Entry(key="cls", title="", method=Method("cls")))
    assert len(curve["0"]) == len(whole["ranks"])


def test_box_and_sam_is_the_best_mask_of_the_box(
    tmp_path: Path, all_sets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = save_tiny(tmp_path / "sam.pth")
    sample = DATASETS["coco"].open(all_sets).read("000000000001")
    segmenter = load_segmenter(file, "cpu")
    asked: list[Any] = []
    honest = segmenter.segment
    monkeypatch.setattr(type(segmenter), "segment", lambda _, *a: asked.extend(a[1]) or honest(*a))
    redrawn = changed(sample.regions, SAM, sample.image, segmenter)
    # Segment Anything counts from centres of pixels, boxes of regions from edges.
    boxes = [tuple(side + 0.5 for side in one.boxes[0]) for one in asked]
    assert boxes == [region.bbox for region in sample.regions]
    assert redrawn.ids == sample.regions.ids
    assert redrawn.shape == sample.regions.shape
    same = [
        region.bbox == other.bbox and region.mask.shape == other.mask.shape
        for region, other in zip(redrawn, changed(sample.regions, "box"), strict=True)
    ]
    assert not all(same)
    record = record_of(all_sets, "coco", Entry(key="sam", title="", masks=SAM), sam=file)
    assert len(record["ranks"]) == 3


@pytest.mark.parametrize(
    ("name", "alpha"), [("refcoco", 5), ("refcoco+", 5), ("phrasecut", 0), ("voc", 0)]
)
def test_alpha_is_that_of_the_paper_for_each_data_set(name: str, alpha: float) -> None:
    assert inversion_of(name, InversionConfig(alpha=2)).alpha == alpha


def test_gradcam_ranks_boxes_by_the_map_of_the_sentence(all_sets: Path) -> None:
    entry = Entry(key="map", title="", scorer="gradcam", template="a photo of {}")
    record = record_of(all_sets, "refcoco", entry)
    dataset = DATASETS["refcoco"].open(all_sets)
    sample = dataset.read(dataset.keys()[0])
    image = demo_model().preprocess(sample.image, resolution=32, keep_aspect=False)
    texts = demo_model().encode_text([f"a photo of {said}" for said, _ in sample.expressions])
    maps = class_token_maps(demo_model(), image, texts)
    for grid_map, (_, true), row in zip(maps, sample.expressions, record["mask"], strict=True):
        heat = interpolate(
            torch.from_numpy(grid_map)[None, None], sample.regions.shape, mode="bicubic"
        )[0, 0].numpy()
        scores = []
        for region in sample.regions:
            y0, x0, y1, x1 = region.bbox
            scores.append(heat[y0:y1, x0:x1].sum() / np.sqrt((y1 - y0) * (x1 - x0)))
        assert row[0] == sum(score > scores[true] for score in scores)
    assert record["ranks"] == []


def test_a_box_counts_by_its_sum_over_the_root_of_its_area_as_in_reclip() -> None:
    """A hot spot of 4 x 4 tokens on a warm ground: by the mean its middle would be first."""
    tokens = np.full((16, 16), 0.3, np.float32)
    tokens[6:10, 6:10] = 1.0
    masks = np.zeros((3, 64, 64), bool)
    masks[0, 30:34, 30:34], masks[1, 24:40, 24:40], masks[2] = True, True, True
    (scores,) = map_scores(tokens[None], Regions.from_masks(masks))
    assert scores[2] == pytest.approx(0.3 * 64 + 0.7 * 4, rel=0.02)  # not less the lowest value
    assert scores[1] == pytest.approx(16, rel=0.05)
    assert scores[0] == pytest.approx(4, rel=0.05)


def test_reclip_multiplies_by_what_a_parser_makes_of_the_sentence(all_sets: Path) -> None:
    pictures = {"title": "", "method": Method("crop+box-blur"), "template": "a photo of {}"}
    plain = record_of(all_sets, "refcoco", Entry(key="plain", **pictures))
    same = record_of(all_sets, "refcoco", Entry(key="same", relations=True, **pictures))
    asked = []

    def smallest(sentence: str) -> Phrase:
        asked.append(sentence)
        return Phrase(sentence, extreme="smaller")

    sized = Entry(key="sized", relations=True, **pictures)
    record = record_of(all_sets, "refcoco", sized, parser=smallest)
    dataset = DATASETS["refcoco"].open(all_sets)
    sample = dataset.read(dataset.keys()[0])
    assert asked == [said for said, _ in sample.expressions]
    for (said, _), one, other in zip(sample.expressions, plain["mask"], same["mask"], strict=True):
        if by_words(said) == Phrase(said):
            assert one == other
    areas = [(r.bbox[2] - r.bbox[0]) * (r.bbox[3] - r.bbox[1]) for r in sample.regions]
    largest = int(np.argmax(areas))
    for (_, true), row in zip(sample.expressions, record["mask"], strict=True):
        assert (row[0] == 2) == (true == largest)  # nothing is larger: it is last


def test_the_command_takes_a_parser(paper: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path().absolute())
    Path("own_relations.py").write_text(
        "from napari_maskinversion.bench.measures.relations import Phrase\n"
        "def parse(sentence):\n    return Phrase(sentence, extreme='smaller')\n"
    )
    shown = {}
    for parser in ((), ("--parser", "own_relations:parse")):
        ok(paper("--table", 1, "--sets", "refcoco", *parser))
        rows = [c for c in cells(Path("paper"), "table-1") if c["row"].startswith("ReCLIP (with")]
        shown[parser] = [c["ours"] for c in rows]
    first, second = shown.values()
    assert first != second  # and the kept records of the first are not used


class Parrot:
    """Says the same of every region."""

    def __init__(self) -> None:
        self.heard: list[np.ndarray] = []

    def generate(self, embeddings: np.ndarray) -> list[str]:
        self.heard.append(embeddings)
        return ["red car"] * len(embeddings)


def test_a_caption_is_right_if_its_own_phrase_is_nearest(all_sets: Path) -> None:
    parrot = Parrot()
    captioner = Captioner("parrot", lambda _: parrot, demo_model)
    entry = Entry(key="captions", title="", captions="optimised")
    record = record_of(all_sets, "phrasecut", entry, captioner=captioner)
    assert record["captions"] == ["red car", "red car"]
    assert [row[0] for row in record["caption"]] == [1, 0]  # of "two cars" and of "red car"
    lengths = np.linalg.norm(parrot.heard[0], axis=1)
    assert not np.allclose(lengths, 1, rtol=0.01)
    other = Entry(key="other", title="", captions="cls")
    record_of(all_sets, "phrasecut", other, captioner=captioner)
    scaled = np.linalg.norm(parrot.heard[1], axis=1)
    np.testing.assert_allclose(scaled, scaled[0], rtol=1e-5)
    assert not np.allclose(scaled, lengths, rtol=0.01)
    directions = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in parrot.heard]
    np.testing.assert_allclose(directions[0], directions[1], atol=1e-5)


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[tuple[CaptionDecoder, np.ndarray]]:
    """The decoder and the embeddings of each call that wrote sentences."""
    calls: list[tuple[CaptionDecoder, np.ndarray]] = []
    honest = CaptionDecoder.generate
    monkeypatch.setattr(CaptionDecoder, "generate", lambda *a: calls.append(a) or honest(*a))
    return calls


def test_captions_are_written_by_a_decoder_and_judged(paper: Bench, heard: list[Any]) -> None:
    ok(paper("--table", 6, "--limit", 1, "--decoder", "demo"))
    _, optimised, scaled = (np.linalg.norm(rows, axis=1) for _, rows in heard)
    assert np.ptp(scaled) < 1e-4
    assert np.ptp(optimised) > 3e-4
    rows = {row["row"]: row for row in cells(Path("paper"), "table-6")}
    assert "no weights of this size are published" in rows["AlphaCLIP"]["note"]
    for name in ("CLIP", "MaskInversion", "MaskInversion ([CLS] length)"):
        assert int(rows[name]["count"]) == 2
        assert 0 <= float(rows[name]["ours"]) <= 100


def test_the_decoder_writes_as_it_is_told(paper: Bench, heard: list[Any]) -> None:
    call = ("--table", 6, "--limit", 1, "--decoder", "demo")
    assert paper(*call, "--search", "beam", "--beams", 2)[0] == 0
    assert {(one.settings.search, one.settings.beams) for one, _ in heard} == {("beam", 2)}
    before = len(heard)
    assert paper(*call, "--search", "beam", "--beams", 3)[0] == 0
    assert len(heard) == 2 * before  # other sentences: records of two beams are not used


def test_a_published_decap_reads_a_memory(paper: Bench, heard: list[Any]) -> None:
    write_decap(Path(), demo_model().embed_dim)
    Path("sentences.txt").write_text("a red car\na dog\ntwo cars\n")
    call = ("--table", 6, "--limit", 1, "--decoder", "decap", "--decoder-file", "decap.pt")
    one_line(paper(*call), "name a bank of this model")
    call += ("--memory", "sentences.txt")
    for _ in range(2):
        ok(paper(*call))
        assert len(heard) == 3
    rows = {row["row"]: row for row in cells(Path("paper"), "table-6")}
    assert rows["MaskInversion"]["ours"]
    Path("sentences.txt").write_text("a red car\na dog\n")
    assert paper(*call)[0] == 0
    assert len(heard) == 6  # records of other sentences are not used
    write_decap(Path(), demo_model().embed_dim, seed=2)
    assert paper(*call)[0] == 0
    assert len(heard) == 9  # nor those of other weights


def test_captions_are_of_the_decoders_model_and_judged_by_the_papers(paper: Bench) -> None:
    call = ("--table", 6, "--decoder", "demo", "--models")
    out = ok(paper(*call, "B/32=demo"))
    assert "the judge needs weights: napari-maskinversion models fetch ViT-L-14/openai" in out
    out = ok(paper(*call, "B/16=demo,L/14=demo"))
    assert "| MaskInversion | B/32 | not among --models | 48.4 |" in out


# -- models -----------------------------------------------------------------------------------


def test_models_stand_for_the_papers_backbones(no_network: None) -> None:
    alone = choose("demo")
    assert set(alone.models) == set(BACKBONES)
    assert alone.names == ("demo",)
    one = choose("B/32=demo")
    assert one.models == {"B/32": "demo"}
    assert one.lacks["B/16"] == "not among --models"
    lacking = choose("B/32=demo,ViT-B-16/openai").lacks["B/16"]
    assert lacking == "needs weights: napari-maskinversion models fetch ViT-B-16/openai"


def test_a_file_of_weights_stands_for_a_backbone(
    bench: Bench, all_sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("vit.pt").write_bytes(b"")
    asked = []
    monkeypatch.setattr(command, "load", lambda chosen: asked.append(chosen) or demo_model())
    named = "B/16=vit.pt:ViT-B-16-quickgelu"
    call = ("paper", "--data", all_sets, "--models", named, "--table", 4, "--limit", 1, *SMALL)
    ok(bench(*call))
    assert asked == [RunSettings(model="vit.pt", architecture="ViT-B-16-quickgelu")]
    assert choose("vit.pt:ViT-B-16-quickgelu").models == {"B/16": "vit.pt:ViT-B-16-quickgelu"}
    assert choose(named).lacks["L/14"] == "not among --models"


# -- bad input: one line, before anything is loaded -------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--table", "7"), "--table takes all, or some of 1, 2"),
        (("--table", ","), "--table takes all"),
        (("--sets", "coco,mnist"), "got 'mnist'"),
        (("--split", "coco"), "--split takes SET=SPLIT"),
        (("--split", "coco=best"), "COCO instances has no split 'best'"),
        (("--data", "nowhere"), "There is no folder nowhere"),
        (("--models", "demo,B/16=demo"), "Say which backbone it stands for"),
        (("--models", "B/99=demo"), "the paper has no backbone 'B/99'"),
        (("--models", "B/16=demo,B/16=demo"), "two models for B/16"),
        (("--models", "B/16=weights.pt"), "say B/16=weights.pt:ViT-B-16 (or ViT-B-16-quickgelu"),
        (("--models", "B/16=weights.pt:ViT-B-61"), "no architecture called 'ViT-B-61'"),
        (("--models", "B/16=other.pt:ViT-B-16"), "There is no file other.pt"),
        (("--models", "dmo"), "There is no model called 'dmo'"),
        (("--decoder", "parrot"), "There is no caption decoder called 'parrot'"),
        (("--decoder", "clipcap-coco"), "ViT-B-32/openai"),
        (("--memory", "weights.pt"), "--decoder-file and --memory belong to a decoder"),
        (("--parser", "mine"), "--parser takes MODULE:FUNCTION, such as mine:parse; got 'mine'"),
        (("--sam", "vit_x"), "There is no SAM checkpoint called 'vit_x'"),
        (("--sam", "vit_b"), "models fetch vit_b"),
        (("--method-weights", "none.pth"), "There is no checkpoint at none.pth"),
        (("--steps", 0), "steps"),
        (("--learning-rate", -1), "learning_rate"),
    ],
)
def test_bad_options_are_refused(
    paper: Bench, monkeypatch: pytest.MonkeyPatch, options: tuple[Any, ...], says: str
) -> None:
    monkeypatch.setattr(command, "load", lambda *_: pytest.fail("too late"))
    Path("weights.pt").write_bytes(b"")
    one_line(paper(*options), says)
    assert not Path("paper").exists()


def without_masks(data: Path) -> None:
    SETS["voc"](data)
    shutil.rmtree(data / "VOCdevkit/VOC2012/SegmentationClass")


def without_one_image(data: Path) -> None:
    next((data / "coco/val2017").iterdir()).unlink()


def without_any(data: Path) -> None:
    shutil.rmtree(data / "coco")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (without_any, "own holds none of these data sets: VOC, Context, COCO, OpenImagesV7"),
        (without_masks, "holds only a part of Pascal VOC 2012: there is no VOCdevkit/VOC2012/Segm"),
        (without_one_image, "COCO instances is not complete: 1 of 2 images"),
    ],
)
def test_sets_that_are_not_whole_are_refused(
    paper: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Any, says: str
) -> None:
    data = tmp_path / "own"
    SETS["coco"](data)
    damage(data)
    monkeypatch.setattr(command, "load", lambda *_: pytest.fail("too late"))
    one_line(paper("--table", 2, "--data", data), says)


def test_files_of_others_are_not_replaced(paper: Bench) -> None:
    Path("paper").mkdir()
    Path("paper/table-4.md").write_text("my notes")
    one_line(paper("--table", 4, "--limit", 1), "already has table-4.md")
    assert Path("paper/table-4.md").read_text() == "my notes"
    Path("file").write_text("")
    one_line(paper("--table", 4, "--out", "file"), "file is a file; --out names a folder")


def test_records_of_another_setting_are_not_mixed(paper: Bench) -> None:
    assert paper("--table", 4, "--limit", 1)[0] == 0
    one_line(paper("--table", 4, "--limit", 1, "--steps", 3), "holds figures for another inversion")
