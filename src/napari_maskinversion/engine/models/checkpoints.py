"""Checkpoint files: read safely, loaded into a module, and identified."""

from __future__ import annotations

import hashlib
import json
import warnings
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...base.errors import InputError, ModelError
from ...base.reading import check_file
from ...base.wording import listed

# Settings that only OpenAI's archives contain in addition to the weights.
_OPENAI_EXTRAS = ("input_resolution", "context_length", "vocab_size")
_SAMPLES = 64
_REPEATED = 2**28  # bytes that few numbers may be repeated to
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def read_weights(
    path: Path, *, instead: str = "download the same weights by name, such as 'ViT-B-16/openai'"
) -> tuple[dict[str, Tensor], bool]:
    """Read a checkpoint without running code in it; on the CPU, floating point as float32.

    It is a safetensors file, or one of ``torch.save`` with only tensors in containers. Also
    returns whether these are OpenAI's own weights, which need QuickGELU. ``instead`` is what to use
    instead of a TorchScript archive, for the message.
    """
    try:
        check_file(path, "checkpoint file")
    except InputError as error:
        raise ModelError(str(error)) from None
    is_plain = path.suffix == ".safetensors"
    if is_plain:
        content = _read_safetensors(path)
    else:
        content = _read_torch(path, instead)
    for key in ("state_dict", "model_state_dict", "model"):
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    state = {}
    for key, value in content.items() if isinstance(content, Mapping) else ():
        if isinstance(value, Tensor):
            tensor = value.detach()
            _check_numbers(path, str(key), tensor)
            # Data-parallel and compiled training add prefixes.
            name = str(key).removeprefix("module.").removeprefix("_orig_mod.")
            if tensor.is_floating_point():
                state[name] = tensor.float()
            else:
                state[name] = tensor
    from_openai = all(key in state for key in _OPENAI_EXTRAS)
    for key in _OPENAI_EXTRAS:
        state.pop(key, None)
    if not state:
        raise ModelError(f"{path} is no table of named tensors; save the model's state_dict().")
    return state, from_openai


def _check_numbers(path: Path, name: str, tensor: Tensor) -> None:
    """Refuse what no module holds, and few numbers repeated to many, which fill any memory."""
    plain = tensor.layout == torch.strided and not (tensor.is_quantized or tensor.is_complex())
    size = tensor.numel() * tensor.element_size()
    if not plain or size > max(_REPEATED, tensor.untyped_storage().nbytes()):
        raise ModelError(f"{path} is of no use here: {name} is not a table of plain numbers.")


def _read_safetensors(path: Path) -> Any:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelError(
            f"{path} is damaged or not a safetensors file ({error}); download or copy it again."
        ) from error


def _read_torch(path: Path, instead: str) -> Any:
    entries: list[zipfile.ZipInfo] = []
    with suppress(zipfile.BadZipFile, OSError), zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
    if any(entry.filename.endswith("/constants.pkl") for entry in entries):
        raise ModelError(
            f"{path} is a TorchScript archive, a format that can run code while it loads; "
            f"use a safetensors file, or {instead}."
        )
    # It could unpack to any size.
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise ModelError(
            f"{path} is a compressed zip file; torch.save writes none. Unpack it, or save the "
            "model's state_dict() as a safetensors file."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickles
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch.load raises nearly anything on other files
        raise ModelError(
            f"{path} cannot be read as a checkpoint: it is damaged, or contains more than tensors, "
            "which could run code while it loads. Save the model's state_dict(), "
            "best as a safetensors file."
        ) from error


def fill(module: nn.Module, state: Mapping[str, Tensor], *, path: Path, architecture: str) -> None:
    """Load `state` into a module on the meta device; every tensor must fit."""
    expected = module.state_dict()
    names = set(state) - {"logit_scale", "logit_bias"}
    if all(name.startswith("visual.") for name in names) and names & set(expected):
        raise ModelError(
            f"{path} has an image tower and no text tower; a model that reads words is needed."
        )
    missing = []
    of_another_shape = []
    for name, tensor in expected.items():
        if name not in state:
            missing.append(name)
        elif _size(state[name]) != _size(tensor):
            of_another_shape.append(f"{name} is {_size(state[name])} and should be {_size(tensor)}")
    unexpected = [name for name in state if name not in expected]
    faults = []
    if missing:
        faults.append(_list(missing, "missing"))
    if unexpected:
        faults.append(_list(unexpected, "not part of the architecture"))
    if of_another_shape:
        faults.append(_list(of_another_shape, "of another shape"))
    if faults:
        raise ModelError(
            f"{path} does not fit the architecture {architecture}: {'; '.join(faults)}."
        )
    # Buffers may hold infinity, such as the mask of a causal attention.
    broken = []
    for name, _ in module.named_parameters():
        if not state[name].isfinite().all():
            broken.append(name)
    if broken:
        raise ModelError(f"{path} is damaged: {_list(broken, 'not finite (NaN or infinity)')}.")
    module.load_state_dict(dict(state), strict=True, assign=True)


def _size(tensor: Tensor) -> str:
    size = "x".join(map(str, tensor.shape)) or "a single number"
    if tensor.is_floating_point():
        return size
    return f"{size} of whole numbers"


def _list(names: list[str], fault: str) -> str:
    noun = "tensor is" if len(names) == 1 else "tensors are"
    return f"{len(names)} {noun} {fault} ({listed(names, 2)})"


def fingerprint(module: nn.Module, *facts: object) -> str:
    """Return 16 hexadecimal digits that identify a module's weights and `facts`.

    The sum over a tensor's bits changes with every element, takes one pass over the memory and does
    not depend on device or threads; samples distinguish permutations.
    """
    digest = hashlib.sha256(json.dumps([str(fact) for fact in facts]).encode())
    for name, tensor in module.state_dict().items():
        flat = tensor.detach().reshape(-1)
        bits = flat.contiguous().view(_BITS[flat.element_size()])
        total = 0
        if flat.numel():
            total = int(bits.sum(dtype=torch.int64))
        step = max(1, flat.numel() // _SAMPLES)
        samples = bits[::step][:_SAMPLES].cpu().numpy().tobytes()
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} {total}".encode() + samples)
    return digest.hexdigest()[:16]


def versions(module: nn.Module) -> tuple[object, ...]:
    """Return what differs after training, loading weights, or moving to a device or dtype."""
    tensors = [*module.parameters(), *module.buffers()]
    # Those of inference mode count no changes, so each answer is another one. `Module.to` puts new
    # memory under a tensor without a change of its counter.
    tensor_states = []
    for tensor in tensors:
        tensor_states.append(
            (
                object() if tensor.is_inference() else tensor._version,
                tensor.data_ptr(),
                tensor.dtype,
            )
        )
    return tuple(tensor_states)
