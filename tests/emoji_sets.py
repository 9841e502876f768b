"""Emoji sets as npm leaves them, with plain drawings, so that no test needs the published ones."""

import json
from collections.abc import Iterable
from pathlib import Path

from benchmarks.drawn.sprites import SETS
from napari_maskinversion.demo_model.scene_words import Name
from research.demo_model.pictograms import PICTOGRAMS

BODIES = (
    '<circle cx="8" cy="8" r="7" fill="{}"/>',
    '<rect x="1" y="1" width="14" height="14" fill="{}"/>',
    '<path d="M8 1 15 15 1 15z" fill="{}"/>',
    '<path d="M1 1h14v5H1z" fill="{}"/>',
    '<path d="M1 1h5v14H1z" fill="{}"/>',
    '<path d="M1 1h14v4H5v10H1z" fill="{}"/>',
)
RING = '<circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="2"/>'
COLOURS = ("#c33", "#3c3", "#33c", "#cc3", "#3cc", "#c3c")


def write_sets(folder: Path, names: Iterable[Name]) -> Path:
    """Write every set with a drawing of every name, each set in a colour of its own.

    A pictogram of anything is a ring.
    """
    names = list(names)
    icons = [(icon, number) for number, name in enumerate(names) for icon in name.icons]
    for place, one in enumerate(SETS):
        bodies = {
            icon: {"body": BODIES[number % 6].format(COLOURS[(number + place) % 6])}
            for icon, number in icons
        }
        write_set(folder / one.package, bodies)
    for one in PICTOGRAMS:
        icons_of_it = {icon for name in names for icon in one.keys(name)}
        write_set(folder / one.package, {icon: {"body": RING} for icon in icons_of_it})
    return folder


def write_set(folder: Path, bodies: dict[str, dict[str, str]]) -> None:
    folder.mkdir(parents=True)
    page = {"icons": bodies, "width": 16, "height": 16}
    (folder / "icons.json").write_text(json.dumps(page), "utf-8")
