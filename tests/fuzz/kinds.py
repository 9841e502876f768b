"""One whole file of every kind that a command reads, and the commands that read it."""

import json
import shutil
from dataclasses import dataclass

import numpy as np
import skimage.io
import tifffile
import zarr
from PIL import Image
from roifile import ImagejRoi, roiwrite

from napari_maskinversion.base.identity import identify_all, identify_image
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.engine.models.specs import bundled_folder
from napari_maskinversion.language.generation.registry import bundled_decoder
from napari_maskinversion.results.export.archive import open_archive
from napari_maskinversion.review.review import Review
from tests import tiny_decoders
from tests.bench.sets import own_images
from tests.ndpi import write_ndpi
from tests.regions.sam.tiny import save_tiny
from tests.scenes import label_image, picture

from .attack import OUT

FAST = ("--steps", "1", "--resolution", "64")
LABELS = ("--labels", "car,dog")


@dataclass(frozen=True)
class Kind:
    """A kind of file: its place in the folder, and commands that read it."""

    name: str
    file: str
    commands: tuple[tuple[str, ...], ...]
    also: tuple[str, ...] = ()

    @property
    def names(self):
        """What a message about the file may name: it, the folder that it is part of, or `also`."""
        parts = self.file.split("/")
        return (parts[0], parts[-1], *self.also)


def run(image="image.png", masks="masks.png", *more, out=("--out", OUT)):
    return ("run", image, masks, *LABELS, *FAST, "--format", "csv,json", *out, *more)


def image(name, file):
    opened = file.split("/")[0]  # a folder of zarr
    commands = (
        run(opened),
        ("find", opened, "masks.png", "the car", *FAST),
        ("rollout", opened, "--resolution", "64", "--out", f"{OUT}/map.png"),
        ("segment", opened, "--boxes", "boxes.csv", "--out", f"{OUT}/boxes.tif"),
        ("export", "results.npz", "--image", opened, "--out", OUT),
    )
    return Kind(name, file, commands, also=("The image ", "the image ", "The plane "))


def regions(name, file):
    opened = file.split("/")[0]
    find = ("find", "image.png", opened, "a car", *FAST)
    return Kind(name, file, (run("image.png", opened), find))


def labels(name, file):
    commands = (
        ("labels", "show", file),
        ("labels", "convert", file, f"{OUT}/labels.yaml"),
        run("image.png", "masks.png", "--labels", file),
    )
    return Kind(name, file, commands)


def written(name, file, *words, out):
    return Kind(name, file, ((*words, "--out", f"{OUT}/{out}"),))


def model(name, file):
    commands = (
        run("image.png", "masks.png", "--model", "model"),
        ("models", "check", "model"),
        ("rollout", "image.png", "--model", "model", "--resolution", "64", "--out", f"{OUT}/r.png"),
        ("captions", "search", "captions.txt", "a dog", "--model", "model"),
    )
    return Kind(name, f"model/{file}", commands)


SEARCH = ("captions", "search", "bank", "a dog")
FOLDER = (
    *("bench", "folder", "--images", "set/images", "--masks", "set/masks"),
    *("--names", "set/names.txt", "--methods", "crop", "--steps", "1"),
)
SHOW = ("bench", "show", "figures.json", "--markdown", f"{OUT}/tables.md")
RESUME = ("bench", "steps", "--short", "--scenes", "1", "--steps", "1", "--json", "kept.json")
SAVED = (
    ("export", "results.npz", "--out", OUT, "--format", "csv,coco,geojson,json,npy,masks,parquet"),
    ("export", "results.npz", "--out", OUT, "--format", "npz,tif"),
    ("models", "calibrate", "demo", "results.npz"),
)

YOLO = (
    run("image.png", "yolo/image.txt"),
    ("find", "image.png", "yolo/image.txt", "a car", *FAST),
)
SEGMENT = ("segment", "image.png", "--checkpoint", "sam.pth")
BOXES = ("segment", "image.png", "--boxes", "boxes.csv")

DECODED = (
    *("caption", "image.png", "masks.png", "--decoder", "decap"),
    *("--decoder-file", "decoder.safetensors", *FAST, "--out", OUT),
)
DRAWN = (
    *("imagine", "image.png", "masks.png", "--region", "1", "--model", "demo", *FAST),
    *("--weights", "kandinsky", "--prior", "prior", "--prompt", "a photo of a sks dog"),
    *("--subject", "dog", "--draw-steps", "1", "--size", "64", "--out", f"{OUT}/drawn"),
)

MARK = "archives/image.png/batch.json"
STATUS = ("project", "status", "project")
CHECK = ("project", "check", "project")
BATCHED = (
    (*STATUS, "--out", "batched"),
    ("project", "export", "project", "--results", "batched", "--stale", "--out", OUT),
)

KINDS = (
    image("png", "grey.png"),
    image("rgb png", "image.png"),
    image("jpeg", "photo.jpg"),
    image("tiff", "plain.tif"),
    image("tiff lzw", "lzw.tif"),
    image("tiff deflate", "deflate.tif"),
    image("tiff jpeg", "jpeg.tif"),
    image("tiff tiled", "tiled.tif"),
    image("tiff planar", "planar.tif"),
    image("ome-tiff", "stack.ome.tif"),
    image("npy", "plane.npy"),
    image("bmp", "image.bmp"),
    image("ndpi", "slide.ndpi"),
    image("zarr metadata", "plane.zarr/zarr.json"),
    image("zarr chunk", "plane.zarr/c/0/0"),
    image("ome-zarr metadata", "pyramid.zarr/zarr.json"),
    regions("label png", "masks.png"),
    regions("label tiff", "labels.tif"),
    regions("label npy", "labels.npy"),
    regions("label zarr", "labels.zarr/c/0/0"),
    regions("binary masks", "binary/1.png"),
    regions("coco", "coco.json"),
    regions("geojson", "regions.geojson"),
    regions("voc", "voc.xml"),
    regions("cvat", "cvat.xml"),
    regions("labelme", "labelme.json"),
    Kind("yolo", "yolo/image.txt", YOLO),
    Kind("yolo names", "yolo/classes.txt", YOLO),
    regions("coco panoptic", "panoptic.json"),
    Kind("coco panoptic ids", "panoptic/image.png", regions("", "panoptic.json").commands),
    regions("imagej roi", "cell.roi"),
    regions("imagej rois", "RoiSet.zip"),
    regions("cellpose", "image_seg.npy"),
    labels("label text", "labels.txt"),
    labels("label csv", "labels.csv"),
    labels("label yaml", "labels.yaml"),
    Kind("archive", "results.npz", SAVED, also=("Review more regions",)),
    Kind(
        "decisions",
        "image.png.maskinversion.jsonl",
        (("models", "calibrate", "demo", "results.npz", "image.png.maskinversion.jsonl"),),
        also=("Review more regions",),
    ),
    Kind("captions text", "captions.txt", (("captions", "search", "captions.txt", "a dog"),)),
    Kind("captions csv", "captions.csv", (("captions", "build", "captions.csv", "--out", OUT),)),
    Kind("bank texts", "bank/captions.parquet", (SEARCH,), also=("model",)),
    Kind("bank vectors", "bank/vectors-00000000-00000002.parquet", (SEARCH,)),
    model("model config", "open_clip_config.json"),
    model("model weights", "open_clip_model.safetensors"),
    Kind("preferences", "config/preferences.json", (run(), ("models", "list"))),
    written("boxes", "boxes.csv", *SEGMENT, "--boxes", "boxes.csv", out="b.tif"),
    written("points", "points.csv", *SEGMENT, "--points", "points.csv", out="b.tif"),
    Kind("figures", "figures.json", (SHOW,)),
    Kind("figures kept", "kept.json", (RESUME,)),
    Kind("bench image", "set/images/p0.jpg", (FOLDER,)),
    Kind("bench masks", "set/masks/p0.png", (FOLDER,)),
    Kind("bench names", "set/names.txt", (FOLDER,)),
    # The check names the images that cannot be run above its error.
    Kind("project", "project/project.yaml", (STATUS, CHECK), also=("cannot be run",)),
    Kind("mark of a batch", f"batched/{MARK}", BATCHED, also=("image.png",)),
    Kind("caption decoder", "decoder.safetensors", (DECODED,)),
    Kind("prior", "prior/diffusion_pytorch_model.safetensors", (DRAWN,)),
    Kind("diffusion config", "kandinsky/unet/config.json", (DRAWN,)),
    written("sam checkpoint", "sam.pth", *BOXES, "--checkpoint", "sam.pth", out="b.tif"),
)

SHAPE = (60, 80)
MANY = 25  # regions; a calibration needs 20
SQUARE = [[5, 5], [25, 5], [25, 25], [5, 25], [5, 5]]
COCO = {
    "images": [{"id": 1, "file_name": "image.png", "height": 60, "width": 80}],
    "categories": [{"id": 1, "name": "car"}],
    "annotations": [
        {"id": n, "image_id": 1, "category_id": 1, "iscrowd": 0}
        | {"segmentation": [[4 + n, 4, 30, 4, 30, 30]], "bbox": [4, 4, 26, 26], "area": 300}
        for n in (1, 2)
    ],
}
GEOJSON = {
    "type": "FeatureCollection",
    "features": [
        {
            "type": "Feature",
            "id": n,
            "properties": {"label": "car", "region": n},
            "geometry": {"type": "Polygon", "coordinates": [[[x + n, y] for x, y in SQUARE]]},
        }
        for n in (1, 2)
    ],
}
VOC = """<annotation><filename>image.png</filename>
<size><width>80</width><height>60</height><depth>3</depth></size>
<object><name>car</name><bndbox><xmin>4</xmin><ymin>4</ymin><xmax>30</xmax><ymax>30</ymax></bndbox>
</object></annotation>"""
CVAT = """<?xml version="1.0"?><annotations><version>1.1</version>
<meta><task><labels><label><name>car</name></label></labels></task></meta>
<image id="0" name="image.png" width="80" height="60">
<polygon label="car" points="5,5;25,5;25,25;5,25"/><box label="car" xtl="30" ytl="10" xbr="50"
 ybr="30"/><mask label="car" rle="1, 2, 1, 2" left="4" top="40" width="3" height="2"/>
</image></annotations>"""
LABELME = {
    "version": "5.5.0",
    "flags": {},
    "shapes": [
        {"label": "car", "points": SQUARE[:4], "shape_type": "polygon"},
        {"label": "dog", "points": [[40, 10], [60, 30]], "shape_type": "rectangle"},
    ],
    "imagePath": "image.png",
    "imageData": None,
    "imageHeight": 60,
    "imageWidth": 80,
}
PANOPTIC = {
    "images": [{"id": 5, "file_name": "image.png", "height": 60, "width": 80}],
    "annotations": [
        {
            "image_id": 5,
            "file_name": "image.png",
            "segments_info": [
                {"id": n, "category_id": 9, "iscrowd": 0, "bbox": [0, 0, 1, 1], "area": 1}
                for n in (1, 2)
            ],
        }
    ],
    "categories": [{"id": 9, "name": "dog", "isthing": 1}],
}
OME = {
    "ome": {
        "version": "0.5",
        "multiscales": [
            {
                "axes": [{"name": n, "type": "space", "unit": "micrometer"} for n in "yx"],
                "datasets": [
                    {
                        "path": "0",
                        "coordinateTransformations": [{"type": "scale", "scale": [0.5, 0.5]}],
                    }
                ],
            }
        ],
    }
}


PROJECT = ("project", "new", "project", "--images", "image.png", "--regions", "masks.png", *LABELS)


def write_all(folder, call):
    """Write a whole file of every kind; ``call`` runs the command line."""
    _images(folder)
    _regions(folder)
    _texts(folder)
    own_images(folder / "set", 1)
    save_tiny(folder / "sam.pth")
    (folder / "model").mkdir()
    for name in ("open_clip_config.json", "open_clip_model.safetensors"):
        shutil.copy(bundled_folder() / name, folder / "model" / name)
    shutil.copy(bundled_decoder(), folder / "decoder.safetensors")
    tiny_decoders.kandinsky(folder / "kandinsky")
    tiny_decoders.prior(folder / "prior")
    (folder / "config").mkdir()
    preferences = {"format": 1, "model": "demo", "device": "cpu", "cache_folder": ""}
    (folder / "config" / "preferences.json").write_text(json.dumps(preferences))
    assert call(*run("image.png", "many.png", "--format", "npz", out=("--out", ".")))[0] == 0
    _decisions(folder)
    assert call("captions", "build", "captions.txt", "--out", "bank")[0] == 0
    assert call(*RESUME)[0] == 0
    shutil.copy("kept.json", "figures.json")
    assert call("library", "new", "library")[0] == 0
    assert call("library", "add", "library", "results.npz")[0] == 0
    assert call(*PROJECT)[0] == 0
    assert call("batch", "project", *FAST, "--out", "batched")[0] == 0


def _images(folder):
    colours, grey = picture(), picture().mean(2).astype(np.uint8)
    for name, array in (("image.png", colours), ("grey.png", grey), ("photo.jpg", colours)):
        skimage.io.imsave(folder / name, array, check_contrast=False)
    Image.fromarray(colours).save(folder / "image.bmp")
    for name, options in {
        "plain.tif": {},
        "lzw.tif": {"compression": "lzw", "predictor": True},
        "deflate.tif": {"compression": "zlib"},
        "jpeg.tif": {"compression": "jpeg"},
        "tiled.tif": {"tile": (16, 16), "compression": "zlib"},
    }.items():
        tifffile.imwrite(folder / name, colours, photometric="rgb", **options)
    planar = np.moveaxis(colours, 2, 0).copy()
    tifffile.imwrite(folder / "planar.tif", planar, photometric="rgb", planarconfig="separate")
    about = {"axes": "CYX", "Channel": {"Name": ["a", "b"]}, "PhysicalSizeX": 0.5}
    tifffile.imwrite(folder / "stack.ome.tif", np.stack([grey, grey // 2]), metadata=about)
    write_ndpi(folder / "slide.ndpi", colours, blocks=5)
    np.save(folder / "plane.npy", grey)
    zarr.create_array(folder / "plane.zarr", data=grey, chunks=(30, 40))
    group = zarr.open_group(folder / "pyramid.zarr", mode="w", attributes=OME)
    group.create_array("0", data=grey, chunks=SHAPE)


def _regions(folder):
    skimage.io.imsave(folder / "many.png", label_image(MANY), check_contrast=False)
    labels = label_image(2)
    skimage.io.imsave(folder / "masks.png", labels, check_contrast=False)
    tifffile.imwrite(folder / "labels.tif", labels, compression="zlib")
    np.save(folder / "labels.npy", labels)
    zarr.create_array(folder / "labels.zarr", data=labels, chunks=(30, 40))
    (folder / "binary").mkdir()
    for number in (1, 2):
        mask = ((labels == number) * 255).astype(np.uint8)
        skimage.io.imsave(folder / "binary" / f"{number}.png", mask, check_contrast=False)
    (folder / "coco.json").write_text(json.dumps(COCO))
    (folder / "regions.geojson").write_text(json.dumps(GEOJSON))
    (folder / "voc.xml").write_text(VOC)
    (folder / "cvat.xml").write_text(CVAT)
    (folder / "labelme.json").write_text(json.dumps(LABELME))
    (folder / "yolo").mkdir()
    lines = ("0 0.5 0.5 0.25 0.5", "1 0.1 0.1 0.3 0.1 0.3 0.4 0.1 0.4")
    (folder / "yolo/image.txt").write_text("\n".join(lines))
    (folder / "yolo/classes.txt").write_text("car\ndog\n")
    (folder / "panoptic.json").write_text(json.dumps(PANOPTIC))
    (folder / "panoptic").mkdir()
    ids = np.stack([labels, 0 * labels, 0 * labels], -1).astype(np.uint8)
    skimage.io.imsave(folder / "panoptic/image.png", ids, check_contrast=False)
    rois = [ImagejRoi.frompoints(np.array(SQUARE[:4], float) + n, name="car") for n in (1, 2)]
    roiwrite(folder / "cell.roi", rois[0])
    roiwrite(folder / "RoiSet.zip", rois)
    cells = {"masks": labels.astype(np.uint16), "outlines": labels * 0, "filename": "image.png"}
    np.save(folder / "image_seg.npy", cells, allow_pickle=True)


def _texts(folder):
    for name, text in {
        "labels.txt": "car | automobile\ndog\n",
        "labels.csv": "label,synonyms,colour\ncar,automobile,#ff0000\ndog,,\n",
        "labels.yaml": "templates: ['a photo of a {}']\nlabels:\n- label: car\n- dog\n",
        "captions.txt": "a dog on grass\na red car\n",
        "captions.csv": "caption,n\na dog on grass,1\na red car,2\n",
        "boxes.csv": "y0,x0,y1,x1,object\n5,5,25,25,1\n30,30,50,60,2\n",
        "points.csv": "y,x,label,object\n15,15,positive,1\n40,40,positive,2\n",
    }.items():
        (folder / name).write_text(text)


def _decisions(folder):
    """Accept the suggestions for all regions."""
    results = open_archive(folder / "results.npz").results
    identity = identify_image("image.png", skimage.io.imread(folder / "image.png"))
    regions = identify_all(Regions.from_labels(label_image(MANY)))
    with Review(identity, regions, results.info, file=folder / "image.png") as review:
        for identified, region in zip(regions, results.regions, strict=True):
            review.accept(identified.key, region.ranking.labels[0])
