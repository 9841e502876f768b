"""Write the sample scenes: ``python -m research.demo_model.samples --out sample_data``.

The seeds were fixed before the model was trained and never change. `painted` makes two of the
scenes, one is a real image of the test split, the others are composed from drawings.
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from benchmarks.drawn.sprites import SEEN_STYLES, SETS, load_sprites
from napari_maskinversion.base.atomic_files import write_whole
from napari_maskinversion.demo_model.domains import (
    FOLDER_VARIABLE,
    FOLDERS,
    NAMES,
    data_folder,
    files_of,
    read_picture,
)
from napari_maskinversion.demo_model.scene_words import CHOSEN, OBJECTS, REAL, Name
from napari_maskinversion.demo_model.scenes import CALM, compose, generator, pyramid

from .painted import PAINTED, PaintedSample

# Fixed, so that scenes do not change when the model learns more names.
SHOWN: Final[tuple[Name, ...]] = OBJECTS[:40]
LICENCE_TEXTS: Final[dict[str, str]] = {
    "Apache-2.0": "https://www.apache.org/licenses/LICENSE-2.0",
    "MIT": "https://opensource.org/license/mit",
    "CC-BY-4.0": "https://creativecommons.org/licenses/by/4.0/",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample scene, fully determined by these values."""

    name: str
    title: str
    seed: int
    objects: int
    size: tuple[int, int]  # height, width
    styles: tuple[str, ...]


SAMPLES: Final[tuple[Sample, ...]] = (
    Sample("everyday-1", "Everyday things 1", 1, 4, (512, 512), ("noto",)),
    Sample("everyday-2", "Everyday things 2", 2, 5, (480, 640), ("fluent-emoji",)),
    Sample("everyday-3", "Everyday things 3", 3, 3, (512, 512), SEEN_STYLES),
)


@dataclass(frozen=True, slots=True)
class RealSample:
    """A real image with the regions of its annotation."""

    name: str
    title: str
    kind: str  # of `domains.KINDS`, and the group of the names to choose from
    picture: str  # its file, without suffix


# The first image of the test split that shows all three kinds of cells.
REAL_SAMPLE: Final = RealSample("bccd-smear", "Blood smear (real)", "blood", "BloodImage_00005")


def read_sample(sample: RealSample, folder: Path) -> tuple[Path, NDArray[np.uint8], list[str]]:
    """Read a real sample: its file, regions (H, W) as uint8, and the names of regions 1, 2, ...

    A cell is the ellipse in its box; smaller ones lie above.
    """
    files = {file.stem: file for file in files_of(folder, "test", sample.kind)}
    file = files[sample.picture]
    picture = read_picture(file, sample.kind)
    assert picture is not None
    height, width = picture.pixels.shape[:2]
    masks = [picture.mask(i, 0, 0, height, width) > 0.5 for i in range(len(picture.labels))]
    regions = np.zeros((height, width), np.uint8)
    for number in sorted(range(len(masks)), key=lambda i: -int(masks[i].sum())):
        regions[masks[number]] = number + 1
    return file, regions, [NAMES[int(label)] for label in picture.labels]


def draw_sample(
    sample: Sample, folder: str | Path | None = None, *, fetch: bool = True
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], list[str]]:
    """Draw one sample scene: image (H, W, 3), regions (H, W), names of regions 1, 2, ..."""
    sprites = load_sprites(folder, size=256, names=SHOWN, styles=sample.styles, fetch=fetch)
    scene = compose(
        pyramid(sprites, levels=4),
        generator("sample", sample.seed),
        torch.tensor([sample.objects]),
        sample.size,
        look=CALM,
    )
    image = (scene.images[0].permute(1, 2, 0) * 255).round().to(torch.uint8).numpy()
    regions = np.zeros(sample.size, np.uint8)
    for m, mask in enumerate(scene.visible[0].numpy() > 0.5):
        regions[mask] = m + 1
    return image, regions, [SHOWN[int(i)].name for i in scene.labels[0]]


def attribution(real: str) -> str:
    """Return a page that names authors and licences; `real` is that of the real image."""
    rows, template = [], Path(__file__).with_name("attribution_template.md").read_text("utf-8")
    for s in SETS:
        used = ", ".join(x.name for x in SAMPLES if s.style in x.styles)
        if used:
            licence = f"[{s.licence}]({LICENCE_TEXTS[s.licence]}) | {used} |"
            cells = f"[{s.style}]({s.source}) | {s.package} {s.version} | {s.author}"
            rows.append(f"| {cells} | {licence}")
    quoted = "\n".join(f"> {line}".rstrip() for line in real.splitlines())
    shown = {"name": REAL_SAMPLE.name, "picture": REAL_SAMPLE.picture}
    return Template(template).substitute(sets="\n".join(rows), licence=quoted, **shown)


def write_samples(out: Path, folder: str | Path | None, real: Path) -> None:
    """Write all sample scenes, ``scenes.json`` and ``ATTRIBUTION.md`` into `out`."""
    out.mkdir(parents=True, exist_ok=True)
    listed: list[dict[str, Any]] = []

    def write(
        sample: Sample | PaintedSample | RealSample,
        image: NDArray[np.uint8] | Path,
        regions: NDArray[np.uint8],
        names: Sequence[str],
        vocabulary: Sequence[str],
    ) -> None:
        ending, encoded = (
            (image.suffix, image.read_bytes()) if isinstance(image, Path) else (".png", _png(image))
        )
        files = {"image": f"{sample.name}{ending}", "regions": f"{sample.name}_regions.png"}
        write_whole(out / files["image"], encoded)
        write_whole(out / files["regions"], _png(regions))
        seed = {} if isinstance(sample, RealSample) else {"seed": sample.seed}
        listed.append(
            {"name": sample.name, "title": sample.title, **files, **seed}
            | {"truth": {str(i + 1): name for i, name in enumerate(names)}}
            | {"vocabulary": list(vocabulary)}
        )

    for sample in SAMPLES:
        write(sample, *draw_sample(sample, folder), CHOSEN)
    for painted in PAINTED:
        image, regions = painted.paint(painted.seed)
        pixels = np.round(255 * image).astype(np.uint8)
        write(painted, pixels, regions, painted.names, _group(painted.group))
    write(REAL_SAMPLE, *read_sample(REAL_SAMPLE, real), _group(REAL_SAMPLE.kind))
    write_whole(out / "scenes.json", (json.dumps({"scenes": listed}, indent=2) + "\n").encode())
    licence = (real / FOLDERS[REAL_SAMPLE.kind] / "LICENSE").read_text("utf-8")
    write_whole(out / "ATTRIBUTION.md", attribution(licence).encode())


def _group(group: str) -> list[str]:
    return [name.name for name in REAL if name.group == group]


def _png(pixels: NDArray[np.uint8]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Write the sample scenes.")
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    parser.add_argument("--sprites", type=Path, help="a node_modules folder with the emoji sets")
    parser.add_argument("--data", type=Path, default=data_folder(), help="the real images")
    chosen = parser.parse_args(arguments)
    if chosen.data is None:
        parser.error(f"--data or {FOLDER_VARIABLE} must name the folder of the real images")
    write_samples(chosen.out, chosen.sprites, chosen.data)


if __name__ == "__main__":
    main()
