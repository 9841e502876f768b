"""COCO JSON: instances, and panoptic segments with a PNG whose colours number them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PureWindowsPath
from typing import Any, Final

import numpy as np
from pydantic import FiniteFloat, TypeAdapter

from ...base.errors import InputError
from ...base.label_blocks import LARGEST
from ...base.regions import Region, Regions
from ...images.decoding import decode
from . import rle
from .annotation import CocoFacts
from .annotation_building import (
    AnnotationFormat,
    Box,
    Drawn,
    Geometry,
    LeftOut,
    Outline,
    Parsed,
    fill,
    label_of,
)
from .json_files import Id, Loose, Name, Record
from .listed_images import (
    ImageReference,
    ListedImage,
    check_size,
    choose_images,
    size_of_images,
    whole_size,
)
from .polygons import turned_box

UNNAMED: Final = "unlabelled"
"""Category of regions without a label: COCO requires a category."""
BROUGHT: Final = "attributes of the regions"
"""Where files of ours list the attributes that are no results."""
_NO_WORDS: Final = {"_background_", "__ignore__", "background"}  # unused categories of labelme's
CATEGORY: Final = "category_id"
"""The attribute that tells regions apart whose categories share a name."""


class ListedRecord(Record):
    """An image; files of Segment Anything have one, too."""

    id: Loose[Id] = None
    file_name: Loose[str] = None
    coco_url: Loose[str] = None  # Of LVIS, which has no file_name
    height: Loose[int] = None
    width: Loose[int] = None
    position: Loose[dict[str, int]] = None  # The plane, in files of ours
    series: Loose[int] = None


_key: Final = TypeAdapter(Loose[Id]).validate_python


class _Category(Record):
    id: Loose[Id] = None
    name: Loose[Name] = None
    supercategory: Loose[str] = None

    @property
    def title(self) -> str:
        """Its name, or else its number."""
        return str(self.id if self.name is None else self.name)


_Pair = tuple[FiniteFloat, FiniteFloat]


class _RunLengths(Record):
    size: tuple[int, int]
    counts: str | list[int]


class _Segment(Record):
    id: Loose[Id] = None
    category_id: Loose[Id] = None
    iscrowd: Loose[int] = None


class Instance(_Segment):
    """An annotation; files of Segment Anything have them, too."""

    region: Loose[int] = None  # Its number, in files of ours
    score: Loose[FiniteFloat] = None
    bbox: Loose[tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat]] = None
    # Polygons, also of pairs, or one without a list around it, which some programs write
    segmentation: Loose[
        _RunLengths | list[list[FiniteFloat]] | list[FiniteFloat] | list[list[_Pair]]
    ] = None
    attributes: Loose[dict[str, Any]] = None
    category_name: Loose[Name] = None  # Of SAHI
    image_id: Any = None
    area: Any = None


def is_coco(page: Any) -> bool:
    """Return whether JSON content is COCO instances, or a list of COCO results."""
    return is_results(page) or (
        isinstance(page, dict)
        and all(isinstance(page.get(name), list) for name in ("images", "annotations"))
    )


def is_results(page: Any) -> bool:
    """Return whether JSON content is annotations alone, as pycocotools loads them as results."""
    first = None
    if isinstance(page, list) and page:
        first = page[0]
    return isinstance(first, dict) and {"image_id", "category_id"} <= first.keys()


def _as_page(results: list[Any]) -> dict[str, Any]:
    """Return COCO JSON of results: images are called by file_name or by their ids."""
    records = [record for record in results if isinstance(record, dict)]
    names = {}
    for record in records:
        names[_key(record.get("image_id"))] = record.get("file_name")
    images = [{"id": key, "file_name": name or str(key)} for key, name in names.items()]
    return {"images": images, "annotations": results}


def is_panoptic(page: Any) -> bool:
    """Return whether JSON content is COCO panoptic."""
    records = []
    if isinstance(page, dict) and is_coco(page):
        records = page["annotations"]
    return any(isinstance(record, dict) and "segments_info" in record for record in records[:1])


@dataclass(frozen=True, slots=True, kw_only=True)
class CocoPage:
    """COCO JSON sorted by image, so that many images are read from it in turn."""

    listed: list[ListedImage]
    names: Mapping[Any, str]  # Of the categories that are words, by id
    facts: CocoFacts
    # For the key of an image: its annotations, each after what messages call it
    records: Mapping[Any, list[tuple[int, str, dict[str, Any]]]]
    notes: list[str]  # Annotations of no listed image
    brought: Sequence[str]  # See `BROUGHT`


def sorted_by_image(page: Any, path: Path) -> CocoPage:
    """Sort the annotations of COCO JSON by image."""
    page = _as_page(page) if is_results(page) else page
    listed = _listed_images(page["images"], path)
    records: dict[Any, list[tuple[int, str, dict[str, Any]]]] = {image.key: [] for image in listed}
    # Some programs put zeros before the ids of images, or write their names without the ending.
    keys_by_name = {}
    for listed_image in listed:
        keys_by_name[str(listed_image.key).lstrip("0")] = listed_image.key
    keys_by_name |= {
        PureWindowsPath(listed_image.name).stem.lstrip("0"): listed_image.key
        for listed_image in listed
    }
    notes = []
    used = set()
    for number, record in enumerate(page["annotations"], 1):
        members = {}
        if isinstance(record, dict):
            members = record
        annotation_id = _key(members.get("id"))
        image = _key(members.get("image_id"))
        where = f"{path}, annotation {number if annotation_id is None else annotation_id}"
        for segment in _segments(members) or [members]:
            used.add(_key(segment.get("category_id")))
        if image not in records and str(image).lstrip("0"):
            image = keys_by_name.get(str(image).lstrip("0"), image)
        if image in records:
            records[image].append((number, where, members))
            continue
        if image is None:
            reason = "names no image"
        else:
            reason = f"is on image {image}, which is not listed,"
        notes.append(f"{where} {reason} and was left out.")
    about = {}
    if isinstance(page.get("info"), dict):
        about = page.get("info")
    brought = about.get(BROUGHT)
    names, facts = _categories(page, used, path, notes)
    return CocoPage(
        listed=listed,
        names=names,
        facts=facts,
        records=records,
        notes=notes,
        brought=brought if isinstance(brought, list) else [],
    )


def _segments(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    listed = record.get("segments_info")
    if isinstance(listed, list):
        return [segment for segment in listed if isinstance(segment, dict)]
    return []


def _listed_images(records: list[Any], path: Path) -> list[ListedImage]:
    listed: dict[Any, ListedImage] = {}
    for number, record in enumerate(map(ListedRecord.of, records), 1):
        key = f"image {number}" if record.id is None else record.id
        if key in listed:
            raise InputError(
                f"{path} has two images with the id {key!r}; annotations of one would go "
                "to both. Give each its own."
            )
        listed[key] = ListedImage(
            key=key,
            name=record.file_name or record.coco_url or "",
            size=whole_size(record.height, record.width),
            position=tuple((record.position or {}).items()),
            series=record.series,
        )
    return list(listed.values())


def _categories(
    page: Mapping[str, Any], used: set[Any], path: Path, notes: list[str]
) -> tuple[dict[Any, str], CocoFacts]:
    """Return the names of categories by id, and number and supercategory of each name.

    Of two with one name the number that is used counts; where both are used, the first one does,
    and ``repeated`` has name and supercategory of the others. Unused headings of others are no
    words, and Roboflow's, which are below none, need no note.
    """
    records = page.get("categories") or _named_in(page["annotations"])
    if not isinstance(records, list) or not records:
        notes.append(f"{path} has no list of categories, so its regions have no names.")
        records = []
    categories: dict[Any, _Category] = {}
    headings: set[str | None] = set()
    for category in map(_Category.of, records):
        if category.id is None:
            continue
        twin = categories.setdefault(category.id, category)
        if twin.title != category.title:
            raise InputError(
                f"{path} has two categories with the id {category.id!r}: {twin.title!r} "
                f"and {category.title!r}. Give each its own."
            )
        # The last one with an id says what it is below.
        categories[category.id] = category
        if category.supercategory != category.name:
            headings.add(category.supercategory)
    words: dict[Any, str] = {}
    unused: list[str] = []
    for key, category in categories.items():
        is_background = category.title.lower() in _NO_WORDS
        is_heading = category.title in headings
        if key in used or not (is_heading or is_background):
            words[key] = category.title
        elif not is_background and category.supercategory != "none":
            unused.append(category.title)
    if unused:
        notes.append(
            f"{path}: {', '.join(unused[:5])} has no region, is only the supercategory of others, "
            "and is no word."
        )
    # The used ones first: their numbers count where names are repeated.
    keys_by_name: dict[str, list[Any]] = {}
    for key in sorted(words, key=lambda key: key not in used):
        keys_by_name.setdefault(words[key], []).append(key)
    numbers: dict[str, int] = {}
    supercategories: dict[str, str] = {}
    repeated: dict[str, tuple[str, str]] = {}
    for name, keys in keys_by_name.items():
        first = keys[0]
        if name and isinstance(first, int) and 0 <= first <= LARGEST:
            numbers[name] = first
        heading = categories[first].supercategory
        if heading:
            supercategories[name] = heading
        used_keys = [key for key in keys if key in used]
        for key in used_keys[1:]:
            repeated[str(key)] = (name, categories[key].supercategory or "")
        if len(used_keys) > 1:
            notes.append(
                f"{path}: the categories {', '.join(map(str, used_keys))} are called {name!r}; "
                f"they are one word, and {CATEGORY} tells their regions apart."
            )
    facts = CocoFacts(category_ids=numbers, supercategories=supercategories, repeated=repeated)
    return words, facts


def _named_in(records: list[Any]) -> list[dict[str, Any]]:
    """Return the categories that the annotations of a file without any name themselves."""
    names = {}
    for record in records:
        if isinstance(record, dict) and record.get("category_name"):
            names[str(record.get("category_id"))] = record["category_name"]
    return [{"id": key, "name": name} for key, name in names.items()]


def parse_coco(page: CocoPage, path: Path, image: ImageReference) -> Parsed:
    """Return the annotations of an image: run lengths or polygons, else boxes."""
    chosen = choose_images(page.listed, path, image)
    shape = size_of_images(chosen, path, image.shape)
    notes = list(page.notes)
    records = []
    for listed_image in chosen:
        for entry in page.records[listed_image.key]:
            records.append((*entry, listed_image.position))
    objects = []
    twins = {name for name, _ in page.facts.repeated.values()}
    scale = (1, 1)
    if shape is not None and _are_shares(page):
        scale = shape[::-1]
        notes.append(f"{path}: its boxes and outlines were read as shares of the image.")
    for _, where, members, position in sorted(records, key=lambda entry: entry[0]):
        record = Instance.of(members)
        if isinstance(record.id, int):
            number = record.id
        else:
            number = None
        values = record.attributes or record.model_extra or {}
        if record.region is not None:  # a file of ours, with columns of results
            values = {name: value for name, value in values.items() if name in page.brought}
        if page.names.get(record.category_id) in twins:
            values = {**values, CATEGORY: record.category_id}
        objects.append(
            Drawn(
                where=where,
                geometry=partial(geometry_of, record, where, shape, notes, scale),
                label=_label(page, record, where, notes),
                id=number if record.region is None else record.region,
                position=position,
                score=record.score,
                values=values,
                source_id="" if record.id is None else str(record.id),
            )
        )
    return _parsed(objects, chosen, page, notes)


def _are_shares(page: CocoPage) -> bool:
    """Return whether no box of a file exceeds 1, as Azure's, which count in shares of the image."""
    sides = []
    for records in page.records.values():
        for _, _, members in records:
            box = members.get("bbox")
            if isinstance(box, list):
                sides += box
    if not all(isinstance(side, int | float) and side <= 1 for side in sides):
        return False
    return any(0 < side < 1 for side in sides)


def _parsed(
    objects: Sequence[Drawn], chosen: Sequence[ListedImage], page: CocoPage, notes: list[str]
) -> Parsed:
    """Return objects with the numbers that the image and its categories have in the file."""
    keys = []
    for listed_image in chosen:
        if type(listed_image.key) is int and 0 <= listed_image.key <= LARGEST:
            keys.append(listed_image.key)
    return Parsed(
        objects=objects,
        images=chosen,
        notes=notes,
        colors={name: "" for name in page.names.values() if name not in ("", UNNAMED)},
        coco=replace(page.facts, image_id=keys[0] if len(keys) == len(chosen) == 1 else None),
    )


def _label(page: CocoPage, record: _Segment, where: str, notes: list[str]) -> str:
    """Return the name of an annotation's category; "" with a note where it has none."""
    if record.category_id not in page.names:
        notes.append(f"{where} has category {record.category_id}, which the file does not name.")
    if record.iscrowd:
        notes.append(f"{where} is a crowd: several objects in one mask, read as one region.")
    label = page.names.get(record.category_id, "")
    if label == UNNAMED:
        return ""
    return label


def geometry_of(
    record: Instance,
    where: str,
    shape: tuple[int, int] | None,
    notes: list[str],
    scale: tuple[int, int] = (1, 1),
) -> Geometry | None:
    """Return what an annotation covers: run lengths or polygons, else its box.

    ``scale`` is what its coordinates (x, y) are multiplied by.
    """
    drawn = record.segmentation
    if isinstance(drawn, _RunLengths):
        return rle.decode(drawn.size, drawn.counts, shape)
    outlines: list[Any] = drawn or []
    is_flat = bool(outlines) and isinstance(outlines[0], float)
    if is_flat or (outlines and set(map(len, outlines)) == {2}):
        outlines = [outlines]
    flat = [np.ravel(outline) for outline in outlines]
    # Two corners have no area, and the rest has.
    parts = []
    for numbers in flat:
        if len(numbers) > 5:
            parts.append(numbers[: len(numbers) // 2 * 2].reshape(-1, 2) * scale)
    if parts:
        return rle.fill(parts)
    if record.bbox is None:
        raise LeftOut("has no mask or box that can be read")
    notes.append(f"{where} has no mask; its box is used instead.")
    x, y, wide, high = np.multiply(record.bbox, scale * 2).tolist()
    turn = (record.attributes or {}).get("rotation")  # of a box in CVAT
    if turn and isinstance(turn, int | float):
        return Outline([turned_box(x, y, x + wide, y + high, turn)])
    return Box(y, x, y + high, x + wide)


def read_segmentation(region_id: int, drawn: Any, shape: tuple[int, int]) -> Region | None:
    """Return the region of run lengths or polygons; None if it has no pixel on the plane."""
    geometry = geometry_of(Instance.of({"segmentation": drawn}), "", shape, [])
    region = None if geometry is None else fill(geometry, shape)
    if region is None:
        return None
    return replace(region, id=region_id)


def parse_panoptic(page: CocoPage, path: Path, image: ImageReference) -> Parsed:
    """Return segments with the ids of the file.

    The PNG lies in the folder of the JSON file, or in a folder of the same name next to it.
    """
    chosen = choose_images(page.listed, path, image)
    notes = list(page.notes)
    objects: list[Drawn] = []
    for _, where, record in page.records[chosen[0].key]:
        picture = _picture(record.get("file_name"), path, where)
        regions = _segments_of(picture, size_of_images(chosen, path, image.shape))
        for number, segment in enumerate(map(_Segment.of, _segments(record)), 1):
            of = f"{where}, segment {number}"
            region = regions.pop(segment.id, None)
            if region is None:
                notes.append(f"{of} ({segment.id}) has no pixel in its picture; left out.")
            else:
                objects.append(label_of(region, of, label=_label(page, segment, of, notes)))
        if regions:
            notes.append(
                f"{where} does not list {len(regions)} of the colours of its picture; left out."
            )
    return _parsed(objects, chosen, page, notes)


def _picture(name: Any, path: Path, where: str) -> Path:
    """Return the file of a picture. Folders in its name are ignored."""
    file = Path(str(name)).name
    places = [folder / file for folder in (path.with_suffix(""), path.parent)]
    for place in places:
        if place.is_file():
            return place
    raise InputError(f"{where} needs the picture {file}; put it at {places[0]}.")


def _segments_of(picture: Path, shape: tuple[int, int] | None) -> dict[Any, Region]:
    colours = decode(picture, "panoptic picture", colours=True)
    if colours.ndim != 3 or colours.shape[2] < 3 or colours.dtype != np.uint8:
        raise InputError(
            f"{picture} is not a picture of colours with 8 bits, which number segments."
        )
    check_size(picture, (colours.shape[0], colours.shape[1]), shape)
    numbers = colours[..., :3].astype(np.int64) @ np.array([1, 256, 65536])
    return {region.id: region for region in Regions.from_labels(numbers)}


COCO: Final = AnnotationFormat(
    name="COCO",
    content="images, annotations, categories",
    markers=((b'"annotations"', b'"images"'),),
    matches=is_coco,
    parse=parse_coco,
    prepare=sorted_by_image,
)
COCO_PANOPTIC: Final = AnnotationFormat(
    name="COCO panoptic",
    content="images, annotations with segments_info, categories",
    markers=((b'"segments_info"', b'"images"'),),
    matches=is_panoptic,
    parse=parse_panoptic,
    prepare=sorted_by_image,
)
