"""Command-line options: those of run settings, made from their fields, and shared groups."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, is_dataclass, replace
from functools import wraps
from inspect import Parameter
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic import BaseModel

from ..base.errors import InputError
from ..base.locks import Lock, hold
from ..base.targets import check_targets
from ..language.labels.label import TEMPLATES
from ..pipeline.inputs import input_files
from ..regions.annotations.annotation_reading import FORMATS as ANNOTATION_FORMATS
from ..results.export.bundle import Bundle
from ..results.export.catalogue import DEFAULT, FORMATS, check_formats, write_results
from ..results.settings import (
    GROUPS,
    PAPER,
    PaperTask,
    RunSettings,
    Setting,
    fields_of,
    settings_by_key,
)
from .console import say

AcceptedOnly = Annotated[
    bool, typer.Option("--accepted-only", help="Only regions that were accepted in a review.")
]
Polygons = Annotated[
    bool,
    typer.Option(
        "--polygons",
        help="Write masks in COCO as polygons, for programs that read no run lengths.",
    ),
]
ImageFile = Annotated[Path, typer.Argument(help="Image file: PNG, TIFF, OME-Zarr, ...")]
MaskFiles = Annotated[
    Path,
    typer.Argument(
        help="Label image or stack, a folder or file of several binary masks, or regions in a file "
        "of: " + ", ".join(form.name for form in ANNOTATION_FORMATS) + "."
    ),
]
EarlierResults = Annotated[
    Path | None,
    typer.Option(
        help="results.npz of an earlier run --format npz on the same files, to reuse its "
        "embeddings. Model, settings and files must be the same (find: --alpha 5 --window whole)."
    ),
]
Paper = Annotated[
    bool,
    typer.Option(
        "--paper",
        help="The paper's settings: exact, the whole image as a square of 448 px, 10 steps, "
        "learning rate 0.1, alpha 0 (find: 5), the prompt 'a photo of a ...' (find: none). "
        "Your other options still apply; result.json lists them.",
    ),
]
_at_work: ContextVar[typer.Context] = ContextVar("at_work")
_CONTEXT = Parameter("ctx", Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where the results of a command go, and in which formats."""

    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path(
        "maskinversion_output"
    )
    formats: Annotated[
        str,
        typer.Option("--format", help=f"What to write, separated by commas: {', '.join(FORMATS)}."),
    ] = ",".join(DEFAULT)
    overwrite: Annotated[bool, typer.Option(help="Replace results in the folder.")] = False
    raw_csv: Annotated[
        bool,
        typer.Option(
            "--raw-csv",
            help="Write texts to CSV as they are. By default an apostrophe is put before those "
            "that a spreadsheet would run as a formula.",
        ),
    ] = False
    polygons: Polygons = False

    @property
    def chosen(self) -> list[str]:
        """The names of the formats."""
        return split_names(self.formats)

    def begin(self, *inputs: Path | str | None) -> Lock | None:
        """Refuse what must not or cannot be written; keep what is returned until it is written."""
        names = check_formats(self.chosen)
        if self.polygons and "coco" not in self.chosen:
            raise InputError(
                "--polygons is about COCO; add coco to --format, or leave --polygons out."
            )
        targets = [self.out / name for name in names]
        read = input_files(*inputs)
        check_targets(targets, overwrite=self.overwrite, inputs=read)
        return hold(self.out)

    def write(self, bundle: Bundle) -> str:
        """Write results; return a line about the files."""
        bundle = replace(bundle, raw_csv=self.raw_csv, polygons=self.polygons)
        written = write_results(bundle, self.out, self.chosen, overwrite=self.overwrite)
        return f"Wrote {', '.join(file.name for file in written) or 'nothing'} in {self.out}"


def split_names(text: str) -> list[str]:
    """Return the names in a text, separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def template_option(default: str) -> Any:
    """Return typer's option for prompts; ``default`` describes those of the command."""
    return typer.Option(
        help=f"Prompts: {', '.join(TEMPLATES)}, or a sentence with {{}}; may be repeated "
        f"(default: {default})."
    )


def with_settings(
    *wanted: str,
    without: tuple[str, ...] = (),
    defaults: Mapping[str, Any] | None = None,
    help: Mapping[str, str] | None = None,
    model: type[RunSettings] = RunSettings,
    only_chosen: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add options to a command, which receives their values as ``settings``.

    With ``only_chosen`` it receives those that the user wrote, by key, as ``changes``. Its other
    parameters are read as by `with_option_groups`.
    """
    settings = {}
    for setting in fields_of(model=model):
        if (
            (setting.group in wanted and setting.extra.get("cli") is not False)
            or setting.key in wanted
        ) and setting.key not in without:
            settings[setting.key.replace(".", "_")] = setting
    usual = model().changed(defaults or {})

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        command = with_option_groups(command)
        parameters = inspect.signature(command, eval_str=True).parameters
        own_parameters = []
        for name, value in parameters.items():
            if name not in ("settings", "changes"):
                own_parameters.append(value)
        options = []
        for name, setting in settings.items():
            options.append(
                _parameter(
                    name,
                    setting,
                    None if _is_list(setting) else usual.get(setting.key),
                    (help or {}).get(setting.key),
                )
            )

        def call(ctx: typer.Context | None = None, **values: Any) -> None:
            changes = {}
            for name, setting in settings.items():
                value = values.pop(name)
                if ctx is None or _is_written(ctx, name):
                    changes[setting.key] = value
                    if _is_list(setting):
                        changes[setting.key] = tuple(value or ())
            if ctx is None:
                command(**values, settings=usual.changed(changes))
            else:
                command(**values, changes=changes)

        return _with_parameters(
            call, command, [*[_CONTEXT] * only_chosen, *own_parameters, *options]
        )

    return decorate


def with_paper(
    task: PaperTask = "classes", without: tuple[str, ...] = (), **more: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add ``--paper`` to a command: it sets the options that were not given.

    Above the decorators that make the other options.
    """
    preset = dict(more)
    for key in PAPER:
        value = RunSettings.paper(task).get(key)
        preset |= {key.replace(".", "_"): value, key.rpartition(".")[2]: value}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters = dict(inspect.signature(command).parameters)
        values = {}
        for name in parameters:
            if name in preset and name not in without:
                values[name] = preset[name]

        def call(ctx: typer.Context, **chosen: Any) -> None:
            _at_work.set(ctx)
            if "paper" in parameters:
                paper = chosen["paper"]
            else:
                paper = chosen.pop("paper")
            command(**(_as_in_the_paper(ctx, chosen, values) if paper else chosen))

        flag = Parameter("paper", Parameter.KEYWORD_ONLY, default=False, annotation=Paper)
        added = () if "paper" in parameters else (flag,)
        return _with_parameters(call, command, [_CONTEXT, *parameters.values(), *added])

    return decorate


def _as_in_the_paper(
    context: typer.Context, chosen: Mapping[str, Any], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Set the options that the user did not give; name the others."""
    options = {option.name: option for option in context.command.params}
    result = dict(chosen)
    kept = []
    for name, value in values.items():
        if not _is_written(context, name):
            result[name] = value
        elif chosen[name] != value:
            option = options[name].opts[0]
            value_given = chosen[name]
            words = [option]
            if isinstance(value_given, list):
                words += map(str, value_given)
            elif value_given is not True:
                words.append(str(value_given))
            kept.append(" ".join(words))
    if kept:
        say(f"The paper's setting, but with your {', '.join(kept)}.")
    return result


def _is_written(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def is_written(key: str) -> bool:
    """Return whether the user wrote the option of a setting, in a command `with_paper`."""
    return _is_written(_at_work.get(), key.replace(".", "_"))


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter whose type is a dataclass or a model of settings by its fields.

    Each is an option where the parameter stood; the command receives an instance of the type. The
    default of a parameter brings those of its options. Numbers have to be finite: no region is
    smaller or larger than nan, so none would be found, without a word why.
    """
    parameters = list(_flat_parameters(command))

    def call(**values: Any) -> None:
        for name, value in values.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise InputError(
                    f"--{name.replace('_', '-')} must be a finite number; got {value}."
                )
        _call(command, values)

    return _with_parameters(call, command, parameters)


def _flat_parameters(function: Any, usual: Any = None) -> Iterator[Parameter]:
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        if usual is None:
            default = parameter.default
        else:
            default = getattr(usual, name)
        kind = parameter.annotation
        if is_dataclass(kind):
            yield from _flat_parameters(kind, None if default is Parameter.empty else default)
        elif _is_group(kind):
            for setting in _options_of(kind):
                yield _parameter(setting.key, setting, setting.default)
        else:
            yield parameter.replace(kind=Parameter.KEYWORD_ONLY, default=default)


def _call(function: Any, values: Mapping[str, Any]) -> Any:
    arguments = {}
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        kind = parameter.annotation
        if _is_group(kind):
            arguments[name] = kind(
                **{setting.key: values[setting.key] for setting in _options_of(kind)}
            )
        else:
            if is_dataclass(kind):
                arguments[name] = _call(kind, values)
            else:
                arguments[name] = values[name]
    return function(**arguments)


def _is_group(kind: Any) -> bool:
    """Return whether a type is a model of settings; those of a run have `with_settings`."""
    is_model = isinstance(kind, type) and issubclass(kind, BaseModel)
    return is_model and not issubclass(kind, RunSettings)


def _options_of(kind: type[BaseModel]) -> list[Setting]:
    return [setting for setting in fields_of(model=kind) if setting.extra.get("cli") is not False]


def _parameter(name: str, setting: Setting, default: Any, help: str | None = None) -> Parameter:
    """Return the parameter of a command that a setting is."""
    return Parameter(
        name,
        Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[_type(setting), _option(setting, help)],
    )


def _with_parameters(
    call: Callable[..., None], command: Callable[..., None], parameters: Sequence[Parameter]
) -> Callable[..., None]:
    """Let typer read other parameters than those of the command."""
    call = wraps(command)(call)
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


def setting_option(key: str, help: str | None = None) -> Any:
    """Return typer's option for one setting, for commands that take it by itself."""
    return _option(settings_by_key(RunSettings)[key], help)


def _option(setting: Setting, help: str | None) -> Any:
    name = "--" + str(setting.extra.get("cli") or setting.name.replace("_", "-"))
    turns_off = setting.annotation is bool and bool(setting.default)
    if turns_off:
        name = f" /{name}"
    choices = setting.extra.get("choices") or _choices(setting.annotation)
    return typer.Option(
        name,
        help=help or setting.extra.get("cli_help") or setting.help,
        metavar="|".join(choices) or None,
        show_default=not turns_off,
        rich_help_panel=GROUPS.get(setting.group),
    )


def _type(setting: Setting) -> Any:
    """Return the type that typer reads; our own checks have clearer messages for choices."""
    annotation = setting.annotation
    if _is_list(setting):
        return list[str] | None
    if _choices(annotation):
        optional = type(None) in get_args(annotation)
        if optional:
            return str | None
        return str
    return annotation


def _is_list(setting: Setting) -> bool:
    return get_origin(setting.annotation) is tuple


def _choices(annotation: Any) -> tuple[str, ...]:
    if get_origin(annotation) in (Union, UnionType):
        return next((c for part in get_args(annotation) if (c := _choices(part))), ())
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return ()
