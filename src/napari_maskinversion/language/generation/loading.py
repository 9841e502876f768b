"""Load a decoder for a model, and download what it needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from ...base.download import (
    Download,
    IsCancelled,
    OnProgress,
    RemoteFile,
    announced_file,
    download,
    hub_url,
    recorded_weights,
)
from ...base.errors import InputError, ModelError
from .registry import DecoderSpec, bundled_decoder, check_decoder, gpt2_vocabulary
from .settings import GenerationSettings

if TYPE_CHECKING:
    import torch

    from ..captions.bank import CaptionBank
    from .decoder import CaptionDecoder

_GPT2: Final = "openai-community/gpt2"
_VOCABULARY_BYTES: Final = 1_042_301
_VOCABULARY_SHA256: Final = "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"
_ALTERNATIVE: Final = "use the decoder 'demo' with the demo model, or name a file of your own"


class EmbeddingSpace(Protocol):
    """The model whose embeddings are decoded: a `Backbone`, or the record of a run."""

    @property
    def name(self) -> str:
        """Name of the model."""

    @property
    def fingerprint(self) -> str:
        """Hash of its name, weights and preprocessing."""

    @property
    def embed_dim(self) -> int:
        """Size of its embeddings."""


def fetch_decoder(
    spec: DecoderSpec,
    *,
    on_progress: OnProgress | None = None,
    cancelled: IsCancelled | None = None,
) -> tuple[Path, Path]:
    """Make sure that a published decoder is on this machine; return its weights and vocabulary."""
    weights = download(
        Download(
            name=spec.name,
            size=spec.size_mb * 1_000_000,
            lock=spec.folder / ".lock",
            alternative=_ALTERNATIVE,
            local=lambda: recorded_weights(spec.folder),
            remote=lambda: announced_file(spec.repository, (spec.file,), spec.folder),
        ),
        on_progress=on_progress,
        cancelled=cancelled,
    )
    return weights, fetch_vocabulary(cancelled)


def fetch_vocabulary(cancelled: IsCancelled | None = None) -> Path:
    """Make sure that GPT-2's vocabulary, one megabyte, is on this machine."""
    path = gpt2_vocabulary()
    file = RemoteFile(
        url=hub_url(_GPT2, path.name),
        path=path,
        size=_VOCABULARY_BYTES,
        sha256=_VOCABULARY_SHA256,
    )
    return download(
        Download(
            name="GPT-2's vocabulary",
            size=file.size,
            lock=path.with_name(".lock"),
            alternative=_ALTERNATIVE,
            local=lambda: file,
            remote=lambda: file,
        ),
        cancelled=cancelled,
    )


def load_decoder(
    name: str,
    model: EmbeddingSpace | None = None,
    *,
    file: str | Path | None = None,
    memory: CaptionBank | None = None,
    device: torch.device | str = "cpu",
    settings: GenerationSettings | None = None,
    on_progress: OnProgress | None = None,
    cancelled: IsCancelled | None = None,
) -> CaptionDecoder:
    """Load a decoder, and download it first if necessary."""
    path = None if file is None else Path(file)
    place = None if memory is None else memory.folder
    spec = check_decoder(name, None if model is None else model.name, file=path, memory=place)
    decoder: CaptionDecoder
    if spec.transformers:
        from .gpt2 import ClipCap

        if path is None:
            path, vocabulary = fetch_decoder(spec, on_progress=on_progress, cancelled=cancelled)
        else:
            vocabulary = path.with_name("vocab.json")  # for machines without a network
            vocabulary = vocabulary if vocabulary.is_file() else fetch_vocabulary(cancelled)
        decoder = ClipCap(path, vocabulary, name=spec.name, device=device, settings=settings)
    elif spec.memory and path is not None and path.suffix != ".safetensors":
        import torch

        from .gpt2 import DeCap

        assert memory is not None  # `check_decoder` has seen to it
        if model is not None:
            memory.check(model)
        vectors = torch.from_numpy(memory.vectors())
        decoder = DeCap(path, vectors, device=device, settings=settings)
    else:
        decoder = _small(spec, path or bundled_decoder(), model, settings)
    if model is not None and decoder.embed_dim != model.embed_dim:
        raise ModelError(
            f"The decoder {spec.name} reads embeddings of {decoder.embed_dim} numbers, and "
            f"{model.name} has {model.embed_dim}: its mapper belongs to another image tower."
        )
    return decoder


def _small(
    spec: DecoderSpec,
    path: Path,
    model: EmbeddingSpace | None,
    settings: GenerationSettings | None,
) -> CaptionDecoder:
    from .small_gpt import load_small_decoder, read_record

    record = read_record(path)
    if model is not None and record.fingerprint != model.fingerprint:
        what = "other weights of it" if record.model == model.name else f"not for {model.name}"
        again = f"rebuild-demo-captions --model {model.name}"
        raise InputError(
            f"The caption decoder {path.name} was trained for {record.model} (fingerprint "
            f"{record.fingerprint}), {what} ({model.fingerprint}); train it again: {again}."
        )
    return load_small_decoder(path, name=spec.name, settings=settings)
