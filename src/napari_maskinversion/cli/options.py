"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..engine.settings import EXPLAINERS

ImageFile = Annotated[Path, typer.Argument(help="Image file: PNG, TIFF, OME-Zarr, ...")]
MaskFiles = Annotated[
    Path,
    typer.Argument(
        help="Label image or stack, a folder or file of several binary masks, COCO JSON, GeoJSON, "
        "or Pascal VOC XML."
    ),
]
Model = Annotated[str, typer.Option(help="Model name, or a checkpoint file.")]
Architecture = Annotated[
    str | None, typer.Option(help="open_clip architecture of a checkpoint file.")
]
MethodName = Annotated[
    str,
    typer.Option(
        "--method",
        help="How regions are embedded; two joined by + are averaged. See the command methods.",
    ),
]
MethodWeights = Annotated[
    Path | None, typer.Option(help="Checkpoint of a method that needs one (AlphaCLIP).")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")]
Steps = Annotated[int, typer.Option(help="Optimisation steps per region.")]
LearningRate = Annotated[float, typer.Option(help="Step size of AdamW.")]
Explainer = Annotated[
    str,
    typer.Option(help=f"Explainability map matched with a region: {', '.join(EXPLAINERS)}."),
]
Fast = Annotated[
    bool,
    typer.Option(
        "--fast", help="Estimate LeGrad's map where the estimate agrees with the exact one."
    ),
]
Layers = Annotated[int, typer.Option(help="Last layers that are explained.")]
ChunkSize = Annotated[int | None, typer.Option(help="Regions inverted together (default 16).")]
Resolution = Annotated[
    int | None, typer.Option(help="Pixels of the model's input (default: the model's).")
]
Square = Annotated[bool, typer.Option("--square", help="Squeeze the image into a square.")]
Window = Annotated[
    str,
    typer.Option(help="What the model sees with a region: auto, whole, or a side in pixels."),
]
Context = Annotated[
    float, typer.Option(help="Side of a window over the longer side of its region.")
]
Planes = Annotated[
    str | None,
    typer.Option(
        help="All planes of a 3-D or time label file: each region on the plane where it is "
        "largest, or on each plane it touches (largest, each)."
    ),
]
Plane = Annotated[str, typer.Option(help="Plane of a stack, for example z=12,t=3.")]
Channels = Annotated[str | None, typer.Option(help="Channels by number or name, for example 0,2.")]
Only = Annotated[str, typer.Option(help="Only these labels, for example 3,5.")]
Merge = Annotated[
    list[str] | None, typer.Option(help="Labels made one region, 3,5,9; may be repeated.")
]
UnsureTokens = Annotated[
    float,
    typer.Option(help="A region over fewer tokens of the model's input is unsure; 0: never."),
]
UnsureIou = Annotated[
    float, typer.Option(help="So is one whose heatmap overlaps its mask less (IoU); 0: never.")
]
UnsureMargin = Annotated[
    float,
    typer.Option(
        help="And one whose best label is not so many times as probable as the second; 0: never."
    ),
]
TopCaptions = Annotated[int, typer.Option("--top-k", help="Captions of a region.")]
