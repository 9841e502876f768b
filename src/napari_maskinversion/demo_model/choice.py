"""Choose the drawn names of the demo model by a rule that was written before any training.

``python -m napari_maskinversion.demo_model.choice`` prints them. The rule looks at drawings alone,
never at a model's answers, and never at the unseen style. Of the first 64 names of the vocabulary
it takes those

1. that at least six of the seven training sets draw, and that are drawn alike: in at least four of
   five sets the drawing is nearest to the same thing's drawings in the other sets, among all 64
   (16 x 16 pixels with alpha, mirrored or not; mean distance of a name's two nearest drawings);
2. and those of the sample scenes, whose seeds were fixed long before;
3. less those whose name covers another one's, so that a person would call both right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from .vocabulary import CANDIDATES, OBJECTS, Name

LEAST_SETS: Final = 6
LEAST_SHARE: Final = 0.8
COVERING: Final = frozenset({"tree"})  # a palm tree is one


def alike(drawings: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count for every name the sets that draw it, and those whose drawing is told from all others.

    `drawings` is (sets, names, S, S, 4), all zeros where a set has none.
    """
    rgba = torch.from_numpy(drawings).float().div(255).permute(0, 1, 4, 2, 3)
    sets, names = rgba.shape[:2]
    drawn = rgba[:, :, 3].flatten(2).any(2)
    alpha = rgba[:, :, 3:]
    on_grey = torch.cat([rgba[:, :, :3] * alpha + 0.5 * (1 - alpha), alpha], 2)
    small = F.interpolate(on_grey.flatten(0, 1), (16, 16), mode="area")
    flat, mirrored = small.flatten(1), small.flip(-1).flatten(1)
    gaps = torch.minimum(torch.cdist(flat, flat), torch.cdist(flat, mirrored))
    gaps = gaps.view(sets, names, sets, names).masked_fill(~drawn, torch.inf)
    right = torch.zeros(names, dtype=torch.long)
    for one in range(sets):
        others = [s for s in range(sets) if s != one]
        nearest = gaps[one][:, others].sort(1).values[:, :2].mean(1).argmin(1)
        right += drawn[one] & (nearest == torch.arange(names))
    return drawn.sum(0).numpy(), right.numpy()


def choose(
    names: Sequence[Name], drawings: NDArray[np.uint8], wanted: frozenset[str]
) -> tuple[str, ...]:
    """Return the chosen names in their order; `wanted` are those of the sample scenes."""
    drawn, right = alike(drawings)
    chosen = []
    for name, sets, told in zip(names, drawn.tolist(), right.tolist(), strict=True):
        fits = sets >= LEAST_SETS and told >= LEAST_SHARE * sets
        if (fits or name.name in wanted) and name.name not in COVERING:
            chosen.append(name.name)
    return tuple(chosen)


def main() -> None:
    """Print the chosen names, one per line."""
    from .samples import SAMPLES, draw_sample
    from .sprites import SEEN_STYLES, load_sprites

    names = OBJECTS[:CANDIDATES]
    drawings = load_sprites(size=128, names=names, styles=SEEN_STYLES)
    shown = frozenset(name for sample in SAMPLES for name in draw_sample(sample)[2])
    print("\n".join(choose(names, drawings, shown)))


if __name__ == "__main__":
    main()
