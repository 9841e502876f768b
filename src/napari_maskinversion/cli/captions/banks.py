"""The ``captions`` commands, and how ``--captions`` is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import MofNCompleteColumn

from ...base import progress_words as words
from ...base.errors import InputError, ModelError
from ...base.progress import CAPTIONS, Tick
from ...engine.models.registry import unread_spec
from ...engine.models.specs import DEMO
from ...language.captions.bank import TOP, CaptionBank, check_top, open_bank
from ...language.captions.building import (
    build_bank,
    continue_bank,
    default_folder,
)
from ...language.captions.caption_files import Captions, read_captions
from ...language.labels.presets import vocabulary_of
from ...language.labels.vocabulary import Vocabulary
from ...language.ranking.ranking import check_expression, embed_expression
from ...results.settings import RunSettings
from ..console import ProgressBar, echo, following, print_table, say
from ..loading import load
from ..options import template_option, with_settings

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone

captions = typer.Typer(help="Caption banks: build, search.", no_args_is_help=True)

Column = Annotated[
    str | None,
    typer.Option(help="Column of a CSV file (default: caption, text or title)."),
]
Encoding = Annotated[str | None, typer.Option(help="Encoding of the file (default: UTF-8).")]
BankModel = Annotated[
    str | None,
    typer.Option(help="Model name, or a checkpoint file (default: the bank's, else demo)."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Labels and captions for regions, as several commands take them."""

    labels: Annotated[
        str | None,
        typer.Option(
            help="Labels separated by commas (car | automobile: synonyms), a file of labels (text, "
            "CSV, YAML), or a list that comes with the package: preset:coco; see labels list. "
            "(default: the names in the files of regions, if they have any)"
        ),
    ] = None
    template: Annotated[
        list[str] | None, template_option("those of the project, file or preset, else photo")
    ] = None
    captions: Annotated[
        Path | None,
        typer.Option(
            help="Also find the best captions, with labels or without: a caption bank (see "
            "captions build), or a text or CSV file, which is embedded once and kept."
        ),
    ] = None
    caption_column: Annotated[
        str | None, typer.Option(help="Column of a CSV file of captions.")
    ] = None

    def vocabulary(self, threshold: float | None) -> Vocabulary | None:
        """Return the labels with their prompts; None without labels."""
        if self.labels is None:
            return None
        return vocabulary_of(self.labels, self.template or (), threshold)

    def sentences(self) -> CaptionSource | None:
        """Return the captions; refuses a file that has none."""
        if self.captions is None:
            return None
        return CaptionSource(self.captions, column=self.caption_column)


class CaptionSource:
    """A file of captions, or the folder of a caption bank."""

    def __init__(
        self, path: Path, *, column: str | None = None, encoding: str | None = None
    ) -> None:
        self.folder = path if path.is_dir() else None
        self._captions: Captions | None = None
        self._model = DEMO
        if self.folder is not None:
            self._model = CaptionBank.open(path).record.model
        else:
            self._captions = read_captions(path, column=column, encoding=encoding)

    @property
    def known_model(self) -> str:
        """Name of the bank's model; of captions without a bank, "demo"."""
        try:
            return unread_spec(self._model).name
        except ModelError:
            raise ModelError(
                f"The caption bank in {self.folder} was built with a model of your own, "
                f"{self._model}; name it with --model."
            ) from None

    @property
    def sha256(self) -> str:
        """Hash of the captions and their order."""
        if self._captions is not None:
            return self._captions.sha256
        assert self.folder is not None
        return CaptionBank.open(self.folder).record.sha256

    def bank(self, model: Backbone, out: Path | None = None) -> CaptionBank:
        """Open the bank; build or finish it first if necessary, under a progress bar."""
        if self._captions is not None:
            place = default_folder(model, self._captions) if out is None else out
            captions = self._captions
            return _follow(lambda: build_bank(model, captions, place), place)
        assert self.folder is not None
        if CaptionBank.open(self.folder).complete:
            bank = open_bank(self.folder)
            bank.check(model)
            return bank
        return self.finish(model)

    def finish(self, model: Backbone) -> CaptionBank:
        """Finish the bank in a folder, and repair damaged parts."""
        assert self.folder is not None
        folder = self.folder
        return _follow(lambda: continue_bank(model, folder), folder)


def _follow(work: Callable[[], CaptionBank], folder: Path) -> CaptionBank:
    """Build under a progress bar; Ctrl-C keeps the captions embedded so far."""
    columns, stopped = MofNCompleteColumn(), partial(_stopped, folder)
    with following(_show, columns, remaining=True, stopped=stopped):
        return work()


def _show(bar: ProgressBar, news: Tick) -> None:
    bar.say_note(news.note)
    if news.stage == CAPTIONS:
        bar.show(words.EMBEDDING_CAPTIONS, news.done, news.total)


def _stopped(folder: Path) -> str:
    try:
        store = CaptionBank.open(folder)
    except InputError:
        return "Stopped before the first captions were embedded."
    return (
        f"Stopped: {store.done:,} of {store.record.count:,} captions are embedded and kept in "
        f"{folder}; to continue, repeat the command, or: captions build {folder}"
    )


@captions.command("build")
@with_settings("architecture", "device")
def build_command(
    file: Annotated[
        Path,
        typer.Argument(
            help="Text file (one caption per line), CSV or TSV file, or an unfinished bank."
        ),
    ],
    settings: RunSettings,
    column: Column = None,
    encoding: Encoding = None,
    model: BankModel = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for this bank only (default: in the cache folder)."),
    ] = None,
) -> None:
    """Embed captions and keep them. After Ctrl-C the same command continues."""
    source = CaptionSource(file, column=column, encoding=encoding)
    if source.folder is not None and out is not None:
        raise InputError(f"{file} is a bank already; leave out --out to finish it where it is.")
    loaded = load(model or source.known_model, settings.architecture, settings.device)
    bank = source.bank(loaded, out) if source.folder is None else source.finish(loaded)
    skipped = bank.record.skipped
    more = f" ({skipped})" if skipped else ""
    say(f"{len(bank):,} captions{more}, model {bank.record.model}, in:")
    echo(bank.folder)


@captions.command("search")
@with_settings("architecture", "device")
def search_command(
    bank: Annotated[Path, typer.Argument(help="Folder of a caption bank, or a file of captions.")],
    words: Annotated[str, typer.Argument(help="What to look for.")],
    settings: RunSettings,
    top: Annotated[int, typer.Option("--top-k", help="Captions to print.")] = TOP,
    column: Column = None,
    encoding: Encoding = None,
    model: BankModel = None,
) -> None:
    """Print the captions most similar to some words."""
    check_top(top)
    check_expression(words)
    source = CaptionSource(bank, column=column, encoding=encoding)
    loaded = load(model or source.known_model, settings.architecture, settings.device)
    opened = source.bank(loaded)
    (matches,) = opened.search(embed_expression(loaded, words)[None], top, device=loaded.device)
    pairs = zip(matches.captions, matches.similarities, strict=True)
    rows = [(f"{similarity:.3f}", caption) for caption, similarity in pairs]
    title = f"{len(opened):,} captions, model {opened.record.model}"
    print_table(("similarity", "caption"), rows, title, right=("similarity",))
