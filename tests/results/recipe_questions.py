"""Twelve questions "does this still fit what is wanted?", and what is changed between them.

``python -m tests.results.recipe_questions`` writes the table of all answers again.
"""

import csv
import re
import tempfile
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from napari_maskinversion.app.explore.searches import reusable
from napari_maskinversion.app.requests.run_task import Request
from napari_maskinversion.app.session import ResultRecord, Scope, Session, staleness
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.identity import identify_all, identify_image
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.base.units import Units
from napari_maskinversion.batch.finished import Finished, differences, write_finished
from napari_maskinversion.batch.image_task import ImageTask
from napari_maskinversion.batch.project_decisions import stale_reasons
from napari_maskinversion.cli.run_options import embedded
from napari_maskinversion.language.labels.learned import Learned
from napari_maskinversion.language.labels.vocabulary import Vocabulary
from napari_maskinversion.learning.classifier import Classifier
from napari_maskinversion.learning.classifier_ranking import Ranker
from napari_maskinversion.pipeline.job import Job
from napari_maskinversion.pipeline.run import PlaneTask
from napari_maskinversion.regions.label_images import PlaneRegions
from napari_maskinversion.results.export.archive import save_archive
from napari_maskinversion.results.export.bundle import Bundle, compress_masks
from napari_maskinversion.results.recipe import Recipe
from napari_maskinversion.results.region_result import RegionResult, WindowRecord
from napari_maskinversion.results.results import Results
from napari_maskinversion.results.run_info import RunInfo
from napari_maskinversion.results.settings import RunSettings
from napari_maskinversion.results.spaces import Space
from napari_maskinversion.review.reporting import calibrate_from_files

TABLE = Path(__file__).with_name("recipe_answers.csv")
WIDTH = 8
SHAPE = (60, 80)
WORDS = Vocabulary(("cat", "dog"), synonyms=(("kitten",), ()))
EVERYTHING = Scope()


@dataclass(frozen=True)
class World:
    """Everything that results are made from, and a little more."""

    settings: RunSettings
    weights: str = "abc"  # The hash of the model
    pixels: int = 0  # The seed of the image's pixels
    looks: str = "grey"  # How the image is displayed
    file_name: str = "image.png"
    region_count: int = 3
    units: Units | None = None
    words: Vocabulary = WORDS
    captions: str = ""  # The hash of the captions
    scope: Scope = EVERYTHING
    whole: bool = True  # Whether each region was seen in the whole image
    smaller_input: int = 0  # Side of the model's input after memory ran out

    @property
    def content(self):
        """The hash of the image's pixels."""
        return f"{self.pixels:032}"

    @property
    def model(self):
        """A model whose weights nobody asks for."""
        return SimpleNamespace(
            name=self.settings.model,
            fingerprint=self.weights,
            embed_dim=WIDTH,
            logit_scale=10.0,
            device="cpu",
        )

    @property
    def tasks(self):
        """The plane with those regions that the settings choose."""
        labels = np.zeros(SHAPE, np.uint8)
        for number in range(1, self.region_count + 1):
            labels[4 : 4 + number, 10 * number : 10 * number + 6] = number
        regions = list(Regions.from_labels(labels))
        wanted = self.settings.only_ids
        if wanted is not None:
            regions = [region for region in regions if region.id in wanted]
        plane = Regions(SHAPE, regions).merged(self.settings.merge_ids)
        position = (("z", 1),) if self.settings.plane else ()
        return [PlaneTask(source=None, regions=plane, position=position)]

    @property
    def source(self):
        """What an archive says about the inputs of its run."""
        image = {"file": self.file_name, "sha256": self.content}
        if self.settings.series is not None:
            image["series"] = self.settings.series
        return {"image": image, "channels": self.settings.channels}

    @property
    def results(self):
        """Results of all regions."""
        info = RunInfo(
            fingerprint=self.weights,
            settings=self.settings,
            vocabulary=self.words,
            image_shape=SHAPE,
            input_size=(64, 64),
            grid=(8, 8),
            embed_dim=WIDTH,
            device="cpu",
            units=self.units,
        )
        window = WindowRecord(
            box=(0.0, 0.0, 60.0, 80.0),
            level=0,
            pixels=SHAPE,
            input_size=(64, 64),
            grid=(8, 8),
            whole=self.whole,
            resolution=self.smaller_input,
            memory_note="Not enough memory: input of 64 px" if self.smaller_input else "",
        )
        rows = [
            RegionResult(
                id=region.id,
                bbox=tuple(int(edge) for edge in region.bbox),
                area=36.0,
                raw_embedding=np.ones(WIDTH, np.float32),
                grid_map=np.ones((8, 8), np.float32),
                losses=np.ones(2, np.float32),
                ranking=None,
                iou=0.5,
                low_resolution=False,
                window=window,
                index=place,
                position=task.position,
            )
            for task in self.tasks
            for place, region in enumerate(task.regions)
        ]
        return Results(info, tuple(rows))

    def archive(self, file):
        """Write results as ``run --format npz`` does."""
        planes = [PlaneRegions(task.position, task.regions) for task in self.tasks]
        results = self.results
        bundle = Bundle(
            results=replace(results, info=replace(results.info, vocabulary=None)),
            masks=compress_masks(planes),
            source=self.source,
            image=identify_image(self.file_name, np.full(SHAPE, self.pixels, np.uint8)),
        )
        save_archive(bundle, file)
        return file

    def task(self, folder):
        """Write the files of a batch, and return the task of its image."""
        image, regions = folder / self.file_name, folder / "masks.png"
        image.write_bytes(b"p" * (self.pixels + 1))
        regions.write_bytes(b"r" * self.region_count)
        return ImageTask(
            name="cells",
            image=image,
            regions=regions,
            settings=self.settings,
            vocabulary=self.words,
            captions=self.captions,
            out=folder / "out",
        )

    @property
    def shown(self):
        """What the model is shown of the image."""
        return Recipe(image={"pixels": frozenset({self.content}), "looks": self.looks})

    def record(self, snapshot=None):
        """Return results as the panel keeps them."""
        identities = [one for task in self.tasks for one in identify_all(task.regions)]
        return ResultRecord(
            results=self.results,
            snapshot=snapshot or SimpleNamespace(settings=self.settings, image="image"),
            identities=tuple(identities),
            shown=self.shown,
        )


# -- the questions: each returns what differs, or nothing ------------------------------------------


def settings_of_a_run(before, now, folder):
    """Would runs with either settings compute the same embeddings?"""
    different = Recipe.of_settings(before.settings).differences(Recipe.of_settings(now.settings))
    return ["other"] if any(difference.needs_run for difference in different) else []


def embeddings(before, now, folder):
    """Can embeddings be compared: in a library, a map, a search, a training?"""
    spaces = [Space.of(world.results) for world in (before, now)]
    different = spaces[0].recipe.differences(spaces[1].recipe)
    return [difference.text for difference in different]


def batch(before, now, folder):
    """Does the mark of an image's results fit what a batch would do now?"""
    mark(before, folder)
    return differences(now.task(folder))


def project(before, now, folder):
    """May results of a project be decided about and exported?"""
    mark(before, folder)
    task = now.task(folder)
    opened = SimpleNamespace(task=lambda name, captions="": replace(task, captions=captions))
    return stale_reasons(opened, task.name, now.captions or None)


def find(before, now, folder):
    """Can words be looked for in the results shown, without a run?"""
    return [] if reusable([before.record()], "image", now.settings) else ["other"]


def next_run(before, now, folder):
    """Does a run go on with the results shown?"""
    request = Request(
        input=None,
        vocabulary=now.words,
        settings=now.settings,
        snapshot=None,
        source={},
        units=now.units,
        before=before.record(),
    )
    goes_on = request.continued(now.model, now.shown) is not None
    return [] if goes_on else ["other"]


def results_file(before, now, folder):
    """Can the embeddings of a results file be used again for these options?"""
    job = Job(tasks=now.tasks, settings=now.settings, source=now.source)
    try:
        embedded(now.model, job, before.archive(folder / "earlier.npz"))
    except InputError as error:
        return re.search(r"it has (.*); leave", str(error))[1].split(", ")
    return []


def panel(before, now, folder):
    """What has changed since the results shown were made?"""
    session = Session()
    run = session.run
    run.settings, run.scope, run.vocabulary = before.settings, before.scope, before.words
    session.show(before.record(run.snapshot()))
    run.settings, run.scope, run.vocabulary = now.settings, now.scope, now.words
    run.image_changed = now.shown != before.shown
    run.changed_regions = frozenset(range(abs(now.region_count - before.region_count)))
    return staleness(session).text.removesuffix(" changed: update").split(", ")


def words(before, now, folder):
    """Are regions ranked by the same words?"""
    different = Recipe.of_words(before.words).differences(Recipe.of_words(now.words))
    return ["other"] if different else []


def space(before, now, folder):
    """Are embeddings by one model and method?"""
    spaces = {world.results.info.space for world in (before, now)}
    return [] if len(spaces) == 1 else ["other"]


def classifier(before, now, folder):
    """May a classifier rank the embeddings of a run?"""
    about = Space.of(before.results).about
    learned = Classifier.of_words(before.words, np.eye(len(before.words.words), WIDTH), 10.0, about)
    file = learned.save(folder / "cells")
    named = Learned(name="cells.safetensors", sha256="", decisions=1, file=file)
    words = replace(before.words, learned=named)
    try:
        Ranker(words).check_space(now.settings, now.weights)
    except InputError as error:
        return re.search(r"embeddings of (.*); run", str(error))[1].split(", ")
    return []


def calibration(before, now, folder):
    """May limits of flags be chosen from results together?"""
    files = [before.archive(folder / "first.npz"), now.archive(folder / "second.npz")]
    try:
        calibrate_from_files(before.settings.model, files)
    except InputError as error:
        problem = str(error)
        if "holds results of the model" in problem:
            return ["model"]
        if "computed with other weights" in problem:
            return ["weights, method or map"]
        assert "needs 20 regions" in problem  # asked only of those that fit
    return []


def mark(world, folder):
    """Leave the mark of results behind."""
    task = world.task(folder)
    task.archive.mkdir(parents=True)
    write_finished(Finished.of(task), task.archive)
    task.image.unlink()


QUESTIONS = (
    *(settings_of_a_run, embeddings, batch, project, find, next_run),
    *(results_file, panel, words, space, classifier, calibration),
)


# -- what is changed -------------------------------------------------------------------------------

SETTINGS = {
    "model": "ViT-B-16/openai",
    "architecture": "ViT-B-32",
    "device": "cpu",
    "method.name": "crop",
    "method.weights": Path("alpha.pth"),
    "inversion.steps": 20,
    "inversion.learning_rate": 0.2,
    "inversion.alpha": 5.0,
    "inversion.weight_decay": 0.1,
    "inversion.layers": 2,
    "inversion.explainer": "chefer",
    "inversion.fast": True,
    "inversion.route": "direct",
    "inversion.precision": "bfloat16",
    "inversion.keep_last_step_heatmaps": True,
    "chunk_size": 3,
    "resolution": 224,
    "keep_aspect": False,
    "window": "whole",
    "window.context": 3.0,
    "planes": "each",
    "plane": "z=1",
    "series": 1,
    "channels": "0",
    "only": "1",
    "merge": ("1,2",),
    "measure": True,
    "pixel_size": 0.5,
    "unit": "m",
    "threshold": 0.2,
    "top_captions": 3,
    "unsure.tokens": 3.0,
    "unsure.margin": 0.1,
    "unsure.overlap": 0.3,
}
OTHERS = {
    "weights": "other",
    "pixels": 1,
    "looks": "red",
    "file_name": "renamed.png",
    "region_count": 4,
    "units": Units(pixel=(0.5, 0.5), unit="µm"),
    "captions": "fed",
    "scope": Scope(planes="each"),
    "smaller_input": 32,
}
WORDS_CHANGED = {
    "labels": ("cat", "fox"),
    "synonyms": ((), ()),
    "templates": ("an {}",),
    "groups": ("pets", "pets"),
    "colors": ("#ff0000", ""),
    "threshold": 0.3,
    "learned": Learned(name="cells.safetensors", sha256="0123", decisions=7),
}


@dataclass(frozen=True)
class Row:
    """A change: the key of a setting, or ``words.`` and a field, or a field of `World`."""

    change: str
    value: object
    before: tuple[tuple[str, object], ...] = ()  # Changes on both sides

    @property
    def worlds(self):
        """Everything before the change, and after it."""
        before = World(RunSettings())
        for key, value in self.before:
            before = changed(before, key, value)
        return before, changed(before, self.change, self.value)

    @property
    def title(self):
        """The change as the table has it."""
        same = ", ".join(f"{key} {value}" for key, value in self.before)
        return f"{self.change}: {short(self.value)}" + (f" (with {same})" if same else "")


def short(value):
    """Return a value as the table has it: of a record, what is not the default."""
    if not is_dataclass(value):
        return str(value)
    chosen = {one.name: getattr(value, one.name) for one in fields(value)}
    return ", ".join(
        f"{one.name} {chosen[one.name]}" for one in fields(value) if chosen[one.name] != one.default
    )


def changed(world, key, value):
    """Return a world in which one thing is another."""
    if key.startswith("words."):
        return replace(world, words=replace(world.words, **{key.partition(".")[2]: value}))
    if key in SETTINGS:
        return replace(world, settings=world.settings.changed({key: value}))
    return replace(world, **{key: value})


ROWS = [
    *(Row(key, value) for key, value in SETTINGS.items()),
    *(Row(key, value) for key, value in OTHERS.items()),
    *(Row(f"words.{key}", value) for key, value in WORDS_CHANGED.items()),
    # What a review learned from decisions about these words, and no file holds.
    Row(
        "words.learned",
        Learned(name="unsaved", sha256="4567", decisions=2, chosen=WORDS.labels),
    ),
    # A method without steps, a fusion with them.
    Row("inversion.steps", 20, (("method.name", "crop"),)),
    Row("inversion.explainer", "chefer", (("method.name", "crop"),)),
    Row("inversion.steps", 20, (("method.name", "maskinversion+crop"),)),
    Row("inversion.explainer", "chefer", (("method.name", "maskinversion+crop"),)),
    # A window of its own for a region, and results of the whole image.
    Row("window", "whole", (("whole", False),)),
    Row("window", "64", (("window", "whole"),)),
    Row("window", "128", (("window", "64"), ("whole", False))),
    # A smaller input than the one that was chosen, and results that had one.
    Row("smaller_input", 32, (("resolution", 64),)),
    Row("smaller_input", 0, (("smaller_input", 32),)),
    Row("top_captions", 3, (("captions", "fed"),)),
    Row("scope", Scope(channels="displayed")),
    Row("scope", Scope(limited=True, ids="1")),
]


def answers(row, folder):
    """Return the answer to each question, by its name."""
    answer_of = {}
    for question in QUESTIONS:
        place = folder / question.__name__
        place.mkdir()
        answer_of[question.__name__] = "; ".join(question(*row.worlds, place))
    return answer_of


def write_table():
    """Write all answers again."""
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        names = [question.__name__ for question in QUESTIONS]
        table = csv.DictWriter(file, ["change", *names], lineterminator="\n")
        table.writeheader()
        for row in ROWS:
            with tempfile.TemporaryDirectory() as folder:
                table.writerow({"change": row.title, **answers(row, Path(folder))})


if __name__ == "__main__":
    write_table()
