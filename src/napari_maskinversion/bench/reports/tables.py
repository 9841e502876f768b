"""Write figures as Markdown, and into documents that quote them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from ...base.atomic_files import atomic_path
from ...base.errors import InputError
from ...demo_model.sprites import UNSEEN_STYLE
from ..measures.scene_methods import SCENE_METHODS, SceneMethod
from . import paper
from .caption_tables import caption_tables
from .method_tables import method_tables, percent, table

KINDS: Final = {
    "seen": "seen styles",
    "unseen": f"unseen style ({UNSEEN_STYLE})",
    "bundled": "bundled drawings",
}
METHOD: Final = (
    "In brackets: 95 % interval, from 2,000 resamplings of whole scenes or images (not of regions: "
    "those of one image are correlated)."
)


def markdown(page: dict[str, Any]) -> str:
    """Return the figures of any bench command as Markdown."""
    if page["kind"] == "scenes":
        return _scenes(page)
    if page["kind"] == "captions":
        return caption_tables(page)
    return _curves(page) if page["kind"] in ("steps", "alpha") else method_tables(page)


def _overlap(figure: dict[str, float]) -> str:
    return f"{figure['value']:.2f} ({figure['low']:.2f}–{figure['high']:.2f})"


def _about(page: dict[str, Any]) -> str:
    s, dates = page["settings"], sorted(p["date"] for p in page["parts"].values())
    inversion = s["inversion"]
    return (
        f"Model {s['model']} (fingerprint {s['fingerprint']}), {s['names']} names, "
        f"{s['scenes']} scenes of each kind, K = {inversion['steps']}, learning rate "
        f"{inversion['learning_rate']}, alpha {inversion['alpha']:g}; {dates[-1][:10]}, "
        f"`{page['command']}`. {METHOD}"
    )


def _scenes(page: dict[str, Any]) -> str:
    parts = page["parts"]
    blocks = [_about(page)]
    lacks = page["settings"].get("lacks", {})
    able = {key: method for key, method in SCENE_METHODS.items() if key not in lacks}
    singles = {n.split("/")[1]: p for n, p in parts.items() if n.startswith("single/")}
    if singles:
        rows = [[f"top-{k}, %", *(percent(p[f"top{k}"]) for p in singles.values())] for k in (1, 5)]
        count = next(iter(singles.values()))["scenes"]
        about = f"one object, image embedding ({count} scenes)"
        blocks.append(table([about, *(KINDS[k] for k in singles)], rows))
    for kind, title in KINDS.items():
        matching = {
            n.split("/")[2]: p for n, p in parts.items() if n.startswith(f"regions/{kind}/")
        }
        if matching:
            head = [f"region top-1, %, {title}", *(f"{n} objects" for n in matching)]
            rows = [
                [w.title, *(percent(p["ways"][key]["top1"]) for p in matching.values())]
                for key, w in able.items()
            ]
            rows += [
                [SCENE_METHODS[key].title, why, *[""] * (len(matching) - 1)]
                for key, why in lacks.items()
            ]
            rows.append(["heatmap-to-mask IoU", *(_overlap(p["iou"]) for p in matching.values())])
            blocks.append(table(head, rows))
    real = {n.split("/")[1]: p for n, p in parts.items() if n.startswith("real/")}
    if real:
        blocks.append(_real(real, able))
    choices = {n.split("/")[1]: p for n, p in parts.items() if n.startswith("choice/")}
    if choices:
        blocks.append(_choices(choices, able))
    skipped = left_out(page)
    if skipped:
        blocks.append("Left out:\n\n" + "\n".join(f"- {why}" for why in skipped))
    return "\n\n".join(blocks) + "\n"


def left_out(page: dict[str, Any]) -> list[str]:
    """Return why ``bench scenes`` left out real images."""
    matching = [why for part in page["parts"].values() for why in part.get("skipped", [])]
    return list(dict.fromkeys(matching))


def _real(real: dict[str, Any], able: dict[str, SceneMethod]) -> str:
    head = [
        f"{kind}: {p['regions']} regions, {p['images']} images, {len(p['classes'])} names"
        for kind, p in real.items()
    ]
    rows = [[w.title, *(percent(p["ways"][key]) for p in real.values())] for key, w in able.items()]
    plain = [percent(p["size_and_colour"]) for p in real.values()]
    rows.append(["size and colour alone (trained)", *plain])
    rows.append(["most frequent class", *(f"{100 * p['majority']:.1f}" for p in real.values())])
    rows.append(["heatmap-to-mask IoU", *(_overlap(p["iou"]) for p in real.values())])
    return table(["test split, macro-averaged top-1, %", *head], rows)


def _choices(choices: dict[str, Any], able: dict[str, SceneMethod]) -> str:
    rows = []
    for key, method in able.items():
        cells = []
        for choice in choices.values():
            setting = choice[key]["setting"]
            words = [f"{setting['resolution']} px"]
            if "context" in setting:
                context = setting["context"]
                words.append(context if isinstance(context, str) else f"context {context:g}")
            if "fill" in setting:
                words.append(f"fill {setting['fill']}")
            if "reading" in setting:
                words.append(f"tokens of the {setting['reading']}")
            cells.append(", ".join(words))
        rows.append([method.title, *cells])
    return table(["setting chosen on validation images", *choices], rows)


def _curves(page: dict[str, Any]) -> str:
    name = "step" if page["kind"] == "steps" else "alpha"
    blocks = [_about(page)]
    for kind, part in page["parts"].items():
        head = [f"{name}, {KINDS[kind]}", "region top-1, %", "heatmap-to-mask IoU"]
        rows = [
            [
                f"{value:g}",
                percent(part["top1"][i]),
                _overlap(part["iou"][i]),
                f"{part['dice'][i]:.3f}",
                f"{part['cosine'][i]:.2f}",
            ]
            for i, value in enumerate(part["values"])
        ]
        head += ["Dice loss", "cosine to the image's embedding"]
        blocks.append(table(head, rows))
    blocks.append(paper.tables(page["kind"]))
    return "\n\n".join(blocks) + "\n"


def picture(kind: str, plots: Path, document: Path) -> str:
    """Return HTML that shows the plot matching the page's colours."""
    curve = kind in ("steps", "alpha")
    shown = f"Accuracy, overlap and loss by {kind}" if curve else f"Accuracies of bench {kind}"
    folder = Path(os.path.relpath(plots.resolve(), document.resolve().parent)).as_posix()
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{folder}/{kind}-dark.svg">'
        f'<img alt="{shown}" src="{folder}/{kind}-light.svg">'
        "</picture>\n\n"
    )


def write_into(document: Path, kind: str, text: str) -> None:
    """Replace the text between a document's ``<!-- bench KIND -->`` and its end mark."""
    head, begin, end, tail = around(document, kind)
    with atomic_path(document) as part:
        part.write_text(f"{head}{begin}\n{text}{end}{tail}", encoding="utf-8")


def around(document: Path, kind: str) -> tuple[str, str, str, str]:
    """Return the text before a document's marks, the two marks, and the text after them."""
    begin, end = f"<!-- bench {kind} -->", f"<!-- end of bench {kind} -->"
    try:
        before = document.read_text("utf-8")
    except OSError as error:
        raise InputError(f"{document} cannot be read ({error.strerror}).") from None
    except ValueError:
        raise InputError(f"{document} is no text.") from None
    if before.count(begin) != 1 or before.count(end) != 1 or before.find(begin) > before.find(end):
        raise InputError(f"{document} needs one line '{begin}' and one '{end}' after it.")
    head, rest = before.split(begin)
    return head, begin, end, rest.split(end)[1]
