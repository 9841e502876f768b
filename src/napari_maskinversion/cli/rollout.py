"""The command ``rollout``: attention rollout, which shows where an image's tokens flow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import numpy.typing as npt
import typer

from ..base.atomic_files import atomic_path, together
from ..base.errors import InputError
from ..base.locks import hold
from ..base.targets import check_targets
from ..images.plane_source import overview
from ..pipeline.inputs import channels_of, input_files, open_stack
from ..results.settings import RunSettings
from .console import say
from .options import ImageFile, with_settings
from .run_options import load

ENDINGS: Final = (".png", ".tif", ".tiff")


@with_settings("model", "resolution", "keep_aspect", "plane", "series", "channels")
def rollout_command(
    image: ImageFile,
    settings: RunSettings,
    out: Annotated[
        Path,
        typer.Option(help="PNG: the map in colours over the image. TIFF: its numbers, 0 to 1."),
    ] = Path("rollout.png"),
    overwrite: Annotated[bool, typer.Option(help="Replace a file that is there.")] = False,
) -> None:
    """Show attention rollout: where the image's tokens flow through all layers of a model.

    It does not depend on a region or a word, so it cannot be used for an inversion. Large images
    are shown at about 1,024 pixels a side.
    """
    if out.suffix.lower() not in ENDINGS:
        raise InputError(f"--out takes the name of a PNG or TIFF file; got {out}.")
    files = input_files(image, settings.model)
    check_targets([out], overwrite=overwrite, inputs=files)
    _held = hold(out)  # until this function returns
    with open_stack(image, settings, say) as stack:
        source = stack.source(stack.position(settings.plane), channels_of(settings))
        source.check()
        pixels = overview(source)
    loaded = load(settings)
    from ..engine.explain.interpolation import heatmap
    from ..engine.invert.inverter import MaskInverter

    inverter = MaskInverter(loaded)
    inverter.set_image(pixels, resolution=settings.resolution, keep_aspect=settings.keep_aspect)
    shape = (int(pixels.shape[0]), int(pixels.shape[1]))
    heat = heatmap(inverter.rollout(), inverter.input_size, shape)
    out.absolute().parent.mkdir(parents=True, exist_ok=True)
    with together(out.absolute().parent, overwrite=overwrite, keep=True):
        _write(heat, pixels, out.absolute())
    rows, columns = inverter.grid
    say(f"Wrote {out}: rollout of {loaded.num_layers} layers over {rows} x {columns} tokens.")


def _write(heat: npt.NDArray[np.float32], pixels: npt.NDArray[Any], out: Path) -> None:
    with atomic_path(out) as part:
        if out.suffix.lower() == ".png":
            from PIL import Image

            from ..engine.methods.edits import as_rgb8

            grey = as_rgb8(pixels).mean(2, keepdims=True)
            hot = np.stack([heat.clip(0, 0.5) * 2, (heat.clip(0.5, 1) - 0.5) * 2, 0 * heat], 2)
            shown = (0.5 * grey + 127.5 * hot).round().astype(np.uint8)
            Image.fromarray(shown).save(part, format="PNG")
        else:
            import tifffile

            tifffile.imwrite(part, heat)
