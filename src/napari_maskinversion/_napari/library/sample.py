"""The sample library: the regions of the sample scenes, embedded by the demo model at first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...base.cache_folder import cache_folder, make_folder
from ...engine.models.specs import DEMO
from ...images.sample_scenes import load_scene, scene_names
from ..workers.driver import Update, show
from ..workers.model_store import ModelStore

if TYPE_CHECKING:
    from ...library.library import Library

FOLDER: Final = "sample-library"  # in the cache folder
_SETTINGS: Final[dict[str, Any]] = {}  # as at the first start; tests compute less


def sample_library(store: ModelStore, device: str) -> Library:
    """Open the sample library; scenes that it lacks are computed first. For a worker."""
    from ...language.labels.presets import vocabulary_of
    from ...language.labels.vocabulary import Vocabulary
    from ...library.adding import stored_path
    from ...library.library import Library
    from ...pipeline.job import open_job, run_job
    from ...results.settings import RunSettings

    folder = cache_folder() / FOLDER
    make_folder(folder)
    library, names = Library.open(folder, create=True), scene_names()
    model, rows = store.load(DEMO, device), library.rows()
    about = library.info()["spaces"]  # of an earlier demo model, and from an earlier place, too
    own = [about[one]["space"].partition("/")[0] == model.fingerprint for one in rows["space"]]
    there = set(rows["image"][own])
    settings = RunSettings(model=DEMO, device=device).changed(_SETTINGS)
    for number, name in enumerate(names):
        scene = load_scene(name)
        image, regions = scene.files
        if stored_path(image) in there:
            continue
        words = vocabulary_of(Vocabulary(scene.vocabulary), ())
        text = f"Sample {number + 1} of {len(names)}: {scene.title}"
        show(Update(text=text, fraction=number / len(names)))
        with open_job(image, regions, settings) as job:
            bundle = run_job(job, model, words)
            planes = {task.position: task.source for task in job.tasks}
            library.add(bundle, image=image, planes=planes)
    return library
