"""The commands ``captions`` and ``caption``, and how ``--captions`` is read.

``caption`` writes a sentence for each region, by a decoder.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.progress import MofNCompleteColumn

from ..base import progress_words as words
from ..base.errors import InputError
from ..base.progress import CAPTIONS, Tick
from ..language.captions.bank import TOP, CaptionBank
from ..language.captions.source import CaptionSource
from ..language.generation.registry import DECODERS
from ..language.generation.settings import SEARCHES, GenerationSettings, describe
from ..language.labels.presets import vocabulary_of, with_classifier
from ..language.labels.vocabulary import Vocabulary, to_text
from ..language.ranking.query import check_expression, embed_expression
from ..pipeline.caption_ranking import CaptionRequest, generate_captions
from ..pipeline.job import open_job
from ..results.printing import print_results
from ..results.settings import RunSettings
from .console import ProgressBar, echo, following, print_table, say
from .options import (
    EarlierResults,
    ImageFile,
    MaskFiles,
    Output,
    template_option,
    with_paper,
    with_settings,
)
from .run_options import embedded, load, load_captioner, say_unfinished

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone


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
    classifier: Annotated[
        Path | None,
        typer.Option(
            help="Rank by this classifier (see library train); --labels adds words to its."
        ),
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

    @property
    def are_named(self) -> bool:
        """Whether there are labels or captions, besides the names in files of regions."""
        return any(source is not None for source in (self.labels, self.classifier, self.captions))

    def vocabulary(self, threshold: float | None) -> Vocabulary | None:
        """Return the labels with their prompts; None without labels."""
        if self.classifier is not None:
            if self.template:
                raise InputError(
                    f"--template cannot be used with {self.classifier}: its words keep the "
                    "prompts they were trained with."
                )
            return with_classifier(self.classifier, self.labels, threshold)
        if self.labels is None:
            return None
        return vocabulary_of(self.labels, self.template or (), threshold)

    @property
    def only_list(self) -> str | None:
        """The labels as a project holds them: a classifier stands for its words."""
        if self.classifier is None:
            vocabulary = None
        else:
            vocabulary = self.vocabulary(None)
        if vocabulary is None:
            return self.labels
        if self.labels:
            return to_text(vocabulary.full_labels)
        return str(self.classifier)

    @property
    def extended(self) -> Path | None:
        """The classifier that ranks these labels, too."""
        if self.labels:
            return self.classifier
        return None

    def sentences(self) -> CaptionSource | None:
        """Return the captions; refuses a file that has none."""
        if self.captions is None:
            return None
        return CaptionSource(self.captions, column=self.caption_column)


def bank_of(
    source: CaptionSource, model: Backbone, out: Path | None = None, *, repair: bool = False
) -> CaptionBank:
    """Open a caption bank, or build or finish it under a progress bar.

    Ctrl-C keeps the captions embedded so far. With ``repair`` damaged parts are embedded again.
    """
    stopped = partial(_stopped, source.place(model, out))
    with following(_show_embedded, MofNCompleteColumn(), remaining=True, stopped=stopped):
        if repair:
            return source.finish(model)
        return source.bank(model, out)


def _show_embedded(bar: ProgressBar, news: Tick) -> None:
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
    loaded = load(settings.changed({"model": model or source.known_model}))
    bank = bank_of(source, loaded, out, repair=source.folder is not None)
    skipped = bank.record.skipped
    more = ""
    if skipped:
        more = f" ({skipped})"
    say(f"{len(bank):,} captions{more}, model {bank.record.model}, in:")
    echo(bank.folder)


@captions.command("search")
@with_settings("architecture", "device")
def search_command(
    bank: Annotated[Path, typer.Argument(help="Folder of a caption bank, or a file of captions.")],
    words: Annotated[str, typer.Argument(help="What to look for.")],
    settings: RunSettings,
    top: Annotated[int, typer.Option("--top-k", min=1, help="Captions to print.")] = TOP,
    column: Column = None,
    encoding: Encoding = None,
    model: BankModel = None,
) -> None:
    """Print the captions most similar to some words."""
    check_expression(words)
    source = CaptionSource(bank, column=column, encoding=encoding)
    loaded = load(settings.changed({"model": model or source.known_model}))
    opened = bank_of(source, loaded)
    (matches,) = opened.search(embed_expression(loaded, words)[None], top, device=loaded.device)
    pairs = zip(matches.captions, matches.similarities, strict=True)
    rows = [(f"{similarity:.3f}", caption) for caption, similarity in pairs]
    title = f"{len(opened):,} captions, model {opened.record.model}"
    print_table(("similarity", "caption"), rows, title, right=("similarity",))


_OUTPUT: Final = Output(formats="csv,json,npz")

Decoder = Annotated[
    str,
    typer.Option(
        metavar="|".join(DECODERS),
        help="Decoder that writes the sentences; all except demo need another model.",
    ),
]
DecoderFile = Annotated[
    Path | None,
    typer.Option(help="File with the decoder's weights."),
]
Memory = Annotated[
    Path | None,
    typer.Option(
        help="DeCap checkpoints: a caption bank of the same model, or a file of sentences."
    ),
]
SearchOption = Annotated[str, typer.Option(metavar="|".join(SEARCHES), help=describe("search"))]
Beams = Annotated[int, typer.Option(help=describe("beams"))]


@with_paper()
@with_settings("model", "method", "inversion", "input", "window", "planes", "units")
def caption_command(
    image: ImageFile,
    masks: MaskFiles,
    settings: RunSettings,
    *,
    decoder: Decoder = "demo",
    decoder_file: DecoderFile = None,
    memory: Memory = None,
    how: GenerationSettings,
    results: EarlierResults = None,
    output: Output = _OUTPUT,
) -> None:
    """Write a sentence about each region of an image, from its embedding alone.

    The sentences go into the column generated_caption of the table and of every file. CLIPCap needs
    --model ViT-B-32/openai and the extra [captioning]; its weights (636 MB) are downloaded once.
    """
    request = CaptionRequest(decoder=decoder, file=decoder_file, settings=how)
    request.check(settings.model, settings.method, memory)
    sentences = None if memory is None else CaptionSource(memory)
    read = (image, masks, decoder_file, memory, settings.model, results)
    _held = output.begin(*read, settings.method.weights)  # until this function returns
    with open_job(image, masks, settings, say) as job:
        model = load(job.settings)
        if sentences is not None:
            request = replace(request, memory=bank_of(sentences, model))
        writer = load_captioner(request, model)
        embeddings, finished = embedded(model, job, results)
        with following(
            lambda bar, news: bar.show(words.WRITING_CAPTIONS, news.done, news.total),
            remaining=True,
            stopped=lambda: "Stopped before all sentences were written; nothing was saved.",
        ):
            captioned = generate_captions(embeddings, writer)
        written = output.write(job.bundle(captioned))
    print_results(captioned)
    say(written)
    if not finished:
        say_unfinished(captioned, job)
