"""Loading models: by name, from a checkpoint, or around a module you have loaded."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from ...base.errors import InputError, MaskInversionError, ModelError, NotEnoughMemoryError
from ...base.oom_fallback import (
    Attempt,
    OomFallback,
    is_device_failure,
    is_out_of_memory,
    then_on_cpu,
)
from ...base.progress import BYTES, counting
from ..compute.compute_lock import computing
from ..compute.devices import choose_device
from . import openclip
from .backbone import Backbone, Triple
from .checkpoints import fill, read_weights
from .registry import (
    fetch,
    get_spec,
    own_model,
    recorded_name,
    weights_on_disk,
)
from .specs import (
    ALL_WEIGHTS_FILES,
    CONFIG_FILE,
    DEMO,
    MODELS,
    OPENAI_MEAN,
    OPENAI_STD,
    TRANSFORMERS_CONFIG,
    ModelSpec,
    bundled_folder,
    tokenizer_folder,
    unknown_model,
)
from .state_layouts import read_transformers_folder, translated, with_context_of
from .towers import tower_of


def load_model(
    name_or_path: str | Path = DEMO,
    tag: str | None = None,
    *,
    architecture: str | None = None,
    device: str = "auto",
    on_progress: Callable[[int, int], None] | None = None,
) -> Backbone:
    """Load a model by name, or from a checkpoint on disk.

    Parameters
    ----------
    name_or_path : str or Path
        ``"demo"`` (bundled, needs no network), an ``"architecture/tag"`` of open_clip such as
        ``"ViT-B-16/openai"`` (downloaded once into the cache folder), a checkpoint file
        (safetensors, or torch with tensors only), or a folder with weights and
        ``open_clip_config.json``, or ``config.json`` of a CLIPModel of transformers.
    tag : str, optional
        ``load_model("ViT-B-16", "openai")`` is ``load_model("ViT-B-16/openai")``.
    architecture : str, optional
        For a checkpoint file: open_clip's name of its architecture. Weights do not tell the
        activation: pass ``"ViT-B-16-quickgelu"`` for weights trained with QuickGELU, or
        ``"ViT-B-16/openai"`` to use activation and normalisation of that tag.
    device : str
        "auto" (CUDA, then Apple's MPS, then the CPU), "cpu", "cuda", "cuda:1", "mps".
    on_progress : callable, optional
        Called with (bytes, bytes in total) of weights that are downloaded. If it raises, the
        download stops; the next one resumes from there.

    Returns
    -------
    Backbone
        In evaluation mode, float32, without gradients.

    Raises
    ------
    ModelError
        If the model is unknown, damaged or of another kind, or the device is not available.
    OfflineError
        If the weights are not on this machine and the network cannot or must not be used.
    NotEnoughMemoryError
        If the model does not fit into the device's memory.
    """
    target = choose_device(device)
    if tag is not None:
        name_or_path = f"{name_or_path}/{tag}"
    config, spec, weights = _described(name_or_path, architecture)
    if weights is None:
        openclip.check_transformers(spec.name, spec.tokenizer)  # before a download
        with counting(BYTES, on_progress):
            weights = weights_on_disk(spec) or fetch(spec.name)
        if spec.config:
            config, read, _ = _read_folder(weights.parent)
            facts = ("native_resolution", "quick_gelu", "mean", "std", "interpolation")
            spec = replace(spec, **{fact: getattr(read, fact) for fact in facts})
    folder = weights.parent
    tokenizer = openclip.tokenizer_of(spec.name, config, (tokenizer_folder(folder), folder))
    model = _assemble(config, weights, spec, tokenizer, target)
    path = own_model(name_or_path)
    model.read_from = str(name_or_path) if path is None else path.absolute(), architecture
    return model


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A model; ``note`` tells the user if it is not on the requested device, and a guess."""

    model: Backbone
    note: str = ""


def spec_of(name_or_path: str | Path, architecture: str | None = None) -> ModelSpec:
    """Return the spec of a model by what `load_model` takes; its weights are not read."""
    return _described(name_or_path, architecture)[1]


def load_where_it_fits(name: str, *, device: str = "auto", **options: Any) -> Loaded:
    """Do what `load_model` does, on the CPU if the requested device has too little memory."""
    place = str(choose_device(device))
    fallback = OomFallback(
        then_on_cpu(
            [Attempt(1, place)], f"Not enough memory on {place} for {name}: it is on the CPU"
        ),
        f"There was not enough memory to load {name}. Close other programs, or choose a smaller "
        "model.",
        also=(NotEnoughMemoryError,),
    )
    model = fallback.run(lambda: load_model(name, device=fallback.now.device, **options))
    guess = _guess(model, options.get("architecture"))
    return Loaded(model, " ".join(filter(None, (fallback.now.note, guess))))


def _guess(model: Backbone, architecture: str | None) -> str:
    """Return what is assumed about a checkpoint file, which does not tell its activation."""
    if architecture is None or "/" in architecture or architecture in MODELS:
        return ""
    if openclip.uses_quick_gelu(model.clip) or not openclip.has_quick_gelu_twin(architecture):
        return ""
    return f"{model.name}: activation GELU assumed; models check compares it with QuickGELU."


def _described(
    name_or_path: str | Path, architecture: str | None
) -> tuple[dict[str, Any], ModelSpec, Path | None]:
    """Return configuration, spec and weights of a model; no weights for one of the hub."""
    path = own_model(name_or_path)
    if path is not None and not path.exists():
        raise unknown_model(str(path.absolute()), MODELS)
    if path is not None and path.is_file():
        return *_supported(*_describe_file(path, architecture)), path
    if architecture is not None:
        name = name_or_path if path is None else path.name
        raise ModelError(
            f"architecture={architecture!r} is for checkpoint files; {name!r} has its own."
        )
    if path is not None:
        return _read_folder(path)
    spec = get_spec(str(name_or_path))
    if spec.bundled:
        config, _, weights = _read_folder(bundled_folder())
        return config, spec, weights
    if spec.config:
        return {}, spec, None  # known once it is fetched
    return *_supported(openclip.architecture_config(spec.architecture), spec), None


def _supported(config: dict[str, Any], spec: ModelSpec) -> tuple[dict[str, Any], ModelSpec]:
    if reason := openclip.unsupported(config):
        raise openclip.not_explained(spec.name, reason)
    return config, spec


def _read_folder(folder: Path) -> tuple[dict[str, Any], ModelSpec, Path]:
    """Return configuration, spec and weights of a model folder."""
    try:
        if (folder / CONFIG_FILE).exists() or not (folder / TRANSFORMERS_CONFIG).exists():
            model, images = openclip.read_model_config(folder)
        else:
            model, images = read_transformers_folder(folder)
            model = openclip.check_config(model, folder / TRANSFORMERS_CONFIG)
    except InputError as error:
        raise ModelError(
            f"{folder} is not a model folder: {error} Pass a checkpoint file instead."
        ) from error
    name = recorded_name(folder)
    spec = ModelSpec(
        name=name,
        title=str(folder),
        architecture=name,
        source=str(folder),
        native_resolution=model["vision_cfg"].get("image_size", 224),
        quick_gelu=model.get("quick_gelu", False),
        **images,
    )
    files = [folder / name for name in ALL_WEIGHTS_FILES]
    weights = next(filter(Path.exists, files), None)
    if weights is None:
        raise ModelError(
            f"{folder} has a configuration and no weights ({' or '.join(ALL_WEIGHTS_FILES)}); was "
            "it copied or downloaded to its end?"
        )
    return *_supported(model, spec), weights


def _describe_file(path: Path, architecture: str | None) -> tuple[dict[str, Any], ModelSpec]:
    """Return configuration and spec of a checkpoint file."""
    if architecture is None:
        raise ModelError(
            f"{path.name} is a checkpoint file: name its architecture, such as "
            "--architecture ViT-B-16 (or ViT-B-16-quickgelu; in Python architecture='ViT-B-16')."
        )
    facts: dict[str, Any] = {
        "name": recorded_name(path),
        "title": f"{path.name} ({architecture})",
        "source": str(path),
        "size_mb": round(path.stat().st_size / 1e6),
        "license": "",
    }
    if "/" in architecture or architecture in MODELS:
        if architecture in MODELS and MODELS[architecture].config:
            raise ModelError(
                f"The architecture of {architecture} stands in its {MODELS[architecture].config}: "
                f"name the folder that holds it and {path.name}, not the file."
            )
        spec = replace(get_spec(architecture), **facts)
        config = openclip.architecture_config(spec.architecture)
    else:
        config = openclip.architecture_config(architecture)
        side = openclip.side_of(config["vision_cfg"].get("image_size", 224))
        quick = bool(config.get("quick_gelu", False))
        spec = ModelSpec(
            architecture=architecture, native_resolution=side, quick_gelu=quick, **facts
        )
    return config, spec


@computing()
def _assemble(
    config: dict[str, Any],
    weights: Path,
    spec: ModelSpec,
    tokenizer: openclip.Tokenizer | None,
    device: torch.device,
) -> Backbone:
    state, from_openai = read_weights(weights)
    state = translated(state)
    config = with_context_of(config, state)
    quick_gelu = spec.quick_gelu or from_openai
    clip = openclip.build(config, quick_gelu=quick_gelu, name=spec.title)
    state = openclip.adapt_state(clip, state)
    if not spec.strict:
        expected = clip.state_dict()
        state = {name: state[name] for name in state if name in expected}
    fill(clip, state, path=weights, architecture=spec.architecture)
    openclip.finish(clip)
    try:
        clip.requires_grad_(False).eval().to(device)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise NotEnoughMemoryError(
            f"{spec.name} does not fit into the free memory of {device}; "
            "use device='cpu', or a smaller model."
        ) from error
    return _backbone(clip, spec, spec, tokenizer)


def _backbone(
    clip: nn.Module,
    settings: ModelSpec | Backbone,
    spec: ModelSpec | None,
    tokenizer: openclip.Tokenizer | None,
) -> Backbone:
    return Backbone(
        clip,
        name=settings.name,
        spec=spec,
        mean=settings.mean,
        std=settings.std,
        interpolation=settings.interpolation,
        tokenizer=tokenizer,
    )


def wrap_open_clip(
    clip: nn.Module,
    preprocess: Callable[..., Any] | None = None,
    tokenizer: Callable[..., Any] | None = None,
    device: str = "cpu",
) -> Backbone:
    """Use an open_clip module you have already loaded; it is never modified.

    Parameters
    ----------
    clip : torch.nn.Module
        From ``open_clip.create_model``. A module in training mode is not changed; a copy in
        evaluation mode shares its weights.
    preprocess : callable, optional
        The image transform that open_clip returned with the module; normalisation and
        interpolation are read from it. Default: the module's own settings, else OpenAI's.
    tokenizer : callable, optional
        Converts texts to tokens; default CLIP's own, at the module's context length.
    device : str
        The device the module is on; it is not moved. "auto" accepts any.

    Raises
    ------
    ModelError
        If the image tower cannot be explained, the module is on another device, or `preprocess`
        contains no normalisation.
    """
    openclip.check_module(clip)
    place = next(cast("Any", clip).visual.parameters()).device
    if device == "auto":
        wanted = place
    else:
        wanted = choose_device(device)
    # "cuda" is the first GPU.
    if (wanted.type, wanted.index or 0) != (place.type, place.index or 0):
        raise ModelError(
            f"The model is on {place}, not on {device}; pass device={str(place)!r}, "
            "or move it before wrapping it."
        )
    mean, std, interpolation = _image_settings(clip, preprocess)
    if any(m.training for m in clip.modules()):
        view = _evaluation_view(clip)
    else:
        view = clip
    return Backbone(
        view,
        name=tower_of(cast("Any", clip).visual).description,
        mean=mean,
        std=std,
        interpolation=interpolation,
        tokenizer=cast("openclip.Tokenizer | None", tokenizer),
    )


def _evaluation_view(module: nn.Module, seen: dict[int, nn.Module] | None = None) -> nn.Module:
    """Return the same module tree in evaluation mode, with the same tensors and hooks.

    ``eval()`` would change the caller's module; a deep copy would double the weights and copy
    everything that hooks refer to.
    """
    seen = {} if seen is None else seen
    if id(module) not in seen:
        view = seen[id(module)] = module.__class__.__new__(module.__class__)
        view.__dict__ = dict(module.__dict__)
        children: dict[str, nn.Module | None] = {}
        for name, child in module.__dict__.get("_modules", {}).items():
            children[name] = None
            if child is not None:
                children[name] = _evaluation_view(child, seen)
        view.__dict__.update(_modules=children, training=False)
    return seen[id(module)]


def with_other_activation(model: Backbone) -> Backbone | None:
    """Return the model with QuickGELU for GELU or GELU for QuickGELU, on the same weights.

    None where open_clip did not build the layers: there is nothing to mix up.
    """
    view = _evaluation_view(model.clip)
    swapped = False
    for owner in view.modules():
        for name, child in owner._modules.items():
            if type(child) in (nn.GELU, openclip.QuickGELU):
                if type(child) is nn.GELU:
                    owner._modules[name] = openclip.QuickGELU()
                else:
                    owner._modules[name] = nn.GELU()
                swapped = True
    ours = not hasattr(cast("Any", view).visual, "trunk")
    if swapped and ours:
        return _backbone(view, model, model.spec, model.tokenizer)
    return None


def _image_settings(
    clip: nn.Module, preprocess: Callable[..., Any] | None
) -> tuple[Triple, Triple, str]:
    if preprocess is None:
        settings = getattr(cast("Any", clip).visual, "preprocess_cfg", None) or {}
        return (
            openclip.three(settings.get("mean", OPENAI_MEAN)),
            openclip.three(settings.get("std", OPENAI_STD)),
            str(settings.get("interpolation", "bicubic")),
        )
    steps = getattr(preprocess, "transforms", [preprocess])
    norm = next((s for s in steps if hasattr(s, "mean") and hasattr(s, "std")), None)
    if norm is None:
        raise ModelError(
            "preprocess has no normalisation step with mean and std; pass the transform that "
            "open_clip returned, or leave it out and use set_image_tensor with your own images."
        )
    kinds = []
    for s in steps:
        if hasattr(s, "interpolation"):
            kinds.append(str(getattr(s.interpolation, "value", "")))
    return (
        openclip.three(norm.mean),
        openclip.three(norm.std),
        "bilinear" if "bilinear" in kinds else "bicubic",
    )


@computing()
def copy_to_cpu(model: Backbone) -> Backbone:
    """Return the model on the CPU, in float32; needs no memory of its device.

    If the device answers no more, it is read again.
    """
    try:
        return _copied(model)
    except RuntimeError as error:
        if model.read_from is None or not is_device_failure(error):
            raise
        place, architecture = model.read_from
        with suppress(MaskInversionError):  # of a file that is gone
            return load_model(place, architecture=architecture, device="cpu")
        raise


def _copied(model: Backbone) -> Backbone:
    tensors = [*model.clip.parameters(), *model.clip.buffers()]
    # `deepcopy` treats what is in here as copied already.
    copies: dict[int, Any] = {}
    for tensor in tensors:
        half = tensor.dtype in (torch.float16, torch.bfloat16)
        copied = tensor.detach().to("cpu", torch.float32 if half else tensor.dtype, copy=True)
        if isinstance(tensor, nn.Parameter):
            copied = nn.Parameter(copied, requires_grad=tensor.requires_grad)
        copies[id(tensor)] = copied
    return _backbone(copy.deepcopy(model.clip, copies), model, model.spec, model.tokenizer)
