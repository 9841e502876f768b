"""What searches do in a worker. No Qt.

On the image shown, among drawn regions or where nobody drew any; in the stored results of a
project; in a library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ...base import progress_words as words
from ...base.errors import InputError
from ...base.regions import Region
from ...language.ranking.query import direction
from ...language.ranking.ranking import RegionMatch, find
from ...library.filters import Where
from ...library.thumbnails import Pixels
from ...regions.sam.sam_checkpoints import on_disk
from ...results.export.bundle import Masks, compress_masks
from ...results.recipe import Recipe
from ...results.region_result import RegionResult
from ...results.results import Results
from ...results.run_info import RunInfo
from ...results.settings import RunSettings
from ...results.spaces import Space
from ...review.decisions import STATUSES
from ..layer_input.coordinates import Plane, ViewPoint, plane_of
from ..layer_input.input_pictures import Picture, copy_picture
from ..layer_input.run_input import PlaneFinder, identities, picture_digest, shown_to_model
from ..requests.preparing import background_of, image_layers, usable_settings
from ..requests.run_task import Request, RunTask
from ..session import RegionPlace, ResultRecord, Session, Snapshot
from ..work.driver import Job, check_stopped, show
from ..work.model_store import Kept, ModelStore
from .region_sources import RegionSource

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone
    from ...pipeline.finding import Candidates, FloatArray

MOST: Final = 100  # hits shown of many images


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Finding:
    """Regions ranked by how well they fit words, or an example."""

    words: str  # "" for an example
    snapshot: Snapshot  # Of the run whose regions they are, or of the search
    finder: PlaneFinder
    results: Results
    masks: Masks  # By plane and id; empty where they are not known
    matches: tuple[RegionMatch, ...]  # Best first
    record: ResultRecord | None = None  # Of drawn regions
    reused: bool = False  # Whether existing embeddings were used
    # Where nobody drew regions: those found, what proposed them, and the default threshold
    regions: Sequence[Region] = ()
    how: str = ""
    usual: float = 0.0

    def region(self, place: int) -> RegionResult:
        """Return the region at one rank."""
        return self.results.regions[self.matches[place].row]

    def count(self, threshold: float) -> int:
        """Return how many regions are similar enough."""
        return sum(match.similarity >= threshold for match in self.matches)


# -- drawn regions ---------------------------------------------------------------------------------


def find_regions(
    expression: str, run: Request, candidates: Sequence[ResultRecord], store: ModelStore
) -> Finding:
    """Rank regions by how well words fit them; a run is done only if no candidate is of them."""
    name = run.settings.model
    known = None
    if candidates:
        show(words.COMPARING_INPUTS)
        drawn = identities(run.input.tasks(check_stopped))
        regions = Recipe(regions={"regions": drawn})
        alike = [
            record
            for record in candidates
            # A run that was cancelled has results of its first regions only.
            if len(record.results) == len(drawn) and not record.recipe.differences(regions)
        ]
        if alike:  # The pixels of a large image take their time
            shown = shown_to_model(run.input)
            alike = [record for record in alike if not record.recipe.differences(shown)]
        known = next(iter(alike), None)
    record = known or RunTask(run, store).run()
    results, masks, finder = record.results, record.masks, record.finder
    assert finder is not None  # results of layers have one
    show(Job(text=words.COMPARING_WORDS, fraction=1.0))
    model = store.load(name, run.settings.device)
    if model.fingerprint != results.info.fingerprint:
        raise InputError(
            f"The weights of {name} have changed since these results were made; run again."
        )
    return Finding(
        words=expression,
        snapshot=record.snapshot,
        finder=finder,
        results=results,
        masks=masks if isinstance(masks, dict) else {},
        matches=tuple(find(model, results.embeddings, expression)),
        record=record,
        reused=known is not None,
    )


def reusable(
    records: Iterable[ResultRecord | None], image: Any, settings: RunSettings
) -> list[ResultRecord]:
    """Return those records of an image that a run with these settings would embed alike.

    Whether pixels and regions are the same is for `find_regions` to say.
    """
    wanted = Recipe.of_settings(settings)
    alike = []
    for record in records:
        if record is None or record.shown is None or not record.results:
            continue
        if record.snapshot.image is not image:
            continue
        different = _as_seen(record, settings).differences(wanted)
        if not any(difference.part == "embedding" for difference in different):
            alike.append(record)
    return alike


def _as_seen(record: ResultRecord, settings: RunSettings) -> Recipe:
    """Return the recipe of results; windows that are the whole image are as good as wanted ones."""
    regions = record.results.regions
    if settings.window.mode != "whole" or not all(region.window.whole for region in regions):
        return record.recipe
    window = {"window": "whole", "window.context": settings.window.context}
    return record.recipe.joined(Recipe(embedding=window))


# -- where nobody drew regions ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """Regions of one image, and how they were embedded."""

    regions: tuple[RegionResult, ...]
    info: RunInfo
    space: Space

    @classmethod
    def of(cls, results: Results, rows: Sequence[int]) -> Example:
        """Return rows of results."""
        regions = tuple(results.regions[row] for row in rows)
        return cls(regions, results.info, Space.of(results))

    @property
    def embedding(self) -> FloatArray:
        """The unit vector of their mean."""
        return direction([region.embedding for region in self.regions])

    def embedding_for(self, model: Backbone) -> FloatArray:
        """Return that vector; refuses a model that did not embed the regions."""
        if self.info.fingerprint != model.fingerprint:
            raise InputError("The example was embedded by another model; run again.")
        return self.embedding


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Search:
    """Everything that a search of a plane needs, copied on the GUI thread."""

    picture: Picture
    view: ViewPoint
    plane: Plane
    settings: RunSettings
    snapshot: Snapshot
    words: str = ""
    like: Example | None = None  # Instead of words


def search_of(viewer: Any, session: Session, words: str, like: Example | None = None) -> Search:
    """Copy what a search needs from the viewer and the session."""
    if session.run.image is None:
        raise InputError("Open an image first.")
    view = ViewPoint.of(viewer)
    picture = copy_picture(
        session.run.image,
        view,
        channels=session.run.scope.channels,
        others=image_layers(viewer),
        background=background_of(viewer),
    )
    settings = usable_settings(session.run.settings)
    if like is not None and like.info.method != settings.method:
        raise InputError("The example was embedded by another method; run again.")
    return Search(
        picture=picture,
        view=view,
        plane=plane_of(picture.grid, view),
        settings=settings,
        snapshot=session.run.snapshot(),
        words=words,
        like=like,
    )


def find_anywhere(
    search: Search, store: ModelStore, sam: Kept[Any], proposed: Kept[Candidates]
) -> Finding:
    """Propose regions of a plane, unless that was done before, and rank them."""
    from ...pipeline.finding import PlaneQuery, propose, search_plane

    settings, like = search.settings, search.like
    model = store.load(settings.model, settings.device)
    query = PlaneQuery(words=search.words, example=None if like is None else like.embedding_for)
    proposer: Any = None
    if (file := on_disk(search.words)) is not None:
        from ...regions.sam.sam_loading import load_proposer

        loaded = sam.get((file, settings.device), lambda: load_proposer(file, settings.device))
        proposer = query.asked_of(loaded)
    source = search.picture.source(search.plane, search.view)
    # SAM 3 proposes what words say; others propose all that is there.
    asked = getattr(proposer, "words", None)
    pixels = picture_digest(search.picture)
    chosen = replace(Recipe.of_settings(settings), ranking={})
    key = (pixels, search.plane, model.fingerprint, chosen, file, asked)
    ranked = search_plane(
        model,
        query,
        lambda: proposed.get(key, lambda: propose(model, source, settings, proposer)),
    )
    everything = ranked.above(-1.0)
    grid = search.picture.grid
    return Finding(
        words=search.words,
        snapshot=search.snapshot,
        finder=PlaneFinder(search.view, grid, grid, all_planes=False),
        results=everything.results,
        masks=compress_masks([replace(ranked.candidates.task, regions=everything.regions)]),
        matches=ranked.matches,
        regions=everything.regions,
        how=everything.how,
        usual=ranked.usual_threshold,
    )


# -- in a project, in a library ----------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Query:
    """What is looked for: words, see `language.ranking.query`, or examples."""

    words: str = ""
    like: Example | None = None
    only: str = ""  # Regions with this decision, or else of this class; "" for all
    model: str  # for words
    device: str

    def about(self, hits: int, total: int, place: str) -> str:
        """Say among how many regions of a place it was looked for."""
        if self.only and not hits:
            return f"No region in {place} is '{self.only}'."
        what = f"'{self.words}'" if self.words else "All like this one"
        only = f", only '{self.only}'" * bool(self.only)
        return f"{what}: the best of {total:,} in {place}{only}."


@dataclass(frozen=True, slots=True, eq=False)
class FarHit:
    """A region of any image that fits the query."""

    place: RegionPlace
    similarity: float
    label: str
    picture: Pixels | None


@dataclass(frozen=True, slots=True, eq=False)
class FarHits:
    """The best hits, best first, and a line about the search."""

    hits: tuple[FarHit, ...]
    about: str


def search_regions(
    query: Query, make_source: Callable[[], RegionSource], store: ModelStore
) -> FarHits:
    """Search the regions of a library, or those of a project."""
    model = store.load(query.model, query.device) if query.like is None else None
    source = make_source()
    library = source.library
    show(Job(text=f"searching {source.title}"))
    space = _space_of(query, source, model)
    if space is None:
        return FarHits((), query.about(0, 0, source.title) + _left_out(source, 0))
    like = [] if query.like is None else [region.embedding for region in query.like.regions]
    where: Where = {"space": space}
    if query.only:
        where["decision" if query.only in STATUSES else "label"] = query.only
    rows = library.search(query.words, like=like, top=MOST, model=model, **where)
    table = source.table_of(rows)
    pictures = dict(table.thumbnails(range(len(rows))))
    hits = []
    for row, (similarity, label) in enumerate(zip(rows["similarity"], rows["label"], strict=True)):
        place = table.place(row)
        if source.files is None:  # a region drawn again in a library is another one
            box: Any = table.frame["box"].iat[row]
            place = replace(place, box=box)
        hits.append(FarHit(place, float(similarity), label, pictures.get(row)))
    total = library.info()["spaces"][space]["regions"]
    text = query.about(len(hits), total, source.title)
    return FarHits(tuple(hits), text + _left_out(source, library.count_images(space)))


def _space_of(query: Query, source: RegionSource, model: Backbone | None) -> int | None:
    """Return the space to search in; None if no image of a project has such embeddings."""
    alike = None if query.like is None else query.like.space
    if source.files is None:
        return source.library.space(model=model, like=alike).id
    for space in source.library.spaces().values():  # the largest comes first
        if alike is not None and space.about == alike.about:
            return space.id
        if model is not None and space.fingerprint == model.fingerprint:
            return space.id
    return None


def _left_out(source: RegionSource, searched: int) -> str:
    """Say how many images of a project were not searched."""
    count = len(source.files or ()) - searched
    if count <= 0:
        return ""
    return f" {count:,} images have no results, damaged or other ones (model, settings)."
