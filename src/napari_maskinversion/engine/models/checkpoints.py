"""Checkpoint files: read safely, matched with a module, and told apart."""

from __future__ import annotations

import hashlib
import json
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...base.errors import ModelError

# Only OpenAI's own archives hold these beside the weights; they are settings, not tensors to load.
_OPENAI_EXTRAS = ("input_resolution", "context_length", "vocab_size")
_SAMPLES = 64


def read_weights(
    path: Path, *, instead: str = "fetch the same weights by name, such as 'ViT-B-16/openai'"
) -> tuple[dict[str, Tensor], bool]:
    """Read a checkpoint without running any code it may hold.

    Parameters
    ----------
    path : Path
        A safetensors file, or a file of ``torch.save`` with nothing but tensors in containers.
    instead : str
        What else the user of a TorchScript archive can do, for the message.

    Returns
    -------
    state : dict of str to Tensor
        On the CPU; floating point tensors as float32.
    from_openai : bool
        Whether the file carries the marks of OpenAI's own weights, which need QuickGELU.

    Raises
    ------
    ModelError
        If the file is damaged, holds something else, or could only be loaded by running its code.
    """
    if not path.is_file():
        raise ModelError(f"There is no checkpoint file {path}.")
    content = _read(path, instead)
    for key in ("state_dict", "model_state_dict"):
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    if not isinstance(content, Mapping):
        raise ModelError(
            f"{path} holds a {type(content).__name__}, not a table of named tensors; save the "
            "model's state_dict()."
        )
    state = {}
    for key, value in content.items():
        if isinstance(value, Tensor):
            tensor = value.detach()
            state[_plain(str(key))] = tensor.float() if tensor.is_floating_point() else tensor
    from_openai = all(key in state for key in _OPENAI_EXTRAS)
    for key in _OPENAI_EXTRAS:
        state.pop(key, None)
    if not state:
        raise ModelError(f"{path} holds no tensors.")
    return state, from_openai


def _read(path: Path, instead: str) -> Any:
    return _read_safetensors(path) if path.suffix == ".safetensors" else _read_torch(path, instead)


def _read_safetensors(path: Path) -> Any:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelError(
            f"{path} is damaged or not a safetensors file ({error}); fetch or copy it again."
        ) from error


def _read_torch(path: Path, instead: str) -> Any:
    if _is_torchscript(path):
        raise ModelError(
            f"{path} is a TorchScript archive, a format that can run code while it loads; "
            f"use a safetensors file, or {instead}."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the pickles of foreign files
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch.load raises nearly anything on a foreign file
        raise ModelError(
            f"{path} cannot be read as a checkpoint: it is damaged, or holds more than tensors, "
            "which is refused because loading it could run code. Save the model's state_dict(), "
            "best as a safetensors file."
        ) from error


def _is_torchscript(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/constants.pkl") for name in archive.namelist())
    except (zipfile.BadZipFile, OSError):
        return False


def _plain(key: str) -> str:
    """Return a tensor's name without what data-parallel and compiled training put before it."""
    for prefix in ("module.", "_orig_mod."):
        key = key.removeprefix(prefix)
    return key


def fill(module: nn.Module, state: Mapping[str, Tensor], *, path: Path, architecture: str) -> None:
    """Put `state` into a module built on the meta device; every tensor has to fit.

    Raises
    ------
    ModelError
        If tensors are missing, left over, of another shape, or hold another kind of numbers; the
        message names some.
    """
    own = module.state_dict()
    wanted = {name: tuple(tensor.shape) for name, tensor in own.items()}
    missing = [name for name in wanted if name not in state]
    left_over = [name for name in state if name not in wanted]
    shapes = [
        f"{name} is {_size(state[name].shape)} and should be {_size(shape)}"
        for name, shape in wanted.items()
        if name in state and tuple(state[name].shape) != shape
    ]
    kinds = [
        f"{name} is {_kind(state[name])}"
        for name, tensor in own.items()
        if name in state and not _holds(state[name], tensor)
    ]
    if missing or left_over or shapes or kinds:
        parts = [
            _some(missing, "missing"),
            _some(left_over, "not part of the architecture"),
            _some(shapes, "of another shape"),
            _some(kinds, "of another kind than the plain numbers needed"),
        ]
        raise ModelError(
            f"{path} does not fit the architecture {architecture}: "
            + "; ".join(part for part in parts if part)
            + "."
        )
    module.load_state_dict(dict(state), strict=True, assign=True)


def _holds(given: Tensor, wanted: Tensor) -> bool:
    """Whether a tensor has plain numbers, with a fraction where the module's have one."""
    dense = given.layout == torch.strided and not given.is_meta and not given.is_quantized
    return dense and (
        given.is_floating_point() == wanted.is_floating_point()
        and given.is_complex() == wanted.is_complex()
    )


def _kind(tensor: Tensor) -> str:
    layout = "" if tensor.layout == torch.strided else f"{tensor.layout} ".removeprefix("torch.")
    return f"{layout}{tensor.dtype}".replace("torch.", "")


def _size(shape: tuple[int, ...] | torch.Size) -> str:
    return "x".join(map(str, shape)) or "a single number"


def _some(names: list[str], what: str) -> str:
    if not names:
        return ""
    noun = "tensor is" if len(names) == 1 else "tensors are"
    more = ", ..." if len(names) > 2 else ""
    return f"{len(names)} {noun} {what} ({', '.join(names[:2])}{more})"


def fingerprint(module: nn.Module, *facts: object) -> str:
    """Return 16 hexadecimal digits that tell this module's weights and `facts` from others.

    The sum over a tensor's bits changes with any one element, costs one pass at memory speed and
    is the same on every device and for any number of threads; samples tell permutations apart.
    """
    digest = hashlib.sha256(json.dumps([str(fact) for fact in facts]).encode())
    for name, tensor in module.state_dict().items():
        flat = tensor.detach().reshape(-1)
        bits = _bits(flat)
        total = int(bits.sum(dtype=torch.int64)) if flat.numel() else 0
        step = max(1, flat.numel() // _SAMPLES)
        samples = bits[::step][:_SAMPLES].cpu().numpy().tobytes()
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} {total}".encode() + samples)
    return digest.hexdigest()[:16]


def _bits(flat: Tensor) -> Tensor:
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return flat.contiguous().view(kinds[flat.element_size()])


def versions(module: nn.Module) -> tuple[int, ...]:
    """Return torch's change counters of all tensors: differs after training or a new load."""
    tensors = [*module.parameters(), *module.buffers()]
    return tuple(tensor._version for tensor in tensors)
