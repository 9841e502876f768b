"""Figures of the bench commands as Markdown, beside the paper's where it has the like."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from ...base.atomic_files import atomic_path
from ...base.errors import InputError
from ...demo_model.sprites import UNSEEN_STYLE
from ...engine.methods.registry import METHODS
from ..measures.scene_methods import SCENE_METHODS
from ..paper.tables import METRICS, SETS, TABLES, WITH_SENTENCES, Row

Page = dict[str, Any]
KINDS: Final = {
    "seen": "seen styles",
    "unseen": f"unseen style ({UNSEEN_STYLE})",
    "bundled": "bundled drawings",
}
_INTERVALS: Final = "In brackets: 95 % interval, from 2,000 resamplings of whole"


def markdown(page: Page) -> str:
    """Return the figures of any bench command as Markdown."""
    tables = {"scenes": _scenes, "captions": _captions, "steps": _curves, "alpha": _curves}
    blocks = tables.get(page["kind"], _methods)(page)
    return "\n\n".join(block for block in blocks if block) + "\n"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows below a header as a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def percent(figure: dict[str, float]) -> str:
    """Return a share with its interval as text."""
    low, high = 100 * figure["low"], 100 * figure["high"]
    return f"{100 * figure['value']:.1f} ({low:.0f}–{high:.0f})"


def _overlap(figure: dict[str, float]) -> str:
    return f"{figure['value']:.2f} ({figure['low']:.2f}–{figure['high']:.2f})"


def _row(title: str, figures: Iterable[dict[str, float]]) -> list[str]:
    return [title, *map(percent, figures)]


def _parts(page: Page, start: str) -> dict[str, Any]:
    """Return the parts whose names begin so, by the rest of their names."""
    parts = page["parts"].items()
    return {name.removeprefix(start): part for name, part in parts if name.startswith(start)}


def _left_out(skipped: Iterable[str]) -> str:
    lines = [f"- {why}" for why in skipped]
    return "Left out:\n\n" + "\n".join(lines) if lines else ""


# -- methods, maps and masks on a data set ----------------------------------------------------


def _methods(page: Page) -> list[str]:
    s, parts = page["settings"], page["parts"].values()
    shown = "the whole image" if s["context"] is None else f"a window of {s['context']:g} boxes"
    small = page.get("small", 0)
    left = f" ({small} that are too small left out)" if small else ""
    blocks = [
        f"{s['data']}: {len(s['classes'])} classes, {page['images']} images, {page['regions']} "
        f"regions{left}; the model sees {shown}; {_inversion(s)}; {page['date'][:10]}, "
        f"`{page['command']}`. {_INTERVALS} images."
    ]
    for model in s["models"]:
        if mine := [part for part in parts if part["model"] == model]:
            blocks.append(_model(page, model, mine))
    said = [
        [
            *_row(f"{part['title']}, {part['model']}", (one[k] for k in ("acc1", "miou", "oiou"))),
            str(one["count"]),
        ]
        for part in parts
        if (one := part.get("expressions"))
    ]
    head = ["regions found by words, %", "Acc@1", "mIoU", "oIoU", "expressions"]
    blocks.append(markdown_table(head, said) if said else "")
    return [*blocks, _left_out(page["skipped"].values()), paper_tables(page["kind"], s["data"])]


def _model(page: Page, model: str, mine: Sequence[Page]) -> str:
    titles = {"acc1": "Acc@1", "acc5": "Acc@5", "acc10": "Acc@10", "macro": "macro Acc@1"}
    first = next((part for part in mine if "lacks" not in part), {"acc1": None})
    columns = [name for name in titles if name in first]
    overlaps = any("iou" in part for part in mine)
    head = [f"%, model {model}", *(titles[name] for name in columns)]
    head += ["heatmap IoU"] * overlaps + ["ms a region"]
    rows = []
    for part in mine:
        row = [part["title"], part.get("lacks", "")]
        if "lacks" not in part:
            row = _row(part["title"], (part[name] for name in columns))
            row += [f"{part['iou']['value']:.2f}" if "iou" in part else ""] * overlaps
            row.append(f"{1000 * part['seconds']:.0f}")
        rows.append(row)
    rows.append(["guessing", f"{100 / len(page['settings']['classes']):.1f}"])
    rows = [row + [""] * (len(head) - len(row)) for row in rows]
    if papers := _paper_column(page["kind"], page["settings"]["data"]):
        head.append(f"the paper: COCO, 80 classes, {BACKBONE}")
        keys = [*(part["key"] for part in mine), None]
        rows = [[*row, papers.get(key, "")] for row, key in zip(rows, keys, strict=True)]
    return markdown_table(head, rows)


# -- scenes -----------------------------------------------------------------------------------


def _inversion(settings: Page) -> str:
    i = settings["inversion"]
    return f"K = {i['steps']}, learning rate {i['learning_rate']:g}, alpha {i['alpha']:g}"


def _about(page: Page) -> str:
    s, dates = page["settings"], sorted(p["date"] for p in page["parts"].values())
    return (
        f"Model {s['model']} (fingerprint {s['fingerprint']}), {s['names']} names, "
        f"{s['scenes']} scenes of each kind, {_inversion(s)}; {dates[-1][:10]}, "
        f"`{page['command']}`. {_INTERVALS} scenes or images (not of regions: "
        "those of one image are correlated)."
    )


def _scenes(page: Page) -> list[str]:
    blocks = [_about(page)]
    lacks = page["settings"].get("lacks", {})
    able = {key: method.title for key, method in SCENE_METHODS.items() if key not in lacks}
    singles, real, choices = (_parts(page, start) for start in ("single/", "real/", "choice/"))
    if singles:
        rows = [_row(f"top-{k}, %", (p[f"top{k}"] for p in singles.values())) for k in (1, 5)]
        count = next(iter(singles.values()))["scenes"]
        about = f"one object, image embedding ({count} scenes)"
        blocks.append(markdown_table([about, *(KINDS[k] for k in singles)], rows))
    for kind, title in KINDS.items():
        if counts := _parts(page, f"regions/{kind}/"):
            head = [f"region top-1, %, {title}", *(f"{n} objects" for n in counts)]
            parts, rest = counts.values(), [""] * (len(counts) - 1)
            rows = [_row(able[key], (p["ways"][key]["top1"] for p in parts)) for key in able]
            rows += [[SCENE_METHODS[key].title, why, *rest] for key, why in lacks.items()]
            blocks.append(markdown_table(head, [*rows, _overlaps(parts)]))
    if real:
        blocks.append(_real(real, able))
    if choices:
        rows = [
            [title, *(_setting(choice[key]["setting"]) for choice in choices.values())]
            for key, title in able.items()
        ]
        blocks.append(markdown_table(["setting chosen on validation images", *choices], rows))
    return [*blocks, _left_out(left_out(page))]


def left_out(page: Page) -> list[str]:
    """Return why ``bench scenes`` left out real images."""
    every = (why for part in page["parts"].values() for why in part.get("skipped", []))
    return list(dict.fromkeys(every))


def _overlaps(parts: Iterable[Page]) -> list[str]:
    return ["heatmap-to-mask IoU", *(_overlap(part["iou"]) for part in parts)]


def _real(real: Page, able: dict[str, str]) -> str:
    parts = real.values()
    head = [
        f"{kind}: {p['regions']} regions, {p['images']} images, {len(p['classes'])} names"
        for kind, p in real.items()
    ]
    rows = [
        *(_row(title, (p["ways"][key] for p in parts)) for key, title in able.items()),
        _row("size and colour alone (trained)", (p["size_and_colour"] for p in parts)),
        ["most frequent class", *(f"{100 * p['majority']:.1f}" for p in parts)],
        _overlaps(parts),
    ]
    return markdown_table(["test split, macro-averaged top-1, %", *head], rows)


def _setting(setting: Page) -> str:
    words = [f"{setting['resolution']} px"]
    if "context" in setting:
        context = setting["context"]
        words.append(context if isinstance(context, str) else f"context {context:g}")
    if "fill" in setting:
        words.append(f"fill {setting['fill']}")
    if "reading" in setting:
        words.append(f"tokens of the {setting['reading']}")
    return ", ".join(words)


# -- curves and captions ----------------------------------------------------------------------


def _curves(page: Page) -> list[str]:
    name = "step" if page["kind"] == "steps" else "alpha"
    blocks = [_about(page)]
    for kind, part in page["parts"].items():
        head = [f"{name}, {KINDS[kind]}", "region top-1, %", "heatmap-to-mask IoU"]
        head += ["Dice loss", "cosine to the image's embedding"]
        points = zip(
            *(part[key] for key in ("values", "top1", "iou", "dice", "cosine")), strict=True
        )
        rows = [
            [f"{value:g}", percent(top1), _overlap(iou), f"{dice:.3f}", f"{cosine:.2f}"]
            for value, top1, iou, dice, cosine in points
        ]
        blocks.append(markdown_table(head, rows))
    return [*blocks, paper_tables(page["kind"])]


_CAPTIONS: Final = {
    "class": "nearest name of all is right",
    "named": "sentence names the right thing",
    "alone": "sentence names it and nothing else",
    "as_class": "sentence names the nearest name",
}
_REAL: Final = {"aerial": "aerial images", "blood": "blood smears", "nuclei": "nuclei"}


def _captions(page: Page) -> list[str]:
    settings, parts = page["settings"], page["parts"]
    titles = {f"regions/{kind}": f"scenes, {title}" for kind, title in KINDS.items()}
    titles |= {f"real/{kind}": title for kind, title in _REAL.items()}
    dates = sorted(part["date"] for part in parts.values())
    blocks = [
        f"Decoder {settings['decoder']}, model {settings['model']} (fingerprint "
        f"{settings['fingerprint']}), {settings['names']} names to choose from, "
        f"{settings['scenes']} scenes of {settings['objects']} things of each kind; "
        f"{dates[-1][:10]}, `{page['command']}`. {_INTERVALS} images."
    ]
    shown = {titles[name]: part for name, part in parts.items() if name in titles}
    if shown:
        measured = shown.values()
        head = ["%", *(f"{title} ({part['regions']} regions)" for title, part in shown.items())]
        lines = [_row(title, (part[key] for part in measured)) for key, title in _CAPTIONS.items()]
        told = "nearest of six colour words is the region's"
        lines.append(_row(told, (part["colour"]["told"] for part in measured)))
        often = (f"{100 * part['colour']['most_frequent']:.1f}" for part in measured)
        blocks.append(markdown_table(head, [*lines, ["the most frequent colour", *often]]))
    if texts := parts.get("texts"):
        blocks.append(
            f"Of {texts['texts']} texts about one thing, in words that the decoder was not trained "
            f"on, it names the thing in {percent(texts['named'])} %."
        )
    if examples := [pair for part in shown.values() for pair in part["examples"][:3]]:
        blocks.append(markdown_table(["region shows", "sentence"], examples))
    return blocks


# -- the paper's figures ----------------------------------------------------------------------
# A figure has a column next to ours only where the images are of the same kind; it is below the
# table if only the experiment is the same. ``bench paper`` runs the paper's own experiments.

BACKBONE: Final = "ViT-B/16"  # of every figure unless stated
_COUNTS: Final = {"voc": 19, "context": 59, "coco": 80, "openimages": 350}  # classes of the sets
_ALIKE: Final = {
    "alpha": ("alpha", "by alpha: RefCOCO"),
    "masks": ("4", "by mask: COCO, 80 classes"),
    "maps": ("maps", "by map: VOC, 19 classes"),
}
_OURS: Final = "maskinversion"


def _printed(row: Row, metric: str = "acc1", sets: Iterable[str] = _COUNTS) -> list[str]:
    return [f"{row.values[name, metric]:.1f}" for name in sets]


def _paper_column(kind: str, data: str) -> dict[str | None, str]:
    """Return the paper's figures of COCO by the keys of our entries; empty if there are none."""
    if data != "coco-panoptic" or kind not in (data, "methods", "masks"):
        return {}
    if kind == "masks":
        rows = TABLES["4"].rows
        return {f"{_OURS}/{row.title}": _printed(row, sets=["coco"])[0] for row in rows}
    rows = (*TABLES["2"].rows, *TABLES["3"].rows)
    every = {(row.method, row.backbone): _printed(row, sets=["coco"])[0] for row in rows}
    cells: dict[str | None, str] = {name: v for (name, size), v in every.items() if size == "B/16"}
    others = [f"ViT-{size} {every[_OURS, size]}" for size in ("B/32", "L/14", "H/14")]
    cells[_OURS] += f" ({', '.join(others)})"
    return cells


def paper_tables(kind: str, data: str = "") -> str:
    """Return the paper's figures for the same experiment as Markdown, or ""."""
    if kind == "steps":
        return (
            f"The paper, {BACKBONE}: accuracy on VOC rises steeply to about 85 % by step 10 and "
            "stays flat to step 100, while the loss still creeps down."
        )
    if kind in _ALIKE:
        name, what = _ALIKE[kind]
        figures = {r.title: f"{v:.1f}" for r in TABLES[name].rows for v in r.values.values()}
        head = [f"the paper, {BACKBONE}, Acc@1, %, {what}", *figures]
        return markdown_table(head, [["MaskInversion", *figures.values()]])
    return _retrieval() if data == "coco-panoptic" and kind in (data, "methods") else ""


def _retrieval() -> str:
    head = ["the paper: Acc@1, % (classes)", "backbone"]
    head += [f"{SETS[name]} ({count})" for name, count in _COUNTS.items()]
    every = (*TABLES["2"].rows, *TABLES["3"].rows)
    shown = [row for row in every if row.backbone == "B/16" and row.method != _OURS]
    shown += [row for row in TABLES["2"].rows if row.method == _OURS]
    rows = [[METHODS[row.method].title, f"ViT-{row.backbone}", *_printed(row)] for row in shown]
    one, said = (
        next(row for row in TABLES[table].rows if (row.method, row.backbone) == (_OURS, "B/16"))
        for table in "21"
    )
    for metric in ("acc5", "acc10"):
        title = f"{METHODS[_OURS].title}, {METRICS[metric]}"
        rows.append([title, BACKBONE, *_printed(one, metric)])
    words = []
    for name in WITH_SENTENCES:
        figures = [f"{METRICS[m]} {value}" for (on, m), value in said.values.items() if on == name]
        alpha = "5" if name.startswith("refcoco") else "0"
        about = f"MaskInversion, {SETS[name]}, all masks of the image"
        words.append([about, alpha, ", ".join(figures)])
    told = [f"the paper: regions found by words, {BACKBONE}", "alpha", "figures"]
    return markdown_table(head, rows) + "\n\n" + markdown_table(told, words)


# -- documents --------------------------------------------------------------------------------


def write_into(document: Path, kind: str, text: str) -> None:
    """Replace the text between a document's ``<!-- bench KIND -->`` and its end mark."""
    begin, end = f"<!-- bench {kind} -->", f"<!-- end of bench {kind} -->"
    head, opened, rest = document.read_text("utf-8").partition(begin)
    _, closed, tail = rest.partition(end)
    if not (opened and closed):
        raise InputError(f"{document} needs one line '{begin}' and one '{end}' after it.")
    with atomic_path(document) as part:
        part.write_text(f"{head}{begin}\n{text}{end}{tail}", encoding="utf-8")
