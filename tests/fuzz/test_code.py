"""Files that could carry code or point elsewhere: nothing runs, nothing is read or written there.

Checkpoints that carry code are refused in `tests.engine.models.test_checkpoints` and
`tests.regions.sam.test_loading` too, with the words that say so.
"""

import base64
import io
import json
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image

from tests.scenes import picture

from .attack import OUT, attack
from .kinds import BOXES, FAST, FOLDER, LABELME, SAVED, SEARCH, SHOW, run


class Evil:
    """Writes a file when it is unpickled."""

    def __reduce__(self):
        return (Path.write_text, (Path("it-ran"), "it ran"))


def pickled(path):
    path.write_bytes(pickle.dumps(Evil()))


def pickled_array(path):
    np.save(path, np.array([Evil()], dtype=object), allow_pickle=True)


def pickled_member(path):
    """A pickled array in the place of the record."""
    with zipfile.ZipFile(path, "w") as archive, archive.open("record.npy", "w") as file:
        np.lib.format.write_array(file, np.array([Evil()], dtype=object), allow_pickle=True)


def foreign_mark(*names):
    """The mark of a batch, in the results of an image, that counts other files among them."""

    def write(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = {"bytes": 1, "changed": 1, "sha256": ""}
        about = {"image": {"name": "i", **file}, "regions": {"name": "r", **file}}
        files = [{"name": str(name), **file} for name in names]
        mark = {"version": 2, **about, "settings": {}, "words": {}, "formats": [], "files": files}
        path.write_text(json.dumps(mark))

    return write


def checkpoint(path):
    torch.save({"state_dict": {"a": torch.zeros(1)}, "x": Evil()}, path)


def zarr_of_pickles(path):
    """An array of zarr 2 whose chunks are decoded by unpickling them."""
    path.mkdir()
    about = {"zarr_format": 2, "shape": [60, 80], "chunks": [60, 80], "dtype": "|u1"}
    about |= {"compressor": {"id": "pickle"}, "filters": None, "fill_value": 0, "order": "C"}
    (path / ".zarray").write_text(json.dumps(about))
    pickled(path / "0.0")


def zarr_of_pickled_objects(path):
    path.mkdir()
    about = {"zarr_format": 2, "shape": [60, 80], "chunks": [60, 80], "dtype": "|O"}
    about |= {"compressor": None, "filters": [{"id": "pickle"}], "fill_value": 0, "order": "C"}
    (path / ".zarray").write_text(json.dumps(about))
    pickled(path / "0.0")


def text(content):
    return lambda path: path.write_text(content)


def postscript(path):
    """A picture that is a program."""
    Image.fromarray(picture()).save(path, "EPS")


def postscript_within(path):
    """The same in the place of a mask of labelme."""
    program = io.BytesIO()
    Image.fromarray(picture(11, 11)).save(program, "EPS")
    mask = base64.b64encode(program.getvalue()).decode()
    shape = {"label": "car", "points": [[5, 5], [15, 15]], "shape_type": "mask", "mask": mask}
    path.write_text(json.dumps({**LABELME, "shapes": [shape]}))


def zipped(path):
    """An archive whose members name files elsewhere."""
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("../it-ran", "/tmp/it-ran.npy", "record.npy"):
            archive.writestr(name, "it ran")


def tiff_of_entities(path):
    """OME-TIFF whose description grows, and reads another file."""
    bomb = "".join(
        f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    about = (
        f'<?xml version="1.0"?><!DOCTYPE OME [<!ENTITY a "0123456789">{bomb}'
        '<!ENTITY x SYSTEM "file:secret.txt">]><OME xmlns="http://www.openmicroscopy.org/Schemas/'
        'OME/2016-06"><Image ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XYZCT" '
        'Type="uint8" SizeX="80" SizeY="60" SizeZ="1" SizeC="1" SizeT="1"><TiffData/>'
        '<Channel ID="Channel:0:0" Name="&i;&x;"/></Pixels></Image></OME>'
    )
    tifffile.imwrite(path, picture(60, 80)[:, :, 0], description=about, metadata=None)


def tiff_of_another_file(path):
    """OME-TIFF whose pixels are said to be in a file of another folder."""
    about = (
        '<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06">'
        '<Image ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XYZCT" Type="uint8" SizeX="80" '
        'SizeY="60" SizeZ="2" SizeC="1" SizeT="1"><TiffData IFD="0" FirstZ="0"/><TiffData IFD="0" '
        'FirstZ="1"><UUID FileName="../../secret.tif">urn:uuid:1</UUID></TiffData></Pixels>'
        "</Image></OME>"
    )
    tifffile.imwrite(path, np.eye(60, 80, dtype=np.uint8), description=about, metadata=None)


def voc(entities, text):
    head = f'<?xml version="1.0"?><!DOCTYPE annotation [{entities}]>'
    size = "<size><width>80</width><height>60</height></size>"
    box = "<bndbox><xmin>4</xmin><ymin>4</ymin><xmax>30</xmax><ymax>30</ymax></bndbox>"
    page = f"<annotation>{size}<object><name>{text}</name>{box}</object></annotation>"
    return lambda path: path.write_text(head + page)


GROWING = '<!ENTITY a "ha">' + "".join(
    f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefghi", "bcdefghij", strict=True)
)
TAGS = (
    "!!python/object/apply:os.system ['touch it-ran']",
    "!!python/object/new:pathlib.Path ['it-ran']",
    "!!python/name:os.system ''",
)
MODEL = run("image.png", "masks.png", "--model", "evil.pt", "--architecture", "ViT-B-32")
SAM = (*BOXES, "--checkpoint", "evil.pt", "--out", f"{OUT}/b.tif")
REFUSED = {
    "an image": ("evil.npy", pickled_array, run("evil.npy")),
    "regions": ("evil.npy", pickled_array, run("image.png", "evil.npy")),
    "regions of cellpose": ("i_seg.npy", pickled_array, run("image.png", "i_seg.npy")),
    "a pickle for regions of cellpose": ("i_seg.npy", pickled, run("image.png", "i_seg.npy")),
    "a pickle for an image": ("evil.npy", pickled, run("evil.npy")),
    "a picture": ("evil.png", pickled, run("evil.png")),
    "a program for an image": ("evil.png", postscript, run("evil.png")),
    "a program for a mask": ("evil.png", postscript, run("image.png", "evil.png")),
    "a program for a mask of labelme": (
        "evil.json",
        postscript_within,
        run("image.png", "evil.json"),
    ),
    "a program for masks of a bench": (
        "set/masks/p0.png",
        lambda path: postscript(path.with_suffix(".png")),
        FOLDER,
    ),
    "results": ("results.npz", pickled_member, SAVED[0]),
    "a pickle for results": ("results.npz", pickled, SAVED[0]),
    "results that point elsewhere": ("results.npz", zipped, SAVED[0]),
    "vectors of captions": ("bank/vectors-00000000-00000002.parquet", pickled_array, SEARCH),
    "figures": ("figures.json", pickled, SHOW),
    "a model": ("evil.pt", checkpoint, MODEL),
    "a pickle for a model": ("evil.pt", pickled, MODEL),
    "a checkpoint of SAM": ("evil.pt", checkpoint, SAM),
    "weights": ("model/open_clip_model.safetensors", checkpoint, (*run(), "--model", "model")),
    "zarr": ("evil.zarr", zarr_of_pickles, run("evil.zarr")),
    "objects in zarr": ("evil.zarr", zarr_of_pickled_objects, run("evil.zarr")),
    "labels in zarr": ("evil.zarr", zarr_of_pickles, run("image.png", "evil.zarr")),
    "entities": ("evil.xml", voc(GROWING, "&j;"), run("image.png", "evil.xml")),
    "an entity of another file": (
        "evil.xml",
        voc('<!ENTITY x SYSTEM "file:secret.txt">', "&x;"),
        run("image.png", "evil.xml"),
    ),
    **{
        f"tag {number} in yaml": ("evil.yaml", text(f"- {tag}\n"), ("labels", "show", "evil.yaml"))
        for number, tag in enumerate(TAGS)
    },
}
MARK = f"{OUT}/archives/old.png/batch.json"
BATCH = ("batch", "project", *FAST, "--overwrite", "--out", OUT)
for number, name in enumerate(("../../../captions.txt", "..", "a/b", "..\\x", "\0")):
    REFUSED[f"a mark of a batch {number}"] = (MARK, foreign_mark(name), BATCH)
HARMLESS = {
    "entities in tiff": ("evil.ome.tif", tiff_of_entities, run("evil.ome.tif")),
    "a path in tiff": ("evil.ome.tif", tiff_of_another_file, run("evil.ome.tif")),
}


@pytest.fixture
def ghostscript(tmp_path, monkeypatch):
    """What runs PostScript."""
    program = tmp_path / "bin" / "gs"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho it ran > it-ran\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)  # it would not be looked for again


@pytest.fixture
def watched(place, ghostscript):
    """The folder beside a file that nobody may read."""
    (place / "secret.txt").write_text("the secret")
    tifffile.imwrite(place.parent / "secret.tif", np.full((60, 80), 77, np.uint8))
    yield place
    assert not list(place.parent.rglob("it-ran*"))
    assert not Path("/tmp/it-ran.npy").exists()


@pytest.mark.parametrize("case", REFUSED)
def test_what_could_run_code_is_refused(call, watched, case):
    file, make, command = REFUSED[case]
    path = watched / file
    path.unlink(missing_ok=True)
    make(path)
    ending = attack(call, watched, *command, names=(file, file.split("/")[0]))
    assert ending.code == 2 or command == SEARCH
    assert "the secret" not in ending.out + ending.err


@pytest.mark.parametrize("case", HARMLESS)
def test_what_points_elsewhere_is_refused_or_ignored(call, watched, case):
    file, make, command = HARMLESS[case]
    make(watched / file)
    ending = attack(call, watched, *command, names=(file,))
    written = b"".join(p.read_bytes() for p in (watched / OUT).rglob("*") if p.is_file())
    assert b"the secret" not in written + (ending.out + ending.err).encode()


def test_these_files_do_carry_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pickled_array(tmp_path / "evil.npy")
    np.load("evil.npy", allow_pickle=True)
    assert Path("it-ran").read_text() == "it ran"


@pytest.mark.skipif(os.name != "posix", reason="the program is a script")
def test_postscript_is_run_where_pillow_may_open_anything(tmp_path, ghostscript, monkeypatch):
    monkeypatch.chdir(tmp_path)
    postscript(tmp_path / "evil.png")
    with Image.open("evil.png") as picture_file, pytest.raises(OSError, match="cannot"):
        picture_file.load()
    assert Path("it-ran").exists()
