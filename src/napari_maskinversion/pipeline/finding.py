"""Find what words or an example mean in an image without regions: propose, embed, rank.

Proposals are embedded once; then any word or example ranks them at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError, ModelError
from ..base.identity import Position
from ..base.progress import Tick, listening, telling, tick
from ..base.regions import Region, Regions, as_array
from ..images.channels import as_source
from ..images.plane_source import PlaneSource, read_reduced
from ..language.labels.label import Label
from ..language.labels.presets import taught_by, unknown_words
from ..language.labels.vocabulary import Vocabulary
from ..language.ranking.query import check_query, embed_query, label_of, wanted_and_not
from ..language.ranking.ranking import Ranking, RegionMatch
from ..regions.proposals import FIRST_SCALE, Tree, colours, merge, superpixels
from ..results.region_result import RegionResult
from ..results.results import Results
from ..results.settings import RunSettings
from .labelling import loaded_model
from .run import PlaneTask, run_planes

if TYPE_CHECKING:
    from pathlib import Path

    from ..engine.models.backbone import Backbone
    from ..regions.sam.sam3 import Concepts
    from ..regions.sam.segmenter import Segmenter

FloatArray = npt.NDArray[np.float32]

CROP: Final = "crop"
PROPOSALS: Final = "Proposals, part"
WORD: Final = 0.36  # default thresholds; benchmarks/find.py chooses them
EXAMPLE: Final = 0.6
ANSWERED: Final = -1.0  # of what SAM 3 found by the words
_TILE: Final = 1024  # pixels of a part in which regions are proposed
_OVERLAP: Final = 128  # pixels that neighbours share
_COARSER: Final = 4  # larger objects are looked for in an image reduced so many times
_MOST: Final = 150  # proposals of a part
_MOST_PARTS: Final = 16  # of the finest; larger planes are seen reduced at once
_ALTOGETHER: Final = 1000  # of a plane: each has a crop
_INVERTED: Final = 150  # most that are embedded by the run's method
_COVERED: Final = 0.5  # share of the smaller of two regions that the better one may cover
_BEST: Final = 3  # one merged proposal in three is embedded by the run's method
_SIZE: Final = (
    "Regions are proposed in {} parts of the image{}; the {:,} that stand out most are compared "
    "with the query, and the best {} embedded."
)
# Of a similarity, for a proposal that stands out e times as much: among crops, and afterwards.
_FIRST: Final = 0.05
_THEN: Final = 0.1


@dataclass(frozen=True, slots=True)
class Hit:
    """A proposal that no better one covers."""

    row: int  # of the candidates
    similarity: float  # Cosine to the words or the example, -1..1


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Proposed regions of a plane, embedded by their crops; the best also by the run's method."""

    task: PlaneTask  # The plane and the proposals
    clear: FloatArray  # (N,): log of how much each stands out, 0 in the median
    crops: Results  # In the order of the proposals
    settings: RunSettings
    how: str  # A line about what proposed them
    most: int  # So many are embedded by the run's method
    answer_words: bool = False  # Whether the words were asked for already: none is left out
    embedded: dict[int, RegionResult] = field(default_factory=dict)  # By row, by the run's method

    def search(self, model: Backbone, query: FloatArray) -> list[Hit]:
        """Rank by the similarity to a unit vector (e,); what better ones cover is left out.

        Of merged superpixels, crops choose a third, and only these are embedded by the run's
        method: that is faster than to embed all, and finds more (benchmarks/find.py).
        """
        regions = self.task.regions
        similarity = _cosines(self.crops.embeddings, query)
        order = np.argsort(-(similarity + _FIRST * self.clear), kind="stable")
        best = order[: self.most]
        if self.settings.method.name != CROP:
            self._embed(model, [int(row) for row in best if int(row) not in self.embedded])
            embeddings = np.stack([self.embedded[int(row)].embedding for row in best])
            similarity[best] = _cosines(embeddings, query)
        best = best[np.argsort(-(similarity + _THEN * self.clear)[best], kind="stable")]
        kept: list[int] = []
        for row in best.tolist():
            if self.answer_words or not any(
                _covers(regions[row], regions[other]) for other in kept
            ):
                kept.append(row)
        kept.sort(key=lambda row: -similarity[row])
        return [Hit(row, float(similarity[row])) for row in kept]

    def _embed(self, model: Backbone, rows: list[int]) -> None:
        if rows:
            chosen = [self.task.regions[row] for row in rows]
            task = replace(self.task, regions=Regions(self.task.regions.shape, chosen))
            results = run_planes(model, [task], None, self.settings)
            self.embedded.update(zip(rows, results.regions, strict=True))

    def found(self, hits: Sequence[Hit], threshold: float) -> Found:
        """Return the hits above a threshold as regions of their own, numbered from 1."""
        kept = [hit for hit in hits if hit.similarity >= threshold]
        regions = []
        for place, hit in enumerate(kept, 1):
            regions.append(replace(self.task.regions[hit.row], id=place))
        results = []
        for place, hit in enumerate(kept, 1):
            results.append(
                replace(
                    self.embedded.get(hit.row, self.crops.regions[hit.row]), id=place, index=place
                )
            )
        info = replace(self.crops.info, settings=self.settings)
        return Found(
            Regions(self.task.regions.shape, regions),
            np.array([hit.similarity for hit in kept], np.float32),
            Results(info, tuple(results)),
            self.how,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What words or an example mean in an image.

    Attributes
    ----------
    regions : Regions
        Best first, with ids from 1; they hardly overlap.
    similarities : ndarray, shape (N,), float32
        Cosine of each region and the words or the example.
    results : Results
        The regions with their embeddings and heatmaps, for `export`.
    how : str
        A line about what proposed the regions.
    """

    regions: Regions
    similarities: FloatArray
    results: Results
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneQuery:
    """What is looked for on a plane: words, or an example."""

    words: str = ""
    templates: tuple[str, ...] = ("{}",)
    # Instead of words: returns the unit vector (e,) of an example for a model, or refuses it
    example: Callable[[Backbone], FloatArray] | None = None

    @property
    def is_words(self) -> bool:
        """Whether words are looked for, and no example."""
        return self.example is None

    def embed(self, model: Backbone) -> FloatArray:
        """Return the unit vector (e,) that regions are compared with."""
        if self.example is not None:
            return self.example(model)
        return embed_query(model, self.words, self.templates)

    def asked_of(self, proposer: Segmenter | Concepts | None) -> Segmenter | Concepts | None:
        """Return a SAM that proposes regions for this query: SAM 3 finds them by the words."""
        if proposer is None:
            return None
        return proposer.asked(wanted_and_not(self.words)[0] if self.is_words else None)

    def usual_threshold(self, *, answered: bool) -> float:
        """Return the least similarity by default.

        ``answered``: SAM 3 proposed the regions by the words already.
        """
        if not self.is_words:
            return EXAMPLE
        if answered:
            return ANSWERED
        return WORD


@dataclass(frozen=True, slots=True, eq=False)
class PlaneMatches:
    """The proposals of a plane, ranked by how well they fit what is looked for."""

    query: PlaneQuery
    candidates: Candidates
    hits: tuple[Hit, ...]  # Best first

    @property
    def usual_threshold(self) -> float:
        """The least similarity by default."""
        return self.query.usual_threshold(answered=self.candidates.answer_words)

    @property
    def matches(self) -> tuple[RegionMatch, ...]:
        """The hits with their margins, in the order of `above`."""
        similarities = [hit.similarity for hit in self.hits]
        margins = [value - next_value for value, next_value in pairwise(similarities)]
        pairs = zip(similarities, [*margins, math.nan], strict=False)
        return tuple(
            RegionMatch(row, similarity, margin) for row, (similarity, margin) in enumerate(pairs)
        )

    def above(self, threshold: float) -> Found:
        """Return the hits above a threshold as regions of their own, numbered from 1."""
        return self.candidates.found(self.hits, threshold)


def search_plane(
    model: Backbone, query: PlaneQuery, make_candidates: Callable[[], Candidates]
) -> PlaneMatches:
    """Rank the proposals of a plane; they are made only if the query can be embedded."""
    vector = query.embed(model)
    candidates = make_candidates()
    return PlaneMatches(query, candidates, tuple(candidates.search(model, vector)))


def named(fitting: Found, model: Backbone, words: Vocabulary, query: str) -> Found:
    """Return found regions with what they were found by as their label, as a run gives it."""
    wanted = map(Label, wanted_and_not(query)[0])
    unknown = frozenset(words.labels if unknown_words(wanted, taught_by(model)) else ())
    certain = np.ones(1, np.float32)
    regions = []
    for region, similarity in zip(fitting.results.regions, fitting.similarities, strict=True):
        regions.append(
            replace(
                region,
                ranking=Ranking(words.labels, similarity[None], certain, words.threshold, unknown),
            )
        )
    info = replace(fitting.results.info, vocabulary=words)
    return replace(fitting, results=Results(info, tuple(regions)))


def words_of(query: str, templates: Sequence[str], threshold: float) -> Vocabulary:
    """Return what is looked for as the one label of what is found."""
    check_query(query, templates)
    return Vocabulary((label_of(query),), tuple(templates), threshold=threshold)


def find_regions(
    image: npt.ArrayLike | PlaneSource,
    query: str | npt.ArrayLike,
    *,
    threshold: float | None = None,
    model: Backbone | str | Path | None = None,
    templates: tuple[str, ...] = ("{}",),
    segmenter: Segmenter | Concepts | None = None,
    settings: RunSettings | None = None,
    on_progress: Callable[[Any], object] | None = None,
    **changes: Any,
) -> Found:
    """Find regions by words or by an example, in an image that has none.

    Parameters
    ----------
    image : array_like or PlaneSource
        (H, W, 3) or (H, W), uint8, uint16 or float in 0..1.
    query : str or array_like
        Words (``"red cell, not debris"``; quotes in it keep commas); or a mask (H, W) of an example
        in this image; or the embedding (e,) of one in another image, made with the same model and
        method.
    threshold : float, optional
        Least similarity. Default: 0.36 for words (none with SAM 3), 0.6 for an example.
    model : Backbone, str or Path, optional
        Default: that of the settings.
    templates : tuple of str
        Sentences with ``{}`` for the words.
    segmenter : Segmenter or Concepts, optional
        SAM, whose masks are the proposals; SAM 3 finds them by the words. Without it, superpixels
        are merged by the model.
    settings : RunSettings, optional
        How proposals are embedded.
    on_progress : callable, optional
        Called with progress. If it raises, the search stops.
    **changes
        Fields of `RunSettings` and `InversionConfig` that differ from ``settings``.

    Returns
    -------
    Found
        Possibly without any region.

    Raises
    ------
    MaskInversionError
        If image, query or settings cannot be used.

    Examples
    --------
    >>> found = find_regions(rgb, "a red blood cell")
    >>> export(found.results, "cells.geojson", "geojson", regions=found.regions)
    """
    chosen = RunSettings.of(settings, **changes)
    source = as_source(image)
    if isinstance(query, str):
        wanted = PlaneQuery(words=query, templates=templates)
    else:
        wanted = PlaneQuery(example=lambda model: _example(model, source, query, chosen))
    proposer = wanted.asked_of(segmenter)
    least = threshold
    if least is None:
        least = wanted.usual_threshold(answered=bool(proposer and proposer.words))
    label = None
    if isinstance(query, str):
        label = words_of(query, templates, least)
    loaded = loaded_model(model, chosen, changes)
    with listening(on_progress):
        ranked = search_plane(loaded, wanted, partial(propose, loaded, source, chosen, proposer))
    fitting = ranked.above(least)
    if label is None:
        return fitting
    return named(fitting, loaded, label, str(query))


def _example(
    model: Backbone, source: PlaneSource, query: npt.ArrayLike, settings: RunSettings
) -> FloatArray:
    """Return the unit vector of an example: an embedding, or a mask in this image."""
    array = as_array(query)
    if array.ndim != 1:
        return example_of(model, source, Regions.of(array), settings)
    if len(array) != model.embed_dim:
        raise InputError(
            f"An embedding of {model.name} has {model.embed_dim} numbers; got {len(array)}."
        )
    return unit(array)


def example_of(
    model: Backbone, source: PlaneSource, regions: Regions, settings: RunSettings
) -> FloatArray:
    """Return the mean of the embeddings of some regions of the image, as a unit vector."""
    tasks = [PlaneTask(source=source, regions=regions)]
    return unit(run_planes(model, tasks, None, settings).embeddings.mean(0))


def propose(
    model: Backbone,
    source: PlaneSource,
    settings: RunSettings,
    segmenter: Segmenter | Concepts | None = None,
    position: Position = (),
) -> Candidates:
    """Propose regions of a plane and embed them."""
    source.check()
    if segmenter is None:
        proposals, how = _by_merging(model, source)
    else:
        from ..regions.sam.prompts import AutomaticConfig

        # A grid of points in each part takes a minute on a CPU, a word much less.
        whole = not segmenter.words and segmenter.device.type == "cpu"
        segmented = segmenter.segment_everything(source, AutomaticConfig(whole=whole))
        masks = (proposal.region() for proposal in segmented)
        proposals = []
        for region in masks:
            if region is not None:
                proposals.append((region, 1.0))
        seen = f"whole image, reduced to {segmenter.side:,} px"
        reduced = ""
        if whole and max(source.shape) > segmenter.side:
            reduced = f" ({seen})"
        how = f"{segmenter.name} proposed {len(proposals):,} regions{reduced}."
    if not proposals and segmenter is not None:
        words = ", ".join(segmenter.words)
        nothing = "proposed no regions"
        if words:
            nothing = f"finds no {words!r} in the image"
        raise InputError(f"{segmenter.name} {nothing}.")
    if not proposals:
        raise InputError("Nothing in the image stands out from what is around it.")
    regions = []
    for number, (region, _) in enumerate(proposals, 1):
        regions.append(replace(region, id=number))
    clear = np.log([value for _, value in proposals]).astype(np.float32)
    task = PlaneTask(source=source, regions=Regions(source.shape, regions), position=position)
    crops = run_planes(model, [task], None, settings.changed({"method": CROP}))
    answers_words = segmenter is not None and bool(segmenter.words)
    share = _BEST
    if segmenter is not None:
        share = 1  # SAM's masks are objects, seldom parts of others
    if answers_words:
        most = len(regions)
    else:
        most = min(_INVERTED, -(-len(regions) // share))
    return Candidates(task, clear - np.median(clear), crops, settings, how, most, answers_words)


def _by_merging(model: Backbone, source: PlaneSource) -> tuple[list[tuple[Region, float]], str]:
    """Propose regions part by part; of larger objects the plane is seen reduced."""
    tokens = _tokens(model)
    parts = list(_parts(source.shape))
    finest = parts[0][1]
    scale = FIRST_SCALE
    seen = ""
    if finest > 1:
        seen = f", at 1/{finest} of its resolution"
    proposals: list[tuple[Region, float]] = []
    if len(parts) == 1:
        size = ""
    else:
        size = _SIZE.format(len(parts), seen, _ALTOGETHER, _INVERTED)
    for number, (box, reduce) in enumerate(parts):
        tick(PROPOSALS, number, len(parts), "" if number else size)
        pixels = _colours(read_reduced(source, 0, box, reduce))
        if bool(np.all(pixels == pixels[0, 0])):
            continue
        with telling(partial(_instead, Tick(PROPOSALS, number, len(parts)))):
            tree, scale = _tree(pixels, tokens, scale)
        y0, x0, *_ = box
        for region, value in tree.proposals(_MOST):
            proposals.append((_placed(region, (y0, x0), reduce, source.shape), value))
    tick(PROPOSALS, len(parts), len(parts))
    if tokens is not None:
        by = "the model's tokens"
    else:
        by = f"colour ({model.name} has no such tokens)"
    how = f"No SAM checkpoint: {len(proposals):,} regions proposed by merging superpixels by {by}"
    if seen:
        how += f"{seen}: for smaller ones cut the image"
    if len(proposals) > _ALTOGETHER:
        how += f"; the {_ALTOGETHER:,} that stand out most were compared"
        proposals = sorted(proposals, key=lambda proposal: -proposal[1])[:_ALTOGETHER]
    return proposals, f"{how}."


def _instead(part: Tick, _: object) -> Tick:
    return part


def _tokens(model: Backbone) -> Any:
    """Return what embeds every token of an image; None for models without."""
    from ..engine.methods.factory import region_embedder

    try:
        return region_embedder("maskclip", model)
    except ModelError:
        return None


def _tree(pixels: FloatArray, tokens: Any, scale: float) -> tuple[Tree, float]:
    parts, scale = superpixels(pixels, scale)
    embeddings = None
    if tokens is not None:
        tokens.set_image(pixels)
        embeddings = tokens.embed(Regions.from_labels(parts + 1))
    return merge(parts, colours(pixels, parts), embeddings), scale


def _parts(shape: tuple[int, int]) -> Iterator[tuple[tuple[int, int, int, int], int]]:
    """Yield boxes of a plane, and how many pixels are averaged in each, finest first."""
    reduce = 1
    # A very large plane is seen reduced: the finest level would have too many parts.
    while math.prod(map(len, _starts(shape, reduce))) > _MOST_PARTS:
        reduce *= 2
    while True:
        side = _TILE * reduce
        starts = _starts(shape, reduce)
        for top in starts[0]:
            for left in starts[1]:
                yield (top, left, min(top + side, shape[0]), min(left + side, shape[1])), reduce
        if max(shape) <= side:  # this part was the whole plane
            return
        reduce *= _COARSER


def _starts(shape: tuple[int, int], reduce: int) -> list[range]:
    step = (_TILE - _OVERLAP) * reduce
    return [range(0, max(1, length - _OVERLAP * reduce), step) for length in shape]


def _placed(region: Region, corner: tuple[int, int], reduce: int, shape: tuple[int, int]) -> Region:
    """Return a region of a reduced part in the pixels of its plane."""
    mask = region.mask.repeat(reduce, 0).repeat(reduce, 1)
    y = corner[0] + region.bbox[0] * reduce
    x = corner[1] + region.bbox[1] * reduce
    mask = mask[: shape[0] - y, : shape[1] - x]
    return Region(region.id, (y, x, y + mask.shape[0], x + mask.shape[1]), mask)


def _colours(pixels: npt.NDArray[Any]) -> FloatArray:
    """Return pixels as a model sees them as (H, W, 3), 0..1."""
    white = 1.0
    if pixels.dtype.kind in "ui":
        white = np.iinfo(pixels.dtype).max
    if pixels.ndim == 3:
        three = pixels[..., :3]
    else:
        three = pixels[..., None]
    three = np.broadcast_to(three, (*three.shape[:2], 3))
    return np.clip(three / np.float32(white), 0, 1).astype(np.float32)


def _cosines(embeddings: FloatArray, query: FloatArray) -> FloatArray:
    """Return the products (N,) of unit vectors; by no threads of NumPy, which would spin on."""
    return np.asarray((embeddings * query).sum(1), np.float32)


def _covers(first: Region, second: Region) -> bool:
    """Whether two regions share most of the smaller one."""
    y0 = max(first.bbox[0], second.bbox[0])
    x0 = max(first.bbox[1], second.bbox[1])
    y1 = min(first.bbox[2], second.bbox[2])
    x1 = min(first.bbox[3], second.bbox[3])
    if y0 >= y1 or x0 >= x1:
        return False
    inside = []
    for region in (first, second):
        y, x = region.bbox[:2]
        inside.append(region.mask[y0 - y : y1 - y, x0 - x : x1 - x] > 0)
    shared = np.count_nonzero(inside[0] & inside[1])
    return bool(shared > _COVERED * min(first.area, second.area))


def unit(vector: npt.NDArray[Any]) -> FloatArray:
    """Return a vector divided by its norm."""
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-12), np.float32)
