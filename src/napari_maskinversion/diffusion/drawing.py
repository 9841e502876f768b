"""Draw image embeddings with the pipelines of diffusers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
import torch
from diffusers import (
    AutoencoderKL,
    KandinskyV22Pipeline,
    StableUnCLIPImg2ImgPipeline,
    UNet2DConditionModel,
    VQModel,
    schedulers,
)
from diffusers.pipelines.stable_diffusion import StableUnCLIPImageNormalizer
from diffusers.utils import logging as diffusers_logging
from torch import Tensor
from transformers import (
    CLIPTextModel,
    CLIPTokenizer,
    CLIPVisionConfig,
    CLIPVisionModelWithProjection,
)
from transformers.utils import logging as transformers_logging

from ..base.errors import NOT_FINITE, ModelError, NotEnoughMemoryError
from ..base.oom_fallback import is_out_of_memory
from ..base.progress import STEP, tick
from ..base.reading import read_json
from ..base.wording import one_line
from ..engine.compute.compute_lock import computing
from .decoders import DecoderFolder
from .generated_pictures import Condition
from .settings import PictureSettings

FloatArray = npt.NDArray[np.float32]
PixelArray = npt.NDArray[np.uint8]

# Schedulers that take a generator of random numbers, and all that a folder may name.
_SEEDED: Final = ("DDPMScheduler", "DDIMScheduler")
_SCHEDULERS: Final = (
    *_SEEDED,
    "PNDMScheduler",
    "EulerDiscreteScheduler",
    "EulerAncestralDiscreteScheduler",
    "DPMSolverMultistepScheduler",
    "UniPCMultistepScheduler",
)
# Buffers of older versions, which no loading needs.
_STALE: Final = ("position_ids",)


class Drawer:
    """A loaded decoder."""

    def __init__(self, folder: DecoderFolder, device: torch.device, dtype: torch.dtype) -> None:
        self.folder = folder
        self.device = device
        self.dtype = dtype
        load = _unclip
        if folder.decoder.family == "kandinsky":
            load = _kandinsky
        with computing(), _quiet(), _fitting(folder, device):
            self._pipeline = load(folder.path, dtype).to(device)
        self._pipeline.set_progress_bar_config(disable=True)

    def draw(self, condition: Condition, settings: PictureSettings) -> PixelArray:
        """Draw one picture (size, size, 3)."""
        steps = count(1)

        def step_done(*_: Any) -> dict[str, Any]:
            tick(STEP, next(steps), len(self._pipeline.scheduler.timesteps))
            return {}  # no tensor is changed

        arguments: dict[str, Any] = {"prompt": condition.prompt, "callback": step_done}
        if self.folder.decoder.family == "kandinsky":
            nothing = self._row(condition.nothing)
            arguments = {"negative_image_embeds": nothing, "callback_on_step_end": step_done}
        with computing(), _fitting(self.folder, self.device):
            drawn = self._pipeline(
                image_embeds=self._row(condition.embedding),
                height=settings.size,
                width=settings.size,
                num_inference_steps=settings.steps,
                guidance_scale=float(settings.guidance or 0.0),
                generator=torch.Generator("cpu").manual_seed(condition.seed),
                output_type="np",
                **arguments,
            )
        image = np.asarray(drawn.images[0])
        if not np.isfinite(image).all():
            raise ModelError(f"{self.folder.decoder.title} {NOT_FINITE}")
        return cast("PixelArray", (image.clip(0, 1) * 255).round().astype(np.uint8))

    def _row(self, values: FloatArray) -> Tensor:
        return torch.from_numpy(values)[None].to(self.device, self.dtype)


def _kandinsky(path: Path, dtype: torch.dtype) -> Any:
    """Load Kandinsky 2.2: a UNet on image embeddings alone, and a MoVQ."""
    return KandinskyV22Pipeline(
        unet=_part(UNet2DConditionModel, path / "unet", dtype),
        scheduler=_scheduler(path / "scheduler", _SEEDED),
        movq=_part(VQModel, path / "movq", dtype),
    )


def _unclip(path: Path, dtype: torch.dtype) -> Any:
    """Load Stable unCLIP: Stable Diffusion 2.1 on image embeddings and a prompt, maybe empty."""
    return StableUnCLIPImg2ImgPipeline(
        feature_extractor=None,
        image_encoder=_unused_encoder(dtype),
        image_normalizer=_part(StableUnCLIPImageNormalizer, path / "image_normalizer", dtype),
        image_noising_scheduler=_scheduler(path / "image_noising_scheduler", _SEEDED),
        tokenizer=CLIPTokenizer.from_pretrained(path / "tokenizer", local_files_only=True),
        text_encoder=_part(CLIPTextModel, path / "text_encoder", dtype),
        unet=_part(UNet2DConditionModel, path / "unet", dtype),
        scheduler=_scheduler(path / "scheduler", _SCHEDULERS),
        vae=_part(AutoencoderKL, path / "vae", dtype),
    )


def _part(kind: Any, folder: Path, dtype: torch.dtype) -> Any:
    """Load a model of diffusers or transformers; each parameter must have its value."""
    try:
        model, report = kind.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, output_loading_info=True
        )
        for fault in ("missing", "unexpected", "mismatched"):
            names = [str(name) for name in report.get(f"{fault}_keys") or ()]
            names = [name for name in names if not name.endswith(_STALE)]
            if names:  # a warning of theirs, and a picture of noise
                raise ValueError(f"{len(names)} {fault}, such as {min(names)}")
    except Exception as error:  # whatever a strange value of a configuration leads to
        if is_out_of_memory(error):
            raise
        reason = one_line(error)[:200]
        raise ModelError(
            f"The weights in {folder} do not fit their configuration ({reason}); put the published "
            "files there."
        ) from error
    return model.to(dtype).eval().requires_grad_(False)


def _scheduler(folder: Path, supported: tuple[str, ...]) -> Any:
    name = read_json(folder / "scheduler_config.json").get("_class_name")
    if name not in supported:
        raise ModelError(
            f"{folder} names the scheduler {name}; it must be {' or '.join(supported)}."
        )
    return getattr(schedulers, name).from_pretrained(folder, local_files_only=True)


def _unused_encoder(dtype: torch.dtype) -> Any:
    """Return an image encoder that only tells the pipeline its dtype: embeddings come from us."""
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    config = CLIPVisionConfig(
        **sizes, num_attention_heads=1, image_size=8, patch_size=8, projection_dim=8
    )
    return CLIPVisionModelWithProjection(config).to(dtype).eval()


@contextmanager
def _fitting(folder: DecoderFolder, device: torch.device) -> Iterator[None]:
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise NotEnoughMemoryError(
            f"There was not enough memory on {device} for {folder.decoder.title}; draw "
            "smaller pictures, in bfloat16, or on the CPU."
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep notes and progress bars of both libraries out of the terminal while weights load."""
    with ExitStack() as after:
        for logging in (diffusers_logging, transformers_logging):
            after.callback(logging.set_verbosity, logging.get_verbosity())
            logging.set_verbosity_error()
            logging.disable_progress_bar()
            after.callback(logging.enable_progress_bar)
        yield
