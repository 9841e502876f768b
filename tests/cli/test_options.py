"""Options made from the fields of the run settings."""

import json
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from pydantic import Field
from typer.testing import CliRunner

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.cli.app import app
from napari_maskinversion.cli.options import with_option_groups, with_settings
from napari_maskinversion.engine.settings import InversionConfig
from napari_maskinversion.results.run_info import RunInfo
from napari_maskinversion.results.settings import RunSettings

# Scripts of users hold these names.
OF_RUN = [
    "--model",
    "--architecture",
    "--method",
    "--method-weights",
    "--device",
    "--steps",
    "--learning-rate",
    "--alpha",
    "--layers",
    "--explainer",
    "--fast",
    "--route",
    "--precision",
    "--paper",
    "--chunk-size",
    "--resolution",
    "--square",
    "--window",
    "--context",
    "--planes",
    "--plane",
    "--channels",
    "--only",
    "--merge",
    "--pixel-size",
    "--unit",
    "--threshold",
    "--top-k",
    "--least-tokens",
    "--least-margin",
    "--least-overlap",
]
OF_FIND = [
    name
    for name in OF_RUN
    if not name.startswith(("--least", "--method", "--pixel", "--unit", "--thresh", "--top-k"))
]


def options_of(command):
    click_command = typer.main.get_command(app).commands[command]
    return {name for each in click_command.params for name in (*each.opts, *each.secondary_opts)}


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("run", OF_RUN),
        ("find", OF_FIND),
        ("rollout", ["--model", "--architecture", "--device", "--resolution", "--square"]),
        ("segment", ["--device", "--plane", "--channels"]),
    ],
)
def test_options_keep_their_names(command, names):
    assert set(names) <= options_of(command)


def test_fields_that_are_not_for_the_command_line_are_no_options():
    assert "--keep-last-step-heatmaps" not in options_of("run")


class MoreInversion(InversionConfig):
    warmth: Annotated[float, Field(title="Warmth", description="Of the optimiser.", ge=0)] = 0.5


class MoreSettings(RunSettings):
    inversion: MoreInversion = Field(
        default_factory=MoreInversion, json_schema_extra={"group": "inversion"}
    )
    blur: float = Field(
        0.5, title="Blur", description="Of the image.", ge=0, json_schema_extra={"group": "input"}
    )


def call(*arguments):
    """Run a command that has all options of more settings, and return its output and settings."""
    command = typer.Typer()
    seen = []

    @command.command()
    @with_settings("inversion", "input", "window", "planes", model=MoreSettings)
    def _(settings):
        seen.append(settings)

    outcome = CliRunner().invoke(command, list(arguments), env={"COLUMNS": "200"})
    return outcome, seen


def test_a_field_more_is_an_option_more():
    output = call("--help")[0].output
    for words in ("--warmth", "Of the optimiser.", "--blur", "Of the image."):
        assert words in output
    outcome, (settings,) = call("--warmth", "2", "--blur", "1.5", "--square", "--fast")
    assert outcome.exit_code == 0
    assert (settings.inversion.warmth, settings.blur) == (2, 1.5)
    assert (settings.keep_aspect, settings.inversion.fast) == (False, True)
    assert call()[1] == [MoreSettings()]


def test_a_field_more_is_in_the_record():

    settings = call("--warmth", "2", "--blur", "1.5", "--merge", "1,2")[1][0]
    info = RunInfo(
        fingerprint="0",
        settings=settings,
        vocabulary=None,
        image_shape=(8, 8),
        input_size=(8, 8),
        grid=(1, 1),
        embed_dim=4,
        device="cpu",
    )
    record = json.loads(json.dumps(info.provenance()))["settings"]
    assert (record["inversion"]["warmth"], record["blur"]) == (2, 1.5)
    assert record["merge"] == ["1,2"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    out: Annotated[str, typer.Option()]
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    size: Annotated[int, typer.Option("--edge", help="In pixels.")] = 3
    where: Where


def test_fields_of_a_dataclass_are_options_in_its_place():
    command = typer.Typer()
    seen = []

    @command.command()
    @with_option_groups
    def _(*, first: int = 1, how: How, last: str = "x"):
        seen.append((first, how, last))

    names = [each.name for each in typer.main.get_command(command).params]
    assert names[:5] == ["first", "size", "out", "again", "last"]
    assert CliRunner().invoke(command, ["--first", "2"]).exit_code == 2  # no --out
    outcome = CliRunner().invoke(command, ["--edge", "5", "--out", "here", "--again"])
    assert outcome.exit_code == 0
    assert seen == [(1, How(size=5, where=Where(out="here", again=True)), "x")]


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("find", "image.png", "masks.png", "dog", "--top", "0"), "--top"),
        (("captions", "search", "few.txt", "dog", "--top-k", "0"), "--top-k"),
        (("segment", "image.png", "--boxes", "boxes.csv", "--candidate", "0"), "--candidate"),
        (("bench", "voc", "--limit", "0"), "--limit"),
        (("bench", "paper", "--ties", "none"), "--ties"),
        (("bench", "paper", "--voc-classes", "21"), "--voc-classes"),
        (("bench", "tune", "--resolution", "8"), "--resolution"),
        (("bench", "speed", "--images", "0"), "--images"),
    ],
)
def test_a_value_that_an_option_does_not_take_is_refused_by_its_name(arguments, option):
    ending = CliRunner().invoke(app, arguments)
    assert ending.exit_code == 2
    assert f"Invalid value for '{option}'" in ending.stderr


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("library", "search", "here", "dog", "--smallest", "nan"), "--smallest"),
        (("library", "remove", "here", "--largest", "-inf"), "--largest"),
        (("bench", "speed", "--masks", "none", "--minutes", "inf"), "--minutes"),
    ],
)
def test_a_number_that_nothing_compares_to_is_refused(arguments, option):
    error = CliRunner().invoke(app, arguments).exception
    assert isinstance(error, InputError)
    assert f"{option} must be a finite number; got {arguments[-1]}." in str(error)
