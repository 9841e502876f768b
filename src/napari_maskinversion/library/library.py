"""The library: regions of many images, added, searched and removed."""

from __future__ import annotations

import json
import sqlite3
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError
from ..base.identity import ImageIdentity, ImagePlace, Position
from ..base.reading import is_address
from ..base.targets import check_targets
from ..images.ome_zarr import is_zarr
from ..images.plane_source import PlaneSource
from ..language.labels.presets import vocabulary_of
from ..language.labels.vocabulary import Vocabulary
from ..language.ranking.query import direction, wanted_and_not
from ..language.text import embed_vocabulary
from ..learning.features import kinds_of
from ..results.export.archive import open_archive
from ..results.export.bundle import Bundle, CompressedRegion
from ..results.orders import most_similar
from ..results.results import Results
from ..results.spaces import Space
from ..review.reporting import with_decisions
from .adding import add_bundle, image_problem, located, place_of, rows_of
from .exchange import read_parquet, write_parquet
from .filters import Where, condition
from .region_fields import lacking_fields, selection, shown_fields
from .store import ROWS, MemoryStore, Store
from .thumbnails import decoded
from .training import other_spaces_note, train
from .training_samples import read_samples

if TYPE_CHECKING:
    import pandas as pd

    from ..engine.models.backbone import Backbone
    from ..learning.classifier import Classifier

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]
_FROM: Final = "FROM regions JOIN images ON images.id = regions.image"
_IDS: Final = "id IN (SELECT value FROM json_each(:ids))"


class Library:
    """Embedded regions of many images, in one folder.

    Make one with `Library.new`, open one with `Library.open`. Threads may share a library to read
    it. Several programs may write to it: each waits for the one before.

    Filters of `rows`, `search`, `export` and `remove`, all optional:

    - ``ids``: numbers of regions in the library.
    - ``label``, ``decision``: one or several. The label is the word that was accepted, else
      suggested; a decision is accepted, rejected, skipped or undecided.
    - ``image``: name, path, or the end of a path, with ``*`` and ``?``.
    - ``smallest``, ``largest``: pixels that a region covers.
    - ``since``, ``before``: date of the decision, else of the run, as ``"2026-11-30"``.
    - ``space``: number of an embedding space, see `info`.

    Errors are `InputError`: a folder that is no library, is damaged, of another version, or on a
    full disk. What was in the library stays.

    Examples
    --------
    >>> library = Library.new("cells")
    >>> library.add("results/results.npz")
    >>> library.search("a dividing cell", "not debris", image="*.tif", top=20)
    """

    def __init__(self, folder: Path | Store) -> None:
        self.store = folder if isinstance(folder, Store) else Store(folder)
        self.folder = self.store.folder
        self._model: Backbone | None = None  # The one loaded for words
        # By space: changes of the library when its rows were read, and they, if some are gone.
        self._live: dict[int, tuple[int, IntArray | None]] = {}

    def __repr__(self) -> str:
        return f"<Library: {self.folder}>"

    @classmethod
    def new(cls, folder: str | Path) -> Self:
        """Make an empty library in a new or empty folder."""
        place = Path(folder)
        Store.create(place)
        return cls(place)

    @classmethod
    def in_memory(cls) -> Self:
        """Make an empty library that lies in no folder and ends with the program."""
        return cls(MemoryStore())

    @classmethod
    def open(cls, folder: str | Path, *, create: bool = False) -> Self:
        """Open a library; with ``create``, make it if there is none."""
        place = Path(folder)
        if create and not (place / ROWS).exists():
            return cls.new(place)
        Store(place).check()
        return cls(place)

    def add(
        self,
        source: Results | Bundle | str | Path,
        *,
        image: str | Path | None = None,
        planes: Mapping[Position, PlaneSource] | None = None,
    ) -> int:
        """Add regions; those that the library has already of an image are replaced.

        Regions of an image that has changed since they were added are removed. Decisions are those
        of the image's review, else those saved with the results.

        Parameters
        ----------
        source : Results, Bundle, str or Path
            Results, a ``results.npz``, or a Parquet file that `export` wrote.
        image : str or Path, optional
            File of the image, or a folder in which to look for it. By default it is looked for
            beside ``results.npz`` and in the current folder; without it there are no thumbnails.
        planes : mapping, optional
            Planes of the image that are open already, by position.

        Returns
        -------
        int
            How many regions were added or replaced.
        """
        file = None if image is None else Path(image)
        if isinstance(source, Results):
            source = Bundle(results=source)
        elif not isinstance(source, Bundle):
            path = Path(source)
            if path.suffix.lower() == ".parquet":
                return sum(self.store.write(*part) for part in read_parquet(path))
            source = open_archive(path)
            if file is None or (file.is_dir() and not is_zarr(file)):
                file = located(source, path, file) or self._place_of(source)
            source = with_decisions(source, str(path)) if file is None else source
        if len(source.results):
            add_bundle(self.store, source, file, planes or {})
        return len(source.results)

    def _place_of(self, bundle: Bundle) -> Path | None:
        """Return where the image of results was when it was added, if it still is there."""
        query = "SELECT path, series, name, content FROM images WHERE content = ? AND content <> ''"
        with self.store.reading() as database:
            images = [_image(row) for row in database.execute(query, (bundle.image.content,))]
        for place, image in images:
            is_file = place.path and not is_address(place.path)
            if is_file and not image_problem(place, image):
                return Path(place.path)
        return None

    def update(self, bundle: Bundle) -> int:
        """Set what was decided about regions of an image that the library has already.

        Parameters
        ----------
        bundle : Bundle
            Results with the columns of `decision_columns`, and their image.

        Returns
        -------
        int
            How many regions were changed; others of the same number have another box.
        """
        return self.store.update({bundle.image.content: rows_of(bundle)})

    def image_of(self, id: int) -> tuple[ImagePlace, ImageIdentity]:
        """Return where the image of a region is, and what it shows: its name and hash."""
        with self.store.reading() as database:
            query = f"SELECT path, series, name, content {_FROM} WHERE regions.id = ?"
            row = database.execute(query, (id,)).fetchone()
        if row is None:
            raise InputError(f"There is no region {id} in the library {self.folder}.")
        return _image(row)

    def info(self) -> dict[str, Any]:
        """Return what the library holds.

        Returns
        -------
        dict
            The number of ``regions``, ``images``, ``holes`` (vectors of regions that are gone) and
            ``bytes``, of regions by ``decisions``, and ``spaces``: by number, what embeddings were
            computed with, and how many regions they are.
        """
        with self.store.reading() as database:
            spaces = self.store.spaces(database)
            by_space, decisions = (
                dict(database.execute(f"SELECT {name}, count(*) FROM regions GROUP BY {name}"))
                for name in ("space", "decision")
            )
            (images,) = database.execute("SELECT count(*) FROM images").fetchone()
        regions = sum(by_space.values())
        return {
            "regions": regions,
            "images": images,
            "decisions": decisions,
            "holes": sum(space.count for space in spaces) - regions,
            "bytes": self.store.size(),
            "spaces": {
                space.id: {"regions": by_space.get(space.id, 0), **space.values} for space in spaces
            },
        }

    def spaces(self) -> dict[int, Space]:
        """Return the spaces by number, those with most vectors first."""
        with self.store.reading() as database:
            return {space.id: space for space in self.store.spaces(database)}

    def count_images(self, space: int) -> int:
        """Return how many images have regions of a space."""
        query = "SELECT count(DISTINCT image) FROM regions WHERE space = ?"
        with self.store.reading() as database:
            return int(database.execute(query, (space,)).fetchone()[0])

    def rows(self, **where: Unpack[Where]) -> pd.DataFrame:
        """Return regions as a table, in the order in which they were added.

        Parameters
        ----------
        **where
            Filters, see `Library`.

        Returns
        -------
        DataFrame
            ``id`` (in the library), ``image``, ``series``, ``plane``, ``region``, ``label``,
            ``suggestion``, ``confidence``, ``decision``, ``date``, ``area`` in pixels, the box
            (``y0``, ``x0``, ``y1``, ``x1``, end exclusive), ``space``, ``margin`` of the
            suggestion, and whether it is doubtful (``flagged``). The last two are unknown (NaN,
            NA) for regions that an earlier version added.
        """
        term, values = condition(where)
        with self.store.reading() as database:
            query = f"SELECT {selection(database)} {_FROM} WHERE {term} ORDER BY regions.id"
            return _frame([tuple(row) for row in database.execute(query, values)])

    def search(
        self,
        *words: str,
        like: Sequence[int | FloatArray] = (),
        unlike: Sequence[int | FloatArray] = (),
        top: int = 100,
        model: Backbone | None = None,
        templates: Sequence[str] = (),
        **where: Unpack[Where],
    ) -> pd.DataFrame:
        """Return the regions most similar to words, to regions, or to both.

        What is looked for is the mean of the unit embeddings of all words and regions, minus the
        mean of those to be avoided. The search is exact.

        Parameters
        ----------
        *words : str
            ``"red cell"``, or ``"not debris"`` for what is to be avoided; also in one text, with
            commas between. Quotes in it keep commas.
        like, unlike : sequence of int or ndarray
            Numbers of regions in the library, which are not among the answers, or embeddings of
            others, (e,), float32.
        top : int
            How many regions to return, at least 1.
        model : Backbone, optional
            The model for the words; default: that of the library, loaded by its name.
        templates : sequence of str
            Prompts for the words; default: ``"photo"``.
        **where
            Filters, see `Library`.

        Returns
        -------
        DataFrame
            As `rows`, with ``similarity`` (cosine, -1 to 1), best first. Similarities to words are
            lower than those to regions: compare them only with one another.

        Raises
        ------
        InputError
            If there is nothing to look for, or the model is another one than the library's.
        """
        own = [int(one) for one in (*like, *unlike) if not isinstance(one, np.ndarray)]
        space = self.space(own, model, where.get("space"))
        wanted, unwanted = self._embedded(words, space, model, templates)
        with self.store.reading() as database:
            space = next(one for one in self.store.spaces(database) if one.id == space.id)
            vectors = self.store.vectors(space)
            at = dict(database.execute(f"SELECT id, row FROM regions WHERE {_IDS}", _ids(own)))
            for several, into in ((like, wanted), (unlike, unwanted)):
                for one in several:
                    vector = one if isinstance(one, np.ndarray) else vectors[at[int(one)]]
                    into.append(_unit(vector, space))
            query, rows = direction(wanted, unwanted), self._rows(database, space, where)
            parts = self.store.parts(space)
            places, similarities = most_similar(parts, query, top + len(at), rows)
            best = dict(zip(places.tolist(), similarities.tolist(), strict=True))
            chosen = [row for row in best if row not in at.values()][:top]
            answers = {
                row[0]: tuple(row)[1:]
                for row in database.execute(
                    f"SELECT row, {selection(database)} {_FROM} WHERE space = :space AND row IN"
                    " (SELECT value FROM json_each(:rows))",
                    {"space": space.id, "rows": json.dumps(chosen)},
                )
            }
        return _frame([(*answers[row], best[row]) for row in chosen], "similarity")

    def space(
        self,
        ids: Sequence[int] = (),
        model: Backbone | None = None,
        number: int | None = None,
        like: Space | None = None,
    ) -> Space:
        """Return the space to search in: of regions, of a model, as another, else the largest.

        Regions of other spaces are not searched, and a warning says so.
        """
        with self.store.reading() as database:
            query = f"SELECT id, space FROM regions WHERE {_IDS}"
            of_ids = dict(database.execute(query, _ids(ids)))
            spaces = self.store.spaces(database)
        if not spaces:
            raise InputError(f"The library {self.folder} has no regions; add results to it.")
        if missing := set(ids) - of_ids.keys():
            raise InputError(f"There is no region {min(missing)} in the library {self.folder}.")
        several = sorted(set(of_ids.values()))
        if len(several) > 1:
            raise InputError(
                "These regions were embedded by several models, methods or settings (spaces "
                f"{', '.join(map(str, several))}) and cannot be compared; choose regions of one."
            )
        fitting = [
            space
            for space in spaces
            if number in (None, space.id)
            and several in ([], [space.id])
            and (model is None or model.fingerprint == space.fingerprint)
            and (like is None or like.about == space.about)
        ]
        if not fitting:
            of_model = "" if model is None else f" of the model {model.name} as it is here"
            of_model += "" if like is None else f" as those of {like.model} with these settings"
            there = "; ".join(f"{space.id} ({space.model})" for space in spaces)
            raise InputError(
                f"The library {self.folder} has no such embeddings{of_model}; its spaces are "
                f"{there}."
            )
        if len(spaces) > 1 and number is None and like is None and not ids:
            others = ", ".join(str(space.id) for space in spaces if space != fitting[0])
            warnings.warn(
                f"Only space {fitting[0].id} is searched: embeddings of other models, methods or "
                f"settings (space {others}) cannot be compared with it.",
                stacklevel=3,
            )
        return fitting[0]

    def _embedded(
        self, words: Sequence[str], space: Space, model: Backbone | None, templates: Sequence[str]
    ) -> tuple[list[FloatArray], list[FloatArray]]:
        """Return the embeddings of the words looked for, and of those to be avoided."""
        wanted, unwanted = wanted_and_not(*words)
        if not wanted + unwanted:
            return [], []
        model = model or self._loaded(space)
        self.check_model(model, space)
        vocabulary = vocabulary_of(Vocabulary(tuple(dict.fromkeys(wanted + unwanted))), templates)
        vectors = dict(zip(vocabulary.labels, embed_vocabulary(model, vocabulary), strict=True))
        return [vectors[name] for name in wanted], [vectors[name] for name in unwanted]

    def _loaded(self, space: Space) -> Backbone:
        if self._model is None:
            from ..engine.models.loading import load_where_it_fits

            self._model = load_where_it_fits(space.model, architecture=space.architecture).model
        return self._model

    def check_model(self, model: Backbone, space: Space) -> None:
        """Refuse a model whose words cannot be compared with the embeddings of a space."""
        if model.fingerprint != space.fingerprint:
            raise InputError(
                f"The model {model.name} here is not the one of the library's embeddings, so words "
                "cannot be compared with them; load the same weights."
            )

    def _rows(self, database: sqlite3.Connection, space: Space, where: Where) -> IntArray | None:
        """Return the rows of a space that fit filters; None if these are all vectors."""
        if where.keys() - {"space"}:
            term, values = condition({**where, "space": space.id})
            return _numbers(database, f"SELECT row {_FROM} WHERE {term}", values)
        (changes,) = database.execute("SELECT count FROM changes").fetchone()
        known, rows = self._live.get(space.id, (-1, None))
        if known != changes:
            values, own = {"space": space.id}, "FROM regions WHERE space = :space"
            (count,) = database.execute(f"SELECT count(*) {own}", values).fetchone()
            rows = None if count == space.count else _numbers(database, f"SELECT row {own}", values)
            self._live[space.id] = (changes, rows)
        return rows

    def train(
        self,
        words: str | Sequence[str] | Vocabulary | None = None,
        *,
        features: str | Sequence[str] = (),
        model: Backbone | None = None,
        templates: Sequence[str] = (),
        **where: Unpack[Where],
    ) -> Classifier:
        """Learn a classifier from decisions; rejected regions are "none of these".

        Parameters
        ----------
        words : str, sequence of str or Vocabulary, optional
            All classes, as ``--labels`` takes them; default: the words that were accepted.
        features : str or sequence of str
            Learn from these, too: ``"size"``, ``"shape"``, ``"intensity"``. Sizes mean something in
            images of one scale; shape and intensity need runs that measured the regions
            (``measure=True``).
        model : Backbone, optional
            The model for the words; default: that of the library, loaded by its name.
        templates : sequence of str
            Prompts for the words; default: ``"photo"``.
        **where
            Filters, see `Library`.

        Returns
        -------
        Classifier
            Its ``scores`` were measured on images that were held out, ``notes`` say what to know.

        Raises
        ------
        InputError
            If there is nothing to tell apart, or a word was accepted that is not in ``words``.
        """
        kinds = kinds_of(features if isinstance(features, str) else ",".join(features))
        samples = read_samples(self.store, self.spaces().keys(), where)
        if not samples:
            raise InputError(
                f"The library {self.folder} has no decisions"
                f"{' that fit the filters' if where else ''}: accept or reject regions in a "
                "review, then add the results again (--images: where their images are)."
            )
        counts = Counter(stored.space for stored in samples)
        (most, count), *others = counts.most_common()
        space = self.spaces()[most]
        model = model or self._loaded(space)
        self.check_model(model, space)
        own = [stored for stored in samples if stored.space == most]
        classifier = train(own, space, words, model, templates, kinds)
        if others:
            note = other_spaces_note(len(samples) - count, [number for number, _ in others])
            classifier = replace(classifier, notes=(note, *classifier.notes))
        return classifier

    def masks(self, ids: Sequence[int]) -> dict[int, CompressedRegion]:
        """Return the masks of regions by number; those that are not known are left out."""
        query = f"SELECT id, region, y0, x0, y1, x1, mask, coverage FROM regions WHERE {_IDS}"
        masks: dict[int, CompressedRegion] = {}
        with self.store.reading() as database:
            if lacking_fields(database):
                return masks
            for number, region, y0, x0, y1, x1, mask, coverage in database.execute(
                query, _ids(ids)
            ):
                if mask is not None:
                    box = (y0, x0, y1, x1)
                    masks[number] = CompressedRegion(region, box, mask, bool(coverage))
        return masks

    def thumbnail(self, id: int) -> npt.NDArray[np.uint8] | None:
        """Return a small picture of a region.

        Parameters
        ----------
        id : int
            Number of the region in the library.

        Returns
        -------
        ndarray, shape (h, w, 4), uint8, or None
            RGB, and the region's mask as opacity, at most 96 pixels a side. None if the image was
            not there when the region was added, or if the picture is damaged.
        """
        with self.store.reading() as database:
            query = "SELECT picture FROM thumbnails WHERE id = ?"
            row = database.execute(query, (int(id),)).fetchone()
        try:
            return None if row is None else decoded(row[0])
        except (OSError, ValueError):
            return None

    def problem(self, id: int) -> str:
        """Return in a line why the image of a region cannot be looked at; "" if it can."""
        return image_problem(*self.image_of(id))

    def vectors(self, ids: Sequence[int]) -> FloatArray:
        """Return embeddings of regions.

        Parameters
        ----------
        ids : sequence of int
            Numbers of regions in the library, all of one space.

        Returns
        -------
        ndarray, shape (n, e), float32
            Of length 1, in the order of ``ids``.
        """
        wanted = [int(one) for one in ids]
        space = self.space(wanted)
        with self.store.reading() as database:
            space = next(one for one in self.store.spaces(database) if one.id == space.id)
            at = dict(database.execute(f"SELECT id, row FROM regions WHERE {_IDS}", _ids(wanted)))
            halves = self.store.vectors(space)[[at[one] for one in wanted]]
        rows = halves.astype(np.float32)
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))

    def export(self, path: str | Path, *, overwrite: bool = False, **where: Unpack[Where]) -> int:
        """Write regions with embeddings and thumbnails to a Parquet file, which `add` reads.

        Parameters
        ----------
        path : str or Path
            File to write.
        overwrite : bool
            Replace a file.
        **where
            Filters, see `Library`.

        Returns
        -------
        int
            How many regions were written.
        """
        file = Path(path)
        # its own files are no targets
        check_targets([file], overwrite=overwrite, inputs=self.store.files())
        file.absolute().parent.mkdir(parents=True, exist_ok=True)
        term, values = condition(where)
        with self.store.reading() as database:
            spaces = {space.id: space for space in self.store.spaces(database)}
            vectors = {number: self.store.vectors(space) for number, space in spaces.items()}
            rows = database.execute(
                f"SELECT regions.*, path, series, name, content, picture {_FROM} LEFT JOIN"
                f" thumbnails ON thumbnails.id = regions.id WHERE {term}"
                " ORDER BY space, regions.image, regions.id",
                values,
            )
            return write_parquet(file, rows, spaces, vectors)

    def remove(self, **where: Unpack[Where]) -> int:
        """Remove regions by at least one filter; return how many. `compact` drops their vectors."""
        if not where:
            raise InputError("Name what to remove: an image, a label, ids or another filter.")
        return self.store.remove(*condition(where))

    def forget(self, image: str | Path, *, series: int = 0) -> int:
        """Remove the regions of an image that has none any more; return how many there were."""
        place = place_of(Path(image), series)
        values = {"path": place.path, "series": place.series}
        return self.store.remove("path = :path AND series = :series", values)

    def compact(self) -> int:
        """Rewrite the files without what was removed or replaced; return how many vectors went."""
        return self.store.compact()

    def verify(self) -> Iterator[str]:
        """Yield lines about damage, and about images that are gone or have changed since."""
        yield from self.store.problems()
        with self.store.reading() as database:
            images = database.execute("SELECT path, series, name, content FROM images").fetchall()
            pictures = [one for (one,) in database.execute("SELECT id FROM thumbnails")]
        if damaged := sum(self.thumbnail(one) is None for one in pictures):
            yield f"Damaged pictures of regions: {damaged:,}; add the results again."
        yield from filter(None, (image_problem(*_image(image)) for image in images))


def _image(row: Sequence[Any]) -> tuple[ImagePlace, ImageIdentity]:
    """Return an image by its columns path, series, name, content."""
    path, series, name, content = row
    return ImagePlace(path, series), ImageIdentity(name, content=content)


def _ids(ids: Sequence[int]) -> dict[str, str]:
    return {"ids": json.dumps([int(one) for one in ids])}


def _numbers(database: sqlite3.Connection, query: str, values: Mapping[str, Any]) -> IntArray:
    """Return the numbers that a query finds, in ascending order."""
    return np.sort(np.fromiter((one for (one,) in database.execute(query, values)), np.int64))


def _unit(vector: npt.NDArray[Any], space: Space) -> FloatArray:
    values = np.asarray(vector, np.float32)
    length = float(np.linalg.norm(values))
    if values.shape != (space.width,) or not 0 < length < np.inf:
        raise InputError(
            f"An embedding of this library has {space.width} finite numbers; got an array of "
            f"shape {values.shape}."
        )
    return values / length


def _frame(cells: Sequence[Sequence[Any]], *more: str) -> pd.DataFrame:
    import pandas as pd

    columns = [field.name for field in shown_fields()]
    frame = pd.DataFrame(cells, columns=[*columns, *more])
    return frame.astype({"margin": float, "flagged": "boolean"})
