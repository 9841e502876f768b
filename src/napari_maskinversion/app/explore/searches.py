"""What searches do in a worker. No Qt.

`search_image` and `search_regions` order regions that are stored: of the image shown, of a project,
of a library. `find_anywhere` looks where nobody drew regions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ...base import progress_words as words
from ...base.errors import InputError
from ...base.identity import ImagePlace
from ...base.regions import Region
from ...base.wording import counted
from ...language.ranking.query import direction
from ...language.ranking.ranking import RegionMatch
from ...library.filters import Where
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
from ..session import RegionOrder, ResultRecord, Session, SimilarRegion, Snapshot
from ..work.driver import Job, check_stopped, show
from ..work.model_store import Kept, ModelStore
from .region_sources import IMAGE, RegionSource, RegionTable, results_source

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone
    from ...pipeline.finding import Candidates, FloatArray

MOST: Final = 1000  # regions of many images that a search orders
PLAIN: Final = ("{}",)  # Descriptions of a region are embedded as they are typed


# -- among stored regions --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class FoundRegions(RegionOrder):
    """The regions that a search has found, as the gallery shows them."""

    table: RegionTable  # Without crops for the image shown, which the gallery reads itself


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Query:
    """What is looked for: words, see `language.ranking.query`, or examples."""

    words: str = ""
    like: Example | None = None
    only: str = ""  # Regions with this decision, or else of this class; "" for all
    model: str  # for words
    device: str
    templates: tuple[str, ...] = ()  # Prompts for the words; none for those of labels
    top: int = MOST

    @property
    def looked_for(self) -> str:
        """What it is called."""
        return self.words or "this one"

    def about(self, hits: int, total: int, place: str) -> str:
        """Say among how many regions of a place it was looked for."""
        if self.only and not hits:
            return f"No region in {place} is '{self.only}'."
        what = f"'{self.words}'" if self.words else "All like this one"
        only = f", only '{self.only}'" if self.only else ""
        count = counted(hits, "region")
        if hits == self.top < total:
            count = f"the best {hits:,} of {counted(total, 'region')}"
        return f"{what}: {count} in {place}{only}, most like first."


def search_regions(
    query: Query, make_source: Callable[[], RegionSource], name: str, store: ModelStore
) -> FoundRegions:
    """Search the regions of a source; ``name`` is its key in `region_sources.SOURCES`."""
    model = store.load(query.model, query.device) if query.like is None else None
    source = make_source()
    library = source.library
    show(Job(text=f"searching {source.title}"))
    space = _space_of(query, source, model)
    if space is None:
        about = query.about(0, 0, source.title) + _left_out(source, 0)
        return _found(query, name, about, source.table_of(library.rows(ids=())))
    like = [] if query.like is None else [region.embedding for region in query.like.regions]
    where: Where = {"space": space}
    if query.only:
        where["decision" if query.only in STATUSES else "label"] = query.only
    rows = library.search(
        query.words, like=like, top=query.top, model=model, templates=query.templates, **where
    )
    total = library.info()["spaces"][space]["regions"]
    about = query.about(len(rows), total, source.title)
    about += _left_out(source, library.count_images(space))
    return _found(query, name, about, source.table_of(rows))


def _found(query: Query, name: str, about: str, table: RegionTable) -> FoundRegions:
    hits: tuple[SimilarRegion, ...] = ()
    if len(table.frame):
        similarities = map(float, table.frame["similarity"])
        hits = tuple(map(SimilarRegion, table.drawn_places(), similarities))
    return FoundRegions(
        looked_for=query.looked_for, about=about, source=name, hits=hits, table=table
    )


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


# -- of the image shown ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ImageRegions:
    """The regions of the image shown, and whose embeddings are compared."""

    file: ImagePlace
    records: Sequence[ResultRecord] = ()  # Results that may have the embeddings
    run: Request | None = None  # What makes the embeddings; None: the first record has them


def search_image(query: Query, regions: ImageRegions, store: ModelStore) -> FoundRegions:
    """Search the regions of the image shown; a run embeds them where that is needed."""
    record = regions.records[0] if regions.records else None
    embedded_by = "with the embeddings that there are"
    if regions.run is not None:
        record = embedded_record(regions.run, regions.records)
        if record is None:
            record = RunTask(regions.run, store).run()
            embedded_by = "embedded for this search"
    assert record is not None
    settings, fingerprint = record.snapshot.settings, record.results.info.fingerprint
    if store.load(settings.model, settings.device).fingerprint != fingerprint:
        raise InputError(
            f"The weights of {settings.model} have changed since these results were made; run "
            "again."
        )
    show(Job(text=words.COMPARING_WORDS, fraction=1.0))
    own_query = replace(
        query,
        model=settings.model,
        device=settings.device,
        templates=PLAIN,
        top=max(1, len(record.results)),
    )
    source = partial(results_source, record, regions.file, {})
    order = search_regions(own_query, source, IMAGE, store)
    count = counted(len(order.hits), "region")
    about = f"'{query.words}': {count}, most like first, {embedded_by}."
    return replace(order, about=about, compared=record)


def embedded_record(run: Request, candidates: Sequence[ResultRecord]) -> ResultRecord | None:
    """Return the results that a run would make again; None if there are none.

    The candidates are `reusable`: what is left to compare are the regions and the pixels.
    """
    if not candidates:
        return None
    show(words.COMPARING_INPUTS)
    drawn = identities(run.input.tasks(check_stopped))
    regions = Recipe(regions={"regions": drawn})
    alike = []
    for record in candidates:
        # A run that was cancelled has results of its first regions only.
        if len(record.results) == len(drawn) and not record.recipe.differences(regions):
            alike.append(record)
    if not alike:
        return None
    shown = shown_to_model(run.input)  # The pixels of a large image take their time
    for record in alike:
        if not record.recipe.differences(shown):
            return record
    return None


def reusable(
    records: Iterable[ResultRecord | None], image: Any, settings: RunSettings
) -> list[ResultRecord]:
    """Return those records of an image that a run with these settings would embed alike.

    Whether pixels and regions are the same is for `embedded_record` to say.
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
class FoundPlaces:
    """Regions where nobody drew any, ranked by how well they fit words, or an example."""

    words: str  # "" for an example
    snapshot: Snapshot  # Of the search
    finder: PlaneFinder
    results: Results
    masks: Masks  # By plane and id
    matches: tuple[RegionMatch, ...]  # Best first
    regions: Sequence[Region]
    how: str  # What proposed them
    usual: float  # The default threshold

    def region(self, place: int) -> RegionResult:
        """Return the region at one rank."""
        return self.results.regions[self.matches[place].row]

    def count(self, threshold: float) -> int:
        """Return how many regions are similar enough."""
        return sum(match.similarity >= threshold for match in self.matches)


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
) -> FoundPlaces:
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
    return FoundPlaces(
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
