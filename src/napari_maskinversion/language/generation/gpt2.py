"""Published decoders around a GPT-2: CLIPCap (Mokady et al., 2021) and DeCap (Li et al., 2023).

GPT-2 is that of the transformers package, built from the shapes in a checkpoint.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from ...base.errors import ModelError
from ...base.reading import read_json, sha256_of
from ...base.wording import one_line
from ...engine.models.checkpoints import fill, read_weights
from .decoder import CaptionDecoder
from .settings import GenerationSettings
from .small_gpt import SupportMemory

_HEAD: Final = 64  # numbers of an attention head in every published GPT-2
# Constants that older versions of the transformers package saved with the weights.
_STALE: Final = re.compile(r"\.attn\.(bias|masked_bias)$")
_STOP: Final = "."
_MAPPER: Final = ("clip_project.model.0.weight", "clip_project.model.2.weight")
_TRANSFORMER: Final = re.compile(r"^clip_project\.(transformer|linear|prefix_const)")
_MOST_JSON: Final = 50_000_000  # bytes
_DECAP_HEADS: Final = 4
_END: Final = 49407  # of CLIP's own tokens


def check_transformers() -> None:
    """Refuse to continue without the transformers package."""
    if find_spec("transformers") is None:
        raise ModelError(
            "This decoder needs the package transformers: "
            "pip install \"napari-maskinversion[captioning]\", or use the decoder 'demo'."
        )


class _Gpt2Decoder(CaptionDecoder):
    """A checkpoint with a GPT-2 under the name `inside`, behind layers called clip_project."""

    inside: str
    heads: int | None = None  # Attention heads; None: as in every published GPT-2

    def __init__(
        self, path: Path, device: torch.device | str, settings: GenerationSettings | None
    ) -> None:
        super().__init__(settings)
        state, _ = read_weights(path, instead="save the state_dict() of the decoder")
        state = {name: tensor for name, tensor in state.items() if not _STALE.search(name)}
        module: Any = nn.Module()
        module.clip_project = nn.Module()
        try:
            module.clip_project.model = self._project = self._projection(state, path)
            self.gpt = _empty_gpt2(state, self.inside, self.heads)
        except (LookupError, ValueError) as error:
            raise ModelError(
                f"{path} is not a checkpoint of this decoder ({one_line(error)}); choose the "
                "published file."
            ) from error
        setattr(module, self.inside, self.gpt)
        fill(module, state, path=path, architecture="of this decoder")
        self.gpt.tie_weights()
        module.to(device).eval()
        self._device = torch.device(device)
        self.weights = sha256_of(path)
        self.positions = self.gpt.config.n_positions

    def _projection(self, state: Mapping[str, Tensor], path: Path) -> nn.Module:
        """Return the layers before GPT-2, of the sizes in a checkpoint."""
        raise NotImplementedError

    def embed(self, tokens: Tensor) -> Tensor:
        """Look tokens up in GPT-2's table."""
        vectors: Tensor = self.gpt.transformer.wte(tokens.to(self._device))
        return vectors

    def logits(self, inputs: Tensor) -> Tensor:
        """Run GPT-2."""
        logits: Tensor = self.gpt(inputs_embeds=inputs).logits[:, -1]
        return logits


def _empty_gpt2(state: Mapping[str, Tensor], inside: str, heads: int | None) -> Any:
    """Return a GPT-2 of the sizes in a checkpoint."""
    check_transformers()
    from transformers import GPT2Config, GPT2LMHeadModel

    tables = (state[f"{inside}.transformer.{name}.weight"] for name in ("wte", "wpe"))
    (vocabulary, width), (positions, _) = (table.shape for table in tables)
    blocks = set()
    for name in state:
        if name.startswith(f"{inside}.transformer.h."):
            blocks.add(name.split(".")[3])
    config = GPT2Config(
        vocab_size=vocabulary,
        n_positions=positions,
        n_embd=width,
        n_layer=len(blocks),
        n_head=heads or width // _HEAD,
    )
    with torch.random.fork_rng(devices=[]):  # its first weights are random, and replaced
        return GPT2LMHeadModel(config)


class ClipCap(_Gpt2Decoder):
    """CLIPCap: an embedding becomes ten words, from which GPT-2 continues."""

    inside = "gpt"

    def __init__(
        self,
        path: Path,
        vocabulary: Path,
        *,
        name: str = "clipcap",
        device: torch.device | str = "cpu",
        settings: GenerationSettings | None = None,
    ) -> None:
        super().__init__(path, device, settings)
        self.name = name
        self._words = read_vocabulary(vocabulary, self.gpt.config.vocab_size)
        self.stop = self._words.index(_STOP)

    def _projection(self, state: Mapping[str, Tensor], path: Path) -> nn.Module:
        if any(_TRANSFORMER.match(key) for key in state):
            raise ModelError(
                f"{path} has CLIPCap's transformer mapper, which is published for RN50x4 alone; "
                "use coco_weights.pt or conceptual_weights.pt, whose mapper has two linear layers."
            )
        width = state["gpt.transformer.wte.weight"].shape[-1]
        (hidden, self.embed_dim), (last, _) = (state[key].shape for key in _MAPPER)
        self.prefix_length = last // width  # ten in the published checkpoints
        return nn.Sequential(
            nn.Linear(self.embed_dim, hidden),
            nn.Tanh(),
            nn.Linear(hidden, self.prefix_length * width),
        )

    def prefix(self, embeddings: Tensor) -> Tensor:
        """Map embeddings, which are not normalised."""
        mapped: Tensor = self._project(embeddings.to(self._device))
        return mapped.view(len(embeddings), self.prefix_length, -1)

    def text(self, tokens: Sequence[int]) -> str:
        """Decode GPT-2's byte pairs."""
        return decode_bytes([self._words[token] for token in tokens])


def read_vocabulary(path: Path, size: int) -> list[str]:
    """Read GPT-2's ``vocab.json``: byte pairs by token."""
    table = read_json(path, "vocabulary of GPT-2", most=_MOST_JSON)
    words = []
    if isinstance(table, dict):
        words = sorted(table, key=table.__getitem__)
    if len(words) != size or _STOP not in words:
        raise ModelError(f"{path} is not a vocabulary of {size} tokens for this GPT-2.")
    return words


def decode_bytes(words: Sequence[str]) -> str:
    """Return the text of byte pairs; GPT-2 writes each byte as a visible character."""
    from open_clip.tokenizer import bytes_to_unicode

    byte_of = {character: byte for byte, character in bytes_to_unicode().items()}
    text = "".join(words)
    data = bytes(byte_of[character] for character in text if character in byte_of)
    return data.decode("utf-8", "replace").strip()


class DeCap(_Gpt2Decoder):
    """DeCap as its authors save it: a GPT-2 of four blocks behind a memory of the user's sentences.

    Shapes: memory (M, e).
    """

    inside = "decoder"
    heads = _DECAP_HEADS
    usual_tokens = 30  # in the authors' loop

    def __init__(
        self,
        path: Path,
        memory: Tensor,
        *,
        device: torch.device | str = "cpu",
        settings: GenerationSettings | None = None,
    ) -> None:
        from open_clip.tokenizer import SimpleTokenizer

        super().__init__(path, device, settings)
        self.name = "decap"
        self.stop = _END
        if memory.shape[1] != self.embed_dim:
            raise ModelError(
                f"{path} reads embeddings of {self.embed_dim} numbers; the memory has "
                f"{memory.shape[1]}: it belongs to another model."
            )
        self._tokenizer = SimpleTokenizer()
        self.memory = SupportMemory(memory.to(device))

    def _projection(self, state: Mapping[str, Tensor], path: Path) -> nn.Module:
        width, self.embed_dim = state[_MAPPER[0]].shape
        return nn.Sequential(nn.Linear(self.embed_dim, width))

    def prefix(self, embeddings: Tensor) -> Tensor:
        """Project embeddings onto the memory, then into GPT-2."""
        projected: Tensor = self._project(self.memory.project(embeddings.to(self._device)))
        return projected[:, None]

    def text(self, tokens: Sequence[int]) -> str:
        """Decode CLIP's tokens; those that it does not have are left out."""
        text = self._tokenizer.decode([token for token in tokens if token <= _END])
        return " ".join(re.sub(r"<\|?(start_?of_?text|end_?of_?text)\|?>", "", text).split())
