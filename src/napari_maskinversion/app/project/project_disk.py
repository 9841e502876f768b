"""What the panel writes for a project: one thing after the other, in a worker. No Qt, no napari."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...base.errors import EmptyMaskError, InputError, MaskInversionError
from ...base.identity import Position, RegionIdentity, identify
from ...base.regions import Region
from ...base.wording import one_line
from ...batch.opened import OpenProject, Place, State, changed_image, edit, free_name, write_place
from ...batch.project import Project, relative, stored_settings
from ...language.labels.vocabulary import Vocabulary
from ...results.export.bundle import Masks
from ...results.results import Results
from ...results.settings import RunSettings, fields_of

if TYPE_CHECKING:
    from ..layer_input.run_input import RunInput

WORDS: Final = "_words.yaml"  # after the project's name: words that have groups
_MODEL: Final = ("model", "architecture")  # one makes no sense without the other
_NOT_OF_PROJECT: Final = ("device", "chunk_size", "series")  # of the machine or an image


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Written:
    """What was written."""

    project: OpenProject  # As it is now
    image: str = ""  # The image whose regions or results changed; "" for none
    regions: tuple[RegionIdentity, ...] | None = None  # Its regions, if they were written
    layers: int = 0  # How many layers have such regions
    words: bool = False  # Whether words or settings of the project changed
    stamp: int = 0  # Which edits of regions were to be kept
    problem: str = ""  # Why they could not be


@dataclass(slots=True, eq=False)
class SavedRegions:
    """The regions of an image as they are on the disk: set by the worker that writes them."""

    regions: tuple[RegionIdentity, ...]


@dataclass(slots=True, eq=False)
class Edits:
    """What the user has changed of the settings and words of a project.

    The panel shows another model where that of the project is missing. Only what differs from what
    it showed at first was changed by the user.
    """

    settings: RunSettings  # As the panel showed them at first
    words: Vocabulary | None
    of_regions: bool = False  # Whether these words came with a file of regions
    _values: dict[str, Any] = field(default_factory=dict)
    _words: Vocabulary | None = None

    @property
    def has_words(self) -> bool:
        """Whether the user has changed the words."""
        return self._words is not None

    def note(self, settings: RunSettings, words: Vocabulary | None) -> bool:
        """Note what differs by now; return whether anything was ever changed."""
        values = {key: settings.get(key) for key in _project_keys()}
        first = {key: self.settings.get(key) for key in _project_keys()}
        first["threshold"] = None if self.words is None else self.words.threshold
        values["threshold"] = first["threshold"] if words is None else words.threshold
        changed = set(self._values)  # what was changed once stays so
        for key, value in values.items():
            if value != first[key]:
                changed.add(key)
        if changed & set(_MODEL):
            changed |= set(_MODEL)
        self._values = {key: values[key] for key in changed}
        if words is not None and (self.has_words or not self._alike(words)):
            self._words = words
        return bool(changed) or self.has_words

    def _alike(self, words: Vocabulary) -> bool:
        """Return whether settings can tell the difference: a threshold that is in no file."""
        first = self.words
        if first is None or (self.settings.threshold is None and _lost(first, words)):
            return False
        return replace(first, threshold=words.threshold) == words

    def made_in(self, settings: RunSettings) -> tuple[Vocabulary | None, RunSettings]:
        """Return the words, if they were changed, and a project's settings with the changes."""
        settings, words = settings.changed(self._values), self._words
        if words is None:
            return None, settings
        if "threshold" not in self._values and settings.threshold is None:
            settings = settings.changed({"threshold": words.threshold})  # that of their file
        return replace(words, threshold=settings.threshold), settings


def _project_keys() -> list[str]:
    """Return the keys of the settings that a project has."""
    return [setting.key for setting in fields_of() if setting.key not in _NOT_OF_PROJECT]


def _lost(before: Vocabulary, after: Vocabulary) -> bool:
    """Return whether words no longer have a threshold."""
    return before.threshold is not None and after.threshold is None


class ProjectDisk:
    """Writes for one open project; its methods belong in a worker, one at a time."""

    def __init__(self, project: OpenProject, edits: Edits | None = None) -> None:
        self.project, self.edits = project, edits or Edits(project.settings, None)

    def save_regions(
        self, name: str, layers: Sequence[Sequence[RunInput]], saved: SavedRegions
    ) -> Written | None:
        """Keep the regions of an image, unless they are on the disk already."""
        from ...batch.opened import save_drawn
        from ..layer_input.label_layers import annotations_of

        joined, shape = _joined(layers)
        regions = list(chain.from_iterable(joined))
        identities = tuple(identify(region, position) for position, region in regions)
        if set(identities) == set(saved.regions):
            return None
        path = None
        if identities:
            file = save_drawn(self.project, name, annotations_of(regions, shape))
            path = relative(file, self.project.folder)
        before = self.project.by_name[name]
        state: State = before.state
        if set(identities) - set(saved.regions):
            state = "open"  # nobody has decided about a new region
        if (path, state) != (before.regions, before.state):
            self._edit(lambda project: changed_image(project, name, regions=path, state=state))
        saved.regions = identities  # only now: if writing fails, it is tried again
        layer_count = sum(map(bool, joined))
        return Written(project=self.project, image=name, regions=identities, layers=layer_count)

    def keep_regions(
        self, stamp: int, name: str, layers: Sequence[Sequence[RunInput]], saved: SavedRegions
    ) -> Written:
        """Do `save_regions`, and report also how that failed."""
        try:
            written = self.save_regions(name, layers, saved) or Written(project=self.project)
            return replace(written, stamp=stamp)
        except (MaskInversionError, OSError) as error:
            return Written(project=self.project, stamp=stamp, problem=one_line(error))

    def save_results(
        self,
        name: str,
        results: Results,
        masks: Masks,
        settings: RunSettings,
        *,
        identities: Iterable[RegionIdentity],
        saved: SavedRegions,
    ) -> Written | None:
        """Keep the results of a run, if a batch would make them: without what decisions taught.

        ``identities`` are its regions; results of only some of those that are saved are not kept.
        """
        from ...batch.finished import Finished
        from ...batch.image_run import store
        from ...batch.project_decisions import keep_computed
        from ...pipeline.job import open_job

        task = self.project.task(name)
        if task is None or set(identities) != set(saved.regions):
            return None
        words, limits = results.info.vocabulary, results.info.settings.unsure
        if words is None or task.vocabulary not in (None, words):
            return None
        # The words carry the threshold. It and the limits may have been changed since the run.
        settings = settings.changed({"threshold": words.threshold, "unsure": limits})
        free_keys = [*_NOT_OF_PROJECT, "planes"]
        if task.vocabulary is not None:
            free_keys.append("threshold")  # which may be in the file of words
        batch_settings = task.settings.changed({key: settings.get(key) for key in free_keys})
        if batch_settings != settings:
            return None
        finished = Finished.of(task)
        with open_job(task.image, task.regions, task.settings) as job:
            bundle = job.bundle(results, masks)
        store(task, bundle, finished)
        _, problem = keep_computed(self.project, name)
        if problem:
            raise InputError(f"{name} was computed, but {problem}")
        return Written(project=self.project, image=name)

    def save_ranking(self, name: str, shown: Results) -> Written | None:
        """Keep how decisions rank an image, in the results that the project has of its regions.

        Results with other words are none of the project's.
        """
        from ...batch.image_run import store_ranking
        from ...batch.project_decisions import keep_computed
        from ...batch.project_index import archive_file
        from ...results.export.archive import open_archive

        task, file = self.project.task(name), archive_file(self.project, name)
        if task is None or file is None:
            return None
        bundle = open_archive(file)
        stored = bundle.results
        if stored.info.vocabulary == shown.info.vocabulary or not _same_but_ranking(stored, shown):
            return None
        rankings = [region.ranking for region in shown.regions]
        ranked = stored.ranked(shown.info.vocabulary, rankings)
        store_ranking(task, replace(bundle, results=ranked))
        _, problem = keep_computed(self.project, name)
        if problem:
            raise InputError(f"{name} was ranked, but {problem}")
        return Written(project=self.project, image=name)

    def set_states(self, done: Mapping[str, bool]) -> Written | None:
        """Keep which images are done."""
        states: dict[str, State] = {}
        for name, is_done in done.items():
            state: State = "done" if is_done else "open"
            if self.project.by_name[name].state != state:
                states[name] = state
        if not states:
            return None

        def change(project: Project) -> Project:
            for name, state in states.items():
                project = changed_image(project, name, state=state)
            return project

        self._edit(change)
        return Written(project=self.project)

    def set_words(self, vocabulary: Vocabulary | None, settings: RunSettings) -> Written | None:
        """Keep words, if there are some, and settings for the images that follow."""
        before, folder = self.project, self.project.folder
        if vocabulary is not None:
            settings = settings.changed({"threshold": vocabulary.threshold})
        unchanged = {key: before.settings.get(key) for key in _NOT_OF_PROJECT}
        stored = stored_settings(settings.changed(unchanged), folder)
        same_words = vocabulary is None or _same_words(before, vocabulary)
        if same_words and stored == stored_settings(before.settings, folder):
            return None
        words = {} if vocabulary is None or same_words else self._words(vocabulary)
        self._edit(lambda project: Project(**{**dict(project), "settings": stored, **words}))
        return Written(project=self.project, words=True)

    def _words(self, vocabulary: Vocabulary) -> dict[str, Any]:
        fields = words_of(vocabulary, self.project.folder)
        if any(vocabulary.groups):  # which a list cannot hold
            usual = self.project.file.with_name(f"{self.project.file.stem}{WORDS}")
            file = free_name(usual, lambda path: self.project.project.labels == path.name)
            replace(vocabulary, threshold=None).save(file, overwrite=True)
            fields["labels"] = file.name
        return fields

    def add(self, change: Callable[[Project], Project]) -> Written:
        """Change the list of images."""
        self._edit(change)
        return Written(project=self.project)

    def keep_place(self, place: Place) -> None:
        """Keep where the user is."""
        write_place(self.project.file, place)

    def _edit(self, change: Callable[[Project], Project]) -> None:
        self.project = self.project.with_project(edit(self.project.file, change))


def _same_but_ranking(stored: Results, shown: Results) -> bool:
    """Return whether results have the same regions, embeddings and words."""
    words = [results.info.without_decisions.vocabulary for results in (stored, shown)]
    if words[0] != words[1] or stored.info.fingerprint != shown.info.fingerprint:
        return False
    keys = [[region.key for region in results.regions] for results in (stored, shown)]
    return keys[0] == keys[1] and np.array_equal(stored.raw_embeddings, shown.raw_embeddings)


def _joined(
    layers: Sequence[Sequence[RunInput]],
) -> tuple[list[list[tuple[Position, Region]]], tuple[int, int]]:
    """Return the regions of each layer with ids that no other has, and the size of a plane."""
    joined: list[list[tuple[Position, Region]]] = []
    taken: set[int] = set()
    outlines: set[str] = set()
    shape = (0, 0)
    for inputs in layers:
        regions: list[tuple[Position, Region]] = []
        for run_input in inputs:
            try:
                tasks = run_input.tasks()
            except EmptyMaskError:  # no region is left, or it lies outside the image
                continue
            shape = tasks[0].regions.shape
            for task in tasks:
                for region in task.regions:
                    # Layers may hold copies of the same region.
                    if identify(region, task.position).mask not in outlines:
                        regions.append((task.position, region))
        highest = max((0, *taken, *(region.id for _, region in regions)))
        ids: dict[int, int] = {}
        for _, region in regions:  # one object keeps one id on all planes
            if region.id in ids:
                continue
            if region.id < 1 or region.id in taken:
                highest += 1
                ids[region.id] = highest
            else:
                ids[region.id] = region.id
        joined.append(
            [(position, replace(region, id=ids[region.id])) for position, region in regions]
        )
        taken |= set(ids.values())
        outlines |= {identify(region, position).mask for position, region in regions}
    return joined, shape


def words_of(vocabulary: Vocabulary, folder: Path) -> dict[str, Any]:
    """Return the fields of a project that hold words; groups have no place there."""
    from ...language.labels.label import TEMPLATES
    from ...language.labels.vocabulary import to_text

    colors = {}
    for name, color in zip(vocabulary.labels, vocabulary.colors, strict=False):
        if color:
            colors[name] = color
    has_usual_prompts = vocabulary.templates == TEMPLATES["photo"]
    file = None if vocabulary.learned is None else vocabulary.learned.file
    return {
        "labels": to_text(vocabulary.full_labels) if vocabulary.synonyms else vocabulary.labels,
        "classifier": None if file is None else relative(file, folder),
        "templates": () if has_usual_prompts else vocabulary.templates,
        "colors": colors,
    }


def defaults(vocabulary: Vocabulary | None, settings: RunSettings, folder: Path) -> Project:
    """Return a project without images that has these words and settings."""
    words: dict[str, Any] = {}
    if vocabulary is not None:
        words = words_of(vocabulary, folder)
        settings = settings.changed({"threshold": vocabulary.threshold})
    usual = RunSettings()
    not_kept = {key: usual.get(key) for key in _NOT_OF_PROJECT}
    return Project(settings=stored_settings(settings.changed(not_kept), folder), **words)


def _same_words(project: OpenProject, vocabulary: Vocabulary) -> bool:
    """Return whether a project has these words; its settings hold the threshold."""
    try:
        before = project.project.vocabulary(project.folder, None)
    except MaskInversionError:  # the file of words is gone
        return False
    if before is None or _lost(before, vocabulary):
        return False
    return replace(before, threshold=vocabulary.threshold) == vocabulary
