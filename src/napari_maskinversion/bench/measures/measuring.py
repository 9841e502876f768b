"""Measure every entry on every image of a data set, one record at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from ...base.errors import ConfigError, InputError, MaskInversionError, ModelError
from ...base.progress import listening
from ...base.wording import listed
from ...engine.invert.inverter import MaskInverter, RegionEmbedder
from ...engine.invert.loop import StepState
from ...engine.methods.dense import class_token_tower
from ...engine.methods.factory import region_embedder
from ...engine.methods.registry import Method
from ..datasets.dataset import (
    BadRecordError,
    Dataset,
    Sample,
    content_of,
    own_expressions,
    windowed,
)
from .entries import NEEDS_SAM, SAM, Entry, changed
from .figures_file import (
    Figures,
    RecordStore,
    Report,
    check_kind,
    figures_page,
    now,
    read_figures,
    records_path,
)
from .relations import OwnParser, Parser, by_words, class_token_maps, map_scores, related
from .statistics import figures, masks_for_sentences, overlaps_of, sentences_for_masks

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone
    from ...language.generation.decoder import CaptionDecoder
    from ...regions.sam.segmenter import Segmenter

Rows = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringPlan:
    """What to measure."""

    models: tuple[str, ...]
    entries: tuple[Entry, ...]
    resolution: int | None = None  # Pixels of the model's input; None uses each method's own
    keep_aspect: bool = True  # False resizes whole images to squares
    # Leave methods that show pictures of regions at the model's native resolution, as the paper
    # does; ``resolution`` is that of methods that use tokens of the whole image
    pictures_native: bool = False
    context: float | None = None  # Replaces the data set's, see `Dataset`; 0 shows the whole image
    limit: int | None = None  # Number of images, from the first
    skip_bad: bool = False  # Continue after an image that cannot be used
    sam: Path | None = None  # Checkpoint of Segment Anything, for entries with boxes that it fills
    # Continue with the other entries after one that fails; `Measuring.lacks` says why it did
    lenient: bool = False

    @classmethod
    def as_in_paper(cls, models: Sequence[str], entries: Sequence[Entry], **more: Any) -> Self:
        """Show whole images as squares, and pictures of regions as large as the model's input."""
        shown: dict[str, Any] = {"keep_aspect": False, "pictures_native": True, "context": 0.0}
        return cls(models=tuple(models), entries=tuple(entries), **shown, **more)

    def settings(self, dataset: Dataset) -> dict[str, Any]:
        """Return what every record depends on; models, entries and images may be added later."""
        settings = {
            "data": dataset.name,
            "classes": list(dataset.classes),
            "template": dataset.template,
            "context": self.context,
            "resolution": self.resolution,
            "inversion": dict(self.entries[0].inversion) if len(self.entries) else {},
        }
        for name, usual in (("keep_aspect", True), ("pictures_native", False)):
            if getattr(self, name) != usual:  # records from before 0.3 lack them
                settings[name] = not usual
        return settings

    def shown_context(self, dataset: Dataset) -> float | None:
        """Return the side of each region's window in boxes; None for the whole image."""
        return (dataset.context if self.context is None else self.context) or None

    def resolution_of(self, method: Method) -> int | None:
        """Return the resolution for a method; None for the method's own."""
        if self.pictures_native and not method.whole_image:
            return None
        return self.resolution


def open_records(
    file: Path | None,
    kind: str,
    plan: MeasuringPlan,
    dataset: Dataset,
    *,
    overwrite: bool = False,
) -> RecordStore:
    """Open the records of a figures file; without a file they are kept in memory."""
    where = None if file is None else records_path(file)
    if file is not None and file.exists() and not overwrite:  # it will be replaced
        check_kind(file, read_figures(file)["kind"], kind)
    fields = ("model", "entry", "image")
    return RecordStore(where, kind, fields, plan.settings(dataset), overwrite=overwrite)


class Captioner:
    """A generator of sentences, and a judge of what they say; both are loaded when needed."""

    def __init__(
        self,
        name: str,
        make: Callable[[Backbone], CaptionDecoder],
        load_judge: Callable[[], Backbone],
    ) -> None:
        self.name = name  # Of the generator, its weights and settings, for records
        self._make = make
        self._judge = cache(load_judge)
        self._generators: dict[str, CaptionDecoder] = {}  # by the names of models

    def open(self, model: Backbone) -> tuple[CaptionDecoder, Backbone]:
        """Return generator and judge, to refuse bad files before anything is measured."""
        if model.name not in self._generators:
            self._generators[model.name] = self._make(model)
        return self._generators[model.name], self._judge()

    def read(self, model: Backbone, embeddings: Rows, sample: Sample) -> dict[str, Any]:
        """Write a sentence for each region and compare it with the sentences of the image."""
        generator, judge = self.open(model)
        written = generator.generate(embeddings)
        if not sample.expressions:
            return {"captions": written, "caption": []}
        texts = judge.encode_text([text for text, _ in sample.expressions])
        scores = _product(texts, judge.encode_text(written))
        rows = sentences_for_masks(sample, scores, overlaps_of(sample))
        return {"captions": written, "caption": rows}


def segmenters(checkpoint: Path | None) -> Callable[[str], Segmenter]:
    """Return what loads a checkpoint of Segment Anything onto a device, once."""

    @cache
    def load(device: str) -> Segmenter:
        from ...regions.sam.sam_loading import load_segmenter

        assert checkpoint is not None
        return load_segmenter(checkpoint, device)

    return load


class Measuring:
    """Measures the records of a plan and keeps each of them."""

    def __init__(
        self,
        dataset: Dataset,
        plan: MeasuringPlan,
        store: RecordStore,
        load: Callable[[str], Backbone],
        *,
        captioner: Captioner | None = None,
        parser: Parser = by_words,
        segmenter: Callable[[str], Segmenter] | None = None,
    ) -> None:
        self.dataset = dataset
        self.plan = plan
        self.store = store
        self._load = load
        self.keys = list(dataset.keys())[: plan.limit]
        self.fingerprints: dict[str, str] = {}
        self.lacks: dict[tuple[str, str], str] = {}
        self.skipped: dict[str, str] = {}
        # Images and models whose kept records were made from something else, by what it was
        self._stale: dict[str, list[str]] = {}
        self._content = cache(dataset.content)
        self.captioner = captioner
        self.parser = parser
        self.segmenter = segmenter or segmenters(plan.sam)

    def notes(self) -> list[str]:
        """Return lines about kept records that were measured again."""
        notes = []
        for reason, names in self._stale.items():
            records = f"{len(names)} kept records of {listed(dict.fromkeys(names))}"
            notes.append(f"Measured again: {records} are of {reason}.")
        return notes

    def run(self, report: Report = lambda *_: None) -> None:
        """Measure missing records; ``report`` receives the present image and the share done."""
        total = len(self.plan.models) * len(self.keys)
        for number, name in enumerate(self.plan.models):
            model = self._load(name)
            self.fingerprints[name] = model.fingerprint
            one_model = _OneModel(name, model, self)
            if len(self.lacks) == len(self.plan.models) * len(self.plan.entries):
                raise InputError(f"Nothing can be measured: {next(iter(self.lacks.values()))}")
            able = one_model.entries
            for place, key in enumerate(self.keys):
                report(f"{name}, {key}", (number * len(self.keys) + place) / total)
                self._image(one_model, key)
            if able and not one_model.entries:  # each failed on the way
                raise InputError(f"Nothing can be measured: {self.lacks[name, able[0].key]}")
        if len(self.skipped) == len(self.keys):
            why = next(iter(self.skipped.values()), "it has no images")
            raise InputError(f"No image of {self.dataset.name} can be used: {why}")
        kept = self.store.records.values()
        if not any(record["labels"] or record.get("mask") for record in kept):
            raise InputError(f"No image of {self.dataset.name} has a region of its classes.")
        report("done", 1.0)

    def page(self, kind: str) -> Figures:
        """Return the figures of the finished records, a part for each model and entry.

        Skipped images count for none of them.
        """
        plan = self.plan
        dataset = self.dataset
        keys = [key for key in self.keys if key not in self.skipped]
        parts = {}
        for model in plan.models:
            for entry in plan.entries:
                about = {"model": model, "key": entry.key, "title": entry.title}
                part: Figures = {**about, **entry.settings()}
                parts[f"{model}: {entry.key}"] = part
                if (model, entry.key) in self.lacks:
                    part["lacks"] = self.lacks[model, entry.key]
                    continue
                records = [(key, self.store.records[model, entry.key, key]) for key in keys]
                part |= figures(records, len(dataset.classes))
        first = next(part for part in parts.values() if "lacks" not in part)
        settings = plan.settings(dataset) | {"context": plan.shown_context(dataset)}
        settings |= {"models": list(plan.models), "fingerprints": self.fingerprints}
        totals = {name: first[name] for name in ("images", "regions", "small")}
        page = figures_page(kind, settings, parts) | {"date": now()}
        return page | totals | {"skipped": self.skipped}

    def _image(self, one_model: _OneModel, key: str) -> None:
        if key in self.skipped:
            return
        left = []
        for entry in one_model.entries:
            if not self._is_kept(one_model, entry, key):
                left.append(entry)
        if not left:
            return
        try:
            sample = self.dataset.read(key)
        except BadRecordError as error:
            if not self.plan.skip_bad:
                raise BadRecordError(
                    f"{error} Say --skip-bad to leave such images out; finished ones are kept."
                ) from None
            self.skipped[key] = str(error)
            return
        for entry in left:
            try:
                measured = one_model.measure(entry, sample)
            except MaskInversionError as error:
                if not self.plan.lenient:
                    raise
                self.lacks[one_model.name, entry.key] = f"{key}: {error}"
                continue
            record = {**self._made_of(one_model, entry, key), **measured}
            self.store.add((one_model.name, entry.key, key), record)

    def _made_of(self, one_model: _OneModel, entry: Entry, key: str) -> dict[str, str]:
        return {"content": self._content(key), "weights": one_model.weights(entry)}

    def _is_kept(self, one_model: _OneModel, entry: Entry, key: str) -> bool:
        record = self.store.records.get((one_model.name, entry.key, key))
        if record is None:
            return False
        made_of = self._made_of(one_model, entry, key)
        if all(made_of.values()) and made_of.items() <= record.items():
            return True
        reason = "other weights"
        name = one_model.name
        if record.get("content") != made_of["content"]:
            reason = "another image, other masks or other names"
            name = key
        self._stale.setdefault(reason, []).append(name)
        return False


@dataclass(frozen=True, slots=True, eq=False)
class _Embedded:
    """Embeddings of a view's regions, as optimised; what else is known of an inversion."""

    rows: Rows
    overlaps: list[float] = field(default_factory=list)
    curve: dict[int, Rows] = field(default_factory=dict)
    image_norm: float = 0.0

    def lengths(self, norm: str) -> Rows:
        """Return the lengths that a generator of sentences shall see."""
        lengths: Rows = np.linalg.norm(self.rows, axis=1)
        if norm == "cls" and self.image_norm:
            return np.full_like(lengths, self.image_norm)
        return lengths


class _OneModel:
    def __init__(self, name: str, model: Backbone, of: Measuring) -> None:
        self.name = name
        self.model = model
        self.of = of
        dataset = of.dataset
        self._texts = model.encode_text([dataset.template.format(c) for c in dataset.classes])
        self._embedders: dict[str, RegionEmbedder] = {}
        self._print = cache(content_of)  # of files
        self._told = lru_cache(maxsize=1)(model.encode_text)  # entries ask for the same sentences
        for entry in of.plan.entries:
            if why := self._why_not(entry):
                of.lacks[name, entry.key] = why

    @property
    def entries(self) -> list[Entry]:
        """What can be measured, as far as is known."""
        lacks = self.of.lacks
        return [entry for entry in self.of.plan.entries if (self.name, entry.key) not in lacks]

    def _why_not(self, entry: Entry) -> str:
        """Return why an entry cannot be measured, or ""; also creates its embedder."""
        if entry.lacks or (entry.masks == SAM and self.of.plan.sam is None):
            return entry.lacks or NEEDS_SAM
        method = entry.method
        try:
            if entry.scorer != "embeddings":
                class_token_tower(self.model, entry.title)
            elif method.uses_inversion:
                self.model.check(entry.inversion)
            if not method.inverts and method.name not in self._embedders:
                self._embedders[method.name] = region_embedder(
                    method,
                    self.model,
                    resolution=self.of.plan.resolution_of(method),
                    keep_aspect=self.of.plan.keep_aspect,
                    inversion=entry.inversion,
                )
        except (ModelError, ConfigError) as error:
            return f"not for this model: {error}"
        return ""

    def weights(self, entry: Entry) -> str:
        """Return the fingerprints of an entry's model and checkpoints."""
        has_weights = any(part.weights for part in entry.method.parts)
        files = (entry.method.weights if has_weights else None, self.of.plan.sam)
        parts = []
        for file in files[: 1 + (entry.masks == SAM)]:
            if file:
                parts.append(self._print(file))
        if entry.captions and self.of.captioner is not None:
            parts.append(self.of.captioner.name)
        if entry.relations and isinstance(self.of.parser, OwnParser):
            parts.append(self.of.parser.name)
        return " ".join([self.model.fingerprint, *parts])

    def measure(self, entry: Entry, sample: Sample) -> dict[str, Any]:
        """Embed the regions of one image and rank the classes; the image may have none."""
        if not len(sample.regions):
            return {"labels": [], "ranks": [], "seconds": 0.0, "small": sample.small}
        dataset = self.of.dataset
        began = perf_counter()
        context = self.of.plan.shown_context(dataset)
        described = own_expressions(sample, dataset.classes, dataset.template)
        if entry.scorer != "embeddings":
            scores = self._map_scores(entry, described)
            seconds = round(perf_counter() - began, 4)
            return {"labels": [], "ranks": [], "seconds": seconds} | _retrieved(described, scores)
        if context is None:
            views = [sample]
        else:
            views = list(windowed(sample, context))
        embedded = [self._embed(entry, view) for view in views]
        seconds = perf_counter() - began
        raw = np.concatenate([part.rows for part in embedded])
        unit = _unit(raw)
        record: dict[str, Any] = {
            "labels": sample.labels.tolist(),
            "ranks": self._ranks(unit, sample),
            "seconds": round(seconds, 4),
        }
        if sample.small:
            record["small"] = sample.small
        overlaps = chain.from_iterable(part.overlaps for part in embedded)
        if rounded := [round(float(value), 4) for value in overlaps]:
            record["iou"] = rounded
        if entry.points:
            curve = {}
            for step in entry.points:
                rows = np.concatenate([part.curve[step] for part in embedded])
                curve[str(step)] = self._ranks(_unit(rows), sample)
            record["curve"] = curve
        if entry.captions and self.of.captioner is not None:
            lengths = np.concatenate([part.lengths(entry.captions) for part in embedded])
            record |= self.of.captioner.read(self.model, unit * lengths[:, None], sample)
        if context is None:
            record |= _retrieved(described, self._scores(entry, described, raw, unit))
        return record

    def _scores(self, entry: Entry, sample: Sample, raw: Rows, unit: Rows) -> NDArray[Any]:
        """Return scores (sentences, regions)."""
        # The mean of two unit embeddings: its products are the means of their cosines.
        rows = raw if len(entry.method.parts) > 1 else unit
        if not entry.relations or not sample.expressions:
            return _product(self._sentences(entry, sample), rows)
        texts_of_regions = [text for text, _ in sample.expressions]
        phrases = [self.of.parser(text) for text in texts_of_regions]
        for phrase in phrases:
            texts_of_regions += phrase.texts
        texts = self.model.encode_text([entry.template.format(text) for text in texts_of_regions])
        logits = self.model.logit_scale * len(entry.method.parts) * _product(texts, rows)
        return related(logits.astype(np.float64), phrases, texts_of_regions, sample.regions)

    def _ranks(self, unit: Rows, sample: Sample) -> list[int]:
        """Return the place of each region's class, from 0; a tie counts as wrong."""
        scores = _product(unit, self._texts)
        true = scores[np.arange(len(scores)), sample.labels]
        places: list[int] = ((scores >= true[:, None]).sum(1) - 1).tolist()
        return places

    def _embed(self, entry: Entry, view: Sample) -> _Embedded:
        """Embed the regions of a view."""
        segmenter = None
        if entry.masks == SAM:
            segmenter = self.of.segmenter(str(self.model.device))
        regions = changed(view.regions, entry.masks, view.image, segmenter)
        if entry.method.inverts:
            inverter = self._inverter(view)
            kept: dict[int, NDArray[np.float32]] = {}

            def keep(news: Any) -> None:
                if isinstance(news, StepState) and news.done in entry.points and news.embeddings:
                    kept[news.done] = news.embeddings()

            with listening(keep):
                result = inverter.invert(regions, entry.inversion)
            kept[entry.inversion.steps] = result.raw_embeddings.copy()
            norm = float(np.linalg.norm(inverter.image_embedding))
            rows = result.raw_embeddings.copy()
            return _Embedded(rows, result.mask_ious.tolist(), kept, norm)
        embedder = self._embedders[entry.method.name]
        embedder.set_image(view.image)
        return _Embedded(embedder.invert(regions).raw_embeddings.copy())

    def _sentences(self, entry: Entry, sample: Sample) -> Rows:
        """Return unit embeddings of a sample's sentences."""
        texts = tuple(entry.template.format(text) for text, _ in sample.expressions)
        if texts:
            return self._told(texts)
        return np.zeros((0, self.model.embed_dim), np.float32)

    def _map_scores(self, entry: Entry, sample: Sample) -> Rows:
        """Return scores (sentences, regions) of the sentences' maps."""
        if not sample.expressions:
            return np.zeros((0, len(sample.regions)), np.float32)
        texts = self._sentences(entry, sample)
        plan = self.of.plan
        image = self.model.preprocess(
            sample.image, resolution=plan.resolution, keep_aspect=plan.keep_aspect
        )
        return map_scores(class_token_maps(self.model, image, texts), sample.regions)

    def _inverter(self, sample: Sample) -> MaskInverter:
        plan = self.of.plan
        inverter = MaskInverter(self.model)
        inverter.set_image(sample.image, resolution=plan.resolution, keep_aspect=plan.keep_aspect)
        return inverter


def _retrieved(sample: Sample, scores: NDArray[Any]) -> dict[str, Any]:
    """Return both readings of sentences and regions."""
    if not sample.expressions:
        return {}
    overlaps = overlaps_of(sample)
    return {
        "mask": masks_for_sentences(sample, scores, overlaps),
        "sentence": sentences_for_masks(sample, scores, overlaps),
    }


def _unit(rows: Rows) -> Rows:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))


def _product(left: Rows, right: Rows) -> Rows:
    # By torch: NumPy's threads would slow the next inversion down.
    return np.asarray((torch.from_numpy(left) @ torch.from_numpy(right).T).numpy())
