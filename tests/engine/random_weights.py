"""Random weights by seed, and the picture, with which the numbers in `tests/authors` were made."""

import numpy as np


def numbers(name, shape, seed, index):
    """The float32 tensor of this name; ``index`` is its place among the sorted names."""
    x = np.random.default_rng([seed, index]).standard_normal(shape, dtype=np.float32)
    leaf = name.rsplit(".", 1)[-1]
    is_norm = any(part in name for part in ("ln_", "norm", "layernorm"))
    if len(shape) == 1:
        if is_norm and leaf == "weight":
            return 1 + 0.1 * x
        if leaf == "gamma" or "lambda" in name:
            return 0.5 + 0.1 * x
        if leaf == "bias" or is_norm:
            return 0.1 * x
        return 0.3 * x
    if any(part in name for part in ("position", "pos_embed", "token", "latent", "probe")):
        return 0.3 * x
    inputs = shape[0] if leaf in ("proj", "text_projection") else int(np.prod(shape[1:]))
    is_sharp = any(part in name for part in ("in_proj", "qkv", "q_proj", "k_proj"))
    return (1.5 if is_sharp else 1.0) * x / np.float32(np.sqrt(inputs))


def drawn(shapes, seed):
    """Weights for floating-point tensors by name; a scalar takes an index and no value."""
    weights = {}
    for index, name in enumerate(sorted(shapes)):
        if shapes[name] != ():
            weights[name] = np.asarray(numbers(name, shapes[name], seed, index), np.float32)
    return weights


def picture(height, width):
    """An image (h, w, 3), uint8, and a mask, an ellipse."""
    y = ((np.arange(height) + 0.5) / height)[:, None]
    x = ((np.arange(width) + 0.5) / width)[None]
    red = np.sin(6 * np.pi * x) * np.cos(4 * np.pi * y)
    green = np.sin(4 * np.pi * (x + y))
    blue = np.cos(8 * np.pi * x * y)
    image = (128 + 110 * np.stack([red, green, blue], -1)).astype(np.uint8)
    return image, ((y - 0.45) / 0.22) ** 2 + ((x - 0.6) / 0.12) ** 2 < 1
