"""Models by name. Imports neither torch nor open_clip."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, get_args

import yaml

from ...base.download import size_text
from ...base.errors import ModelError

BUNDLED: Final = "bundled"
DEMO: Final = "demo"
CONFIG_FILE: Final = "open_clip_config.json"
CHECKPOINTS: Final = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")
"""Endings of checkpoint files."""
WEIGHTS_FILE: Final = "open_clip_model.safetensors"
WEIGHTS_FILES: Final = (WEIGHTS_FILE, "open_clip_pytorch_model.bin")
"""Names of the weights in a repository of the hub or a copy of one, the safest format first."""

TRANSFORMERS_CONFIG: Final = "config.json"
PREPROCESSOR: Final = "preprocessor_config.json"
ALL_WEIGHTS_FILES: Final = (*WEIGHTS_FILES, "model.safetensors", "pytorch_model.bin")
"""With those in the format of transformers."""

VOCABULARIES: Final = (
    "tokenizer.json",
    "vocab.txt",
    "tokenizer.model",
    "sentencepiece.bpe.model",
    "spiece.model",
)
# The vocabulary last: without it, a folder is no tokenizer.
TOKENIZER_FILES: Final = (
    "special_tokens_map.json",
    "tokenizer_config.json",
    "config.json",
    *VOCABULARIES,
)
OPENAI_MEAN: Final = (0.48145466, 0.4578275, 0.40821073)
OPENAI_STD: Final = (0.26862954, 0.26130258, 0.27577711)
HALF: Final = (0.5, 0.5, 0.5)
_NORMS: Final = {
    "openai": (OPENAI_MEAN, OPENAI_STD),
    "half": (HALF, HALF),
    "none": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
}
_GELU: Final = {False: "GELU", True: "QuickGELU"}
Domain = Literal["general", "microscopy", "pathology", "biology", "aerial"]
DOMAINS: Final[tuple[Domain, ...]] = get_args(Domain)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A model before it is loaded."""

    name: str  # What users type: ``"demo"`` or ``"ViT-B-16/openai"`` (architecture / tag)
    title: str  # One short line for a list
    architecture: str  # open_clip's names; `tag` is empty for models that have none
    source: str  # ``"bundled"``, the id of a repository on the model hub, or a local path
    native_resolution: int  # Side of the training images in pixels
    tag: str = ""
    # Approximate size of the weights in megabytes (10**6 bytes); 0 if unknown. The hub tells the
    # exact size before a download.
    size_mb: int = 0
    license: str = ""  # Licence of the weights
    quick_gelu: bool = False  # Whether the weights were trained with OpenAI's approximation of GELU
    domain: Domain = "general"  # The field whose images it was trained on
    # The file of the repository that tells its architecture; "": `architecture` does
    config: str = ""
    strict: bool = True  # Whether a checkpoint may hold nothing but the model
    tokenizer: str = ""  # Repository of its tokenizer; "" for CLIP's own
    prompts: str = "photo"  # Name of the prompt templates of its field
    # Normalisation per channel of an RGB image in 0..1
    mean: tuple[float, float, float] = OPENAI_MEAN
    std: tuple[float, float, float] = OPENAI_STD
    interpolation: Literal["bicubic", "bilinear"] = "bicubic"  # How images are resized

    @property
    def size_text(self) -> str:
        """Size of the weights as text."""
        if self.size_mb:
            return size_text(self.size_mb * 1_000_000)
        return "size unknown"

    @property
    def working_resolution(self) -> int:
        """Default resolution of an inversion, in pixels."""
        return default_working_resolution(self.native_resolution)

    @property
    def activation(self) -> str:
        """Activation of the weights as text, and where that is known from."""
        if self.config:
            return f"as its {self.config} says"
        return _GELU[self.quick_gelu]

    @property
    def bundled(self) -> bool:
        """Whether the weights are part of this package."""
        return self.source == BUNDLED


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """A model that is named and not fetched."""

    name: str
    domain: Domain
    license: str
    why: str
    instead: str

    @property
    def text(self) -> str:
        """Why it is not fetched and what to do, in one line."""
        return f"{self.name} is not fetched: {self.why} (licence: {self.license}); {self.instead}."


def default_working_resolution(native: int) -> int:
    """Return the default resolution of an inversion, in pixels.

    A 224-pixel CLIP has at most 14 x 14 patches, too coarse for regions: it runs at 448 pixels.
    Tiny models and those trained above 448 pixels keep their native resolution.
    """
    if 200 <= native <= 448:
        return 448
    return native


def _read_table() -> tuple[dict[str, ModelSpec], dict[str, Elsewhere]]:
    """Return the models of models.yaml, and those that are only named there."""
    table = yaml.safe_load((Path(__file__).parent / "models.yaml").read_text("utf-8"))
    models = {}
    for name, row in table["models"].items():
        architecture, _, tag = name.partition("/")
        mean, std = _NORMS[row.pop("norm", "openai")]
        models[name] = ModelSpec(
            name=name,
            tag=tag,
            mean=mean,
            std=std,
            architecture=row.pop("architecture", architecture),
            native_resolution=row.pop("resolution", 224),
            **row,
        )
    return models, {name: Elsewhere(name=name, **row) for name, row in table["elsewhere"].items()}


_read = _read_table()
MODELS: Final[Mapping[str, ModelSpec]] = MappingProxyType(_read[0])
ELSEWHERE: Final[Mapping[str, Elsewhere]] = MappingProxyType(_read[1])
"""Models that people look for and that are not fetched."""


def elsewhere_called(name: str) -> Elsewhere | None:
    """Return the model of that name that is not fetched."""
    return next((model for key, model in ELSEWHERE.items() if key.lower() == name.lower()), None)


def unknown_model(name: str, known_names: Iterable[str]) -> ModelError:
    """Return the error for a name that no model has."""
    if elsewhere := elsewhere_called(name):
        return ModelError(elsewhere.text)
    candidates = {known_name.lower(): known_name for known_name in known_names}
    beginning_so = []
    for key in candidates:
        if name and key.startswith(name.lower()):
            beginning_so.append(key)
    near = beginning_so[:3] or difflib.get_close_matches(
        name.lower(), list(candidates), n=3, cutoff=0.5
    )
    names = [candidates[key] for key in near] or list(MODELS)
    if _is_path(name):
        return ModelError(
            f"There is no folder or file {Path(name)}; name a folder with "
            "open_clip_config.json and weights, a checkpoint file, or a model of 'models list'."
        )
    path = ""
    if "/" in name:
        path = ", and no folder or file of that name"
    return ModelError(
        f"There is no model called {name!r}{path}. "
        + ("Did you mean " if near else "Known models: ")
        + ", ".join(names)
        + ("?" if near else ".")
    )


def _is_path(name: str) -> bool:
    """Return whether a name can only be that of a file or folder."""
    begins = name.startswith((".", "~")) or Path(name).is_absolute()
    return begins or "\\" in name or name.count("/") > 1 or name.endswith("/")


def bundled_folder() -> Path:
    """Return the folder of the bundled model's files."""
    return Path(__file__).resolve().parents[2] / "demo_model" / "weights"


def tokenizer_folder(folder: Path) -> Path:
    """Return where a model's folder holds its tokenizer."""
    return folder / "tokenizer"


def has_tokenizer(folder: Path) -> bool:
    """Return whether a folder holds the vocabulary of a tokenizer."""
    return any((folder / name).exists() for name in VOCABULARIES)
