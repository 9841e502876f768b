"""Drawings of the vocabulary in several art styles, rendered from emoji sets on npm.

Sets do not draw everything: a missing drawing is fully transparent.

The sets are fetched once with ``npm install`` into a cache folder; ``folder`` names an existing
``node_modules`` instead.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from ..base.atomic_files import replacing
from ..base.cache_folder import cache_folder, is_offline
from .restyle import palette, repainted_as
from .vocabulary import OBJECTS, Name


class SpriteError(RuntimeError):
    """The drawings are not available; the message says what to do."""


@dataclass(frozen=True, slots=True)
class SpriteSet:
    """One emoji set: its npm package, exact version, licence and author.

    A set of pictograms has one colour, unless it is ``painted``; ``icons`` are its names for
    drawings that it files otherwise than the emoji sets do, or for all that are taken from it
    (``listed``).
    """

    style: str
    version: str
    licence: str
    author: str
    source: str
    icons: Mapping[str, str] = field(default_factory=dict)
    listed: bool = False
    painted: bool = False

    @property
    def package(self) -> str:
        """Name of the npm package."""
        return f"@iconify-json/{self.style}"


SETS: Final[tuple[SpriteSet, ...]] = (
    SpriteSet(
        "noto", "1.2.9", "Apache-2.0", "Google Inc", "https://github.com/googlefonts/noto-emoji"
    ),
    SpriteSet(
        "noto-v1", "1.2.5", "Apache-2.0", "Google Inc", "https://github.com/googlefonts/noto-emoji"
    ),
    SpriteSet("fxemoji", "1.2.2", "Apache-2.0", "Mozilla", "https://github.com/mozilla/fxemoji"),
    SpriteSet(
        "fluent-emoji",
        "1.2.7",
        "MIT",
        "Microsoft Corporation",
        "https://github.com/microsoft/fluentui-emoji",
    ),
    SpriteSet(
        "fluent-emoji-flat",
        "1.2.6",
        "MIT",
        "Microsoft Corporation",
        "https://github.com/microsoft/fluentui-emoji",
    ),
    SpriteSet(
        "emojione", "1.2.3", "CC-BY-4.0", "Emoji One", "https://github.com/EmojiTwo/emojitwo"
    ),
    SpriteSet(
        "streamline-emojis",
        "1.2.4",
        "CC-BY-4.0",
        "Streamline",
        "https://github.com/webalys-hq/streamline-vectors",
    ),
    SpriteSet(
        "twemoji",
        "1.2.5",
        "CC-BY-4.0",
        "Twitter and contributors",
        "https://github.com/jdecked/twemoji",
    ),
)

# For training only: more shapes of the same things. They are filled, and painted with the colours
# of an emoji of the same name.
PICTOGRAMS: Final[tuple[SpriteSet, ...]] = (
    SpriteSet(
        "emojione-monotone",
        "1.2.1",
        "CC-BY-4.0",
        "Emoji One",
        "https://github.com/EmojiTwo/emojitwo",
    ),
    SpriteSet(
        "fluent-emoji-high-contrast",
        "1.2.6",
        "MIT",
        "Microsoft Corporation",
        "https://github.com/microsoft/fluentui-emoji",
    ),
    SpriteSet(
        "game-icons",
        "1.2.4",
        "CC-BY-3.0",
        "Lorc, Delapouite and contributors",
        "https://github.com/game-icons/icons",
        {
            "whale": "sperm-whale",
            "ice cream": "ice-cream-cone",
            "tractor": "farm-tractor",
            "balloon": "",
            "dog": "",
            "cherries": "cherry",
            "locomotive": "steam-locomotive",
            "television": "tv",
            "horse": "horse-head",
            "hammer": "3d-hammer",
        },
    ),
    SpriteSet(
        "mdi",
        "1.2.3",
        "Apache-2.0",
        "Pictogrammers",
        "https://github.com/Templarian/MaterialDesign",
        {
            "grapes": "fruit-grapes",
            "pineapple": "fruit-pineapple",
            "birthday cake": "cake",
            "car": "car",
            "guitar": "guitar-acoustic",
            "house": "home",
            "cherries": "fruit-cherries",
            "locomotive": "train",
            "alarm clock": "alarm",
            "light bulb": "lightbulb",
        },
    ),
    SpriteSet(
        "hugeicons",
        "1.2.35",
        "MIT",
        "Hugeicons",
        "https://icon-sets.iconify.design/icon-sets/hugeicons/",
        {
            "turtle": "turtle",
            "apple": "apple",
            "grapes": "grapes",
            "ice cream": "ice-cream-01",
            "birthday cake": "birthday-cake",
            "car": "car-01",
            "airplane": "airplane-01",
            "rocket": "rocket-01",
            "bicycle": "bicycle",
            "tractor": "tractor",
            "helicopter": "helicopter",
            "cactus": "cactus",
            "palm tree": "tree-palm",
            "mushroom": "mushroom",
            "guitar": "guitar",
            "camera": "camera-01",
            "umbrella": "umbrella",
            "key": "key-01",
            "balloon": "balloon",
            "crown": "crown",
            "horse": "horse-head",
            "cookie": "cookie",
            "cherries": "cherry",
            "castle": "castle",
            "alarm clock": "alarm-clock",
            "light bulb": "bulb",
        },
        listed=True,
    ),
    SpriteSet(
        "tabler",
        "1.2.41",
        "MIT",
        "Paweł Kuna",
        "https://github.com/tabler/tabler-icons",
        {
            "ladybug": "bug",
            "apple": "apple",
            "hamburger": "burger",
            "grapes": "grape",
            "birthday cake": "cake",
            "car": "car",
            "airplane": "plane",
            "rocket": "rocket",
            "tractor": "tractor",
            "helicopter": "helicopter",
            "cactus": "cactus",
            "mushroom": "mushroom",
            "camera": "camera",
            "umbrella": "umbrella",
            "key": "key",
            "house": "home",
            "balloon": "balloon",
            "crown": "crown",
            "dog": "dog",
            "horse": "horse",
            "lemon": "lemon-2",
            "cookie": "cookie",
            "cherries": "cherry",
            "castle": "building-castle",
            "television": "device-tv-old",
            "alarm clock": "alarm",
            "light bulb": "bulb",
            "hammer": "hammer",
        },
        listed=True,
    ),
    SpriteSet(
        "ph",
        "1.2.2",
        "MIT",
        "Phosphor Icons",
        "https://github.com/phosphor-icons/core",
        {
            "hamburger": "hamburger-fill",
            "ice cream": "ice-cream-fill",
            "birthday cake": "cake-fill",
            "car": "car-profile-fill",
            "airplane": "airplane-fill",
            "rocket": "rocket-fill",
            "bicycle": "bicycle-bold",
            "tractor": "tractor-fill",
            "cactus": "cactus-fill",
            "palm tree": "tree-palm-fill",
            "guitar": "guitar-fill",
            "camera": "camera-fill",
            "umbrella": "umbrella-fill",
            "key": "key-fill",
            "house": "house-fill",
            "balloon": "balloon-fill",
            "crown": "crown-fill",
            "dog": "dog-fill",
            "horse": "horse-fill",
            "cookie": "cookie-fill",
            "cherries": "cherries-fill",
            "castle": "castle-turret-fill",
            "television": "television-fill",
            "alarm clock": "alarm-fill",
            "light bulb": "lightbulb-fill",
            "hammer": "hammer-fill",
            "ladybug": "bug-fill",
        },
        listed=True,
    ),
    SpriteSet(
        "mingcute",
        "1.2.8",
        "Apache-2.0",
        "MingCute Design",
        "https://github.com/Richard9394/MingCute",
        {
            "apple": "apple-fruit-fill",
            "hamburger": "hamburger-fill",
            "ice cream": "ice-cream-fill",
            "birthday cake": "cake-fill",
            "car": "car-fill",
            "airplane": "airplane-fill",
            "rocket": "rocket-fill",
            "sunflower": "sunflower-fill",
            "cactus": "cactus-fill",
            "mushroom": "mushroom-fill",
            "guitar": "guitar-fill",
            "camera": "camera-fill",
            "umbrella": "umbrella-fill",
            "key": "key-1-fill",
            "balloon": "balloon-2-fill",
            "dog": "dog-fill",
            "cookie": "cookie-fill",
            "television": "tv-2-fill",
            "alarm clock": "alarm-1-fill",
            "light bulb": "bulb-fill",
            "hammer": "hammer-fill",
            "ladybug": "bug-fill",
        },
        listed=True,
    ),
    SpriteSet(
        "fa6-solid",
        "1.2.4",
        "CC-BY-4.0",
        "Dave Gandy",
        "https://github.com/FortAwesome/Font-Awesome",
        {
            "ladybug": "bug",
            "frog": "frog",
            "apple": "apple-whole",
            "hamburger": "burger",
            "ice cream": "ice-cream",
            "birthday cake": "cake-candles",
            "car": "car-side",
            "airplane": "plane",
            "rocket": "rocket",
            "bicycle": "bicycle",
            "tractor": "tractor",
            "helicopter": "helicopter",
            "guitar": "guitar",
            "camera": "camera-retro",
            "umbrella": "umbrella",
            "key": "key",
            "house": "house",
            "crown": "crown",
            "dog": "dog",
            "horse": "horse",
            "lemon": "lemon",
            "cookie": "cookie",
            "television": "tv",
            "light bulb": "lightbulb",
            "hammer": "hammer",
        },
        listed=True,
    ),
    SpriteSet(
        "icon-park",
        "1.2.4",
        "Apache-2.0",
        "ByteDance",
        "https://github.com/bytedance/IconPark",
        {
            "elephant": "elephant",
            "whale": "whale",
            "frog": "frog",
            "apple": "apple-one",
            "hamburger": "hamburger-one",
            "pineapple": "pineapple",
            "birthday cake": "birthday-cake",
            "car": "car",
            "airplane": "airplane",
            "rocket": "rocket-one",
            "bicycle": "bike",
            "cactus": "cactus",
            "umbrella": "umbrella",
            "key": "key",
            "house": "home",
            "balloon": "party-balloon",
            "crown": "crown-three",
            "dog": "dog",
            "lemon": "lemon",
            "cherries": "cherry",
            "castle": "castle",
            "television": "tv-one",
            "alarm clock": "alarm-clock",
        },
        listed=True,
        painted=True,
    ),
)

EVERY_SET: Final = (*SETS, *PICTOGRAMS)

STYLES: Final[tuple[str, ...]] = tuple(s.style for s in SETS)
DRAWN_IN: Final[tuple[str, ...]] = tuple(s.style for s in EVERY_SET)  # styles of training
UNSEEN_STYLE: Final = "twemoji"  # shares no drawing with another set; never used for training
SEEN_STYLES: Final[tuple[str, ...]] = tuple(s for s in STYLES if s != UNSEEN_STYLE)

FOLDER_VARIABLE: Final = "NAPARI_MASKINVERSION_SPRITES"


def _folder() -> Path:
    return cache_folder() / "sprites"


def find_sets(
    folder: str | Path | None = None, *, sets: Sequence[SpriteSet] = SETS, fetch: bool = True
) -> Path:
    """Return a ``node_modules`` folder that holds sets of drawings.

    Parameters
    ----------
    folder : str or Path, optional
        An existing ``node_modules``; default is ``$NAPARI_MASKINVERSION_SPRITES``, then the cache
        folder.
    sets : sequence of SpriteSet
        What it has to hold; default the emoji sets.
    fetch : bool
        Whether ``npm install`` may fetch the sets into the cache folder.

    Raises
    ------
    SpriteError
        When a set is missing and cannot be fetched.
    """
    named = folder or os.environ.get(FOLDER_VARIABLE)
    root = Path(named) if named else _folder() / "node_modules"
    missing = [s.package for s in sets if not (root / s.package / "icons.json").is_file()]
    if not missing:
        return root
    if named:
        raise SpriteError(
            f"{root} has no {', '.join(missing)}; name a node_modules folder with all these sets."
        )
    npm, wanted = shutil.which("npm"), [f"{s.package}@{s.version}" for s in sets]
    if npm is None or not fetch or is_offline():
        raise SpriteError(
            "The emoji drawings are not on this machine; install npm, or run 'npm install "
            f"{' '.join(wanted)}' elsewhere and pass its node_modules folder with --sprites."
        )
    root.parent.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts"]
    command += ["--prefix", str(root.parent)]
    done = subprocess.run(command + wanted, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise SpriteError(f"npm could not fetch the emoji sets ({reason}); see --sprites.")
    return root


def load_sprites(
    folder: str | Path | None = None,
    *,
    size: int = 64,
    names: Sequence[Name] = OBJECTS,
    styles: Sequence[str] = STYLES,
    fetch: bool = True,
) -> NDArray[np.uint8]:
    """Render every name in every style: straight alpha, centred, filling the square.

    Parameters
    ----------
    folder : str or Path, optional
        As for `find_sets`.
    size : int
        Side of a sprite in pixels.
    names : sequence of Name
        What to render.
    styles : sequence of str
        In which sets; pictograms after the emoji whose colours they take.
    fetch : bool
        As for `find_sets`.

    Returns
    -------
    numpy.ndarray
        (styles, names, size, size, 4) uint8, RGBA; all zeros where a set has no drawing.

    Raises
    ------
    SpriteError
        When a set is missing, or a name has no drawing in any of the styles.
    """
    known = {s.style: s for s in EVERY_SET}
    sets = [known[style] for style in styles]
    versions = [s.version for s in SETS if s in sets]
    recipe: list[Any] = [[[n.name, n.icons] for n in names], list(styles), versions, size, "v2"]
    recipe += [[s.version, dict(s.icons)] for s in sets if s in PICTOGRAMS]
    digest = hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:16]
    cached = _folder() / f"{digest}-{size}.npz"
    if cached.is_file():
        with np.load(cached) as file:
            sprites: NDArray[np.uint8] = file["sprites"]
        return sprites
    root = find_sets(folder, sets=sets, fetch=fetch)
    sprites = np.zeros((len(styles), len(names), size, size, 4), np.uint8)
    emoji = [i for i, s in enumerate(sets) if s in SETS and s.style != UNSEEN_STYLE]
    for i, drawn in enumerate(sets):
        icons = json.loads((root / drawn.package / "icons.json").read_text("utf-8"))
        for j, name in enumerate(names):
            svg = _icon(icons, name, drawn)
            if svg is None:
                continue
            if drawn not in PICTOGRAMS:
                sprites[i, j] = _render(svg, size)
            elif lenders := [k for k in emoji if sprites[k, j].any()]:
                lender = sprites[lenders[i % len(lenders)], j]
                drawing = _render(svg, size, fill=not drawn.painted)
                sprites[i, j] = _coloured(drawing, lender)
    bare = [n.name for j, n in enumerate(names) if not sprites[:, j].any()]
    if bare:
        raise SpriteError(
            f"No set has a drawing of {', '.join(bare)}; their versions may not be the expected "
            "ones."
        )
    cached.parent.mkdir(parents=True, exist_ok=True)
    with replacing(cached) as part, part.open("wb") as file:
        np.savez_compressed(file, sprites=sprites)
    return sprites


def _icon(icons: dict[str, Any], name: Name, drawn: SpriteSet) -> str | None:
    """Return the SVG text of a name in one set, None if the set does not draw it."""
    own = drawn.icons.get(name.name, "" if drawn.listed else None)
    for key in name.icons if own is None else (own,):
        key = icons.get("aliases", {}).get(key, {}).get("parent", key)
        icon = icons["icons"].get(key)
        if icon is not None:
            left, top = icon.get("left", 0), icon.get("top", 0)
            width = icon.get("width", icons.get("width", 16))
            height = icon.get("height", icons.get("height", 16))
            return (
                '<svg xmlns="http://www.w3.org/2000/svg" '
                'xmlns:xlink="http://www.w3.org/1999/xlink" '
                f'viewBox="{left} {top} {width} {height}">{icon["body"]}</svg>'
            )
    return None


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


def _render(svg: str, size: int, *, fill: bool = False) -> NDArray[np.uint8]:
    """Render at twice the size, cut to the drawing, centre on a square, reduce.

    With ``fill``, black lines stand on white paper cut out around the drawing.
    """
    import resvg_py
    from PIL import Image
    from scipy.ndimage import binary_fill_holes

    png = resvg_py.svg_to_bytes(
        svg_string=svg, width=2 * size, height=2 * size, skip_system_fonts=True
    )
    drawing = Image.open(io.BytesIO(bytes(png))).convert("RGBA")
    if fill:
        ink = np.asarray(drawing)[..., 3]
        paper = np.where(binary_fill_holes(ink > 127), 255, ink).astype(np.uint8)
        drawing = Image.fromarray(np.dstack([255 - ink] * 3 + [paper]), "RGBA")
    box = drawing.getchannel("A").point(lambda a: 255 if a > 32 else 0).getbbox()
    if box is None:
        raise SpriteError(
            "An emoji drawing came out empty; its set's version may not be the expected one."
        )
    side = max(box[2] - box[0], box[3] - box[1])
    square = Image.new("RGBA", (side, side))
    square.paste(drawing.crop(box), ((side - box[2] + box[0]) // 2, (side - box[3] + box[1]) // 2))
    # Pillow weighs colours by alpha in this mode, so no dark fringe appears
    reduced = square.convert("RGBa").resize((size, size), Image.Resampling.LANCZOS).convert("RGBA")
    return np.asarray(reduced, np.uint8)
