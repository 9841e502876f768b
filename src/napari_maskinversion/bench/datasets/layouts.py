"""Where data sets come from, and what of them lies in a folder. Imports no torch.

The layouts are those of the official archives, unpacked below one folder of sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ...base.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A folder or file of a data set."""

    name: str  # What it holds, in a word
    # Patterns below the folder of sets, the usual one first; ``{split}`` stands for the split
    places: tuple[str, ...]
    archive: str  # Where it comes from; ``{split}`` as well
    folder: bool = True  # Whether it is a folder
    # Places but the first count only where this file is in the folder of sets, since other sets
    # have folders of these names
    beside: str = ""

    def place(self, spelled: str) -> str:
        """Return the usual place of this part."""
        return self.places[0].format(split=spelled).replace("*", "")

    def origin(self, spelled: str) -> str:
        """Return where this part comes from."""
        return self.archive.format(split=spelled)

    def paths(self, data: Path, split: str) -> tuple[Path, ...]:
        """Return where this part lies below a folder; empty if it is missing."""
        own = not self.beside or (data / self.beside).is_file()
        for pattern in self.places if own else self.places[:1]:
            hits = sorted(data.glob(pattern.format(split=split)))
            hits = [hit for hit in hits if (hit.is_dir() if self.folder else hit.is_file())]
            if hits:
                return tuple(hits)
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What a data set consists of."""

    title: str
    parts: tuple[Part, ...]
    size: str  # What must be fetched for the usual split
    licence: str
    splits: tuple[str, ...] = ()  # The usual one first; empty if there are none to choose from
    # What stands for a split in the names of files, where it is not the split itself
    spelled: Mapping[str, str] = field(default_factory=dict)

    def check_split(self, split: str | None) -> str:
        """Return a split, by default the usual one."""
        usual = self.splits[0] if self.splits else ""
        if split is None or split == usual:
            return usual
        if split not in self.splits:
            has = f"it has {', '.join(self.splits)}" if self.splits else "it has none"
            raise InputError(f"{self.title} has no split {split!r}; {has}.")
        return split

    def locate(self, data: Path, split: str) -> Mapping[str, tuple[Path, ...]]:
        """Return where each part lies below a folder."""
        spelled = self.spelling(split)
        paths = {part.name: part.paths(data, spelled) for part in self.parts}
        missing = [part for part in self.parts if not paths[part.name]]
        if missing:
            part = missing[0]
            holds = "does not hold" if len(missing) == len(self.parts) else "holds only a part of"
            raise InputError(
                f"{data} {holds} {self.title}: there is no {part.place(spelled)} ({part.name}), "
                f"which comes from {part.origin(spelled)}. The command bench datasets lists all "
                "parts."
            )
        return paths

    def spelling(self, split: str) -> str:
        """Return what stands for a split in the names of files."""
        return self.spelled.get(split, split)


_VOC: Final = "http://host.robots.ox.ac.uk/pascal/VOC"
_CONTEXT: Final = "https://cs.stanford.edu/~roozbeh/pascal-context"
_COCO: Final = "http://images.cocodataset.org"
_OPEN: Final = "https://storage.googleapis.com/openimages"
_REFER: Final = (
    "https://bvisionweb1.cs.unc.edu/licheng/referit/data/{}.zip (this server is broken; the README "
    "of https://github.com/lichengunc/refer links to copies)"
)
_PHRASECUT: Final = "https://people.cs.umass.edu/~chenyun/phrasecut"
_FLICKR: Final = "images: Flickr's terms of use"

VOC: Final = Layout(
    title="Pascal VOC 2012",
    parts=tuple(
        Part(
            name=name,
            places=(f"VOCdevkit/VOC2012/{place}", f"VOC2012/{place}", place),
            archive=f"{_VOC}/voc2012/VOCtrainval_11-May-2012.tar",
            folder=name != "list of images",
        )
        for name, place in (
            ("images", "JPEGImages"),
            ("masks", "SegmentationClass"),
            ("list of images", "ImageSets/Segmentation/{split}.txt"),
        )
    ),
    size="2.0 GB",
    licence=f"{_FLICKR}; annotations: none stated",
    splits=("val", "train", "trainval"),
)

CONTEXT: Final = Layout(
    title="Pascal Context",
    parts=(
        *(
            Part(
                name=name,
                places=(f"VOCdevkit/VOC2010/{place}", f"VOC2010/{place}"),
                archive=f"{_VOC}/voc2010/VOCtrainval_03-May-2010.tar",
                folder=name == "images",
            )
            for name, place in (
                ("images", "JPEGImages"),
                ("list of images", "ImageSets/Main/{split}.txt"),
            )
        ),
        *(
            Part(
                name=name,
                places=tuple(
                    f"{folder}{inside}{file}"
                    for folder in ("pascal-context/", "VOCdevkit/VOC2010/", "VOC2010/")
                    for inside in (("", "trainval/") if file != "trainval" else ("",))
                ),
                archive=f"{_CONTEXT}/{archive}",
                folder=file == "trainval",
            )
            for name, file, archive in (
                ("label maps", "trainval", "trainval.tar.gz"),
                ("names of all labels", "labels.txt", "labels.txt"),
                ("names of the 59 classes", "59_labels.txt", "59_labels.txt"),
            )
        ),
    ),
    size="1.3 GB of images, 31 MB of annotations",
    licence=f"{_FLICKR}; annotations: none stated",
    splits=("val", "train", "trainval"),
)

COCO: Final = Layout(
    title="COCO instances",
    parts=(
        Part(
            name="images",
            places=("coco/{split}", "{split}", "coco/images/{split}"),
            archive=f"{_COCO}/zips/{{split}}.zip",
        ),
        Part(
            name="annotations",
            places=tuple(f"{f}annotations/instances_{{split}}.json" for f in ("coco/", "")),
            archive=f"{_COCO}/annotations/annotations_trainval2017.zip (2014: trainval2014)",
            folder=False,
        ),
    ),
    size="1 GB of images, 241 MB of annotations",
    licence=f"{_FLICKR}; annotations: CC BY 4.0",
    splits=("val2017", "train2017", "val2014", "train2014"),
)

OPEN_IMAGES: Final = Layout(
    title="Open Images V7",
    parts=(
        Part(
            name="images",
            places=("openimages/{split}", "openimages/{split}_?"),
            archive="s3://open-images-dataset/tar/{split}.tar.gz (train: train_0 to train_f)",
        ),
        Part(
            name="masks",
            places=("openimages/{split}-masks*",),
            archive=f"{_OPEN}/v5/{{split}}-masks/{{split}}-masks-0.zip to -f.zip (all sixteen)",
        ),
        Part(
            name="annotations",
            places=("openimages/{split}-annotations-object-segmentation.csv",),
            archive=f"{_OPEN}/v5/{{split}}-annotations-object-segmentation.csv",
            folder=False,
        ),
        Part(
            name="classes",
            places=tuple(f"openimages/{v}classes-segmentation.txt" for v in ("", "oidv7-")),
            archive=f"{_OPEN}/v5/classes-segmentation.txt",
            folder=False,
        ),
        Part(
            name="names of classes",
            places=tuple(f"openimages/{v}class-descriptions-boxable.csv" for v in ("oidv7-", "")),
            archive=f"{_OPEN}/v7/oidv7-class-descriptions-boxable.csv",
            folder=False,
        ),
    ),
    size="12 GB of images",
    licence="images: CC BY 2.0; annotations: CC BY 4.0",
    splits=("validation", "test", "train"),
)

PHRASECUT: Final = Layout(
    title="PhraseCut",
    parts=(
        Part(
            name="images",
            places=("VGPhraseCut_v0/images/VG_100K*", "VGPhraseCut_v0/images"),
            archive=f"the images of Visual Genome 1.2, or the links of {_PHRASECUT}",
        ),
        Part(
            name="sizes of images",
            places=("VGPhraseCut_v0/image_data_split*.json",),
            archive=f"the links of {_PHRASECUT}",
            folder=False,
        ),
        Part(
            name="phrases",
            places=("VGPhraseCut_v0/refer_{split}.json",),
            archive=f"the links of {_PHRASECUT}",
            folder=False,
        ),
    ),
    size="about 11 GB of images of all splits, 47 MB of phrases",
    licence="images: CC BY 4.0 (Visual Genome); phrases: none stated",
    splits=("test", "val", "miniv", "train"),
)


def _refer(name: str, title: str, google: tuple[str, ...] = ()) -> Layout:
    unc = ("val", "testA", "testB", "train")
    return Layout(
        title=title,
        parts=(
            Part(
                name="images",
                places=(
                    "images/mscoco/images/train2014",
                    *(f"{folder}train2014" for folder in ("coco/", "", "images/")),
                ),
                archive=f"{_COCO}/zips/train2014.zip",
            ),
            Part(
                name="masks",
                places=(f"{name}/instances.json",),
                archive=_REFER.format(name),
                folder=False,
            ),
            Part(
                name="expressions",
                places=(f"{name}/refs({{split}}).p",),
                archive=_REFER.format(name),
                folder=False,
            ),
        ),
        size="13 GB of images, less than 0.1 GB of expressions",
        licence=f"{_FLICKR}; masks: CC BY 4.0 (COCO); expressions: none stated",
        splits=(*unc, *google),
        spelled=dict.fromkeys(unc, "unc") | dict.fromkeys(google, "google"),
    )


REFCOCO: Final = _refer("refcoco", "RefCOCO", ("google-val", "google-test", "google-train"))
REFCOCO_PLUS: Final = _refer("refcoco+", "RefCOCO+")


def _own(title: str, folder: str, annotations: str, archive: str, licence: str) -> Layout:
    parts = (("images", "images"), ("annotations", annotations))
    return Layout(
        title=title,
        parts=tuple(
            Part(name=name, places=(f"{folder}/{place}",), archive=archive) for name, place in parts
        ),
        size="less than 0.1 GB",
        licence=licence,
    )


COCO_PANOPTIC: Final = Layout(
    title="COCO panoptic",
    parts=tuple(
        Part(
            name=name,
            places=(f"coco-panoptic/{place}", place),
            archive=archive,
            folder=name != "annotations",
            beside="panoptic.json",
        )
        for name, place, archive in (
            ("images", "images", f"{_COCO}/zips/val2017.zip"),
            ("masks", "panoptic", f"{_COCO}/annotations/panoptic_annotations_trainval2017.zip"),
            (
                "annotations",
                "panoptic.json",
                f"{_COCO}/annotations/panoptic_annotations_trainval2017.zip",
            ),
        )
    ),
    size="1 GB of images, 821 MB of annotations; any part of them will do",
    licence=f"{_FLICKR}; annotations: CC BY 4.0",
)
AERIAL: Final = _own(
    *("Aerial tiles of Dubai", "dubai-aerial", "labels"),
    *("the set of Humans in the Loop, as label images", "CC0"),
)
BLOOD: Final = _own(
    *("Blood smears (BCCD)", "bccd", "annotations"),
    *("https://github.com/Shenggan/BCCD_Dataset", "MIT"),
)
