"""A project whose batch is finished, made without computing its images.

One image is computed by the bundled model. All others are written through the same functions with
its maps and other embeddings: each is the text of a word and noise, so that suggestions are mostly
right and of every confidence. Regions are blobs in a grid. The same numbers make the same project.
"""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import skimage.io
from numpy.typing import NDArray

WORDS = (
    *("car", "house", "dog", "horse", "apple", "lemon", "mushroom"),
    *("umbrella", "airplane", "bicycle", "key", "camera", "balloon"),
)
CELL = 32  # pixels of a side, for one region
NOISE = 3.0  # length of the noise beside the text of the right word
STRIDE = 7  # word of a region: its number times this, so that neighbours differ


@dataclass(frozen=True, slots=True)
class Template:
    """What one computed image gives to the others."""

    results: Any
    texts: NDArray[np.float32]  # (words, e), unit
    logit_scale: float


def word_of(image: int, region: int) -> str:
    """Return the right word of a region."""
    return WORDS[(image + STRIDE * region) % len(WORDS)]


def open_or_make(folder: Path, images: int, regions: int, cell: int = CELL) -> Any:
    """Return the project in a folder; make it unless all of it is there and still fits."""
    from napari_maskinversion.batch.batch_running import plan
    from napari_maskinversion.batch.opened import OpenProject

    if (folder / "complete").exists():
        project = OpenProject.read(folder)
        if not plan(project).tasks:
            return project
    shutil.rmtree(folder, ignore_errors=True)
    project = _write_inputs(folder, images, regions, cell)
    template = _computed(folder.with_name(f"{folder.name}-template"))
    for number, name in enumerate(project.by_name):
        _write_results(project, name, number, template)
        if number % 100 == 99:
            print(f"{number + 1} of {images} images made", flush=True)
    (folder / "complete").touch()
    return project


def _write_inputs(folder: Path, images: int, regions: int, cell: int) -> Any:
    """Write images, their regions and ``project.yaml``."""
    from napari_maskinversion.batch.opened import OpenProject
    from napari_maskinversion.batch.project import Project, ProjectImage, write_project

    for kind in ("images", "masks"):
        (folder / kind).mkdir(parents=True)
    listed = []
    for number in range(images):
        name = f"image-{number:04d}.png"
        pixels, labels = _drawn(number, regions, cell)
        for kind, plane in (("images", pixels), ("masks", labels)):
            skimage.io.imsave(folder / kind / name, plane, check_contrast=False)
        listed.append(ProjectImage(name=name, image=f"images/{name}", regions=f"masks/{name}"))
    write_project(Project(labels=WORDS, images=tuple(listed)), folder / "project.yaml")
    return OpenProject.read(folder)


def _drawn(number: int, regions: int, cell: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return an image (h, w, 3) with discs in a grid, and their labels (h, w)."""
    rng = np.random.default_rng(number)
    columns = math.ceil(math.sqrt(regions))
    side = columns * cell
    labels = np.zeros((side, side), np.uint16)
    coarse = rng.integers(60, 120, (side // 8, side // 8, 3), dtype=np.uint8)
    pixels = coarse.repeat(8, axis=0).repeat(8, axis=1)
    ys, xs = np.mgrid[:cell, :cell] - cell // 2
    for region in range(regions):
        y, x = cell * (region // columns), cell * (region % columns)
        radius = cell * rng.uniform(0.25, 0.45)
        disc = ys**2 + (rng.uniform(0.8, 1.2) * xs) ** 2 < radius**2
        labels[y : y + cell, x : x + cell][disc] = region + 1
        pixels[y : y + cell, x : x + cell][disc] = rng.integers(120, 255, 3)
    return pixels, labels


def _computed(folder: Path) -> Template:
    """Compute one image of 50 regions."""
    from napari_maskinversion import load_model
    from napari_maskinversion.language.text import embed_vocabulary
    from napari_maskinversion.pipeline.job import open_job, run_job

    shutil.rmtree(folder, ignore_errors=True)
    project, model = _write_inputs(folder, 1, 50, CELL), load_model("demo", device="cpu")
    (name,) = project.by_name
    task = project.task(name)
    with open_job(task.image, task.regions, task.settings) as job:
        results = run_job(job, model, task.vocabulary).results
    texts = embed_vocabulary(model, task.vocabulary)
    shutil.rmtree(folder)
    return Template(results, texts, model.logit_scale)


def _write_results(project: Any, name: str, number: int, template: Template) -> None:
    """Write the results of an image, as a batch does."""
    from napari_maskinversion.batch.finished import Finished
    from napari_maskinversion.batch.image_run import store
    from napari_maskinversion.pipeline.job import open_job

    task = project.task(name)
    with open_job(task.image, task.regions, task.settings) as job:
        (plane,) = job.tasks
        results = _results(template, plane.regions, number)
        store(task, job.bundle(results), Finished.of(task))


def _results(template: Template, regions: Any, number: int) -> Any:
    """Return results of regions: those of the template with other embeddings."""
    from napari_maskinversion.language.ranking.ranking import rank
    from napari_maskinversion.results.results import Results

    rng = np.random.default_rng(number)
    words = [WORDS.index(word_of(number, region.id)) for region in regions]
    noise = rng.standard_normal((len(words), template.texts.shape[1]), np.float32)
    noise *= NOISE / np.linalg.norm(noise, axis=1, keepdims=True)
    vectors = template.texts[words] + noise
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rankings = rank(vectors, template.texts, WORDS, template.logit_scale)
    height, width = regions.shape
    made = []
    for index, region in enumerate(regions):
        computed = template.results.regions[index % len(template.results)]
        box = (0.0, 0.0, float(height), float(width))
        result = replace(
            computed,
            id=region.id,
            bbox=region.bbox,
            area=region.area,
            centroid=region.centroid,
            index=index,
            raw_embedding=vectors[index],
            ranking=rankings[index],
            window=replace(computed.window, box=box, pixels=(height, width)),
        )
        made.append(result)
    info = replace(template.results.info, image_shape=(height, width))
    return Results(info, tuple(made))
