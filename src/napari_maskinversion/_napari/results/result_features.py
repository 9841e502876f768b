"""Suggestions in the features of the regions' layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ...results.columns import columns_in
from ..layers.feature_rows import with_index, with_labels
from ..layers.layers import is_shapes

if TYPE_CHECKING:
    import pandas as pd

# The panel's word for it.
_RENAMED: Final = {"probability": "confidence"}


def write_features(
    layer: Any, table: pd.DataFrame, image: str = "", decisions: Mapping[int, str] | None = None
) -> list[str]:
    """Merge columns into a layer's features; the user's columns stay, even with the same names.

    Other plugins find a region by ``label`` (its number) and ``roi_id`` (the image). A label on
    several planes gets the first plane's values.
    """
    import pandas as pd

    table = table.drop_duplicates("region").set_index("region")
    table = table[[column.name for column in columns_in("layer")]].rename(columns=_RENAMED)
    # It can be missing, and stays whole.
    table.insert(0, "label", pd.Series(table.index, index=table.index, dtype="Int64"))
    table.insert(1, "roi_id", image)
    table["decision"] = [(decisions or {}).get(number, "") for number in table.index]
    before = layer.features
    ours: dict[str, str] = layer.metadata.get("napari-maskinversion-features", {})
    names = {column: _free(column, before, ours) for column in map(str, table)}
    if is_shapes(layer):
        frame = before.copy()
        rows = list(range(len(layer.data)))
    else:
        frame = with_labels(with_index(before), table.index)
        rows = list(frame["index"])
    for column, name in names.items():
        frame[name] = table[column].reindex(rows).array
    if not frame.equals(before):
        layer.features = frame
    if is_shapes(layer):
        # Otherwise the next shape drawn would inherit the last one's values.
        defaults = layer.feature_defaults.copy()
        for name in names.values():
            defaults[name] = pd.Series([None], dtype=defaults[name].dtype)
        layer.feature_defaults = defaults
    layer.metadata["napari-maskinversion-features"] = names
    return list(names.values())


def _free(column: str, features: Any, ours: dict[str, str]) -> str:
    """Return a free name for a column: its own, or a numbered one."""
    if column in ours:
        return ours[column]
    name, number = column, 2
    while name in features:
        name, number = f"{column}_{number}", number + 1
    return name
