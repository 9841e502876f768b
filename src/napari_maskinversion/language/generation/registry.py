"""Decoders by name: what they need, where their weights are. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ...base.cache_folder import cache_folder
from ...base.download import recorded_weights, size_text
from ...base.errors import InputError, ModelError
from ...base.reading import check_file
from ...engine.models.specs import DEMO, MODELS, bundled_folder

CLIPCAP_MODEL: Final = "ViT-B-32/openai"
BUNDLED_FILE: Final = "captions/decap.safetensors"  # in the folder of the bundled model


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderSpec:
    """A decoder."""

    name: str
    title: str
    model: str = ""  # Name of the only model whose embeddings it reads; "" if its file says which
    repository: str = ""  # On the model hub; "" if it is bundled, or a file of the user's
    file: str = ""
    size_mb: int = 0  # Approximate size of the download
    license: str = ""
    transformers: bool = False  # Whether it needs the transformers package
    memory: bool = False  # Whether it may need a caption bank

    @property
    def size_text(self) -> str:
        """Size of the download as text."""
        return size_text(self.size_mb * 1_000_000)

    @property
    def folder(self) -> Path:
        """Folder of its downloaded files."""
        return cache_folder() / "captioners" / self.name

    @property
    def published(self) -> bool:
        """Whether its weights can be downloaded."""
        return bool(self.repository)

    @property
    def is_on_disk(self) -> bool:
        """Whether nothing has to be downloaded. Fast: checks sizes only."""
        if not self.published:
            return True
        weights = recorded_weights(self.folder)
        return weights is not None and weights.is_complete and gpt2_vocabulary().is_file()


_TABLE: Final = (
    DecoderSpec(
        name="demo",
        title="Small DeCap for the demo model: works at once, says what that model knows",
        model=DEMO,
        license="BSD-3-Clause",
    ),
    DecoderSpec(
        name="clipcap-coco",
        title="CLIPCap trained on COCO: plain descriptions of photographs",
        model=CLIPCAP_MODEL,
        repository="akhaliq/CLIP-prefix-captioning-COCO-weights",
        file="coco_weights.pt",
        size_mb=636,
        license="MIT",
        transformers=True,
    ),
    DecoderSpec(
        name="clipcap-conceptual",
        title="CLIPCap trained on Conceptual Captions: freer descriptions",
        model=CLIPCAP_MODEL,
        repository="akhaliq/CLIP-prefix-captioning-conceptual-weights",
        file="conceptual_weights.pt",
        size_mb=636,
        license="MIT",
        transformers=True,
    ),
    DecoderSpec(
        name="decap",
        title="DeCap from a file of your own",
        memory=True,
    ),
)

DECODERS: Mapping[str, DecoderSpec] = MappingProxyType({spec.name: spec for spec in _TABLE})


def get_decoder(name: str) -> DecoderSpec:
    """Return a decoder by name."""
    try:
        return DECODERS[name.strip().lower()]
    except KeyError:
        raise ModelError(
            f"There is no caption decoder called {name!r}; choose one of {', '.join(DECODERS)}."
        ) from None


def check_decoder(
    name: str, model: str | None = None, *, file: Path | None = None, memory: Path | None = None
) -> DecoderSpec:
    """Refuse a decoder that cannot work, before anything is loaded."""
    spec = get_decoder(name)
    if spec.model and model is not None and _is_another(model, spec.model):
        raise InputError(
            f"The decoder {spec.name} reads embeddings of {spec.model} alone, not of {model}; "
            "choose that model, or another decoder."
        )
    if memory is not None and not spec.memory:
        raise InputError(f"The decoder {spec.name} takes no caption bank; leave the memory out.")
    if spec.memory and file is None:
        raise InputError(
            f"The decoder {spec.name} needs a file: a DeCap checkpoint (.pt), or one that "
            "rebuild-demo-captions wrote."
        )
    if file is not None:
        check_file(file, "decoder file")
        if file.suffix != ".safetensors" and spec.memory and memory is None:
            raise InputError(
                f"DeCap projects embeddings onto a caption bank, and {file.name} has none; name a "
                "bank of this model (captions build)."
            )
    if spec.transformers or (spec.memory and file is not None and file.suffix != ".safetensors"):
        from .gpt2 import check_transformers

        check_transformers()
    return spec


def _is_another(model: str, wanted: str) -> bool:
    published = model in MODELS or ("/" in model and not Path(model).exists())
    return published and model != wanted


def bundled_decoder() -> Path:
    """Return the file of the bundled model's decoder."""
    return bundled_folder() / BUNDLED_FILE


def gpt2_vocabulary() -> Path:
    """Return where GPT-2's vocabulary is downloaded to."""
    return cache_folder() / "captioners" / "gpt2" / "vocab.json"
