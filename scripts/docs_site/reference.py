"""Tables of the reference, from the code that they are about."""

import csv
import re
from pathlib import Path

import typer
import yaml

from napari_maskinversion._napari.widgets.keys import KEYS
from napari_maskinversion.base.preferences import Preferences
from napari_maskinversion.bench.reports.report_tables import markdown_table as table
from napari_maskinversion.cli.app import app
from napari_maskinversion.engine.explain.registry import MAPS
from napari_maskinversion.engine.methods.registry import TYPICAL, list_methods
from napari_maskinversion.engine.models.registry import list_models
from napari_maskinversion.engine.models.specs import ELSEWHERE
from napari_maskinversion.language.labels.presets import presets as list_presets
from napari_maskinversion.library.region_fields import exported_fields
from napari_maskinversion.pipeline.cache_usage import KINDS
from napari_maskinversion.regions.annotations import annotation_reading as others
from napari_maskinversion.regions.annotations.annotation_reading import FORMATS as ANNOTATIONS
from napari_maskinversion.regions.sam.sam_checkpoints import CHECKPOINTS
from napari_maskinversion.results.columns import columns_in
from napari_maskinversion.results.export.catalogue import FORMATS as EXPORTS
from napari_maskinversion.results.settings import GROUPS, fields_of

ROOT = Path(__file__).parents[2]
NAMES = re.compile(r"([^\s,]+(?:(?:, | / )-[^\s,]+)*) ?(.*)")  # "--top-k, -k <int>"


def text(value):
    """Return a value as a cell of a table."""
    escaped = str(value).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
    return " ".join(escaped.split())


def code(*values):
    """Return values as code, separated by commas."""
    return ", ".join(f"`{value}`" for value in values)


def commands():
    """Return every command with its arguments and options."""
    context = typer.Context(group := typer.main.get_command(app), info_name="napari-maskinversion")
    return "\n\n".join(
        _command(group.get_command(context, name), name, 2) for name in group.commands
    )


def _command(command, name, level):
    heading = f"{'#' * level} {name}"
    about = text(command.help or "")
    if hasattr(command, "commands"):
        inner = (_command(one, f"{name} {key}", level + 1) for key, one in command.commands.items())
        return "\n\n".join([heading, about, *inner])
    context = typer.Context(command, info_name=f"napari-maskinversion {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    parameters = {"argument": [], "option": []}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record and "--help" not in parameter.opts:
            names, value = NAMES.fullmatch(record[0].strip(" /")).groups()
            cell = f"`{names}` {text(value.replace('|', ', '))}".strip()
            parameters[parameter.param_type_name].append([cell, text(record[1])])
    tables = [table([title, "meaning"], lines) for title, lines in parameters.items() if lines]
    return "\n\n".join([heading, about, f"    napari-maskinversion {name} {usage}", *tables])


def settings():
    """Return the settings of a run, group by group."""
    return "\n\n".join(
        f"## {title}\n\n" + table(["setting", "key", "meaning"], lines)
        for group, title in GROUPS.items()
        if (lines := [_setting(one) for one in fields_of(group)])
    )


def _setting(one):
    low = "" if one.minimum is None else f"{'above' if one.above else 'from'} {one.minimum:g}"
    high = "" if one.maximum is None else f"to {one.maximum:g}"
    limits = " ".join(part for part in (low, high, one.unit) if part)
    default = "" if one.default in (None, "", ()) else f"default `{one.default}`"
    range_ = ", ".join(part for part in (limits, default) if part)
    about = f"{text(one.help)} {range_[:1].upper()}{range_[1:]}{'.' * bool(range_)}"
    return [text(one.title), f"`{one.key}`", about.strip()]


def preferences():
    """Return the user's preferences."""
    lines = [
        [
            text(field.title),
            f"`{name}`",
            text(field.description) + (f" Default `{field.default}`." if field.default else ""),
        ]
        for name, field in Preferences.model_fields.items()
    ]
    return table(["preference", "key", "meaning"], lines)


def columns():
    """Return the columns of the results table."""
    lines = [[f"`{c.name}`", text(c.unit), text(c.explanation)] for c in columns_in("files")]
    return table(["column", "unit", "meaning"], lines)


def export_formats():
    """Return what results can be written as."""
    lines = [
        [
            f"`{name}`",
            text(entry.title),
            code(*(path.name for path in entry.files(Path(entry.file)))),
        ]
        for name, entry in EXPORTS.items()
    ]
    return table(["format", "what", "files"], lines)


def annotation_formats():
    """Return the files of regions that are read."""
    lines = [
        [
            text(form.name),
            code(*form.suffixes),
            text(form.content),
            "yes" if form.in_viewer else "no",
        ]
        for form in ANNOTATIONS
    ]
    return table(["format", "ends in", "holds", "opened by napari itself"], lines)


def other_programs():
    """Return the files that are refused with a way out."""
    ways = {}
    for ending in others.UNREAD:
        # "FILE is WHAT that is not read; WAY."
        what, _, way = others.way_out(Path(f"x{ending}")).partition(" that is not read; ")
        ways.setdefault((what.partition(" is ")[2].rstrip(","), way.rstrip(".")), []).append(ending)
    return table(
        ["file", "what it is", "what to do"],
        [[code(*endings), text(what), text(way)] for (what, way), endings in ways.items()],
    )


def own_formats():
    """Return the files that this program writes for itself."""
    with (ROOT / "docs/reference/own-formats.csv").open(encoding="utf-8", newline="") as lines:
        formats = [*csv.DictReader(lines)]
    rows = [[text(one["file"]), text(one["where"]), one["version"]] for one in formats]
    return table(["file", "where", "version"], rows)


def library_columns():
    """Return the columns of an exported library."""
    rows = [[f"`{field.name}`", field.arrow, field.title] for field in exported_fields()]
    rows += [
        ["`picture`", "binary", "picture of the region (WebP)"],
        ["`space`", "string", "what the embedding was computed with, as JSON"],
        ["`embedding`", "list of float", "unit embedding"],
    ]
    return table(["column", "type", "what it holds"], rows)


def keys():
    """Return all keys by the place where they work."""
    places = {}
    for key in KEYS:
        places.setdefault(key.place, []).append(
            [" or ".join(f"++{_key(k)}++" for k in key.keys), text(key.effect)]
        )
    return "\n\n".join(
        f"## {place}\n\n{table(['key', 'what'], lines)}" for place, lines in places.items()
    )


def _key(key):
    names = {"Return": "enter", "Enter": "num-enter", "Escape": "esc"}
    names |= {"PgDown": "page-down", "PgUp": "page-up"}
    names |= {f"{side}": f"arrow-{side.lower()}" for side in ("Left", "Right", "Up", "Down")}
    return "+".join(names.get(part, part.lower()) for part in key.split("+"))


def models():
    """Return the models by name, and the checkpoints of Segment Anything."""
    lines = [
        [
            f"`{s.name}`",
            s.domain,
            s.size_text,
            f"{s.working_resolution} ({s.native_resolution})",
            s.activation,
            s.tokenizer or "CLIP's",
            s.license,
            text(s.title),
        ]
        for s in list_models()
    ]
    sam = [
        [f"`{s.name}`", "regions", s.size_text, "1024", "", "", s.license, text(s.title)]
        for s in CHECKPOINTS.values()
    ]
    heads = ["name", "field", "size", "input, px (native)", "activation", "tokenizer", "licence"]
    return table([*heads, "what"], lines + sam)


def models_elsewhere():
    """Return the models that are not fetched, why, and what to do."""
    lines = [
        [one.name, one.domain, text(one.license), text(one.why), text(one.instead)]
        for one in ELSEWHERE.values()
    ]
    return table(["model", "field", "licence", "why it is not fetched", "instead"], lines)


def methods():
    """Return the methods and what they cost."""
    lines = [
        [f"`{s.name}`", s.title, text(s.about), f"{s.image + TYPICAL * s.region:.0f}"]
        for s in list_methods()
    ]
    return table(
        ["`--method`", "name", "what the model sees", f"{TYPICAL} regions cost, passes"], lines
    )


def maps():
    """Return the explainability maps."""
    lines = [[f"`{s.name}`", s.title, text(s.about)] for s in MAPS.values()]
    return table(["`--explainer`", "name", "what it is"], lines)


def presets():
    """Return the lists of labels that come with the package."""
    lines = [
        [f"`preset:{p.name}`", str(len(p.vocabulary.labels)), text(p.description), text(p.source)]
        for p in list_presets()
    ]
    return table(["`--labels`", "labels", "what", "source"], lines)


def caches():
    """Return what the cache folder holds."""
    lines = [[f"`{kind.name}`", text(kind.title)] for kind in KINDS]
    return table(["`models clear --only`", "what"], lines)


def citation():
    """Return the paper that CITATION.cff prefers, as a sentence and as BibTeX."""
    page = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["preferred-citation"]
    first = [f"{author['given-names']} {author['family-names']}" for author in page["authors"]]
    last = [f"{author['family-names']}, {author['given-names']}" for author in page["authors"]]
    conference = page["conference"]["name"]
    return "\n".join(
        [
            f"> {', '.join(first)}: *{page['title']}.* {conference}. <{page['url']}>",
            "",
            "```bibtex",
            f"@inproceedings{{{page['authors'][0]['family-names'].lower()}{page['year']}maskinversion,",
            f"  title     = {{{page['title']}}},",
            f"  author    = {{{' and '.join(last)}}},",
            f"  booktitle = {{{page['collection-title']}}},",
            f"  year      = {{{page['year']}}},",
            f"  url       = {{{page['url']}}}",
            "}",
            "```",
        ]
    )


def included(name):
    """Return a file at the repository's root below its title, its links as seen from a page."""
    body = (ROOT / name).read_text("utf-8").partition("\n")[2]
    return re.sub(r"\]\((?!https?:|#)([^)]+)\)", r"](../\1)", body)
