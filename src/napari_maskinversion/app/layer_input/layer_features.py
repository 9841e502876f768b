"""Writes columns about regions into the features of the user's layer, and takes them out again.

Nothing else of the layer changes: neither the user's columns, also those with our names, nor
colours, texts and what the next shape is drawn with.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from .label_layers import whole, with_gaps, with_index, with_labels
from .layer_facts import is_shapes
from .shape_rows import ShapeRows
from .viewer_protocols import RegionsLayer

if TYPE_CHECKING:
    import pandas as pd

ACCEPTED: Final = "accepted_label"
_OURS: Final = "napari-maskinversion: columns"
"""Metadata of a layer: the name that each of our columns has in its features."""
_INDEX: Final = "index"  # of a Labels layer: the label that a row is about
_NO_REGION: Final = -1  # of rows that are about no region of the run


class FeatureWriter:
    """Writes columns about the regions that a Labels or Shapes layer has when a run begins.

    A region is found again by its label, or by its shape, wherever that is by then.
    """

    def __init__(self, layer: RegionsLayer) -> None:
        self.layer = layer
        self._shape_rows = ShapeRows(layer) if is_shapes(layer) else None

    def name_of(self, column: str) -> str:
        """Return the name of our column: a numbered one if the user has a column of that name."""
        features = self.layer.features
        written = _ours(self.layer).get(column)
        if written in features:
            return str(written)
        name, number = column, 2
        while name in features:
            name, number = f"{column}_{number}", number + 1
        return name

    @property
    def removed(self) -> frozenset[int]:
        """The regions whose shapes were removed since."""
        rows = () if self._shape_rows is None else self._shape_rows.current
        return frozenset(region for region, row in enumerate(rows) if row is None)

    def write(self, columns: pd.DataFrame) -> list[str]:
        """Write columns, a row for each region by its id; return their names in the features.

        They are empty for all other regions.
        """
        frame, regions = self._with_rows(columns.index)
        names = {column: self.name_of(column) for column in map(str, columns)}
        rows = with_gaps(columns).reindex(regions)
        for column, name in names.items():
            frame[name] = rows[column].array
        _put(self.layer, frame, names)
        return list(names.values())

    def write_words(self, words: Mapping[int, str]) -> None:
        """Write the accepted word of each region, "" for none; all other regions keep theirs."""
        import pandas as pd

        name = self.name_of(ACCEPTED)
        accepted = [region for region, word in words.items() if word]
        if not accepted and name not in self.layer.features:
            return
        frame, regions = self._with_rows(accepted)
        if name not in frame:
            frame[name] = ""
        # Rows that were just added have no word yet.
        earlier = frame[name].astype(object).where(frame[name].notna(), "")
        rows = zip(regions, earlier, strict=True)
        column = [words.get(region, word) for region, word in rows]
        frame[name] = pd.Series(column, index=frame.index, dtype=object)
        _put(self.layer, frame, {ACCEPTED: name})

    @property
    def note(self) -> str:
        """What the user should know of the accepted words in the features, or ""."""
        layer, name = self.layer, self.name_of(ACCEPTED)
        messages = [self.removed_note]
        if name != ACCEPTED:
            messages.append(
                f"'{layer.name}' has a column {ACCEPTED} of its own; words are written to {name}."
            )
        if self._shape_rows is None and _INDEX in layer.features:
            count = sum(whole(value) is None for value in layer.features[_INDEX])
            if count:
                values = "values are" if count > 1 else "value is"
                messages.append(
                    f"In the column {_INDEX} of '{layer.name}' {count} {values} no whole number: "
                    "such rows belong to no region and stay as they are; words are written to rows "
                    "of their own."
                )
        return " ".join(filter(None, messages))

    @property
    def removed_note(self) -> str:
        """What becomes of the words of removed shapes, or ""."""
        count = len(self.removed)
        if not count:
            return ""
        shapes = "1 shape was" if count == 1 else f"{count:,} shapes were"
        words = "its word is" if count == 1 else "their words are"
        return (
            f"{shapes} removed from '{self.layer.name}' since the run; {words} not written to it."
        )

    def _with_rows(self, regions: Iterable[int]) -> tuple[pd.DataFrame, list[int]]:
        """Return the features with a row for each region, and the region of each row."""
        if self._shape_rows is not None:
            of_rows = [_NO_REGION] * self._shape_rows.count
            for region, row in enumerate(self._shape_rows.current):
                if row is not None:
                    of_rows[row] = region
            return self.layer.features.copy(), of_rows
        frame = with_labels(with_index(self.layer.features), regions)
        labels = [whole(value) for value in frame[_INDEX]]
        return frame, [_NO_REGION if label is None else label for label in labels]


def withdraw(layer: RegionsLayer, keep: Collection[str] = ()) -> None:
    """Take our columns out of a layer's features again, except some; the user's columns stay."""
    names = _ours(layer)
    kept = {column: name for column, name in names.items() if column in (*keep, _INDEX)}
    frame = layer.features.drop(columns={*names.values()} - {*kept.values()}, errors="ignore")
    if list(frame) == [_INDEX] == list(kept):
        frame = frame.iloc[:0, :0]  # all of the table was ours
        kept = {}
    _put(layer, frame, {})
    layer.metadata[_OURS] = kept


def _ours(layer: RegionsLayer) -> dict[str, str]:
    return dict(layer.metadata.get(_OURS, {}))


def _put(layer: RegionsLayer, frame: pd.DataFrame, names: Mapping[str, str]) -> None:
    """Set the features of a layer, and remember the names of our columns among them."""
    import pandas as pd

    before = layer.features
    ours = _ours(layer) | dict(names)
    if _INDEX in frame and _INDEX not in before:
        ours[_INDEX] = _INDEX
    layer.metadata[_OURS] = ours
    if frame.equals(before):
        return
    if not is_shapes(layer):
        layer.features = frame
        return
    # napari would draw the next shape with the values of the last row: with a word that nobody
    # accepted for it, and without the defaults that the user has set.
    own_defaults = layer.feature_defaults
    layer.features = frame
    defaults = layer.feature_defaults.copy()
    for name in defaults:
        if name in ours.values():
            blank = "" if name == ours.get(ACCEPTED) else None
            defaults[name] = pd.Series([blank], dtype=defaults[name].dtype)
        elif name in own_defaults:
            defaults[name] = own_defaults[name]
    layer.feature_defaults = defaults
