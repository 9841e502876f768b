"""Count what the exact loop asks of a GPU, without one:  ``python benchmarks/count.py``

Tensors of `FakeTensorMode` have a device, a shape and a type but no numbers; a dispatch mode sees
every operation on them. A kernel is an operation that writes: views and allocations are left out. A
host read is an operation that has to wait for a number from the device. The first table is of the
exact loop alone, tensors in, tensors out, without the encoding of the image. The second is of what
is launched with CUDA graphs, each of which is one launch, and without. The third is of all
else: encoding an image (its check included) and texts, and the loop of other maps and towers. What
needs autograd is counted on fake CPU tensors, since autograd fails on fake CUDA tensors; there,
copies to the host are not seen. Writes benchmarks/results/count.json.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, get_args
from unittest.mock import patch

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from napari_maskinversion import InversionConfig
from napari_maskinversion.engine.compute import cuda_graphs
from napari_maskinversion.engine.compute.matmul import STORED
from napari_maskinversion.engine.encode.image_encoding import (
    BlockWeights,
    ImageEncoding,
    LayerConstants,
)
from napari_maskinversion.engine.explain.registry import make_map
from napari_maskinversion.engine.invert import graphs
from napari_maskinversion.engine.invert.dice import MaskTargets
from napari_maskinversion.engine.invert.loop import Descent, descend
from napari_maskinversion.engine.invert.map_builder import MapBuilder
from napari_maskinversion.engine.models import openclip
from napari_maskinversion.engine.models.towers import tower_of

# Width, joint dimension, heads, patch.
TOWERS = {"ViT-B-16": (768, 512, 12, 16), "ViT-L-14": (1024, 768, 16, 14)}
Precision = Literal["float32", "bfloat16"]
NO_KERNEL = {
    "_reshape_alias", "_unsafe_view", "alias", "as_strided", "detach", "device", "empty",
    "empty_like", "empty_strided", "expand", "lift_fresh", "new_empty", "new_empty_strided",
    "permute", "select", "slice", "split", "squeeze", "t", "transpose", "unbind", "unsqueeze",
    "view",
}  # fmt: skip
READS = {"nonzero", "item", "equal"}
# Of open_clip's towers, and where they are counted: all but the first need autograd.
OTHERS = {"ViT-B-16": "cuda", "EVA02-B-16": "cpu", "ViT-B-16-SigLIP": "cpu", "coca_ViT-B-32": "cpu"}


class OperationCounter(TorchDispatchMode):
    """Counts operations on tensors of a device.

    Attributes
    ----------
    kernels : Counter
        Operations that write, by name.
    overloads : set of str
        All operations, by name and overload ("aten::add.Tensor").
    multiply_adds, nbytes : int
        Of matrix products; read and written by kernels.
    host_reads : int
        Operations that wait for the device.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kernels: Counter[str] = Counter()
        self.overloads: set[str] = set()
        self.multiply_adds = self.nbytes = self.host_reads = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Any = None,
    ) -> Any:
        name = func._schema.name.split("::")[1]
        self.overloads.add(func.name())
        if name == "_local_scalar_dense":
            self.host_reads += 1
            return 9  # true as a condition; as the end of a text, that of a short sentence
        result = func(*args, **(kwargs or {}))
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        on_device = any(tensor.device.type != "cpu" for tensor in inputs)
        to_host = name == "_to_copy" and result.device.type == "cpu"
        if on_device and (to_host or name in READS):
            self.host_reads += 1
        elif name not in NO_KERNEL:
            self.kernels[name] += 1
            outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
            for tensor in (*inputs, *outputs):
                self.nbytes += tensor.numel() * tensor.element_size()
            if name in {"mm", "bmm", "mv"}:
                first, second = inputs[:2]
                columns = 1 if name == "mv" else second.shape[-1]
                self.multiply_adds += math.prod(first.shape) * columns
        return result


def count(
    masks: int = 100,
    *,
    tower: str = "ViT-B-16",
    resolution: int = 448,
    budget: int = 16 * 2**30,
    device: str = "cuda",
    precision: Precision = "float32",
    own_images: bool = False,
) -> dict[str, Any]:
    """Count an exact inversion of ``masks`` masks; returns what the table shows.

    With ``own_images`` each is on an image of its own, as windows are that go together.
    """
    config = InversionConfig(precision=precision, route="direct" if own_images else "auto")
    with FakeTensorMode(allow_non_fake_inputs=True):
        builder, targets = fake_image(masks, tower, resolution, budget, device, own_images)
        explained = builder.exact(config, masks)
        counter = count_loop(explained, targets, builder.encoding.embedding, config)
    return {
        "tower": tower,
        "resolution": resolution,
        "masks": masks,
        "images": masks if own_images else 1,
        "precision": precision,
        "budget_gb": budget / 2**30,
        "route": builder.routes(config, masks, masks * (1 + 2 * config.steps))[0],
        "masks_at_once": min(masks, explained.group_size),
        "kernels_per_step": round(sum(counter.kernels.values()) / (config.steps + 1), 1),
        "host_reads": counter.host_reads,
        "giga_multiply_adds": round(counter.multiply_adds / 1e9),
        "gigabytes": round(counter.nbytes / 1e9),
    }


def fake_image(
    masks: int, tower: str, resolution: int, budget: int, device: str, own_images: bool
) -> tuple[MapBuilder, MaskTargets]:
    """Return an encoded image, or one of each mask, and targets on it, without numbers."""
    width, joint, heads, patch = TOWERS[tower]
    side = resolution // patch
    tokens, hidden = side * side + 1, 4 * width
    images = (masks,) if own_images else ()

    def of(*shape: int) -> Tensor:
        return torch.empty(*shape, device=device)

    layer = LayerConstants(
        values=of(*images, heads, tokens, width // heads),
        jacobian=of(*images, joint, width),
        weights=BlockWeights(of(width, width), of(width, hidden), of(hidden, width)),
        slope=of(*images, tokens, hidden),
        bend=of(*images, tokens, hidden),
        offset=of(*images, tokens, width),
    )
    size, embedding = (resolution, resolution), of(*images, joint)
    builder = MapBuilder(ImageEncoding(embedding, (layer,), (side, side), size), budget)
    return builder, fake_targets(masks, side, resolution, of)


class OneLaunch:
    """Stands for a CUDA graph: all that it repeats is one launch, and none when it is recorded."""

    counter = OperationCounter()

    def __init__(self, device: torch.device) -> None:
        self.aside = self._do

    @staticmethod
    def suits(device: torch.device) -> bool:
        return device.type == "cuda"

    @staticmethod
    def meet(device: torch.device) -> None:
        return None

    def _do(self, work: Callable[[], object]) -> None:
        work()

    def record(self, work: Callable[[], object]) -> None:
        before = self.counter.kernels.copy()
        work()
        self.counter.kernels = before

    def repeat(self) -> None:
        self.counter.kernels["graph"] += 1


def launches(work: Callable[[], object]) -> int:
    """Count what a GPU is asked to start."""
    with OperationCounter() as counter, patch.object(OneLaunch, "counter", counter):
        work()
    return sum(counter.kernels.values())


def count_launches(precision: Precision) -> list[dict[str, Any]]:
    """Count launches of ViT-B/16 without graphs, where they are recorded, and later on.

    Of encoding an image of 448 px after its check, and of ten steps of masks on one image or more.
    """
    config, rows = InversionConfig(precision=precision, route="direct"), []
    clip: Any = openclip.build(openclip.architecture_config("ViT-B-16"), quick_gelu=False)
    dtype = STORED.get(precision)
    with (
        FakeTensorMode(allow_non_fake_inputs=True),
        patch.object(cuda_graphs, "CudaGraph", OneLaunch),
    ):
        tower = tower_of(clip.to_empty(device="cuda").requires_grad_(False).eval().visual)
        image = torch.empty(1, 3, 448, 448, device="cuda")
        repeated = graphs._Encoding()  # numbers have no addresses here
        calls = [lambda: tower.encode_checked(image, 1, dtype)]
        calls += [lambda: repeated.encode(tower, image, 1, dtype)] * 2
        rows.append(("encoding at 448 px", [launches(call) for call in calls]))
        for masks, name, side in ((5, "masks", 448), (16, "windows", 224)):
            of_image = fake_image(masks, "ViT-B-16", side, 16 * 2**30, "cuda", name == "windows")
            inversion = partial(_inversion, tower.visual, *of_image, masks, config)
            with cuda_graphs.GRAPHS.off():
                plain = launches(inversion)
            first, _, later = (launches(inversion) for _ in range(3))
            rows.append((f"{masks} {name} at {side} px", [plain, first, later]))
    return [
        {"work": name, "precision": precision}
        | dict(zip(("launches", "recording", "repeating"), counted, strict=True))
        for name, counted in rows
    ]


def _inversion(
    visual: Any, builder: MapBuilder, targets: MaskTargets, masks: int, config: InversionConfig
) -> None:
    descent = Descent(targets, builder.encoding.embedding, config)
    graphs.descend(visual, builder, masks, descent)


def count_loop(
    explained: Any, targets: MaskTargets, start: Tensor, config: InversionConfig
) -> OperationCounter:
    """Count the steps of a loop; maps are made once more than there are steps."""
    descent = Descent(targets, start, config)
    with OperationCounter() as counter:
        descend(explained, descent)
    return counter


def count_other(
    architecture: str,
    explainers: Sequence[str] | None = None,
    *,
    masks: Sequence[int] = (1, 10),
    resolution: int = 448,
    blocks: int | None = None,
) -> list[dict[str, Any]]:
    """Count encoding and loop of one of `OTHERS`; a row for each map.

    ``blocks`` cuts the depth of both towers, which changes only the kernels of the encoding.
    """
    device, config = OTHERS[architecture], InversionConfig(steps=1)
    clip: Any = openclip.build(openclip.architecture_config(architecture), quick_gelu=False)
    text, visual = getattr(clip, "text", clip), clip.visual
    for owner, name in (
        (text.transformer, "resblocks"),
        *([(visual.trunk, "blocks")] if hasattr(visual, "trunk") else []),
        *([(visual.transformer, "resblocks")] if hasattr(visual, "transformer") else []),
    ):
        setattr(owner, name, getattr(owner, name)[:blocks])

    def of(*shape: int) -> Tensor:
        return torch.empty(*shape, device=device)

    rows = []
    # Without oneDNN, so that counts are the same on all processors.
    with torch.backends.mkldnn.flags(enabled=False), FakeTensorMode(allow_non_fake_inputs=True):
        tower = tower_of(clip.to_empty(device=device).requires_grad_(False).eval().visual)
        grid = tower.token_grid((resolution, resolution))
        size, _ = grid.input_size(tower.patch_size)
        with OperationCounter() as encode:
            encoding = tower.encode(of(1, 3, size, size), 1)
        tokens = of(64, text.context_length).long()
        with OperationCounter() as texts:
            openclip.encode_tokens(clip, tokens)
        for explainer in explainers or tower.explainers:
            if encoding.layers and explainer == "legrad":
                continue  # that is the first table
            with OperationCounter() as make:
                explained = make_map(explainer, encoding, 16 * 2**30)
            loops = [
                count_loop(
                    explained, fake_targets(n, grid.height, size, of), encoding.embedding, config
                )
                for n in masks
            ]
            steps = {
                f"kernels_per_step_{n}_masks": round(sum(loop.kernels.values()) / 2, 1)
                for n, loop in zip(masks, loops, strict=True)
            }
            rows.append(
                {
                    "tower": architecture,
                    "device": device,
                    "map": explainer,
                    "encode_kernels": sum(encode.kernels.values()),
                    "encode_host_reads": encode.host_reads,
                    "map_kernels": sum(make.kernels.values()),
                    **steps,
                    "host_reads": max(loop.host_reads for loop in loops),
                    "text_kernels": sum(texts.kernels.values()),
                    "text_host_reads": texts.host_reads,
                }
            )
    return rows


def fake_targets(masks: int, side: int, resolution: int, of: Any) -> MaskTargets:
    """Return targets without regions, since only tensors matter to the loop."""
    targets = MaskTargets([], (8, 8), (resolution, resolution), (side, side), torch.empty(0))
    for name, value in vars(targets).items():
        if isinstance(value, Tensor):
            setattr(targets, name, of(*value.shape))
    targets.weights, targets.areas = of(masks, side * side), of(masks)
    return targets


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--masks", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--budgets", type=float, nargs="+", default=[1, 4, 16], help="in GiB")
    chosen = parser.parse_args()
    rows = [
        count(masks, budget=int(budget * 2**30), tower=tower, precision=precision)
        for precision in get_args(Precision)
        for tower in TOWERS
        for budget in chosen.budgets
        for masks in chosen.masks
    ]
    keep_table(
        rows,
        lambda row: f"{row['tower']}:{row['masks']}:{row['budget_gb']:g}:{row['precision']}",
    )
    windows = [count(16, precision=precision, own_images=True) for precision in get_args(Precision)]
    keep_table(windows, lambda row: f"{row['tower']}:{row['images']} windows:{row['precision']}")
    recorded = [row for precision in get_args(Precision) for row in count_launches(precision)]
    keep_table(recorded, lambda row: f"launches:{row['work']}:{row['precision']}")
    others = [row for tower in OTHERS for row in count_other(tower)]
    keep_table(others, lambda row: f"{row['tower']}:{row['map']}")


def keep_table(rows: list[dict[str, Any]], name_of: Callable[[dict[str, Any]], str]) -> None:
    """Print rows as Markdown and keep them with the results of earlier runs."""
    import measuring

    print("| " + " | ".join(rows[0]) + " |")
    print("|" + "---|" * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(str(value) for value in row.values()) + " |")
        measuring.keep(measuring.RESULTS / "count.json", name_of(row), row)


if __name__ == "__main__":
    main()
