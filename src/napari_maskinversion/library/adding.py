"""Results as regions of a library: rows, their image, thumbnails."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from ..base.errors import InputError, MaskInversionError
from ..base.identity import (
    ImageIdentity,
    ImagePlace,
    Position,
    another_image,
    identify_image,
    plane_text,
)
from ..base.progress import tick
from ..base.reading import is_address
from ..base.validation import encodable
from ..images.opening import open_image
from ..images.plane_source import PlaneSource
from ..results.export.bundle import Bundle
from ..results.spaces import Space
from ..review.reporting import decided_bundle
from .filters import utc
from .region_fields import DecidedRegion, row_of
from .store import Store
from .thumbnails import thumbnail


def add_bundle(
    store: Store,
    bundle: Bundle,
    image: Path | None,
    planes: Mapping[Position, PlaneSource],
) -> None:
    """Add results; planes of the image are read from its file, unless they are open already."""
    info = bundle.results.info
    regions = bundle.results.regions
    content = bundle.image.content
    name = bundle.image.name
    if image is None and not content:
        raise InputError("These results do not say which image they are of; pass its file.")
    with ExitStack() as opened:
        if image is not None and not planes and not is_address(image):
            stack = opened.enter_context(open_image(image, info.settings.series))
            about = identify_image(image.name, stack.levels[0])
            difference = ""
            if content:
                difference = another_image(bundle.image, about)
            if stack.shape != info.image_shape:
                difference = f"planes of {info.image_shape} px; it has {stack.shape} px"
            if difference:
                raise InputError(f"{image} is not the image of these results ({difference}).")
            content = about.content
            channels = info.settings.channels
            planes = {}
            for position in dict.fromkeys(region.position for region in regions):
                planes[position] = stack.source(dict(position), channels and channels.split(","))
        if image is not None and bundle.image.content and not bundle.columns:
            bundle = decided_bundle(bundle, image)
        place = place_of(image, info.settings.series)
        shown = encodable(name if image is None else image.name)
        identity = ImageIdentity(shown, content=content)
        masks = bundle.region_masks()

        def picture(row: int) -> bytes | None:
            tick("Thumbnails", row, len(regions))
            region = regions[row]
            mask = masks[row]
            if (plane := planes.get(region.position)) is None:
                return None
            return thumbnail(plane, region.bbox, None if mask is None else mask.unpack())

        space = Space.of(bundle.results)
        embeddings = bundle.results.embeddings
        is_part = bool(info.settings.only)
        reached = {(region.position, region.id) for region in regions}
        unreached = []
        for position, number in bundle.masks.keys() - reached:
            unreached.append((plane_text(position), number))
        store.write(
            space,
            place,
            identity,
            rows_of(bundle),
            embeddings,
            picture,
            is_part=is_part,
            unreached=unreached,
        )


def rows_of(bundle: Bundle) -> list[dict[str, Any]]:
    """Return regions as rows; the label of a rejected one is empty."""
    rows = []
    run_date = utc(bundle.results.info.created)
    masks = bundle.region_masks()
    for place, region in enumerate(bundle.results.regions):
        texts = {}
        for name in ("decision", "accepted_label", "decided_at"):
            texts[name] = ""
            if name in bundle.columns:
                texts[name] = str(bundle.columns[name][place])
        decision, accepted_label, date = texts.values()
        decided = DecidedRegion(region, decision, accepted_label, date or run_date, masks[place])
        rows.append(row_of(decided))
    return rows


def stored_path(image: Path) -> str:
    """Return the path of an image as a library has it."""
    if is_address(image):
        file = image
    else:
        file = Path(os.path.abspath(image))  # noqa: PTH100
    return str(encodable(file.as_posix()))


def place_of(image: Path | None, series: int | None) -> ImagePlace:
    """Return where an image is, as a library has it."""
    return ImagePlace("" if image is None else stored_path(image), series or 0)


def located(bundle: Bundle, archive: Path, folder: Path | None) -> Path | None:
    """Return the image of results: below a folder, or else beside them or the working folder."""
    about = bundle.source.get("image", {})
    name = about.get("file") or about.get("folder") or bundle.image.name
    places: Iterable[Path] = (archive.parent / name, Path(name))
    if folder is not None:
        places = (path for path in folder.rglob("*") if path.name == name)
    for path in places:
        if name and path.exists():
            with suppress(MaskInversionError, OSError):
                with open_image(path, bundle.results.info.settings.series) as stack:
                    is_other = another_image(bundle.image, identify_image("", stack.levels[0]))
                if not is_other:
                    return path
    return None


def image_problem(place: ImagePlace, image: ImageIdentity) -> str:
    """Return in a line why an image of a library cannot be looked at again; "" if it can."""
    path = place.path
    if not path:
        return f"{image.name}: it is not known where this image is; add its results again."
    if is_address(path):
        return ""
    file = Path(path)
    if not file.exists():
        return f"{path}: the image is gone."
    try:
        with open_image(file, place.series) as stack:
            changed = identify_image(image.name, stack.levels[0]).content != image.content
    except (MaskInversionError, OSError) as error:
        return f"{path}: the image cannot be read ({' '.join(str(error).split())})."
    if changed:
        return f"{path}: the image has changed since its regions were added."
    return ""
