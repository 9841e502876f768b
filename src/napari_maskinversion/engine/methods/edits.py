"""Methods that edit the image for each region and embed the edited images."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from typing import Any, Final, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageDraw, ImageFilter
from torch import Tensor

from ...base.regions import Region, Regions
from ..encode.preprocessing import to_rgb_tensor
from ..models.backbone import Backbone
from .region_method import RegionMethod, check_choices

Pixels = npt.NDArray[np.uint8]
Box = tuple[int, int, int, int]
Fill = Literal[
    "dataset mean",
    "image mean",
    "model mean",
    "blurred",
    "strongly blurred",
    "blurred by 100 pixels",
]
Outside = Literal["as it is", "grey", "blurred"]

DATASET_MEAN: Final = (0.485, 0.456, 0.406)
RED: Final = (255, 0, 0)
WIDTH: Final = 2  # pixels of RedCircle's line
TINT: Final = (240, 0, 30)
TINT_SHARE: Final = 127 / 255
BLUR: Final = 10  # pixels of the model's input; RedCircle's "blurred"
RADIUS: Final = 100  # pixels, of FGVP's and ReCLIP's blur
# FGVP blurs the image brought to this shorter side, ReCLIP the image as it is.
FGVP_SIDE: Final = 384


class ImageEditMethod(RegionMethod):
    """Edits the image for each region and embeds the edited images."""

    @abstractmethod
    def pictures(self, encoded: Any, region: Region) -> Iterator[Tensor]:
        """Yield inputs (1, 3, h, w) of one region, the same number for each; they are averaged."""

    def embed_regions(self, encoded: Any, regions: Regions) -> Tensor:
        """Embed the pictures of one size together."""
        # Few pictures at a time: they are made when their batch is embedded.
        inputs = chain.from_iterable(self.pictures(encoded, region) for region in regions)
        rows = []
        for _, same in groupby(inputs, key=lambda picture: picture.shape):
            rows.append(self.model.embed_images(torch.cat(list(same))))
        embeddings = torch.cat(rows).cpu()
        per_region = len(embeddings) // len(regions)
        if per_region > 1:
            embeddings = torch.nn.functional.normalize(embeddings, dim=1)
            embeddings = embeddings.reshape(len(regions), per_region, -1).mean(1)
        return embeddings


class Crop(ImageEditMethod):
    """Crop, Masked Crop and FGVP: the region's box, cropped and resized to a square.

    ``context`` is the side of a square crop divided by the longer side of the box: 1 is the box
    itself, infinity the whole image (Masked Crop in the paper; in its code it is the box). ``fill``
    replaces the pixels outside the mask (FGVP: of the whole image, strongly blurred), or with
    ``by_box`` those outside its box (ReCLIP's second picture, blurred by 100 pixels).
    """

    def __init__(
        self,
        model: Backbone,
        *,
        context: float = 1.0,
        fill: Fill | None = None,
        by_box: bool = False,
        **common: Any,
    ) -> None:
        super().__init__(model, **common)
        if fill is not None:
            check_choices("fill", [fill], get_args(Fill))
        self.context = context
        self.fill = fill
        self.by_box = by_box

    def encode(self, image: npt.NDArray[Any], scale: float, keep_aspect: bool) -> Any:
        """Return the pixels, the fill, the input side, and whether pictures keep their shape."""
        pixels = as_rgb8(image)
        fill = _fill_pixels(pixels, self.fill, self.model.mean)
        whole = self.context == math.inf and keep_aspect
        return pixels, fill, self.input_side(scale), whole

    def pictures(self, encoded: Any, region: Region) -> Iterator[Tensor]:
        """Paint over the outside and crop the box."""
        pixels, fill, side, keep_aspect = encoded
        shape = pixels.shape[:2]
        y0, x0, y1, x1 = cut_box(region.bbox, shape, self.context)
        shown = full_mask(region, shape, by_box=self.by_box)
        inside = shown[y0:y1, x0:x1, None]
        cut = np.where(inside, pixels[y0:y1, x0:x1], fill[y0:y1, x0:x1])
        yield self.model.preprocess(cut, resolution=side, keep_aspect=keep_aspect)


def cut_box(box: Box, shape: tuple[int, int], context: float) -> Box:
    """Return the box; with a context above 1, a square around it inside the image."""
    height, width = shape
    y0, x0, y1, x1 = box
    if context == math.inf:
        return 0, 0, height, width
    if context == 1:
        return box
    side = round(context * max(y1 - y0, x1 - x0))
    tall = min(side, height)
    wide = min(side, width)
    top = int(np.clip((y0 + y1 - tall) // 2, 0, height - tall))
    left = int(np.clip((x0 + x1 - wide) // 2, 0, width - wide))
    return top, left, top + tall, left + wide


def _fill_pixels(pixels: Pixels, fill: Fill | None, mean: tuple[float, float, float]) -> Pixels:
    if fill is None:
        return pixels
    height, width = pixels.shape[:2]
    radii = {
        "blurred": max(height, width) / 10,
        "strongly blurred": RADIUS * min(height, width) / FGVP_SIDE,
        "blurred by 100 pixels": RADIUS,
    }
    if fill in radii:
        blur = ImageFilter.GaussianBlur(radii[fill])
        return np.asarray(Image.fromarray(pixels).filter(blur))
    if fill == "image mean":
        colour = pixels.mean((0, 1))
    else:
        colour = 255 * np.array(DATASET_MEAN if fill == "dataset mean" else mean)
    return np.broadcast_to(colour.round().astype(np.uint8), pixels.shape)


class RedCircle(ImageEditMethod):
    """RedCircle: a red ellipse inscribed in the region's box, drawn at the model's size.

    ``outside`` says how pixels outside the ellipse are edited; several versions are averaged.
    """

    def __init__(
        self, model: Backbone, *, outside: Sequence[Outside] = ("as it is",), **common: Any
    ) -> None:
        super().__init__(model, **common)
        check_choices("outside", outside, get_args(Outside))
        self.outside = tuple(outside)

    def encode(self, image: npt.NDArray[Any], scale: float, keep_aspect: bool) -> Any:
        """Resize the image to the model's size and make the backgrounds."""
        pixels = as_rgb8(image)
        side = self.input_side(scale)
        kind = Image.Resampling.BICUBIC
        size = self.model.input_size(pixels.shape[0], pixels.shape[1], side, keep_aspect)
        plain = Image.fromarray(pixels).resize(size[::-1], kind)
        backgrounds = {
            "as it is": plain,
            "grey": plain.convert("L").convert("RGB"),
            "blurred": plain.filter(ImageFilter.GaussianBlur(BLUR)),
        }
        chosen = [backgrounds[name] for name in self.outside]
        return plain, chosen, pixels.shape, side, keep_aspect

    def pictures(self, encoded: Any, region: Region) -> Iterator[Tensor]:
        """Draw the ellipse."""
        plain, backgrounds, shape, side, keep_aspect = encoded
        y0, x0, y1, x1 = region.bbox
        down = plain.height / shape[0]
        across = plain.width / shape[1]
        left = round(x0 * across)
        top = round(y0 * down)
        box = (left, top, max(round(x1 * across) - 1, left), max(round(y1 * down) - 1, top))
        inside = Image.new("L", plain.size)
        ImageDraw.Draw(inside).ellipse(box, fill=255)
        for background in backgrounds:
            picture = Image.composite(plain, background, inside)
            ImageDraw.Draw(picture).ellipse(box, outline=RED, width=WIDTH)
            yield self.model.preprocess(
                np.asarray(picture), resolution=side, keep_aspect=keep_aspect
            )


class Shade(ImageEditMethod):
    """The region's box under a translucent red: CPT as adapted by ReCLIP, for "X is in red color".

    The whole image is shown.
    """

    def encode(self, image: npt.NDArray[Any], scale: float, keep_aspect: bool) -> Any:
        """Return the pixels, the input side, and whether pictures keep their shape."""
        return as_rgb8(image), self.input_side(scale), keep_aspect

    def pictures(self, encoded: Any, region: Region) -> Iterator[Tensor]:
        """Tint the box."""
        pixels, side, keep_aspect = encoded
        y0, x0, y1, x1 = region.bbox
        shown = pixels.copy()
        box = shown[y0:y1, x0:x1]
        box[:] = (box + TINT_SHARE * (np.array(TINT) - box)).round()
        yield self.model.preprocess(shown, resolution=side, keep_aspect=keep_aspect)


def as_rgb8(image: npt.NDArray[Any]) -> Pixels:
    """Convert any image to RGB of eight bits, (H, W, 3)."""
    rgb = to_rgb_tensor(image)
    if rgb.is_floating_point():
        rgb = rgb.clamp(0, 1).mul(255).round().to(torch.uint8)
    return np.ascontiguousarray(rgb.permute(1, 2, 0).numpy())


def full_mask(region: Region, shape: tuple[int, int], *, by_box: bool) -> npt.NDArray[np.bool_]:
    """Return the mask of a region on its plane, (H, W), or its box.

    The mask has the pixels covered by at least half; if there are none, those covered most.
    """
    y0, x0, y1, x1 = region.bbox
    full = np.zeros(shape, bool)
    full[y0:y1, x0:x1] = by_box or region.mask >= min(0.5, float(region.mask.max()))
    return full
