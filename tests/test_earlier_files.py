"""Files of earlier versions: those of the commit f4c61888 open, those before it are refused.

``tests/reference/at_f4c61888`` holds one of each file that this program writes for itself; its
README.md says how they were made. What the user decided, computed or exported comes back with the
same contents. Libraries and the marks of a batch may be built again from the other files.
"""

import csv
import io
import json
import shutil
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pyarrow.parquet as pq
import pytest
import skimage.io
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from napari_maskinversion._napari.panel.panel_state import read_state, write_state
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.identity import RegionKey
from napari_maskinversion.base.preferences import Preferences, load
from napari_maskinversion.batch.finished import differences, is_damaged
from napari_maskinversion.batch.opened import OpenProject, Place, is_drawn, read_place
from napari_maskinversion.bench.measures.figures_file import FiguresFile, RecordStore
from napari_maskinversion.language.captions.bank import open_bank
from napari_maskinversion.language.generation.small_gpt import load_small_decoder
from napari_maskinversion.language.labels.presets import vocabulary_of
from napari_maskinversion.language.labels.vocabulary import NONE_OF_THESE, Vocabulary
from napari_maskinversion.learning.classifier import Classifier
from napari_maskinversion.library.library import Library
from napari_maskinversion.library.training_samples import read_samples
from napari_maskinversion.regions.annotations.label_maps import read_names
from napari_maskinversion.regions.region_reading import read_regions
from napari_maskinversion.results.calibrations import calibration_of
from napari_maskinversion.results.export.archive import open_archive
from napari_maskinversion.results.settings import RunSettings
from napari_maskinversion.review.reporting import decided_bundle, identities_of, with_decisions
from napari_maskinversion.review.review import Review

KEPT = Path(__file__).parent / "reference" / "at_f4c61888"
SCENES = ("scene-1.png", "scene-3.png")
LABELS = ("grapes", "airplane", "house", "frog", "car")


@pytest.fixture
def project(tmp_path):
    """A copy of the project."""
    return shutil.copytree(KEPT / "project", tmp_path / "project")


@pytest.fixture
def library(tmp_path):
    """A copy of the library."""
    return Library.open(shutil.copytree(KEPT / "library", tmp_path / "library"))


def archive_of(project, name):
    return project / "maskinversion_batch" / "archives" / name / "results.npz"


# -- results --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["results", "planes"])
def test_an_archive_has_the_table_it_was_saved_with(name):
    results = open_archive(KEPT / f"{name}.npz").results
    table = io.StringIO(results.to_frame().to_csv(index=False))
    with (KEPT / f"{name}.csv").open(encoding="utf-8", newline="") as saved:
        assert [*csv.DictReader(table)] == [*csv.DictReader(saved)]
    with np.load(KEPT / f"{name}.npz") as arrays:
        np.testing.assert_array_equal(results.raw_embeddings, arrays["embeddings"])


def test_soft_masks_merged_regions_windows_and_captions_come_back():
    bundle = open_archive(KEPT / "results.npz")
    info, (grapes, merged, house) = bundle.results.info, bundle.results.regions
    assert (info.model, info.settings.inversion.steps, info.settings.threshold) == ("demo", 4, 0.1)
    assert (info.vocabulary.labels, info.vocabulary.colors[0]) == (LABELS, "#8000ff")
    assert (info.units.pixel, info.units.unit) == ((0.5, 0.5), "µm")
    assert (info.captions.bank.source, info.captions.top) == ("captions.txt", 2)
    assert (merged.members, merged.captions.captions[0]) == ((2, 4), "a green frog")
    assert (grapes.generated_caption, house.captions.rows[0]) == ("A picture of grapes.", 2)
    boxes = [window.box for window in bundle.results.windows]
    assert boxes == [(0, 16, 98, 115), (0, 0, 128, 128)]
    mask = bundle.masks[(), 1].unpack()
    assert (mask.bbox, mask.mask.dtype) == ((21, 52, 70, 79), np.float32)
    assert {*np.unique(mask.mask)} == {0, 0.5, 1}


def test_decisions_in_an_archive_come_back():
    bundle = with_decisions(open_archive(KEPT / "results.npz"), "results.npz")
    assert bundle.columns["decision"] == ["accepted", "undecided", "rejected"]
    assert bundle.columns["accepted_label"] == ["grapes", "", ""]
    assert bundle.columns["decided_at"][0] == "2026-11-28T06:29:01.115Z"


def test_planes_and_the_decisions_about_them_come_back(tmp_path):
    shutil.copy(KEPT / "stack.tif.maskinversion.jsonl", tmp_path)
    bundle = open_archive(KEPT / "planes.npz")
    assert bundle.results.info.axes == ("z",)
    bundle = decided_bundle(bundle, tmp_path / "stack.tif")
    decided = zip(bundle.results.regions, bundle.columns["decision"], strict=True)
    states = {region.key: state for region, state in decided if state != "undecided"}
    assert states == {
        RegionKey(1, (("z", 0),)): "rejected",
        RegionKey(4, (("z", 1),)): "accepted",
    }


# -- decisions ------------------------------------------------------------------------------------


def test_decisions_beside_an_image_come_back_and_can_be_undone(project):
    bundle = open_archive(archive_of(project, "scene-1.png"))
    file = project / "images" / "scene-1.png"
    with Review(bundle.image, identities_of(bundle), bundle.results.info, file=file) as review:
        decisions = review.decisions
        assert review.notes == ["3 earlier decisions restored."]
        assert decisions.accepted() == {RegionKey(1): "grapes", RegionKey(2): "kite"}
        assert decisions.status(RegionKey(3)) == "rejected"
        assert (decisions.undoable, decisions.redoable) == (4, 1)
        accepted, typed = decisions[RegionKey(1)].suggestion, decisions[RegionKey(2)].suggestion
        assert (accepted.label, accepted.rank, accepted.by) == ("grapes", 1, "text")
        assert accepted.similarity == pytest.approx(0.5285863)
        assert typed is None
        review.redo()  # it was skipped, and that undone
        assert decisions.status(RegionKey(4)) == "skipped"
        for _ in range(3):
            review.undo()
        assert decisions.accepted() == {RegionKey(1): "grapes", RegionKey(2): "car"}


# -- projects and batches -------------------------------------------------------------------------


def test_a_project_opens(project):
    opened = OpenProject.read(project)
    assert [*opened.by_name] == [*SCENES]
    assert opened.done == {"scene-1.png"}
    assert opened.regions("scene-3.png") == project / "masks" / "scene-3.png"
    assert opened.settings == RunSettings.of(steps=4, window="64", measure=True, top_captions=2)
    assert opened.vocabulary.labels == LABELS
    assert len(open_bank(opened.captions)) == 5
    assert read_place(opened.file) == Place(image="scene-3.png", region=2)
    assert is_drawn(project / "drawn_regions" / "scene-3.png.json")


def test_a_finished_batch_goes_on_and_its_results_open(project, fine):
    fine("batch", project, "--out", project / "maskinversion_batch", "--format", "csv,npz")
    for name, count in zip(SCENES, (4, 3), strict=True):
        bundle = open_archive(archive_of(project, name))
        assert [region.id for region in bundle.results.regions] == [*range(1, count + 1)]
        assert (bundle.image.name, len(bundle.masks)) == (name, count)
    part = project / "maskinversion_batch" / "regions.parquet" / "scene-1.png.parquet"
    assert pq.read_table(part)["suggestion"].to_pylist() == ["grapes", "airplane", "house", "frog"]


def test_the_marks_of_a_finished_batch_are_read(project):
    """Other versions may bundle other weights of the demo model, and compute the images again."""
    opened = OpenProject.read(project)
    captions = open_bank(opened.captions).record.sha256
    for name in SCENES:
        task = opened.task(name, ("csv", "npz"), captions)
        assert not is_damaged(task)
        assert differences(task) in ([], ["model"])


# -- libraries and what they teach ----------------------------------------------------------------


DECIDED = [
    *("1 grapes accepted", "2 kite accepted", "3  rejected", "4 frog undecided"),
    *("1 house accepted", "2 kite accepted", "3  rejected"),
]


def decided(library):
    columns = library.rows()[["region", "label", "decision"]]
    return [f"{region} {label} {decision}" for region, label, decision in columns.to_numpy()]


def measures(library):
    """What was measured of the decided regions."""
    samples = read_samples(library.store, library.info()["spaces"], {})
    return [sample.sample.measures.measures for sample in samples]


def test_a_library_opens(library):
    assert decided(library) == DECIDED
    assert library.rows()["date"][0] == "2026-11-28T06:28:59.618Z"
    for number in range(1, 8):
        best = library.search(like=library.vectors([number]), top=1).iloc[0]
        assert (best["id"], round(best["similarity"], 3)) == (number, 1)
        assert library.thumbnail(number).shape[2] == 4
    assert measures(library)[0]["solidity"] == pytest.approx(0.7983426, abs=1e-6)
    assert [line for line in library.verify() if "not known where" not in line] == []


def test_an_image_that_a_library_has_already_is_known_again(library, project):
    image = project / "images" / "scene-1.png"
    assert library.add(archive_of(project, image.name), image=image) == 4
    assert decided(library) == DECIDED
    assert library.rows()["id"].tolist() == [*range(1, 8)]


def test_the_export_of_a_library_is_the_same_library(library, tmp_path):
    other = Library.new(tmp_path / "other")
    assert other.add(KEPT / "library.parquet") == 7
    assert decided(other) == DECIDED
    numbers = range(1, 8)
    np.testing.assert_array_equal(other.vectors(numbers), library.vectors(numbers))
    assert measures(other) == measures(library)
    assert other.thumbnail(7).tobytes() == library.thumbnail(7).tobytes()


def test_a_classifier_opens_and_ranks_as_it_did(project):
    file = KEPT / "classifier.safetensors"
    classifier = Classifier.load(file)
    words = ("airplane", "grapes", "kite", "house", "frog", "car")
    assert classifier.classes == (*words, NONE_OF_THESE)
    assert classifier.features == ("area", "height", "width", "fill")
    assert classifier.counts == {"grapes": 1, "kite": 2, "house": 1, NONE_OF_THESE: 2}
    assert vocabulary_of(str(file)).labels == (*words, NONE_OF_THESE)
    results = open_archive(archive_of(project, "scene-1.png")).results
    rankings = classifier.rank(results.embeddings, classifier.classes, (), results.regions)
    best = [(ranking.labels[0], ranking.probabilities[0]) for ranking in rankings]
    assert [label for label, _ in best] == ["grapes", "airplane", "house", "frog"]
    shares = [0.5157, 0.3328, 0.3445, 0.3592]
    assert [share for _, share in best] == pytest.approx(shares, abs=1e-3)


# -- words, captions and regions in files ---------------------------------------------------------


@pytest.mark.parametrize("suffix", ["txt", "csv", "yaml"])
def test_label_files_open(suffix):
    words = Vocabulary.read(KEPT / f"words.{suffix}")
    assert words.labels == LABELS
    assert words.synonyms[0] == ("bunch of grapes",)
    if suffix != "txt":
        assert (words.groups[0], words.colors[0]) == ("food", "#8000ff")
    if suffix == "yaml":
        assert (words.templates[1], words.threshold) == ("a drawing of a {}.", 0.25)


@pytest.mark.parametrize("name", ["regions.tif", "regions.geojson", "coco.json"])
def test_regions_of_results_are_read_again(name):
    labels = skimage.io.imread(KEPT / "project" / "masks" / "scene-1.png")
    regions = read_regions(KEPT / name, labels.shape, image="scene-1.png")
    if name != "regions.tif":  # whose names are in another file
        assert [region.name for region in regions] == ["grapes", "kite", "", "frog"]
    for value, region in enumerate(regions, 1):
        y0, x0, y1, x1 = region.bbox
        np.testing.assert_array_equal(region.mask, labels[y0:y1, x0:x1] == value)


def test_the_names_of_a_label_image_are_read_again():
    names = read_names(KEPT / "regions.tif").regions.values()
    assert [label for label, _ in names] == ["grapes", "kite", "", "frog"]


def test_a_caption_bank_opens():
    bank = open_bank(KEPT / "project" / "captions")
    assert bank.record.model == "demo"
    assert bank.read_texts()[3] == "a green frog"
    (found,) = bank.search(bank.vectors()[3:4].astype(np.float32), 1)
    assert found.captions == ("a green frog",)


def test_a_caption_decoder_opens():
    decoder = load_small_decoder(KEPT / "decoder.safetensors")
    assert decoder.record.words == (".", "a", "frog")
    assert decoder.generate(np.eye(1, 8, dtype=np.float32)) == ["Frog frog frog frog."]


# -- what is kept for the next time ---------------------------------------------------------------


def test_preferences_the_panels_state_and_limits_come_back(own_config_folder):
    shutil.copytree(KEPT / "config", own_config_folder, dirs_exist_ok=True)
    assert load() == Preferences(
        model="demo", device="cpu", heatmap="magma", live=True, offline=True
    )
    state, problem = read_state()
    assert problem == ""
    assert state.settings == RunSettings.of(alpha=2.0, window="128")
    assert (state.labels, state.marks) == ("cat\ndog", {"cat": ("pets", "#ff0000")})
    assert (state.threshold, state.none, state.tab) == (0.2, True, "review")
    assert (state.projects, state.review.order, state.review.learn) == (
        ("project.yaml",),
        "largest",
        True,
    )
    write_state(state)  # which moves it into the file of preferences
    assert read_state() == (state, "")
    assert not (own_config_folder / "panel.json").exists()
    assert load().heatmap == "magma"
    limits = calibration_of("abc123", RunSettings())
    assert (limits.margin, limits.overlap, limits.wrong_flagged) == (0.01, 0.3, 0.6)


def test_figures_and_records_of_a_measurement_go_on(tmp_path):
    for name in ("figures.json", "figures.records.jsonl"):
        shutil.copy(KEPT / name, tmp_path)
    figures = FiguresFile(tmp_path / "figures.json", "speed", {"model": "demo"})
    assert figures.parts["encoding"]["ms"] == 3.5
    file, fields = tmp_path / "figures.records.jsonl", ("image", "region")
    records = RecordStore(file, "regions", fields, {"model": "demo"}).records
    assert records == {("a.png", 1): {"right": True}, ("a.png", 2): {"right": False}}


# -- older files ----------------------------------------------------------------------------------

OLDER = KEPT.with_name("version_0_2_dev0")
"""Results and a library as they were before f4c61888."""


@contextmanager
def refusal_of(file, advice):
    """Let a block refuse a file in one line that says what to do, and leave the file alone."""
    before = contents(file)
    with pytest.raises(InputError) as error:
        yield
    said = str(error.value)
    assert str(file) in said
    assert said.endswith(
        f"was written by a development version of this program and is read no more; {advice}."
    )
    assert "\n" not in said
    assert contents(file) == before


def contents(file):
    files = sorted(path for path in [file, *file.rglob("*")] if path.is_file())
    return {path: path.read_bytes() for path in files}


def test_results_with_a_setting_that_is_gone_are_refused():
    with refusal_of(OLDER / "results.npz", "run again to get its results"):
        open_archive(OLDER / "results.npz")


@pytest.mark.parametrize("version", [1, None])
def test_results_of_the_first_format_are_refused(tmp_path, version):
    file = tmp_path / "results.npz"
    with np.load(KEPT / "results.npz") as kept:
        arrays = dict(kept)
    record = json.loads(bytes(arrays["record"])) | {"version": version}
    arrays["record"] = np.frombuffer(json.dumps(record).encode(), np.uint8)
    np.savez_compressed(file, **arrays)
    with refusal_of(file, "run again to get its results"):
        open_archive(file)


def test_decisions_of_an_older_format_are_refused(tmp_path):
    file = tmp_path / "stack.tif.maskinversion.jsonl"
    lines = (KEPT / file.name).read_text("utf-8")
    file.write_text(lines.replace('"version": 1', '"version": 0'), "utf-8")
    with refusal_of(file, "move the file away: it is left as it is"):
        decided_bundle(open_archive(KEPT / "planes.npz"), tmp_path / "stack.tif")


def test_a_project_of_an_older_format_is_refused(project):
    file = project / "project.yaml"
    file.write_text(file.read_text("utf-8").replace("version: 1", "version: 0"), "utf-8")
    with refusal_of(file, "make it again with 'project new'"):
        OpenProject.read(project)


def test_a_project_with_a_setting_that_is_gone_is_refused_by_its_name(project, call):
    """People write these files, too."""
    file = project / "project.yaml"
    text = file.read_text("utf-8")
    file.write_text(text.replace("measure: true", "multi_scale: 'off'"), "utf-8")
    code, _, said = call("project", "status", project)
    assert code == 2
    assert said == (
        f"Error: {file}: There is no setting 'multi_scale'; correct its name, or delete its line "
        "if a development version of this program wrote it.\n"
    )


def test_an_image_of_a_batch_with_an_older_mark_is_computed_again(project):
    mark = archive_of(project, "scene-1.png").with_name("batch.json")
    task = OpenProject.read(project).task("scene-1.png")
    values = json.loads(mark.read_text("utf-8"))
    settings = values["settings"] | {"multi_scale": "off"}
    mark.write_text(json.dumps(values | {"settings": settings}), "utf-8")
    assert "multi_scale" in differences(task)
    mark.write_text(json.dumps(values | {"version": 2}), "utf-8")
    assert differences(task) == ["version"]


def test_a_library_without_measures_is_refused(tmp_path):
    with ZipFile(OLDER / "library.zip") as packed:
        packed.extractall(tmp_path)
    with refusal_of(tmp_path / "library", "make another library and add its images to it"):
        Library.open(tmp_path / "library")


def test_an_export_of_a_library_without_measures_is_refused(library, tmp_path):
    file = tmp_path / "library.parquet"
    pq.write_table(pq.read_table(KEPT / file.name).drop(["measures"]), file)
    with refusal_of(file, "export the library again"):
        library.add(file)


def test_a_classifier_that_names_no_features_is_refused(tmp_path):
    file = tmp_path / "classifier.safetensors"
    with safe_open(KEPT / file.name, "numpy") as kept:
        head = kept.metadata()
    record = json.loads(head["record"])
    del record["features"]
    save_file(load_file(KEPT / file.name), file, head | {"record": json.dumps(record)})
    for read in (Classifier.load, lambda path: vocabulary_of(str(path))):
        with refusal_of(file, "train it again"):
            read(file)


def test_a_caption_bank_of_text_files_is_refused(tmp_path):
    for name in ("bank.jsonl", "captions.txt", "vectors.npy"):
        (tmp_path / name).write_text('{"format": 1}\n', "utf-8")
    with refusal_of(tmp_path, "build the bank again in another folder"):
        open_bank(tmp_path)


def test_sentences_that_were_drawn_at_random_are_refused_with_their_results(tmp_path):
    file = tmp_path / "results.npz"
    with np.load(KEPT / "results.npz") as kept:
        arrays = dict(kept)
    record = json.loads(bytes(arrays["record"]))
    record["info"]["generated"]["settings"] |= {"top_p": 0.5, "seed": 4}
    arrays["record"] = np.frombuffer(json.dumps(record).encode(), np.uint8)
    np.savez_compressed(file, **arrays)
    with refusal_of(file, "run again to get its results"):
        open_archive(file)
