"""Sets of pictograms, for training only: more shapes of the same things.

They are filled, and painted with the colours of an emoji of the same name. `pictogram_sets.csv`
lists them, `pictograms.csv` their own names for drawings; "-" leaves a drawing out.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.drawn.sprites import (
    SETS,
    STYLES,
    UNSEEN_STYLE,
    SpriteSet,
    cached_drawings,
    find_sets,
    icons_of,
    load_sprites,
    render,
    svg_of,
)
from napari_maskinversion.demo_model.scene_words import Name

from .restyle import palette, repainted_as


@dataclass(frozen=True, slots=True)
class PictogramSet(SpriteSet):
    """A set of one colour, or one whose lines and areas are ``painted`` already."""

    listed: bool = False  # nothing but what `icons` lists is taken from it
    painted: bool = False
    icons: Mapping[str, str] = field(default_factory=dict)  # its own names for drawings

    def keys(self, name: Name) -> Sequence[str]:
        """Return under which names it may file a drawing."""
        own = self.icons.get(name.name)
        if own is None:
            return () if self.listed else name.icons
        return () if own == "-" else (own,)


def _rows(name: str) -> list[dict[str, str]]:
    with Path(__file__).with_name(name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _sets() -> Iterator[PictogramSet]:
    icons = _rows("pictograms.csv")
    for row in _rows("pictogram_sets.csv"):
        listed, painted = bool(row.pop("listed")), bool(row.pop("painted"))
        own = {icon["name"]: icon[row["style"]] for icon in icons if icon.get(row["style"])}
        yield PictogramSet(**row, listed=listed, painted=painted, icons=own)


PICTOGRAMS: Final = tuple(_sets())
EVERY_SET: Final[tuple[SpriteSet, ...]] = (*SETS, *PICTOGRAMS)
DRAWN_IN: Final[tuple[str, ...]] = tuple(one.style for one in EVERY_SET)


def load_drawings(
    folder: Path | None, *, size: int, names: Sequence[Name], fetch: bool = True
) -> NDArray[np.uint8]:
    """Render names in all sets, (styles of `DRAWN_IN`, names, size, size, 4) uint8, RGBA."""
    emoji = load_sprites(folder, size=size, names=names, fetch=fetch)
    lenders = [i for i, style in enumerate(STYLES) if style != UNSEEN_STYLE]

    def drawn() -> NDArray[np.uint8]:
        root = find_sets(folder, sets=PICTOGRAMS, fetch=fetch)
        out = np.zeros((len(PICTOGRAMS), *emoji.shape[1:]), np.uint8)
        for i, one in enumerate(PICTOGRAMS):
            icons = icons_of(root, one)
            for j, name in enumerate(names):
                svg = svg_of(icons, one.keys(name))
                lending = [k for k in lenders if emoji[k, j].any()]
                if svg is not None and lending:
                    drawing = render(svg, size, fill=not one.painted)
                    lender = emoji[lending[(len(SETS) + i) % len(lending)], j]
                    out[i, j] = _coloured(drawing, lender)
        return out

    recipe: list[object] = [[[n.name, n.icons] for n in names], size, "pictograms"]
    recipe += [[one.style, one.version] for one in SETS]
    recipe += [[one.style, one.version, dict(one.icons)] for one in PICTOGRAMS]
    return np.concatenate([emoji, cached_drawings(recipe, size, drawn)])


def _coloured(pictogram: NDArray[np.uint8], other: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Paint a filled pictogram, dark lines on white, with the colours of another drawing."""
    plain, shown = (
        torch.from_numpy(x.copy()).permute(2, 0, 1)[None] / 255 for x in (pictogram, other)
    )
    colour = repainted_as(
        plain[:, :3], palette(plain[:, :3], plain[:, 3:]), palette(shown[:, :3], shown[:, 3:])
    )
    painted = torch.cat([colour.clamp(0, 1), plain[:, 3:]], 1)[0].permute(1, 2, 0)
    return (255 * painted).round().to(torch.uint8).numpy()
