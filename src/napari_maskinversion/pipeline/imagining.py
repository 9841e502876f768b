"""Pictures of what region embeddings show, drawn by a diffusion model (localized diffusion)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ..base import memory
from ..base.errors import ConfigError, ModelError, NotEnoughMemoryError
from ..base.identity import file_sha256
from ..base.progress import STEP, Tick, listening, tell, telling
from ..base.regions import Regions
from ..diffusion.decoders import DecoderFolder, open_folder, prior_file
from ..diffusion.generated_pictures import Condition, Imagined, Picture, PictureStep
from ..diffusion.settings import PictureSettings
from ..engine.compute.lazy_torch import device_name, free_memory
from ..engine.models.registry import get_spec, own_model
from ..engine.models.specs import MODELS
from ..images.channels import as_source
from ..images.plane_source import PlaneSource, overview
from ..results.region_result import RegionResult
from ..results.settings import RunSettings
from .labelling import label_regions, loaded_model

if TYPE_CHECKING:
    from ..diffusion.drawing import Drawer
    from ..engine.models.backbone import Backbone

FloatArray = npt.NDArray[np.float32]

_PACKAGES: Final = ("napari-maskinversion", "torch", "diffusers", "transformers")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagineRequest:
    """What is to be drawn, and by what."""

    pictures: PictureSettings
    prompt: str = ""  # A sentence; "" for none
    subjects: tuple[str, ...] = ()  # Words of the prompt, one for each region that takes its place
    # Folders of the decoder and of the prior; by default those in the cache folder
    weights: Path | None = None
    prior: Path | None = None

    def __post_init__(self) -> None:
        spec = self.pictures.spec
        subjects = self.subjects
        if subjects and not spec.takes_subjects:
            raise ConfigError(
                f"{spec.title} puts no regions into a prompt; use the decoder kandinsky22, or "
                "leave the subject out."
            )
        if self.prompt and spec.takes_subjects and not subjects:
            raise ConfigError(
                "A prompt needs the word that the region takes the place of; name it as the "
                "subject."
            )
        for word in subjects:
            if not re.search(rf"(?<!\w){re.escape(word)}(?!\w)", self.prompt, re.IGNORECASE):
                raise ConfigError(
                    f"The prompt {self.prompt!r} does not have the subject {word!r} as a word; "
                    "write it there."
                )

    def groups(self, regions: Sequence[tuple[int, ...]]) -> list[tuple[tuple[int, ...], ...]]:
        """Return what is drawn together: each query alone, or all in one prompt."""
        if not self.subjects:
            return [(query,) for query in regions]
        if len(self.subjects) != len(regions):
            raise ConfigError(
                f"There are {len(regions)} regions and {len(self.subjects)} subjects; name one "
                "word of the prompt for each region."
            )
        return [tuple(regions)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A request that can be carried out."""

    request: ImagineRequest  # Filled with the decoder's defaults
    folder: DecoderFolder
    prior: Path | None
    device: str
    dtype: str
    text: str  # Device and size, for users


def plan(request: ImagineRequest, model: str, *, loaded: bool = False) -> Plan:
    """Check a request before a model is loaded or anything computed."""
    _check_installed()
    settings = request.pictures.filled()
    folder = open_folder(settings.spec, request.weights)
    if (settings.steps or 0) > folder.most_steps:
        raise ConfigError(
            f"{settings.spec.title} was trained with {folder.most_steps} steps; use as many at "
            f"most, not {settings.steps}."
        )
    prior = None
    if request.subjects:
        prior = prior_file(request.prior)
    own_model_folder = own_model(model)
    if own_model_folder is None or not own_model_folder.exists():
        folder.check_model(model)
    from ..engine.compute.devices import choose_device

    device = str(choose_device(settings.device))
    if settings.dtype == "float16" and device == "cpu":
        raise ConfigError("The CPU cannot draw in float16; use bfloat16 or float32.")
    dtype = settings.dtype_on(device)
    name = device_name(device)
    needed = folder.parameters * (4 if dtype == "float32" else 2)
    _check_memory(f"{settings.spec.title} in {dtype}", needed, free_memory(device), name)
    if not loaded and model in MODELS:
        size = get_spec(model).size_mb * 1_000_000
        _check_memory(model, size, memory.free_memory(), "this machine")
    return Plan(
        request=replace(request, pictures=settings),
        folder=folder,
        prior=prior,
        device=device,
        dtype=dtype,
        text=f"Drawing on {name}: at least {needed / 1e9:.1f} GB needed",
    )


def _check_installed() -> None:
    for name in ("diffusers", "transformers", "accelerate"):
        if find_spec(name) is None:
            raise ModelError(
                f"Drawing pictures needs {name}, which is not installed: "
                'pip install "napari-maskinversion[diffusion]"'
            )


def _check_memory(subject: str, size: int, free: int | None, name: str) -> None:
    """Refuse weights that cannot fit: while they load, the system would end the program."""
    if free is not None and size > free:
        raise NotEnoughMemoryError(
            f"{subject} has {size / 1e9:.1f} GB of weights and {name} has {free / 1e9:.1f} GB of "
            "memory free; close other programs, draw in bfloat16, or use a decoder for a smaller "
            "model (unclip-l takes ViT-L-14/openai, 1.7 GB)."
        )


def targets(
    plan: Plan,
    model: Backbone,
    results: Sequence[RegionResult],
    pixels: npt.NDArray[Any],
    settings: RunSettings,
) -> list[Condition]:
    """Turn embeddings into what the decoder takes; the CLIP model is not needed afterwards."""
    plan.folder.check_model(model.name, model.embed_dim)
    request = plan.request
    pictures = plan.request.pictures
    shown = model.preprocess(
        pixels, resolution=settings.resolution, keep_aspect=settings.keep_aspect
    )
    side = model.native_resolution
    whole = model.embed_images(shown)[0].float().cpu().numpy()
    black = shown.new_zeros(1, 3, side, side)
    nothing = model.embed_images(black)[0].float().cpu().numpy()
    length = np.linalg.norm(whole).astype(np.float32)
    embeddings = {}
    for result in results:
        if pictures.norm == "cls":
            embeddings[_members(result)] = result.embedding * length
        else:
            embeddings[_members(result)] = result.raw_embedding
    predict = None
    if request.subjects:
        predict = _prior(plan, model, nothing)
    conditions = []
    for group in (*request.groups(list(embeddings)), ()):
        rows = [embeddings[query] for query in group] or [whole] * max(1, len(request.subjects))
        for seed in pictures.seeds:
            condition = Condition(
                regions=tuple(chain.from_iterable(group)),
                seed=seed,
                embedding=rows[0] if predict is None else predict(rows, seed),
                nothing=nothing,
                prompt="" if request.subjects else request.prompt,
            )
            conditions.append(condition)
    return conditions


def _prior(
    plan: Plan, model: Backbone, nothing: FloatArray
) -> Callable[[Sequence[FloatArray], int], FloatArray]:
    """Return a function that puts embeddings into the prompt, for a seed."""
    from ..diffusion.prior import load_prior, places_of, predict, text_states

    request = plan.request
    assert plan.prior is not None  # `plan` has seen to it
    prompt = text_states(model, request.prompt)
    places = []
    for word in request.subjects:
        places.append(places_of(prompt, text_states(model, word), request.prompt, word))
    prior = load_prior(plan.prior, (len(prompt.embedding), len(prompt.ids)))

    def put(rows: Sequence[FloatArray], seed: int) -> FloatArray:
        return predict(prior, prompt, dict(zip(places, rows, strict=True)), nothing, seed)

    return put


def _members(result: RegionResult) -> tuple[int, ...]:
    return result.members or (result.id,)


def load_decoder(plan: Plan) -> Drawer:
    """Load the decoder of a plan."""
    import torch

    from ..diffusion.drawing import Drawer

    return Drawer(plan.folder, torch.device(plan.device), getattr(torch, plan.dtype))


def draw(plan: Plan, drawer: Drawer, wanted: Sequence[Condition]) -> list[Picture]:
    """Draw all pictures; tells each step and each finished picture."""
    pictures: list[Picture] = []
    for place, condition in enumerate(wanted, 1):
        with telling(partial(_step, place, len(wanted))):
            pixels = drawer.draw(condition, plan.request.pictures)
        pictures.append(Picture(regions=condition.regions, seed=condition.seed, pixels=pixels))
        tell(pictures[-1])
    return pictures


def _step(place: int, pictures: int, news: Tick) -> PictureStep:
    done, total = news.done, news.total
    share = (place - 1 + done / max(total, 1)) / max(pictures, 1)
    return PictureStep(
        stage=STEP, done=done, total=total, share=share, picture=place, pictures=pictures
    )


def record_of(
    plan: Plan, model: str, fingerprint: str, settings: RunSettings, **more: Any
) -> dict[str, Any]:
    """Return how pictures were made, for ``imagine.json``."""
    request = plan.request
    folder = plan.folder
    picture_settings = request.pictures.model_dump(exclude={"decoder"})
    prior = None
    if plan.prior is not None:
        prior = {"file": plan.prior.name, "sha256": file_sha256(plan.prior)}
    return {
        "format": "napari-maskinversion pictures",
        "version": 1,
        "model": {"name": model, "fingerprint": fingerprint},
        "inversion": settings.model_dump(mode="json"),
        "decoder": {
            "name": folder.decoder.name,
            "repository": folder.decoder.repository,
            "folder": folder.path.name,
            "clip_model": folder.clip_model,
            "parameters": folder.parameters,
            "sha256": folder.hashes(),
        },
        "prior": prior,
        "prompt": request.prompt,
        "subjects": list(request.subjects),
        "settings": {**picture_settings, "device": plan.device, "dtype": plan.dtype},
        "versions": {name: version(name) for name in _PACKAGES},
        **more,
    }


def queries_of(regions: Sequence[int | Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Return what is to be drawn: one region, or several as one, each a tuple of ids."""
    queries: list[tuple[int, ...]] = []
    for region in regions:
        if isinstance(region, int | np.integer):
            queries.append((int(region),))
        else:
            queries.append(tuple(map(int, region)))
    if not queries or not all(queries):
        raise ConfigError("Name the region to draw: --region 3.")
    everything = list(chain.from_iterable(queries))
    if twice := [name for name in everything if everything.count(name) > 1]:
        raise ConfigError(f"Region {twice[0]} is named twice; draw it once.")
    return tuple(queries)


def chosen_regions(queries: Sequence[tuple[int, ...]]) -> dict[str, Any]:
    """Return the run settings that invert these regions alone: ``only`` and ``merge``."""
    merged = []
    for query in queries:
        if len(query) > 1:
            merged.append(",".join(map(str, query)))
    return {"only": ",".join(map(str, chain.from_iterable(queries))), "merge": tuple(merged)}


def in_order(
    results: Sequence[RegionResult], queries: Sequence[tuple[int, ...]]
) -> list[RegionResult]:
    """Return the result of each query."""
    results_by_members = {_members(result): result for result in results}
    return [results_by_members[query] for query in queries]


def imagine(
    image: npt.ArrayLike | PlaneSource,
    regions: npt.ArrayLike | Regions,
    region: int | Sequence[int | Sequence[int]],
    *,
    prompt: str = "",
    subjects: Sequence[str] = (),
    weights: str | Path | None = None,
    prior: str | Path | None = None,
    model: Backbone | str | Path | None = None,
    settings: RunSettings | None = None,
    on_progress: Callable[[PictureStep | Picture], object] | None = None,
    **pictures: Any,
) -> Imagined:
    """Draw what the embedding of a region shows, and that of the whole image for comparison.

    Parameters
    ----------
    image, regions
        As for `label_regions`.
    region : int, or sequence of int and sequences of int
        Ids of the regions to draw: ``[3, 5]`` one after the other, ``[[3, 5]]`` both as one query.
    prompt : str
        A sentence to draw the region in.
    subjects : sequence of str
        Words of the prompt that the regions replace, one for each region (kandinsky22).
    weights, prior : str or Path, optional
        Folders of the decoder and of the prior; by default those in the cache folder.
    model : Backbone, str or Path, optional
        By default the CLIP model that the decoder was trained on.
    settings : RunSettings, optional
        Of the inversion; by default the whole image.
    on_progress : callable, optional
        Called with each `PictureStep` and each finished `Picture`. If it raises, the drawing stops.
    **pictures
        Fields of `PictureSettings`: ``decoder="unclip-l"``, ``seed=0``, ``steps=50``, ...

    Returns
    -------
    Imagined
        Save it with its ``save(folder)``.

    Raises
    ------
    MaskInversionError
        If regions or settings cannot be used, weights are missing or do not fit the model, or
        memory cannot hold them; before the model is loaded.

    Examples
    --------
    >>> imagined = imagine(rgb, masks, 3, decoder="unclip-l", seed=7)
    >>> imagined.save("pictures")
    """
    queries = queries_of([region] if isinstance(region, int | np.integer) else region)
    request = ImagineRequest(
        pictures=PictureSettings(**pictures),
        prompt=prompt,
        subjects=tuple(subjects),
        weights=None if weights is None else Path(weights),
        prior=None if prior is None else Path(prior),
    )
    request.groups(queries)
    if model is None:
        model = model_of(request)
    name = model if isinstance(model, str | Path) else model.name
    carried = plan(request, str(name), loaded=not isinstance(model, str | Path))
    settings = (settings or RunSettings(window="whole")).changed(chosen_regions(queries))
    source = as_source(image)
    loaded = loaded_model(model, settings, {})
    results = label_regions(source, regions, None, model=loaded, settings=settings)
    wanted = targets(
        carried, loaded, in_order(results.regions, queries), overview(source), settings
    )
    fingerprint = loaded.fingerprint
    del model, loaded  # room for the decoder, if nothing else holds it
    with listening(on_progress):
        drawn = draw(carried, load_decoder(carried), wanted)
    record = record_of(carried, str(name), fingerprint, settings)
    return Imagined(pictures=tuple(drawn), record=record)


def model_of(request: ImagineRequest) -> str:
    """Return the CLIP model that a request's decoder was trained on."""
    _check_installed()
    return open_folder(request.pictures.spec, request.weights).clip_model
