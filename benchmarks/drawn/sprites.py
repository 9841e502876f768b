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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from napari_maskinversion.base.atomic_files import replacing
from napari_maskinversion.base.cache_folder import cache_folder, is_offline
from napari_maskinversion.demo_model.scene_words import OBJECTS, Name


class SpriteError(RuntimeError):
    """The drawings are not available; the message says what to do."""


@dataclass(frozen=True, slots=True)
class SpriteSet:
    """One set of drawings: its npm package, exact version, licence and author."""

    style: str
    version: str
    licence: str
    author: str
    source: str

    @property
    def package(self) -> str:
        """Name of the npm package."""
        return f"@iconify-json/{self.style}"


_HUB: Final = "https://github.com"
SETS: Final = (
    SpriteSet("noto", "1.2.9", "Apache-2.0", "Google Inc", f"{_HUB}/googlefonts/noto-emoji"),
    SpriteSet("noto-v1", "1.2.5", "Apache-2.0", "Google Inc", f"{_HUB}/googlefonts/noto-emoji"),
    SpriteSet("fxemoji", "1.2.2", "Apache-2.0", "Mozilla", f"{_HUB}/mozilla/fxemoji"),
    SpriteSet(
        "fluent-emoji", "1.2.7", "MIT", "Microsoft Corporation", f"{_HUB}/microsoft/fluentui-emoji"
    ),
    SpriteSet(
        "fluent-emoji-flat",
        "1.2.6",
        "MIT",
        "Microsoft Corporation",
        f"{_HUB}/microsoft/fluentui-emoji",
    ),
    SpriteSet("emojione", "1.2.3", "CC-BY-4.0", "Emoji One", f"{_HUB}/EmojiTwo/emojitwo"),
    SpriteSet(
        "streamline-emojis",
        "1.2.4",
        "CC-BY-4.0",
        "Streamline",
        f"{_HUB}/webalys-hq/streamline-vectors",
    ),
    SpriteSet(
        "twemoji", "1.2.5", "CC-BY-4.0", "Twitter and contributors", f"{_HUB}/jdecked/twemoji"
    ),
)

STYLES: Final[tuple[str, ...]] = tuple(s.style for s in SETS)
UNSEEN_STYLE: Final = "twemoji"  # shares no drawing with another set; never used for training
SEEN_STYLES: Final[tuple[str, ...]] = tuple(s for s in STYLES if s != UNSEEN_STYLE)

FOLDER_VARIABLE: Final = "NAPARI_MASKINVERSION_SPRITES"


def _folder() -> Path:
    return cache_folder() / "sprites"


def find_sets(
    folder: str | Path | None = None, *, sets: Sequence[SpriteSet] = SETS, fetch: bool = True
) -> Path:
    """Return a ``node_modules`` folder that holds sets of drawings: `folder`, or the cache's.

    Only the cache's is filled by npm, unless `fetch` is False.
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
    """Render names in emoji sets, (styles, names, size, size, 4) uint8 with straight alpha.

    A drawing is centred and fills its square; it is all zeros where a set has none.
    """
    sets = [one for style in styles for one in SETS if one.style == style]
    versions = [one.version for one in SETS if one in sets]
    recipe = [[[n.name, n.icons] for n in names], list(styles), versions, size, "v2"]

    def drawn() -> NDArray[np.uint8]:
        root = find_sets(folder, sets=sets, fetch=fetch)
        sprites = np.zeros((len(sets), len(names), size, size, 4), np.uint8)
        for i, one in enumerate(sets):
            icons = icons_of(root, one)
            for j, name in enumerate(names):
                svg = svg_of(icons, name.icons)
                if svg is not None:
                    sprites[i, j] = render(svg, size)
        bare = [name.name for j, name in enumerate(names) if not sprites[:, j].any()]
        if bare:
            raise SpriteError(
                f"No set has a drawing of {', '.join(bare)}; their versions may not be the "
                "expected ones."
            )
        return sprites

    return cached_drawings(recipe, size, drawn)


def cached_drawings(
    recipe: Sequence[object], size: int, draw: Callable[[], NDArray[np.uint8]]
) -> NDArray[np.uint8]:
    """Return drawings that were rendered by this recipe before, or render and keep them."""
    digest = hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:16]
    cached = _folder() / f"{digest}-{size}.npz"
    if cached.is_file():
        with np.load(cached) as file:
            kept: NDArray[np.uint8] = file["sprites"]
        return kept
    sprites = draw()
    cached.parent.mkdir(parents=True, exist_ok=True)
    with replacing(cached) as part, part.open("wb") as file:
        np.savez_compressed(file, sprites=sprites)
    return sprites


def icons_of(root: Path, drawn: SpriteSet) -> dict[str, Any]:
    """Return what a set's package lists."""
    listed: dict[str, Any] = json.loads((root / drawn.package / "icons.json").read_text("utf-8"))
    return listed


def svg_of(icons: dict[str, Any], keys: Sequence[str]) -> str | None:
    """Return the SVG text of the first of these icons that a set has, or None."""
    for key in keys:
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


def render(svg: str, size: int, *, fill: bool = False) -> NDArray[np.uint8]:
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
