"""Files that are whole and absurd: bombs, endless files, strange numbers, strange names."""

import io
import json
import os
import struct
import sys
import zipfile
import zlib

import numpy as np
import pytest
import tifffile
from PIL import Image

from tests.scenes import label_image, picture

from .attack import OUT, attack
from .kinds import BOXES, FOLDER, GEOJSON, KINDS, SAVED, SEARCH, SHOW, run

DEEP = "[" * 100_000 + "]" * 100_000


def text(content):
    return lambda path: path.write_text(content, encoding="utf-8")


def data(content):
    return lambda path: path.write_bytes(content)


def array(values, **kind):
    return lambda path: np.save(path, np.array(values, **kind))


def chunk(name, content):
    body = name + content
    return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))


def png(width, height):
    """A PNG that declares a size and holds few pixels."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = zlib.compress(bytes(1000))
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", pixels), chunk(b"IEND", b""))
    return data(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


def npy_header(shape, kind="<u2"):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header = header.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()


def packed(members, compress=zipfile.ZIP_DEFLATED):
    """A zip file of members, whose content is bytes or a number of zeros after a header."""

    def write(path):
        with zipfile.ZipFile(path, "w", compress, compresslevel=1) as archive:
            for name, content in members.items():
                with archive.open(name, "w", force_zip64=True) as file:
                    if isinstance(content, bytes):
                        file.write(content)
                        continue
                    file.write(npy_header((content,), "|u1"))
                    for _ in range(content >> 24):
                        file.write(bytes(1 << 24))

    return write


def large_jpeg(path):
    Image.fromarray(picture()).save(path)
    content = bytearray(path.read_bytes())
    place = content.index(b"\xff\xc0") + 5
    content[place : place + 4] = struct.pack(">HH", 65500, 65500)
    path.write_bytes(content)


def declared(**tags):
    """A TIFF whose tags say other than its pixels."""

    def write(path):
        tifffile.imwrite(path, picture().mean(2).astype(np.uint8))
        with tifffile.TiffFile(path, mode="r+") as file:
            for name, value in tags.items():
                file.pages[0].tags[name].overwrite(value)

    return write


def coloured(width):
    return lambda path: Image.fromarray(picture(60, 80)[:, :width]).save(path)


def with_pixels(values, dtype):
    """Regions that have these numbers."""

    def write(path):
        labels = label_image(2).astype(dtype)
        labels[labels == 1] = values
        np.save(path, labels)

    return write


def crossing(count):
    """A polygon whose sides all cross one another."""
    rng = np.random.default_rng(0)
    ring = (rng.random((count, 2)) * (78, 58)).tolist()
    page = {**GEOJSON, "features": [dict(GEOJSON["features"][0])]}
    page["features"][0]["geometry"] = {"type": "Polygon", "coordinates": [[*ring, ring[0]]]}
    return text(json.dumps(page))


def fifo(path):
    os.mkfifo(path)


def link_to(target):
    return lambda path: path.symlink_to(target)


def folder(path):
    path.mkdir()


def model(**changes):
    """Another configuration of the model; ``vision_cfg.layers`` is ``vision_cfg__layers``."""

    def write(path):
        config = json.loads(path.read_text())
        for name, value in changes.items():
            *parents, last = name.split("__")
            part = config["model_cfg"]
            for parent in parents:
                part = part[parent]
            part[last] = value
        path.write_text(json.dumps(config))

    return write


MODEL = run("image.png", "masks.png", "--model", "model")
CONFIG = "model/open_clip_config.json"
BILLION = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
IMAGES = {
    "png of 2 billion pixels": ("i.png", png(50_000, 50_000)),
    "png without pixels": ("i.png", png(0, 0)),
    "jpeg that declares 65,500 px": ("i.jpg", large_jpeg),
    "png 1 px wide": ("i.png", coloured(1)),
    "tiff of 2^31 rows": ("i.tif", declared(ImageLength=2**31 - 1)),
    "tiff of no rows": ("i.tif", declared(ImageLength=0)),
    "tiff in an unknown compression": ("i.tif", declared(Compression=61234)),
    "tiff of 3 bits": ("i.tif", declared(BitsPerSample=3)),
    "npy that declares terabytes": ("i.npy", data(npy_header((10**6, 10**6)))),
    "npy of a negative size": ("i.npy", data(npy_header((-1, 5)))),
    "npy of 40 axes": ("i.npy", data(npy_header((1,) * 40) + b"ab")),
    "npy of texts": ("i.npy", array([["a", "b"]] * 2)),
    "npy of complex numbers": ("i.npy", array(np.ones((60, 80), complex))),
    "npy of NaN": ("i.npy", array(np.full((60, 80), np.nan))),
    "npy of 1e300": ("i.npy", array(np.linspace(-1e300, 1e300, 4800).reshape(60, 80))),
    "npy of one number": ("i.npy", array(3)),
    "npy of nothing": ("i.npy", array(np.zeros((0, 80)))),
    "folder": ("i.png", folder),
    "link to itself": ("i.png", link_to("i.png")),
}
REGIONS = {
    "labels to 2^64 - 1": ("r.npy", with_pixels(2**64 - 1, np.uint64)),
    "negative labels": ("r.npy", with_pixels(-3, np.int16)),
    "labels of 1e300": ("r.npy", with_pixels(1e300, float)),
    "labels of NaN": ("r.npy", with_pixels(np.nan, float)),
    "labels that declare terabytes": ("r.npy", data(npy_header((10**6, 10**6)))),
    "no region": ("r.npy", array(np.zeros((60, 80), int))),
    "png of 2 billion labels": ("r.png", png(50_000, 50_000)),
    "polygon of 3,000 crossing points": ("r.geojson", crossing(3000)),
    "folder without masks": ("r", folder),
    "nested json": ("r.json", text(DEEP)),
    "nested geojson": (
        "r.geojson",
        text('{"type": "FeatureCollection", "features": ' + DEEP + "}"),
    ),
    "json that is no object": ("r.json", text("3")),
    "json of a long number": ("r.json", text('{"images": ' + "9" * 10_000 + "}")),
}
LABELS = {
    "yaml that grows a billion times": ("l.yaml", text(BILLION)),
    "nested yaml": ("l.yaml", text("[" * 5000 + "]" * 5000)),
    "yaml of a date": ("l.yaml", text("- 2020-01-01\n- 2020-01-02\n")),
    "yaml of a circle": ("l.yaml", text("&a [*a]")),
    "one long label": ("l.txt", text("x" * 1_000_000)),
    "twice the same label": ("l.txt", text("car\ncar\n")),
    "zero bytes": ("l.txt", data(b"car\0dog\n")),
    "utf-16": ("l.csv", data("label\ncar\n".encode("utf-16"))),
    "quotes without end": ("l.csv", text('label\n"car\n')),
    "csv of a long field": ("l.csv", text("label\n" + "x" * 200_000 + "\n")),
}
NESTED = {
    "model config": ("model/open_clip_config.json", MODEL),
    "preferences": ("config/preferences.json", run()),
    "bank": ("bank/captions.parquet", SEARCH),
    "figures": ("figures.json", SHOW),
    "zarr": ("plane.zarr/zarr.json", run("plane.zarr")),
    "decisions": next((kind.file, kind.commands[0]) for kind in KINDS if kind.name == "decisions"),
}
ARCHIVES = {
    "an array of a gigabyte": packed({"record.npy": 1 << 30}),
    "arrays that declare terabytes": packed({"record.npy": npy_header((1 << 45,), "|u1")}),
    "names of other folders": packed({"../../record.npy": b"x", "/etc/x.npy": b"x"}),
    "a name twice the separator": packed({"record.npy": npy_header((2,), "|u1") + b"{}"}),
    "a nested record": packed(
        {"record.npy": npy_header((len(DEEP),), "|u1") + DEEP.encode()}, zipfile.ZIP_STORED
    ),
    "no zip file": text("PK"),
}
MODELS = {
    "1,000,000 layers": model(vision_cfg__layers=1_000_000),
    "a width of 10^9": model(vision_cfg__width=10**9),
    "patches of no pixel": model(vision_cfg__patch_size=0),
    "an image of 10^6 px": model(vision_cfg__image_size=10**6),
    "an unknown key": model(vision_cfg__colour="blue"),
    "a vocabulary of 10^12": model(text_cfg__vocab_size=10**12),
    "no text tower": model(text_cfg=None),
    "a tokenizer of code": model(text_cfg__hf_tokenizer_name="../evil"),
    "a model of another kind": model(vision_cfg__timm_model_name="resnet50"),
}
CASES = {}
for name, (file, make) in IMAGES.items():
    CASES[f"image: {name}"] = (file, make, run(file))
    CASES[f"rollout: {name}"] = (
        *(file, make),
        ("rollout", file, "--resolution", "64", "--out", f"{OUT}/r.png"),
    )
for name, (file, make) in REGIONS.items():
    CASES[f"regions: {name}"] = (file, make, run("image.png", file))
for name, (file, make) in LABELS.items():
    CASES[f"labels: {name}"] = (file, make, run("image.png", "masks.png", "--labels", file))
for name, (file, command) in NESTED.items():
    CASES[f"nested: {name}"] = (file, text(DEEP), command)
for name, make in ARCHIVES.items():
    CASES[f"archive: {name}"] = ("results.npz", make, SAVED[0])
for name, make in MODELS.items():
    CASES[f"model: {name}"] = (CONFIG, make, MODEL)
CASES["weights: a header of 2^63 bytes"] = (
    "model/open_clip_model.safetensors",
    data(struct.pack("<Q", 2**63) + b"{}"),
    MODEL,
)
CASES["boxes: 1e300"] = (
    "boxes.csv",
    text("y0,x0,y1,x1\n0,0,1e300,1e300\n"),
    (*BOXES, "--out", f"{OUT}/b.tif"),
)
CASES["boxes: NaN"] = (
    "boxes.csv",
    text("y0,x0,y1,x1\nnan,0,9,9\n"),
    (*BOXES, "--out", f"{OUT}/b.tif"),
)
CASES["bench names: one of 1 MB"] = ("set/names.txt", text("x" * 1_000_000), FOLDER)
CASES["captions: of 10 MB"] = (
    "c.txt",
    text("x " * 5_000_000),
    ("captions", "search", "c.txt", "a"),
)
if hasattr(os, "mkfifo"):
    READERS = {
        "image": ("p.png", run("p.png")),
        "array": ("p.npy", run("p.npy")),
        "regions": ("p.png", run("image.png", "p.png")),
        "json": ("p.json", run("image.png", "p.json")),
        "xml": ("p.xml", run("image.png", "p.xml")),
        "labels": ("p.txt", run("image.png", "masks.png", "--labels", "p.txt")),
        "archive": ("p.npz", ("export", "p.npz", "--out", OUT)),
        "boxes": ("p.csv", ("segment", "image.png", "--boxes", "p.csv", "--out", f"{OUT}/b.tif")),
        "weights": ("p.safetensors", (*MODEL[:-1], "p.safetensors", "--architecture", "ViT-B-32")),
    }
    for name, (file, command) in READERS.items():
        CASES[f"pipe: {name}"] = (file, fifo, command)
    if sys.platform.startswith("linux"):
        for name, (file, command) in READERS.items():
            CASES[f"endless: {name}"] = (file, link_to("/dev/zero"), command)


@pytest.mark.parametrize("case", CASES)
def test_an_odd_file_is_read_or_named(call, place, case):
    file, make, command = CASES[case]
    path = place / file
    if not case.startswith("model: "):
        path.unlink(missing_ok=True)  # it may be a link to the file that all cases share
    make(path)
    names = (file, file.split("/")[0], "The image ", "the image ")
    attack(call, place, *command, names=names)


@pytest.mark.parametrize("command", [run("n" * 300 + ".png"), run("image.png", "n" * 300 + ".png")])
def test_a_name_that_is_too_long_is_named(call, place, command):
    attack(call, place, *command, names=("n" * 300,))


def test_results_in_memory_are_no_larger_than_their_file(call, place):
    """What an archive unpacks to is known before."""
    with np.load(place / "results.npz") as file:
        arrays = {name: file[name] for name in file.files}
    del arrays["grid_maps"]
    packed_file = io.BytesIO()
    np.savez(packed_file, **arrays)
    with (
        zipfile.ZipFile(packed_file, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("grid_maps.npy", "w", force_zip64=True) as file,
    ):
        file.write(npy_header((1 << 28,), "<f4"))
        for _ in range(64):
            file.write(bytes(1 << 24))
    (place / "results.npz").write_bytes(packed_file.getvalue())
    assert attack(call, place, *SAVED[0], names=("results.npz",)).code == 2
