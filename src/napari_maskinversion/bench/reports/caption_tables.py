"""Figures of ``bench captions`` as Markdown."""

from __future__ import annotations

from typing import Any, Final

from ...demo_model.sprites import UNSEEN_STYLE
from .method_tables import percent, table

_TITLES: Final = {
    "regions/seen": "scenes, seen styles",
    "regions/unseen": f"scenes, unseen style ({UNSEEN_STYLE})",
    "regions/bundled": "scenes, bundled drawings",
    "real/aerial": "aerial images",
    "real/blood": "blood smears",
    "real/nuclei": "nuclei",
}
_ROWS: Final = {
    "class": "nearest name of all is right",
    "named": "sentence names the right thing",
    "alone": "sentence names it and nothing else",
    "as_class": "sentence names the nearest name",
}


def caption_tables(page: dict[str, Any]) -> str:
    """Return the tables: sentences beside names, what colours tell, examples."""
    settings, parts = page["settings"], page["parts"]
    dates = sorted(part["date"] for part in parts.values())
    blocks = [
        f"Decoder {settings['decoder']}, model {settings['model']} (fingerprint "
        f"{settings['fingerprint']}), {settings['names']} names to choose from, "
        f"{settings['scenes']} scenes of {settings['objects']} things of each kind; "
        f"{dates[-1][:10]}, "
        f"`{page['command']}`. In brackets: 95 % interval, from 2,000 resamplings of whole images."
    ]
    shown = {name: part for name, part in parts.items() if name in _TITLES}
    head = ["%", *(f"{_TITLES[name]} ({part['regions']} regions)" for name, part in shown.items())]
    rows = [
        [title, *(percent(part[key]) for part in shown.values())] for key, title in _ROWS.items()
    ]
    rows.append(
        [
            "nearest of six colour words is the region's",
            *(percent(part["colour"]["told"]) for part in shown.values()),
        ]
    )
    rows.append(
        [
            "the most frequent colour",
            *(f"{100 * part['colour']['most_frequent']:.1f}" for part in shown.values()),
        ]
    )
    if shown:
        blocks.append(table(head, rows))
    if "texts" in parts:
        texts = parts["texts"]
        blocks.append(
            f"Of {texts['texts']} texts about one thing, in words that the decoder was not trained "
            f"on, it names the thing in {percent(texts['named'])} %."
        )
    examples = [pair for part in shown.values() for pair in part["examples"][:3]]
    if examples:
        blocks.append(table(["region shows", "sentence"], examples))
    return "\n\n".join(blocks) + "\n"
