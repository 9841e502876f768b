"""SAM 3, by transformers: words to regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import torch

from ...base.errors import ConfigError
from ...base.progress import ENCODING, Tick, tell
from ...engine.compute.compute_lock import computing
from ...engine.compute.onednn_layers import forward_only
from ...images.plane_source import PlaneSource
from .prompts import AutomaticConfig
from .resizing import crop_map, resize_for_sam
from .sam2 import normalised, telling_blocks
from .segmenter import Segmented, merge_tiles

_HALF: Final = (0.5, 0.5, 0.5)  # mean and deviation of its pixels
_LENGTH: Final = 32  # tokens of its text
_SCORE: Final = 0.3  # as transformers


@dataclass(frozen=True, slots=True, eq=False)
class Concepts:
    """SAM 3 with its tokenizer; asked for words, it proposes regions as a `Segmenter` does."""

    model: Any
    tokenizer: Any
    name: str
    words: Sequence[str] = ()  # that it was asked

    def asked(self, words: Sequence[str] | None) -> Concepts:
        """Return what proposes regions that are what the words say."""
        if words is None:
            raise ConfigError("SAM 3 takes words, not an example; choose SAM 1 or SAM 2, or none.")
        return replace(self, words=words)

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        device: torch.device = self.model.device
        return device

    @property
    def side(self) -> int:
        """Pixels along a side of the model's input."""
        return int(self.model.config.image_size)

    @computing()
    def segment_everything(self, source: PlaneSource, config: AutomaticConfig) -> list[Segmented]:
        """Find everything in a plane that is what one of the words says."""
        source.check()
        segmented: list[Segmented] = []
        for words in self.words:
            segmented += self._segment_words(words, source, config)
        return segmented

    def _segment_words(
        self, words: str, source: PlaneSource, config: AutomaticConfig
    ) -> list[Segmented]:
        tokens = self.tokenizer(
            words,
            padding="max_length",
            max_length=_LENGTH,
            truncation=True,
            return_tensors="pt",
        ).to(self.device)
        with forward_only(self.device):
            text = self.model.get_text_features(**tokens, return_dict=True)
        look = partial(self._look, words, text, tokens["attention_mask"])
        return merge_tiles(source, self.side, look, whole=config.whole)

    def _look(self, words: str, text: Any, mask: Any, source: PlaneSource) -> list[Segmented]:
        view = resize_for_sam(source, self.side, square=True)
        pixels = torch.from_numpy(view.pixels.copy()).to(self.device)

        def on_block(number: int, count: int) -> None:
            tell(Tick(ENCODING, number + 1, count, share=number / count))

        blocks = self.model.vision_encoder.backbone.layers
        with telling_blocks(blocks, on_block), forward_only(self.device):
            answer = self.model(
                pixel_values=normalised(pixels.permute(2, 0, 1)[None].float(), _HALF, _HALF),
                text_embeds=text,
                attention_mask=mask,
            )
        scores = (answer.pred_logits.sigmoid() * answer.presence_logits.sigmoid())[0]
        regions = []
        for row in torch.nonzero(scores > _SCORE).flatten().tolist():
            logits = answer.pred_masks[0, row].float().cpu().numpy()
            candidate = crop_map(float(scores[row]), logits, ((view.plane, view.plane),))
            segmented = Segmented(id=0, text=words, candidates=(candidate,), shape=view.plane)
            regions.append(segmented)
        return regions
