"""Write the files of this folder with the code of the commit f4c61888; see README.md.

``python tests/reference/at_f4c61888/write_files.py FOLDER`` writes them to a new folder.
"""

import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import skimage.io
import skimage.transform
import tifffile

folder = Path(sys.argv[1]).absolute()
folder.mkdir(parents=True)
temporary = tempfile.TemporaryDirectory()
os.environ["NAPARI_MASKINVERSION_CACHE"] = str(Path(temporary.name) / "cache")
os.environ["NAPARI_MASKINVERSION_CONFIG"] = str(folder / "config")

import napari_maskinversion as nmi
from napari_maskinversion._napari.panel.panel_state import PanelState, write_state
from napari_maskinversion._napari.review.review_options import ReviewOptions
from napari_maskinversion.base.identity import RegionKey, identify_all, identify_image
from napari_maskinversion.base.preferences import Preferences, save
from napari_maskinversion.base.regions import Region, Regions
from napari_maskinversion.batch.opened import (
    OpenProject,
    Place,
    changed_image,
    edit,
    save_drawn,
    write_place,
)
from napari_maskinversion.bench.measures.figures_file import FiguresFile, RecordStore
from napari_maskinversion.cli import app
from napari_maskinversion.images.channels import as_source
from napari_maskinversion.language.captions.bank import open_bank
from napari_maskinversion.language.generation.small_gpt import (
    SmallGpt,
    SmallGptRecord,
    save_small_decoder,
)
from napari_maskinversion.language.labels.vocabulary import Vocabulary
from napari_maskinversion.language.ranking.uncertainty import Calibration
from napari_maskinversion.library.library import Library
from napari_maskinversion.regions.annotations.annotation import Annotation, Annotations
from napari_maskinversion.regions.label_images import PlaneRegions
from napari_maskinversion.results.calibrations import keep_calibration
from napari_maskinversion.results.export.archive import open_archive
from napari_maskinversion.results.export.bundle import Bundle, compress_masks
from napari_maskinversion.results.export.catalogue import export
from napari_maskinversion.results.settings import RunSettings
from napari_maskinversion.review.decisions import Suggestion
from napari_maskinversion.review.reporting import decided_bundle
from napari_maskinversion.review.review import Review

SAMPLES = Path(__file__).parents[3] / "sample_data"
WORDS = """\
templates: ["a photo of a {}.", "a drawing of a {}."]
labels:
  - label: grapes
    synonyms: [bunch of grapes]
    group: food
    colour: "#8000ff"
  - airplane
  - house
  - frog
  - car
"""
CAPTIONS = """\
a bunch of grapes
an airplane in the sky
a small house
a green frog
a red car
"""


def command(*arguments):
    sys.argv = ["napari-maskinversion", *map(str, arguments)]
    try:
        app.main()
    except SystemExit as stop:
        if stop.code:
            raise


def suggested(results, region):
    ranking = results.regions[[one.key for one in results.regions].index(region)].ranking
    return Suggestion(label=ranking.labels[0], rank=1, similarity=float(ranking.similarities[0]))


# -- a project of two scenes (128 x 128) with words, a caption bank and a finished batch ----------

project = folder / "project"
for number in (1, 3):
    for name, place in (("images", f"everyday-{number}"), ("masks", f"everyday-{number}_regions")):
        pixels = skimage.io.imread(SAMPLES / f"{place}.png")
        small = skimage.transform.resize(
            pixels, (128, 128), order=int(name == "images"), preserve_range=True
        )
        (project / name).mkdir(parents=True, exist_ok=True)
        skimage.io.imsave(
            project / name / f"scene-{number}.png", small.astype(np.uint8), check_contrast=False
        )
(project / "words.yaml").write_text(WORDS, "utf-8")
captions = Path(temporary.name) / "captions.txt"
captions.write_text(CAPTIONS, "utf-8")
command("captions", "build", captions, "--model", "demo", "--out", project / "captions")
(project / "captions" / ".lock").unlink(missing_ok=True)

os.chdir(project)
command(
    *("project", "new", ".", "--images", "images", "--regions", "masks", "--labels", "words.yaml"),
    *("--captions", "captions", "--top-k", 2, "--steps", 4, "--measure", "--window", 64),
)
opened = OpenProject.read(project)
box, mask = (20, 30, 40, 60), np.ones((20, 30), bool)
drawn = Annotations(shape=(128, 128), items=(Annotation(region=Region(1, box, mask), label="car"),))
save_drawn(opened, "scene-3.png", drawn)  # a file that nothing names
command("batch", ".", "--format", "csv,npz")
edit(project / "project.yaml", lambda one: changed_image(one, "scene-1.png", state="done"))
write_place(project / "project.yaml", Place(image="scene-3.png", region=2))

# -- decisions about both: accepted, corrected, rejected, skipped, undone and redone --------------

scene = {}
for number in (1, 3):
    image = project / "images" / f"scene-{number}.png"
    archives = project / "maskinversion_batch" / "archives"
    bundle = open_archive(archives / image.name / "results.npz")
    identity = identify_image(image.name, skimage.io.imread(image))
    regions = identify_all(one.unpack() for one in bundle.masks.values())
    with Review(identity, regions, bundle.results.info, file=image) as review:
        one, two, three, *rest = (region.key for region in regions)
        results = bundle.results
        review.accept(one, suggested(results, one).label, suggested(results, one))
        review.accept(two, "car", suggested(results, two))
        review.accept(two, "kite")  # typed
        review.reject(three, suggested(results, three))
        for four in rest:
            review.skip(four)
            review.undo()
            review.redo()
            review.undo()
        decided = review.saved()
    scene[number] = replace(decided_bundle(bundle, image), decisions=decided)

# -- results: soft masks, merged regions, captions, sentences, windows and decisions --------------

pixels = skimage.io.imread(project / "images" / "scene-1.png")
labels = skimage.io.imread(project / "masks" / "scene-1.png")
soft = np.stack([np.where(labels == value, 1.0, 0.0) for value in (1, 2, 3, 4)])
soft[:3, 60:70, 60:70] = 0.5
masks = Regions.from_masks(soft.astype(np.float32), ids=(1, 2, 3, 4)).merged([(2, 4)])
results = nmi.label_regions(
    *(pixels, masks, project / "words.yaml"),
    model="demo",
    bank=open_bank(project / "captions"),
    captions="demo",
    steps=4,
    window="64",
    top_captions=2,
    threshold=0.1,
    measure=True,
    pixel_size=0.5,
)
identity = identify_image("scene-1.png", pixels)
bundle = Bundle(results=results, masks=compress_masks([PlaneRegions((), masks)]), image=identity)
with Review(identity, identify_all(masks), results.info, file=folder / "soft.png") as review:
    review.accept(RegionKey(1), "grapes", suggested(results, RegionKey(1)))
    review.reject(RegionKey(3))
    bundle = replace(bundle, decisions=review.saved())
(folder / "soft.png.maskinversion.jsonl").unlink()
export(bundle, folder / "results.npz")
export(bundle, folder / "results.csv")

# -- results of two planes of a stack, and decisions about one of them ---------------------------

stack, planes = np.stack([pixels, pixels[::-1]]), np.stack([labels, labels[::-1]])
tifffile.imwrite(
    folder / "stack.tif", stack[:, ::2, ::2], metadata={"axes": "ZYXS"}, compression="zlib"
)
tifffile.imwrite(
    folder / "stack_regions.tif",
    *(planes[:, ::2, ::2],),
    metadata={"axes": "ZYX"},
    compression="zlib",
)
os.chdir(folder)
command(
    *("run", "stack.tif", "stack_regions.tif", "--labels", "grapes, house", "--planes", "each"),
    *("--steps", 2, "--window", "whole", "--out", "planes", "--format", "npz,csv"),
)
for name in ("npz", "csv"):
    kept = folder / "planes" / {"npz": "results.npz", "csv": "regions.csv"}[name]
    kept.rename(folder / f"planes.{name}")
(folder / "planes").rmdir()
bundle = open_archive(folder / "planes.npz")
identities = [
    identity
    for (position, _), region in bundle.masks.items()
    for identity in identify_all([region.unpack()], position)
]
file = folder / "stack.tif"
with Review(bundle.image, identities, bundle.results.info, file=file) as review:
    review.accept(identities[-1].key, "house")
    review.reject(identities[0].key)

# -- a library of both scenes with thumbnails and without paths, its export, and what it teaches --

library = Library.new(folder / "library")
for number, bundle in scene.items():
    pixels = skimage.io.imread(project / "images" / f"scene-{number}.png")
    library.add(bundle, planes={(): as_source(pixels)})
library.export(folder / "library.parquet")
library.train(["airplane", "grapes", "kite", "house", "frog", "car"], features=["size"]).save(
    folder / "classifier.safetensors"
)

# -- label files, and regions of results as files that this program reads again -------------------

words = Vocabulary.read(project / "words.yaml")
for suffix in ("txt", "csv", "yaml"):
    replace(words, threshold=0.25).save(folder / f"words.{suffix}")
export(scene[1], folder / "regions.tif", "masks")
export(scene[1], folder / "regions.geojson", "geojson")
export(scene[1], folder / "coco.json", "coco")

# -- what is kept in the cache folder and the configuration folder --------------------------------

save(Preferences(model="demo", device="cpu", heatmap="magma", live=True, offline=True))
options = ReviewOptions(order="largest", learn=True)
write_state(
    PanelState(
        settings=RunSettings.of(alpha=2.0, window="128"),
        labels="cat\ndog",
        marks={"cat": ("pets", "#ff0000")},
        threshold=0.2,
        none=True,
        tab="review",
        projects=("project.yaml",),
        review=options,
    )
)
limits = Calibration(
    margin=0.01, overlap=0.3, right=40, wrong=5, right_kept=0.9, wrong_flagged=0.6, source="x.npz"
)
keep_calibration("abc123", results.info.settings, limits)

# -- what measurements keep, and a caption decoder ------------------------------------------------

sys.argv = ["napari-maskinversion", "bench", "speed"]
figures = FiguresFile(folder / "figures.json", "speed", {"model": "demo"})
figures.part("encoding", lambda: {"ms": 3.5})
records = RecordStore(
    folder / "figures.records.jsonl", "regions", ("image", "region"), {"model": "demo"}
)
records.add(("a.png", 1), {"right": True})
records.add(("a.png", 2), {"right": False})

import torch

torch.manual_seed(0)
about = SmallGptRecord(
    model="demo",
    fingerprint="abc123",
    words=(".", "a", "frog"),
    embed_dim=8,
    width=8,
    layers=1,
    heads=2,
    positions=6,
    sharpness=100.0,
)
save_small_decoder(folder / "decoder.safetensors", SmallGpt(about), about, torch.eye(4, 8))

for left in folder.rglob(".*lock"):
    left.unlink()
