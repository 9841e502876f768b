"""Count what the exact loop asks of a GPU, without one:  ``python benchmarks/count.py``

Tensors of `FakeTensorMode` have a device, a shape and a type but no numbers; a dispatch mode sees
every operation on them. A kernel is an operation that writes: views and allocations are left out. A
host read is an operation that has to wait for a number from the device. Counted for the loop alone,
tensors in, tensors out, without the encoding of the image. Prints a Markdown table and writes
benchmarks/results/count.json.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.steps import drive
from napari_maskinversion.engine.encode.image_encoding import (
    BlockWeights,
    ImageEncoding,
    LayerConstants,
)
from napari_maskinversion.engine.invert.dice import MaskTargets
from napari_maskinversion.engine.invert.loop import Descent, descend
from napari_maskinversion.engine.invert.map_builder import MapBuilder

# Width, joint dimension, heads, patch.
TOWERS = {"ViT-B-16": (768, 512, 12, 16), "ViT-L-14": (1024, 768, 16, 14)}
Precision = Literal["float32", "bfloat16"]
NO_KERNEL = {
    "_reshape_alias", "_unsafe_view", "alias", "as_strided", "detach", "device", "empty",
    "empty_like", "empty_strided", "expand", "lift_fresh", "new_empty", "new_empty_strided",
    "permute", "select", "slice", "split", "squeeze", "t", "transpose", "unbind", "unsqueeze",
    "view",
}  # fmt: skip
READS = {"_local_scalar_dense", "nonzero", "item", "equal"}


class OperationCounter(TorchDispatchMode):
    """Counts operations on tensors of a device.

    Attributes
    ----------
    kernels : Counter
        Operations that write, by name.
    multiply_adds, nbytes : int
        Of matrix products; read and written by kernels.
    host_reads : int
        Operations that wait for the device.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kernels: Counter[str] = Counter()
        self.multiply_adds = self.nbytes = self.host_reads = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Any = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[1]
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
) -> dict[str, Any]:
    """Count an exact inversion of ``masks`` masks; returns what the table shows."""
    width, joint, heads, patch = TOWERS[tower]
    side = resolution // patch
    tokens, hidden = side * side + 1, 4 * width
    config = InversionConfig(precision=precision)
    with FakeTensorMode(allow_non_fake_inputs=True):

        def of(*shape: int) -> Tensor:
            return torch.empty(*shape, device=device)

        layer = LayerConstants(
            values=of(heads, tokens, width // heads),
            jacobian=of(joint, width),
            weights=BlockWeights(of(width, width), of(width, hidden), of(hidden, width)),
            slope=of(tokens, hidden),
            bend=of(tokens, hidden),
            offset=of(tokens, width),
        )
        size = (resolution, resolution)
        builder = MapBuilder(ImageEncoding(of(joint), (layer,), (side, side), size), budget)
        explained = drive(builder.exact(config, masks))
        targets = fake_targets(masks, side, resolution, of)
        descent = Descent(targets, builder.encoding.embedding, config)
        with OperationCounter() as counter:
            drive(descend(explained, descent))
    return {
        "tower": tower,
        "resolution": resolution,
        "masks": masks,
        "precision": precision,
        "budget_gb": budget / 2**30,
        "route": builder.routes(config, masks, masks * (1 + 2 * config.steps))[0],
        "masks_at_once": min(masks, explained.group_size),
        "kernels_per_step": round(sum(counter.kernels.values()) / (config.steps + 1), 1),
        "host_reads": counter.host_reads,
        "giga_multiply_adds": round(counter.multiply_adds / 1e9),
        "gigabytes": round(counter.nbytes / 1e9),
    }


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
    import measuring

    rows = [
        count(masks, budget=int(budget * 2**30), tower=tower, precision=precision)
        for precision in get_args(Precision)
        for tower in TOWERS
        for budget in chosen.budgets
        for masks in chosen.masks
    ]
    print("| " + " | ".join(rows[0]) + " |")
    print("|" + "---|" * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(str(value) for value in row.values()) + " |")
        name = f"{row['tower']}:{row['masks']}:{row['budget_gb']:g}:{row['precision']}"
        measuring.keep(measuring.RESULTS / "count.json", name, row)


if __name__ == "__main__":
    main()
