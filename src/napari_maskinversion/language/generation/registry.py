"""Decoders by name: what they need, where their weights are, how they are loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from ...base.cache_folder import cache_folder
from ...base.download import (
    Download,
    RemoteFile,
    announced_file,
    download,
    hub_url,
    recorded_weights,
    size_text,
)
from ...base.errors import InputError, ModelError
from ...base.reading import check_file
from ...engine.models.specs import DEMO, MODELS, bundled_folder
from .settings import GenerationSettings

if TYPE_CHECKING:
    import torch

    from ...engine.models.backbone import Backbone
    from ..captions.bank import CaptionBank, ModelIdentity
    from .decoder import CaptionDecoder

CLIPCAP_MODEL: Final = "ViT-B-32/openai"
BUNDLED_FILE: Final = "captions/decap.safetensors"  # in the folder of the bundled model
_GPT2: Final = "openai-community/gpt2"
_VOCABULARY_BYTES: Final = 1_042_301
_VOCABULARY_SHA256: Final = "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"
_ALTERNATIVE: Final = "use the decoder 'demo' with the demo model, or name a file of your own"


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
    def is_on_disk(self) -> bool:
        """Whether all files are here. Fast: checks sizes only."""
        if not self.repository:
            return True
        weights = recorded_weights(self.folder)
        return weights is not None and weights.is_complete and gpt2_vocabulary().is_file()


def _clipcap(data: str, title: str) -> DecoderSpec:
    return DecoderSpec(
        name=f"clipcap-{data}",
        title=f"CLIPCap trained on {title}",
        model=CLIPCAP_MODEL,
        repository=f"akhaliq/CLIP-prefix-captioning-{data.replace('coco', 'COCO')}-weights",
        file=f"{data}_weights.pt",
        size_mb=636,
        license="MIT",
        transformers=True,
    )


_TABLE: Final = (
    DecoderSpec(
        name="demo",
        title="Small DeCap for the demo model: works at once, says what that model knows",
        model=DEMO,
        license="BSD-3-Clause",
    ),
    _clipcap("coco", "COCO: plain descriptions of photographs"),
    _clipcap("conceptual", "Conceptual Captions: freer descriptions"),
    DecoderSpec(name="decap", title="DeCap from a file of your own", memory=True),
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
    # Of weights of the user's the width is compared, once they are loaded.
    named = model is not None and (model in MODELS or ("/" in model and not Path(model).exists()))
    if spec.model and named and model != spec.model:
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
    published = spec.memory and file is not None and file.suffix != ".safetensors"
    if file is not None:
        check_file(file, "decoder file")
        if published and memory is None:
            raise InputError(
                f"DeCap projects embeddings onto a caption bank, and {file.name} has none; name a "
                "bank of this model (captions build)."
            )
    if spec.transformers or published:
        from .gpt2 import check_transformers

        check_transformers()
    return spec


def bundled_decoder() -> Path:
    """Return the file of the bundled model's decoder."""
    return bundled_folder() / BUNDLED_FILE


def gpt2_vocabulary() -> Path:
    """Return where GPT-2's vocabulary is downloaded to."""
    return cache_folder() / "captioners" / "gpt2" / "vocab.json"


# -- loading ------------------------------------------------------------------------------------


def fetch_decoder(spec: DecoderSpec) -> tuple[Path, Path]:
    """Make sure that a published decoder is on this machine; return its weights and vocabulary."""
    weights = download(
        Download(
            name=spec.name,
            size=spec.size_mb * 1_000_000,
            lock=spec.folder / ".lock",
            alternative=_ALTERNATIVE,
            local=lambda: recorded_weights(spec.folder),
            remote=lambda: announced_file(spec.repository, (spec.file,), spec.folder),
        )
    )
    return weights, fetch_vocabulary()


def fetch_vocabulary() -> Path:
    """Make sure that GPT-2's vocabulary, one megabyte, is on this machine."""
    path = gpt2_vocabulary()
    url = hub_url(_GPT2, path.name)
    file = RemoteFile(url=url, path=path, size=_VOCABULARY_BYTES, sha256=_VOCABULARY_SHA256)
    return download(
        Download(
            name="GPT-2's vocabulary",
            size=file.size,
            lock=path.with_name(".lock"),
            alternative=_ALTERNATIVE,
            local=lambda: file,
            remote=lambda: file,
        )
    )


def load_decoder(
    name: str,
    model: Backbone | ModelIdentity | None = None,
    *,
    file: str | Path | None = None,
    memory: CaptionBank | None = None,
    device: torch.device | str = "cpu",
    settings: GenerationSettings | None = None,
) -> CaptionDecoder:
    """Load a decoder, and download it first if necessary."""
    path = None if file is None else Path(file)
    place = None if memory is None else memory.folder
    spec = check_decoder(name, None if model is None else model.name, file=path, memory=place)
    decoder: CaptionDecoder
    if spec.transformers:
        from .gpt2 import ClipCap

        if path is None:
            path, vocabulary = fetch_decoder(spec)
        else:
            vocabulary = path.with_name("vocab.json")  # for machines without a network
            if not vocabulary.is_file():
                vocabulary = fetch_vocabulary()
        decoder = ClipCap(path, vocabulary, name=spec.name, device=device, settings=settings)
    elif memory is not None and path is not None and path.suffix != ".safetensors":
        import torch

        from .gpt2 import DeCap

        if model is not None:
            memory.check(model)
        vectors = torch.from_numpy(memory.vectors())
        decoder = DeCap(path, vectors, device=device, settings=settings)
    else:
        from .small_gpt import load_small_decoder

        path = path or bundled_decoder()
        decoder = small = load_small_decoder(path, name=spec.name, settings=settings)
        if model is not None and small.record.fingerprint != model.fingerprint:
            trained_for = small.record.model
            if trained_for == model.name:
                difference = "other weights of it"
            else:
                difference = f"not for {model.name}"
            raise InputError(
                f"The caption decoder {path.name} was trained for {trained_for} (fingerprint "
                f"{small.record.fingerprint}), {difference} ({model.fingerprint}); train it again: "
                f"rebuild-demo-captions --model {model.name}."
            )
    if model is not None and decoder.embed_dim != model.embed_dim:
        raise ModelError(
            f"The decoder {spec.name} reads embeddings of {decoder.embed_dim} numbers, and "
            f"{model.name} has {model.embed_dim}: its mapper belongs to another image tower."
        )
    return decoder
