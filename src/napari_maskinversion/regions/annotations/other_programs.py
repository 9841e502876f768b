"""Files of other programs that are not read, and how to get what is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

_VECTORS: Final = "convert it to GeoJSON: ogr2ogr -f GeoJSON regions.geojson FILE"
_TIFF: Final = "save the labels as a TIFF of whole numbers"
_COCO: Final = "export COCO JSON from it"

_BY_SUFFIX: Final = {
    ".qpdata": ("QuPath's own data", "in QuPath, choose File > Export objects as GeoJSON"),
    ".qpproj": ("a QuPath project", "in QuPath, choose File > Export objects as GeoJSON"),
    ".ndpa": ("annotations of NDP.view", "open the slide in QuPath and export GeoJSON"),
    ".ilp": ("an ilastik project", "in ilastik, export the object identities as TIFF"),
    ".h5": ("HDF5", "in ilastik, export the object identities as TIFF"),
    ".hdf5": ("HDF5", "in ilastik, export the object identities as TIFF"),
    ".shp": ("a shapefile", _VECTORS),
    ".gpkg": ("a GeoPackage", _VECTORS),
    ".kml": ("KML", _VECTORS),
    ".gml": ("GML", _VECTORS),
    ".mat": ("MATLAB's", "in MATLAB, imwrite(uint16(labels), 'labels.tif')"),
    ".nrrd": ("NRRD", _TIFF),
    ".nii": ("NIfTI", _TIFF),
    ".gz": ("compressed", "unpack it first"),
    ".csv": ("a table", "use COCO JSON, or segment IMAGE --boxes FILE for a table of boxes"),
    ".tfrecord": ("a TFRecord", _COCO),
    ".pkl": ("a pickle, which can run code,", _TIFF),
    ".pickle": ("a pickle, which can run code,", _TIFF),
    ".pt": ("a pickle of PyTorch, which can run code,", _TIFF),
}
UNREAD: Final = tuple(_BY_SUFFIX)
"""Endings of files that are refused with a way out."""


def _has(*keys: str) -> Callable[[Any], bool]:
    """Return a check for an object with these keys, or a list that begins with such an object."""

    def check(content: Any) -> bool:
        first = content[0] if isinstance(content, list) and content else content
        return isinstance(first, dict) and all(key in first for key in keys)

    return check


def _root(tag: str) -> Callable[[Any], bool]:
    return lambda content: str(getattr(content, "tag", "")).rpartition("}")[2] == tag


def _is_via(content: Any) -> bool:
    first = next(iter(content.values()), None) if isinstance(content, dict) else None
    return _has("_via_img_metadata")(content) or _has("filename", "regions")(first)


_BY_CONTENT: Final[tuple[tuple[Callable[[Any], bool], str, str], ...]] = (
    (_is_via, "a file of VGG Image Annotator", "in VIA, export annotations as COCO"),
    (_has("data", "annotations"), "a file of Label Studio", "export it as COCO or Pascal VOC"),
    (_has("data_row"), "a file of Labelbox", "convert the export to COCO JSON"),
    (_has("item", "annotations"), "a file of V7 Darwin", "export it as COCO"),
    (_has("objects", "size"), "a file of Supervisely", "export it as COCO"),
    (_has("objects", "imgWidth"), "a file of Cityscapes", "use its ..._instanceIds.png"),
    (
        _has("image_id", "category_id"),
        "a list of COCO results",
        "put it under 'annotations' of a file with 'images' and 'categories'",
    ),
    (_has("arcs"), "TopoJSON", _VECTORS),
    (_root("ASAP_Annotations"), "a file of ASAP", "convert it to GeoJSON in pixels"),
    (_root("Annotations"), "a file of Aperio ImageScope", "convert it to GeoJSON in pixels"),
    (_root("kml"), "KML", _VECTORS),
    (_root("OME"), "OME-XML", "in Fiji or OMERO, export the ROIs as a RoiSet.zip"),
)


def way_out(path: Path, content: Any = None) -> str:
    """Return what a file is and what to do instead, for the user; "" if it is unknown."""
    what = _BY_SUFFIX.get(path.suffix.lower())
    if what is None and content is not None:
        what = next((entry[1:] for entry in _BY_CONTENT if entry[0](content)), None)
    return f"{path} is {what[0]} that is not read; {what[1]}." if what else ""
