"""Annotation files: a table of formats, chosen by suffix and content, and one of others."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, Final
from zipfile import ZipFile

from ...base.errors import InputError
from ...base.reading import MOST_JSON, check_file, check_kind, is_of_macos, read_text
from ...base.units import Georeference
from ...images.decoding import reading_errors
from .annotation import Annotations
from .annotation_building import AnnotationFormat, build
from .cellpose import CELLPOSE, CELLPOSE_OUTLINES
from .coco import COCO, COCO_PANOPTIC
from .geojson import GEOJSON
from .imagej import IMAGEJ
from .json_formats import CREATE_ML, LABEL_STUDIO, VIA
from .labelme import LABELME
from .listed_images import NO_GEOREFERENCE, ImageReference
from .napari_shapes import NAPARI_SHAPES
from .segment_anything import SEGMENT_ANYTHING
from .xml_formats import CVAT, VOC
from .yolo import YOLO, is_dota

# The first one that matches reads a file: COCO would match COCO panoptic, too.
FORMATS: Final[tuple[AnnotationFormat, ...]] = (
    COCO_PANOPTIC,
    COCO,
    GEOJSON,
    LABELME,
    SEGMENT_ANYTHING,
    VIA,
    CREATE_ML,
    LABEL_STUDIO,
    CVAT,
    VOC,
    CELLPOSE_OUTLINES,  # YOLO would match it, too
    YOLO,
    IMAGEJ,
    CELLPOSE,
    NAPARI_SHAPES,
)
SUFFIXES: Final = tuple(dict.fromkeys(suffix for form in FORMATS for suffix in form.suffixes))
"""How names of files of regions end."""
_VECTORS: Final = "convert it to GeoJSON: ogr2ogr -f GeoJSON regions.geojson FILE"
_TIFF: Final = "save the labels as a TIFF of whole numbers"
_IDENTITIES: Final = "in ilastik, export the object identities as TIFF"
_OBJECTS: Final = "in QuPath, choose File > Export objects as GeoJSON"
_IN_PIXELS: Final = "convert it to GeoJSON in pixels"
_VIA: Final = ("a file of VGG Image Annotator (3, or CSV)", "in VIA 2, export as JSON")
_TRACKMATE: Final = ("a file of TrackMate", "in TrackMate, choose the action Export label image")
_LABELBOX: Final = ("a file of Labelbox", "convert the export to COCO JSON")
_BY_SUFFIX: Final = {
    ".qpdata": ("QuPath's own data", _OBJECTS),
    ".qpproj": ("a QuPath project", _OBJECTS),
    ".ndpa": ("annotations of NDP.view", "open the slide in QuPath and export GeoJSON"),
    ".ilp": ("an ilastik project", _IDENTITIES),
    **dict.fromkeys((".h5", ".hdf5"), ("HDF5", _IDENTITIES)),
    ".shp": ("a shapefile", _VECTORS),
    ".gpkg": ("a GeoPackage", _VECTORS),
    **dict.fromkeys((".kml", ".kmz"), ("KML", _VECTORS)),
    ".gml": ("GML", _VECTORS),
    ".fgb": ("a FlatGeobuf", _VECTORS),
    ".parquet": ("a table", _VECTORS),
    ".annotations": ("annotations of HALO", _IN_PIXELS),
    ".mat": ("MATLAB's", "in MATLAB, imwrite(uint16(labels), 'labels.tif')"),
    ".nrrd": ("NRRD", _TIFF),
    ".nii": ("NIfTI", _TIFF),
    ".gz": ("a compressed file", "unpack it first"),
    ".npz": ("an archive of arrays", "save one of them: np.save('masks.npy', masks)"),
    ".csv": ("a table", "use COCO JSON, or segment IMAGE --boxes FILE for a table of boxes"),
    ".tfrecord": ("a TFRecord", "export COCO JSON from it"),
    **dict.fromkeys((".pkl", ".pickle"), ("a pickle, which can run code,", _TIFF)),
    **dict.fromkeys((".pt", ".pth"), ("a pickle of PyTorch, which can run code,", _TIFF)),
}
UNREAD: Final = tuple(_BY_SUFFIX)
"""Endings of files that are refused with a way out."""
# Keys of an object, or of the first one of a list; the root of XML; a word in the head of a table.
_BY_CONTENT: Final[dict[tuple[str, ...] | str, tuple[str, str]]] = {
    ("project", "attribute", "view"): _VIA,
    "region_shape_attributes": _VIA,
    ("data_row",): _LABELBOX,
    ("External ID", "Label"): _LABELBOX,
    ("item", "annotations"): ("a file of V7 Darwin", "export it as COCO"),
    ("objects", "size"): ("a file of Supervisely", "export it as COCO"),
    ("objects", "info"): ("a file of ISAT", "in ISAT, convert it to COCO or labelme"),
    ("objects", "imgWidth"): ("a file of Cityscapes", "use its ..._instanceIds.png"),
    ("name", "class", "confidence"): (
        "a list of results of ultralytics",
        "save them by results.save_txt(FILE, save_conf=True)",
    ),
    ("value", "label"): ("a list of labels of Grounded SAM", "use its picture of masks"),
    ("samples",): ("a data set of FiftyOne", "export it as COCODetectionDataset"),
    ("mag", "nuc"): ("a file of HoVer-Net", "save inst_map of its .mat file as TIFF"),
    ("categories", "annotations"): ("COCO without images", "add 'images' with ids and file names"),
    ("arcs",): ("TopoJSON", _VECTORS),
    ("spatialReference", "features"): ("Esri's JSON", _VECTORS),
    "ASAP_Annotations": ("a file of ASAP", _IN_PIXELS),
    "Annotations": ("a file of Aperio ImageScope", _IN_PIXELS),
    "annotations": ("annotations of NDP.view", "open the slide in QuPath and export GeoJSON"),
    "TrackMate": _TRACKMATE,
    "TRACK_ID": _TRACKMATE,
    "kml": ("KML", _VECTORS),
    "OME": ("OME-XML", "in Fiji or OMERO, export the ROIs as a RoiSet.zip"),
}
_DOTA: Final = "convert it to YOLO, for example by ultralytics' convert_dota_to_yolo_obb"
_PEEK: Final = 65_536  # bytes from each end of a file


def is_annotations(path: Path) -> bool:
    """Return whether a file is read as annotations, or refused as such with a way out.

    Its ending decides, and for those that label images have, too, its content.
    """
    formats = [form for form in FORMATS if _ends(path, form.suffixes)]
    if not formats:
        return path.suffix.lower() in UNREAD
    return not all(form.shared for form in formats) or may_hold_annotations(path)


def may_hold_annotations(path: Path) -> bool:
    """Return whether suffix and both ends of a file fit a format.

    Reading all of a large file would take too long while napari looks for a reader.
    """
    try:
        check_kind(path)
        with path.open("rb") as file:
            text = file.read(_PEEK)
            size = path.stat().st_size
            if size > _PEEK:
                file.seek(max(_PEEK, size - _PEEK))
                text += file.read()
    except (OSError, InputError):
        return False
    for form in FORMATS:
        if form.in_viewer and _ends(path, form.suffixes):
            for group in form.markers:
                if all(marker in text for marker in group):
                    return True
    return False


def read_annotations(
    path: Path,
    shape: tuple[int, int] | None = None,
    *,
    image: str = "",
    series: int | None = None,
    geo: Georeference | None = None,
    without: str = NO_GEOREFERENCE,
) -> Annotations:
    """Read a file in any of `FORMATS`; ``without`` says why there is no georeference."""
    reference = ImageReference(name=image, series=series, shape=shape, geo=geo, without=without)
    return open_annotations(path).about(reference)


@dataclass(frozen=True, slots=True)
class AnnotationFile:
    """A file of annotations that was parsed, to read what it says about one image or many."""

    path: Path
    format: AnnotationFormat
    content: Any  # What the format's ``prepare`` returned

    def read(
        self,
        shape: tuple[int, int] | None = None,
        *,
        image: str = "",
        series: int | None = None,
        geo: Georeference | None = None,
    ) -> Annotations:
        """Return the regions of an image of many; a file of its name need not list it by name."""
        name_pattern = rf"(.*[\W_])?{re.escape(Path(image).stem)}([\W_].*)?"
        by_name = not re.fullmatch(name_pattern, self.path.stem)
        return self.about(
            ImageReference(name=image, series=series, shape=shape, geo=geo, by_name=by_name)
        )

    def about(self, reference: ImageReference) -> Annotations:
        """Return the regions of an image."""
        with reading_errors(self.path, "file of regions"):
            parsed = self.format.parse(self.content, self.path, reference)
            return build(parsed, self.path, reference)


def open_annotations(path: Path) -> AnnotationFile:
    """Parse a file in any of `FORMATS`, or the only one in a ZIP file without ROIs."""
    check_file(path, "file of regions")
    with reading_errors(path, "file of regions"):
        packed = _packed(path)
        if not packed:
            return _open(path, path)
        if len(packed) > 1:
            some = ", ".join(packed[:5])
            raise InputError(f"{path} holds {some}; unpack it and use one of them.")
        with TemporaryDirectory() as folder, ZipFile(path) as archive:
            return _open(Path(archive.extract(packed[0], folder)), path)


def _packed(path: Path) -> list[str]:
    """Return the names of JSON and XML files in a ZIP file; none if it has ROIs, or no names."""
    if path.suffix.lower() != ".zip":
        return []
    with ZipFile(path) as archive:
        names = {}
        for member in archive.infolist():
            names[member.filename] = member.file_size
    if any(name.lower().endswith(".roi") for name in names):
        return []
    ours = []
    for name in names:
        if name.lower().endswith((".json", ".geojson", ".xml")):
            ours.append(name)
    kept = [name for name in ours if not is_of_macos(PurePosixPath(name))]
    if all(names[name] <= MOST_JSON for name in kept):
        return kept
    return []


def _open(place: Path, path: Path) -> AnnotationFile:
    """Parse the file at ``place``; messages name ``path``."""
    formats = _formats_for(place)
    content = None
    if formats:
        content = formats[0].load(place)
    for form in formats:
        if form.matches(content):
            return AnnotationFile(path, form, form.prepare(content, path))
    refusal = way_out(path, content)
    if refusal:
        raise InputError(refusal)
    descriptions = []
    for form in formats or FORMATS:
        descriptions.append(f"{form.name} ({form.content})")
    formats_text = " nor ".join(descriptions)
    neither = "neither"
    if len(formats) == 1:
        neither = "not"
    content_text = _describe(content)
    raise InputError(
        f"{path} is {neither} {formats_text}; it contains {content_text}. Export or convert it to "
        "COCO JSON."
    )


def _formats_for(path: Path) -> list[AnnotationFormat]:
    """Formats that share a parser with the first one of this ending."""
    load = next((form.load for form in FORMATS if _ends(path, form.suffixes)), None)
    return [form for form in FORMATS if form.load is load]


def _ends(path: Path, suffixes: tuple[str, ...]) -> bool:
    return path.name.lower().endswith(suffixes)


def _describe(content: Any) -> str:
    if isinstance(content, dict):
        keys = ", ".join(map(str, list(content)[:5]))
        return f"an object with {keys or 'nothing'}"
    if isinstance(content, list):
        if content:
            return f"a list, first {_describe(content[0])}"
        return "an empty list"
    tag = getattr(content, "tag", None)
    if tag is None:
        return "a single value"
    return f"a root {tag!r}"


def way_out(path: Path, content: Any = None) -> str:
    """Return what a file is and what to do instead, for the user; "" if it is unknown."""
    words = [str(getattr(content, "tag", "")).rpartition("}")[2]]  # the root of an XML file
    if path.suffix.lower() == ".csv" and path.is_file():
        words = re.split(r"\W+", read_text(path, "file of regions").partition("\n")[0])
    if isinstance(content, list):
        several = content
    else:
        several = [content]
    entries = [entry for entry in several[:2] if isinstance(entry, dict)]
    refusal = None
    if is_dota(content):
        refusal = ("a file of DOTA", _DOTA)
    for key, about in _BY_CONTENT.items():
        # A tuple is the members of an object, a text is a word of a table or an XML file.
        members = None
        if isinstance(key, tuple):
            members = set(key)
        if key in words or any(members and members <= entry.keys() for entry in entries):
            refusal = refusal or about
    refusal = refusal or _BY_SUFFIX.get(path.suffix.lower())
    if refusal is None:
        return ""
    kind, way = refusal
    return f"{path} is {kind} that is not read; {way}."
