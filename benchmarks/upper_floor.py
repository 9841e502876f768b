"""What takes long with many images, asked through the functions that panel and commands call.

    xvfb-run -a python benchmarks/upper_floor.py [--only accept learn] [--repeat 3] [--out FILE]

The first call makes a project (1,000 images of 256 px with 50 regions each, all computed, 140
decisions with 13 words in 70 images, see `made_project`), one image of 10,000 regions and a library
of a million rows, and keeps them in ``--folder``; ``--images`` and so on make smaller ones. Each
question is asked several times; what it has changed on the disk is put back, and is not measured.

Recorded are the medians of wall seconds and of processor seconds of all threads: the latter say
more where others use the machine, the former hold the waiting for the disk. The files are in the
system's cache. Beside them stand the files of the project that were opened (how many, how often,
by kind), and the folders that were listed. Needs no window but for ``keys``. ``--profile 20``
prints the 20 functions in which each question spends most, instead of measuring (of one thread:
what ``open`` does in workers is not in it).
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import os
import pstats
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from statistics import median
from typing import Any

import made_project
import measuring
import numpy as np

DECIDED_IMAGES, DECIDED_EACH = 70, 2
LEAST = 0.5  # confidence of what is accepted in all images
PRESSES = 100
PICTURES = 60  # a screen of the gallery
VECTOR_WIDTH = 512  # of the library
SUFFIX = ".maskinversion.jsonl"


# -- what is asked about ---------------------------------------------------------------------------


@dataclass
class Subject:
    """The project, the large image and the library that questions are about."""

    folder: Path
    images: int
    regions: int
    large: int
    rows: int

    @cached_property
    def project(self) -> Any:
        """The project of many images."""
        place = self.folder / f"project-{self.images}x{self.regions}"
        return made_project.open_or_make(place, self.images, self.regions)

    @cached_property
    def large_project(self) -> Any:
        """A project with one image of many regions."""
        return made_project.open_or_make(self.folder / f"large-{self.large}", 1, self.large, 20)

    @cached_property
    def library(self) -> Any:
        """A library of as many rows, of the width of a ViT-B/16."""
        import library
        from napari_maskinversion import Library
        from napari_maskinversion.library.store import Store

        place = self.folder / f"library-{self.rows}"
        if not self._queries_file.exists():
            vectors = library.enlarged(archive_vectors(self.project), self.rows, VECTOR_WIDTH)
            Library.new(place)
            for first in range(0, self.rows, 1000):
                library.add(Store(place), vectors, first, min(1000, self.rows - first))
            np.save(self._queries_file, library.queries_of(vectors))
        return Library.open(place)

    @property
    def queries(self) -> Any:
        """Unit vectors to look for in the library."""
        return np.load(self._queries_file)

    @property
    def _queries_file(self) -> Path:
        return self.folder / f"library-{self.rows}-queries.npy"

    @cached_property
    def store(self) -> Any:
        """The panel's store of models, with the model in it."""
        from napari_maskinversion.app.work.model_store import ModelStore

        store = ModelStore()
        store.load("demo", "cpu")
        return store

    def load(self) -> Any:
        """Return the model, as the panel has it."""
        return self.store.load("demo", "cpu")

    def decide(self) -> None:
        """Write the project's decisions; those of an earlier call go."""
        for file in self._changing():
            file.unlink()
        project, names = self.project, list(self.project.by_name)
        for name in names[:: max(1, len(names) // DECIDED_IMAGES)][:DECIDED_IMAGES]:
            decide_right_words(project, name, names.index(name))
        self._kept = {file: file.read_bytes() for file in self._changing()}

    def put_back(self) -> None:
        """Put back the decisions that `decide` wrote."""
        for file in self._changing():
            if file not in self._kept:
                file.unlink()
            elif file.read_bytes() != self._kept[file]:
                file.write_bytes(self._kept[file])

    def _changing(self) -> list[Path]:
        projects = (self.project, self.large_project)
        found = [file for one in projects for file in (one.folder / "images").glob(f"*{SUFFIX}")]
        return found + [file for one in projects for file in one.folder.glob(".*.place.json")]


def bundle_of(project: Any, name: str) -> Any:
    """Return the stored results of an image."""
    from napari_maskinversion.batch.project_index import archive_file
    from napari_maskinversion.results.export.archive import open_archive

    return open_archive(archive_file(project, name))


def archive_vectors(project: Any) -> Any:
    """Return embeddings of some images."""
    names = list(project.by_name)[:60]
    return np.concatenate([bundle_of(project, name).results.embeddings for name in names])


def decide_right_words(project: Any, name: str, number: int) -> None:
    """Accept the right words of the first regions of an image."""
    from napari_maskinversion.app.review.decision_book import DecisionBook
    from napari_maskinversion.app.review.decision_requests import DecisionRequest
    from napari_maskinversion.base.identity import RegionKey

    for region in range(1, DECIDED_EACH + 1):
        request = DecisionRequest(
            regions={name: [RegionKey(region)]},
            status="accepted",
            label=made_project.word_of(number, region),
            **about_images(project, [name]),
        )
        outcome = DecisionBook().apply(request)
        assert not outcome.problems, outcome.problems


def about_images(project: Any, names: list[str]) -> dict[str, Any]:
    """Return what tells a request which images of a project it is about."""
    from napari_maskinversion.batch.project_decisions import ProjectRegions
    from napari_maskinversion.batch.project_index import place_in

    places = {name: place_in(project, name) for name in names}
    return {"images": places, "source": ProjectRegions(project.file)}


def taught_rows(project: Any, name: str, bundle: Any) -> dict[int, str | None]:
    """Return the rows of an image that are decided, with their words."""
    from napari_maskinversion.review.reporting import decisions_of

    decisions = decisions_of(bundle, project.path(name))
    rows = {region.key: row for row, region in enumerate(bundle.results.regions)}
    return {rows[key]: decision.label for key, decision in decisions.items()}


# -- the questions: each prepares, yields the call that is measured, and tidies up -----------------
# The call returns a line that says what was done.

Question = Callable[[Subject], Iterator[Callable[[], object]]]


def open_project(subject: Subject) -> Iterator[Callable[[], object]]:
    """From the file to the first image with its results, and the list with those in view.

    The panel and its viewer are there before, without a canvas: drawing is not in it.
    """
    from napari.components import ViewerModel
    from qtpy.QtWidgets import QApplication
    from superqt.utils import WorkerBase

    from napari_maskinversion._napari.panel.widget import MaskInversionWidget

    application = QApplication.instance() or QApplication([])
    panel = MaskInversionWidget(ViewerModel())
    panel.show()
    panel.reveal("images")
    part, session = panel.images.part, panel.session

    def wait(done: Callable[[], bool]) -> None:
        ends = time.monotonic() + 600
        while not done() and time.monotonic() < ends:
            application.processEvents()
            time.sleep(0.002)

    def is_shown() -> bool:
        first, last = part.list.rowAt(0), part.list.rowAt(part.list.viewport().height() - 1)
        return (
            panel.images.shown is not None
            and session.run.results is not None
            and not part.lister.busy
            and not part.model.unknown(first, last)
        )

    def call() -> str:
        session.project.open_images.emit([subject.project.file])
        wait(is_shown)
        return f"{part.model.count} images listed, {len(session.run.results)} regions shown"

    begun = time.monotonic()
    wait(lambda: time.monotonic() > begun + 3)  # PyTorch is loaded in the background
    yield call
    wait(lambda: not panel.images.ahead.job.busy)
    panel.shut_down()
    panel.close()
    WorkerBase.await_workers()


def count_all(subject: Subject) -> Iterator[Callable[[], object]]:
    """Pictures and counts of all images, as the list shows them when it is filtered."""
    from napari_maskinversion.app.project.images_work import list_work

    names = list(subject.project.by_name)

    def call() -> str:
        list_work(subject.project, names)
        return f"{len(names)} images"

    yield call


def status(subject: Subject) -> Iterator[Callable[[], object]]:
    """What a batch would have to compute: whether each image still fits."""
    from napari_maskinversion.batch.batch_running import plan

    yield lambda: f"{len(plan(subject.project).done)} images done"


def accept(subject: Subject) -> Iterator[Callable[[], object]]:
    """*Accept* of one word in all images, above a confidence; the index is as the files are."""
    from napari_maskinversion.batch.project_index import ProjectIndex

    ProjectIndex.fresh(subject.project)  # what an earlier question has put back is in it
    yield lambda: said(accepted(subject))


def take_back(subject: Subject) -> Iterator[Callable[[], object]]:
    """*Undo* of that."""
    from napari_maskinversion.app.review.decision_book import DecisionBook

    decided = accepted(subject)
    yield lambda: said(DecisionBook().take_back(decided))


def accepted(subject: Subject) -> Any:
    """Accept one word in all images."""
    from napari_maskinversion.app.review.decision_book import DecisionBook
    from napari_maskinversion.app.review.decision_requests import WordRequest

    about = about_images(subject.project, list(subject.project.by_name))
    request = WordRequest(word=made_project.WORDS[0], confidence=LEAST, **about)
    return DecisionBook().apply(request)


def said(decided: Any) -> str:
    """Say what was decided."""
    assert not decided.problems, decided.problems
    return f"{decided.count} decisions in {len(decided.steps)} images"


def decided_elsewhere(subject: Subject) -> Iterator[Callable[[], object]]:
    """The decisions about all images but the one shown, with their embeddings."""
    from napari_maskinversion.app.review.decided_elsewhere import Elsewhere

    name = next(iter(subject.project.by_name))
    bundle = bundle_of(subject.project, name)

    def call() -> str:
        elsewhere = Elsewhere(subject.project.file)
        return f"{len(elsewhere.samples(bundle.results, bundle.image.content))} decisions"

    yield call


def learn(subject: Subject) -> Iterator[Callable[[], object]]:
    """*Learn*: a classifier of the decisions in the whole project."""
    name = next(iter(subject.project.by_name))
    bundle = bundle_of(subject.project, name)
    decided = taught_rows(subject.project, name, bundle)
    subject.load()
    yield lambda: trained(subject, bundle, decided, subject.project.file)


def learn_from_one(subject: Subject) -> Iterator[Callable[[], object]]:
    """The same from as many decisions in the large image, without a project."""
    bundle, decided = large_bundle(subject)
    subject.load()
    yield lambda: trained(subject, bundle, decided, None)


def trained(subject: Subject, bundle: Any, decided: Any, project: Path | None) -> str:
    """Learn a classifier; return what was learned."""
    from napari_maskinversion.app.review.decided_elsewhere import Elsewhere
    from napari_maskinversion.app.review.learning import train

    about = bundle.results, decided, bundle.image.content, Elsewhere(project)
    return str(train(subject.load, *about).summary)


def suggest_again(subject: Subject) -> Iterator[Callable[[], object]]:
    """What *Learn from decisions* does after each: suggestions of the large image."""
    from napari_maskinversion.app.review.learning import learn

    bundle, decided = large_bundle(subject)
    subject.load()

    def call() -> str:
        learned = learn(subject.load, bundle.results, decided, bundle.image.content, {})
        assert learned is not None
        changed = sum(region.ranking.changed_from != "" for region in learned.regions)
        return f"{len(learned)} regions, {changed} changed"

    yield call


def large_bundle(subject: Subject) -> tuple[Any, dict[int, str | None]]:
    """Return the results of the large image, and as many decisions as the project has."""
    project = subject.large_project
    (name,) = project.by_name
    bundle = bundle_of(project, name)
    rows = range(min(DECIDED_IMAGES * DECIDED_EACH, subject.large))
    regions = bundle.results.regions
    return bundle, {row: made_project.word_of(0, regions[row].id) for row in rows}


def open_large(subject: Subject) -> Iterator[Callable[[], object]]:
    """The large image with its results, and its review, without the panel."""
    reviews: list[Any] = []

    def call() -> str:
        reviews.append(large_review(subject))
        return f"{len(reviews[0].results)} regions"

    yield call
    reviews[0].review.close()


def decide(subject: Subject) -> Iterator[Callable[[], object]]:
    """100 decisions in the large image, one by one: each is on the disk before the next."""
    state = large_review(subject)

    def call() -> str:
        for turn in range(PRESSES):
            state.row = state.next_undecided()
            if turn % 4 == 3:
                state.dismiss("rejected", time.monotonic())
            else:
                state.accept(1 + turn % 4, time.monotonic())
        return f"{len(state.review.decisions)} decisions"

    yield call
    state.review.close()


def large_review(subject: Subject) -> Any:
    """Open the large image and its review."""
    from napari_maskinversion.app.project.project_opening import open_project_image
    from napari_maskinversion.app.review.review_state import ReviewState
    from napari_maskinversion.review.queue import ReviewQueue
    from napari_maskinversion.review.review import Review

    project = subject.large_project
    opened = open_project_image(project, next(iter(project.by_name)))
    results = opened.bundle.results
    review = Review(opened.bundle.image, opened.results_of, results.info, file=opened.file)
    return ReviewState(results, review, ReviewQueue.from_results(results))


def keys(subject: Subject) -> Iterator[Callable[[], object]]:
    """100 keys in a window with as many regions, until Qt has handled each: needs a display."""
    import gui

    import review

    labels = gui.squares(2048, subject.large, edge=1)
    with tempfile.TemporaryDirectory() as folder:
        viewer, panel = review.open_panel(Path(folder), 2048, labels, (1400, 900))
        frames = review.Frames(viewer)
        yield lambda: f"a key, ms: {review.presses(viewer, panel, frames, PRESSES)}"
        viewer.close()


def find(subject: Subject) -> Iterator[Callable[[], object]]:
    """The 1,000 best regions of the project for a word; the gallery reads pictures in view."""
    from napari_maskinversion.app.explore.region_sources import PROJECT, project_source
    from napari_maskinversion.app.explore.searches import Query, search_regions

    query = Query(words="dog", model="demo", device="cpu")
    store, file = subject.store, subject.project.file
    yield lambda: search_regions(query, partial(project_source, file), PROJECT, store).about


def gallery(subject: Subject) -> Iterator[Callable[[], object]]:
    """The table of all regions of the project, without pictures."""
    yield lambda: f"{len(region_table(subject).frame)} regions"


def pictures(subject: Subject) -> Iterator[Callable[[], object]]:
    """The pictures of a screen of the gallery, each region of another image."""
    table = region_table(subject)
    total = len(table.frame)
    rows = range(0, total, max(1, total // PICTURES))[:PICTURES]
    yield lambda: f"{len(dict(table.thumbnails(rows)))} pictures"


def region_table(subject: Subject) -> Any:
    """Return the gallery's table of the project."""
    from napari_maskinversion.app.explore.region_sources import project_source

    return project_source(subject.project.file).table()


def search(subject: Subject) -> Iterator[Callable[[], object]]:
    """Searches of the library, each for what is like another region."""
    library, queries = subject.library, subject.queries

    def call() -> str:
        for query in queries:
            library.search(like=[query])
        return f"{len(queries)} searches of {library.info()['regions']} rows"

    yield call


QUESTIONS: dict[str, Question] = {
    "open": open_project,
    "count": count_all,
    "status": status,
    "accept": accept,
    "take back": take_back,
    "decided elsewhere": decided_elsewhere,
    "learn": learn,
    "learn from one": learn_from_one,
    "suggest again": suggest_again,
    "open large": open_large,
    "decide": decide,
    "keys": keys,
    "find": find,
    "gallery": gallery,
    "pictures": pictures,
    "search": search,
}


# -- measuring -------------------------------------------------------------------------------------


class OpenedFiles:
    """Counts the files of a folder that this process opens, and the folders that it lists."""

    def __init__(self, folder: Path) -> None:
        self._folder = f"{folder}{os.sep}"
        self._counting = False
        self.opened: Counter[str] = Counter()
        self.listed = 0
        sys.addaudithook(self._hear)  # which cannot be taken off again

    def begin(self) -> None:
        """Count from now on."""
        self.opened.clear()
        self.listed, self._counting = 0, True

    def end(self) -> dict[str, Any]:
        """Return what was opened: files and openings, also by kind."""
        self._counting = False
        kinds: dict[str, list[int]] = {}
        for file, times in self.opened.items():
            kind = kinds.setdefault(kind_of(file.removeprefix(self._folder)), [0, 0])
            kind[0] += 1
            kind[1] += times
        return {
            "files": len(self.opened),
            "openings": self.opened.total(),
            "folders_listed": self.listed,
            "files_and_openings_by_kind": dict(sorted(kinds.items())),
        }

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._counting or event not in (
            *("open", "sqlite3.connect"),
            *("os.listdir", "os.scandir"),
        ):
            return
        path = arguments[0] if arguments else None
        if not isinstance(path, str | os.PathLike):  # a number, or the working folder
            return
        place = os.path.abspath(path)  # noqa: PTH100 - links stay as they are
        if not f"{place}{os.sep}".startswith(self._folder):
            return
        if event.startswith("os."):
            self.listed += 1
        else:
            self.opened[place] += 1


def kind_of(file: str) -> str:
    """Return the path of a file without what tells it from others of its kind."""
    path = Path(file)
    if path.suffix == ".lock":
        return "locks"
    if path.name.startswith("."):
        return "hidden, of a moment"
    if path.parts[0] == "cache":
        return f"cache/{path.parent.name}/*{path.suffix}"
    return re.sub(r"\d+", "#", file)


def ask(question: Question, subject: Subject, repeat: int, files: OpenedFiles) -> dict[str, Any]:
    """Return how long the answers to a question took."""
    wall, processor, text, opened = [], [], "", {}
    for _ in range(repeat):
        for call in question(subject):
            gc.collect()
            files.begin()
            clock, spent = time.perf_counter(), time.process_time()
            text = str(call())
            processor.append(time.process_time() - spent)
            wall.append(time.perf_counter() - clock)
            opened = files.end()
        subject.put_back()
    return {
        "question": " ".join(str(question.__doc__).split()),
        "answer": text,
        "wall_s": round(median(wall), 3),
        "processor_s": round(median(processor), 3),
        "all_wall_s": [round(one, 3) for one in wall],
        "all_processor_s": [round(one, 3) for one in processor],
        **opened,
    }


def profile(question: Question, subject: Subject, functions: int) -> None:
    """Print the functions in which the answer to a question spends most, imports included."""
    for call in question(subject):
        profiler = cProfile.Profile(time.thread_time)
        profiler.runcall(call)
    subject.put_back()
    statistics = pstats.Stats(profiler).strip_dirs()
    for order in ("cumulative", "tottime"):
        statistics.sort_stats(order).print_stats(functions)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path(".cache/upper-floor"))
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--regions", type=int, default=50, help="of each image")
    parser.add_argument("--large", type=int, default=10_000, help="regions of the large image")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the library")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--profile", type=int, metavar="FUNCTIONS")
    parser.add_argument("--only", nargs="+", choices=list(QUESTIONS), default=list(QUESTIONS))
    parser.add_argument("--out", type=Path, default=measuring.RESULTS / "upper_floor.json")
    chosen = parser.parse_args()
    folder = chosen.folder.absolute()
    for kind in ("cache", "config"):  # never those of the user
        os.environ[f"NAPARI_MASKINVERSION_{kind.upper()}"] = str(folder / kind)
    subject = Subject(folder, chosen.images, chosen.regions, chosen.large, chosen.rows)
    subject.decide()
    files = OpenedFiles(folder)
    sizes = {name: getattr(chosen, name) for name in ("images", "regions", "large", "rows")}
    for name in chosen.only:
        if chosen.profile:
            print(f"\n{name}")
            profile(QUESTIONS[name], subject, chosen.profile)
            continue
        row = ask(QUESTIONS[name], subject, chosen.repeat, files)
        report = measuring.keep(chosen.out, name, row | {"sizes": sizes})
        report["processor"] = measuring.processor()
        measuring.write(chosen.out, report)
        print(
            f"{name:18} {row['wall_s']:8.2f} s {row['processor_s']:8.2f} s of the processor  "
            f"{row['files']:6,} files, opened {row['openings']:6,} times: {row['answer']}",
            flush=True,
        )


if __name__ == "__main__":
    main()
