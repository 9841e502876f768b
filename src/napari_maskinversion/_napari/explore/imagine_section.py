"""What the embedding shows: how to draw it, and the pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from psygnal import SignalInstance
from qtpy.QtCore import Qt
from qtpy.QtGui import QGuiApplication, QResizeEvent
from qtpy.QtWidgets import QGridLayout, QLabel, QSizePolicy, QWidget

from ...app.layer_input.run_input import RunInput
from ...app.requests.run_source import RunSource, look_again
from ...app.session import ResultRecord, job_kinds, same_run
from ...app.work.driver import hear, show
from ...app.work.model_store import Kept, ModelStore
from ...app.work.preload import start_torch
from ...base import progress_words as words
from ...base.errors import InputError, MaskInversionError, NotEnoughMemoryError
from ...base.progress import listening
from ...diffusion.decoders import DECODERS, Decoder, default_folder, get_decoder
from ...diffusion.generated_pictures import Imagined, Picture, PictureStep, title_of
from ...diffusion.settings import SIDE_STEP, PictureSettings
from ...images.plane_source import overview
from ...pipeline.imagining import ImagineRequest, draw, load_decoder, plan, record_of, targets
from ...results.region_result import RegionResult
from ...results.run_info import RunInfo
from ...results.settings import fields_of
from ..widgets.controls import pixmap_of
from ..widgets.dialogs import ask_folder
from ..widgets.form import SettingsForm
from ..widgets.sections import (
    Note,
    Section,
    button,
    combo_box,
    debouncer,
    form,
    line,
    stack,
    text_field,
)
from ..workers.notify import inform, refusing
from .work_section import ProgressSection, Shared

if TYPE_CHECKING:
    from ...diffusion.drawing import Drawer

_PAUSE: Final = 300  # milliseconds after an edit
_LARGEST_SEED: Final = 2**31 - 1  # of a spin box
_SIDE: Final = 256  # pixels of a picture in the panel
_NORMS: Final = [("as optimised", "optimised"), ("that of [CLS]", "cls")]
_SHOWN: Final = ("pictures", "seed", "steps", "guidance", "size", "norm", "dtype")
_OF_DECODER: Final = ("steps", "guidance", "size")  # each has its own
_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "steps": {"annotation": int},
    "guidance": {"annotation": float},
    "size": {"annotation": int, "unit": "px"},
    "norm": {"title": "Length"},
}
# Places where a path may be broken in a narrow panel.
_BREAK: Final = "\N{ZERO WIDTH SPACE}"
_OPTIONS: Final = ("--weights", "--prior")
_FETCHING: Final = "hf download"  # what the command of a message begins with


class ImagineSection(ProgressSection):
    """Decoder, prompt and numbers; what they need; the pictures."""

    title, tip = "What the embedding shows", "Pictures drawn from the region's embedding"
    kind, source = job_kinds.IMAGINE, "imagine"
    doing, cancel_tip = "drawing", "Stop after the current step"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._decoder: Kept[Drawer] = Kept()  # used in the worker
        self._record: ResultRecord | None = None
        self._imagined: Imagined | None = None
        self._first_seed: int | None = None  # of the pictures in view
        self.checking = shared.session.jobs.of(job_kinds.CHECK_DECODER)
        self._checking = debouncer(self, _PAUSE, self._check)
        self.section.toggled.connect(self._toggled)
        self._folders: dict[str, Path] = {}
        self._prior: Path | None = None
        self._command = ""
        self.said = ""  # the last text of `say`, whole
        decoders = {spec.title: spec.name for spec in DECODERS.values()}
        self.decoder = combo_box(decoders, tip="The diffusion model that draws")
        tip = "Use a decoder in another folder, in the layout of diffusers"
        ask = partial(self._ask, "Folder of the decoder", self.choose_folder)
        self.folder = button("Folder...", tip, ask)
        self.prompt = text_field("a dog on a beach", "A sentence to draw the region in")
        self.subject = text_field("dog", "The word of the prompt that the region replaces")
        tip = "Use the prior, which reads the prompt, in another folder"
        ask = partial(self._ask, "Folder of the prior", self.choose_prior)
        self.prior = button("Prior...", tip, ask)
        settings = {setting.key: setting for setting in fields_of(model=PictureSettings)}
        self.form = SettingsForm(
            [replace(settings[key], **_FIELDS.get(key, {})) for key in _SHOWN],
            options={
                "seed": {"max": _LARGEST_SEED},
                "guidance": {"step": 0.5},
                "size": {"step": SIDE_STEP},
                "norm": {"choices": _NORMS},
            },
            parent=self,
        )
        self.needs = Note(name="Device and memory")
        self.needs.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        tip = "Copy the command that downloads these files"
        self.copy = button("Copy the command", tip, self._copy)
        self.draw = button("Draw", "", self.run)
        tip = "Write these pictures and imagine.json to a folder"
        ask = partial(self._ask, "Save the pictures in a folder", self.save_in)
        self.save = button("Save...", tip, ask)
        self._grid = QWidget()
        self._cells = QGridLayout(self._grid)
        self._cells.setContentsMargins(6, 2, 6, 2)
        self._cells.setHorizontalSpacing(8)
        self._build()
        self._show_defaults()
        self.say("")

    def followed(self) -> tuple[SignalInstance, ...]:
        """Return the events of the session after which it is refreshed."""
        run = self._session.run.events
        review = self._session.review.events
        return run.record, review.row, run.settings

    def _build(self) -> None:
        numbers = self.form.rows()
        rows = [
            ("Decoder", line(self.decoder, self.folder)),
            ("Prompt", self.prompt),
            ("Subject", line(self.subject, self.prior)),
            *(numbers.pop(key) for key in ("pictures", "seed")),
        ]
        options = form(list(numbers.values()))
        below = [self.needs, self.copy, line(self.draw, self.save, shares=(2, 1)), self.progress]
        stack(
            self,
            form(rows),
            Section("Options", options, opened=False),
            form(below),
            self._grid,
            margins=(0, 0, 0, 4),
        ).addStretch(1)
        self.decoder.currentIndexChanged.connect(lambda _: self._show_defaults())
        self.form.changed.connect(self.refresh)
        for text in (self.prompt, self.subject):
            text.textChanged.connect(self.refresh)

    @property
    def spec(self) -> Decoder:
        """The chosen decoder."""
        return get_decoder(str(self.decoder.currentData()))

    def request(self, device: str) -> ImagineRequest:
        """Return what is asked for."""
        subject = " ".join(self.subject.text().split())
        return ImagineRequest(
            pictures=PictureSettings(decoder=self.spec.name, device=device, **self.form.values()),
            prompt=" ".join(self.prompt.text().split()),
            subjects=(subject,) if subject and self.spec.takes_subjects else (),
            weights=self._folders.get(self.spec.name),
            prior=self._prior,
        )

    def choose_folder(self, folder: Path) -> None:
        """Look for the chosen decoder in a folder."""
        self._folders[self.spec.name] = folder
        self._show_folder()

    def _ask(self, title: str, then: Callable[[Path], None]) -> None:
        """Ask for a folder."""
        if folder := ask_folder(self, title):
            then(folder)

    def choose_prior(self, folder: Path) -> None:
        """Look for the prior in a folder."""
        self._prior = folder
        self.prior.setToolTip(f"The prior, which reads the prompt, from {folder}")
        self.refresh()

    def say(self, text: str) -> None:
        """Show what the drawing needs, or why it is not possible; a command only to copy."""
        self.said = text
        for option in _OPTIONS:  # of the command line; here a button does it
            text = text.replace(f" ({option})", "")
        reason, _, command = text.partition(f": {_FETCHING}")
        self._command = f"{_FETCHING}{command}" if command else ""
        self.needs.say(reason.replace("/", f"/{_BREAK}").replace("_", f"_{_BREAK}"))
        self.copy.setVisible(bool(command))

    def _clear(self) -> None:
        """Remove the pictures."""
        self._imagined = None
        while (item := self._cells.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.hide()
                widget.deleteLater()
        self._grid.hide()

    def _add(self, picture: Picture, column: int, row: int) -> None:
        """Show a finished picture: regions in the first column, [CLS] in the second."""
        if row == 0:
            title = Note(picture.title)
            title.setStyleSheet("font-weight: bold;")
            self._cells.addWidget(title, 0, column)
        self._cells.addWidget(_PictureLabel(picture), row + 1, column, Qt.AlignmentFlag.AlignTop)
        for place in (0, 1):
            self._cells.setColumnStretch(place, 1)
        self._grid.show()

    def _show_defaults(self) -> None:
        spec = self.spec
        self.form.set_values({key: getattr(spec, key) for key in _OF_DECODER})
        self.subject.setEnabled(spec.takes_subjects)
        self.prior.setEnabled(spec.takes_subjects)
        self._show_folder()

    def _show_folder(self) -> None:
        spec = self.spec
        folder = self._folders.get(spec.name, default_folder(spec))
        self.decoder.setToolTip(
            f"{spec.title} draws embeddings of {spec.clip_model} ({spec.size_gb:.1f} GB, licence "
            f"{spec.license}), from {folder}"
        )
        self.refresh()

    def _copy(self) -> None:
        clipboard = QGuiApplication.clipboard()
        if clipboard is not None:
            clipboard.setText(self._command)

    # -- for the panel ------------------------------------------------------------------------

    def refresh(self, _: object = None) -> None:
        """Show what can be drawn now, and what it needs."""
        record = self._session.run.record
        before, self._record = self._record, record
        if before is not None and (record is None or not same_run(before, record)):
            self._clear()
        self._show_state()
        if self.section.is_open and not self.job.busy:
            self._checking.throttle()

    def stop(self) -> None:
        """Follow the session no more, and release decoder and pictures."""
        self._record = None
        self._clear()
        super().stop()
        self.release()

    def release(self) -> None:
        """Forget the decoder; the next picture loads it again."""
        self._decoder.clear()

    def _toggled(self, opened: bool) -> None:
        if opened:
            self.refresh()
        elif not self.job.busy:
            self.release()

    def _show_state(self) -> None:
        """Enable what can be done now."""
        row, idle = self._session.review.row, not self.job.busy
        regions = self._session.run.regions_with_results
        text = "Draw"
        tip = "Suggest words first, and select a region in the table"
        can_draw = 0 <= row < len(regions)
        if can_draw:
            title = title_of(regions[row].members or (regions[row].id,))
            text = f"Draw {title[:1].lower()}{title[1:]}"
            tip = "Draw this region's embedding and that of the whole image, [CLS]"
        self.draw.setText(text)
        self.draw.setEnabled(can_draw and idle)
        self.draw.setToolTip(tip)
        self.save.setEnabled(self._imagined is not None and idle)

    # -- the work -----------------------------------------------------------------------------

    def _check(self) -> None:
        """Check in a worker whether it can be drawn."""
        settings = self._session.run.settings
        model = settings.model if self._record is None else self._record.results.info.model
        try:
            request = self.request(settings.device)
        except MaskInversionError as error:
            self.checking.drop()
            self.say(str(error))
            return
        loaded = self._store.has(model, settings.device)
        work = partial(check, request, model, loaded=loaded)
        self.checking.start(work, self.say, failed=self.say)

    def run(self) -> None:
        """Draw the selected region, or say why not."""
        if self.job.busy:
            return
        session, record, row = self._session, self._session.run.record, self._session.review.row
        try:
            if record is None or not 0 <= row < len(record.results):
                raise InputError("Suggest words first, and select the region to draw in the table.")
            if session.run.progress.running:
                raise InputError("Wait until the run is over.")
            origin, region = RunSource.of(record), record.results.regions[row]
            request = self.request(session.run.settings.device)
            run_input = origin.again(self._viewer, region, drawn=False)
        except MaskInversionError as error:
            self.refuse(str(error))
            return
        session.settle(self.source)
        self._first_seed = None  # earlier pictures stay in view until the first new one
        work = partial(draw_region, request, origin, run_input, region, record.results.info)
        self.start(partial(work, self._store, self._decoder))

    def show_busy(self) -> None:
        """Show what can be done; for the decoder nothing has changed."""
        self._show_state()

    def show_news(self, news: Picture) -> None:
        """Show a picture that is finished."""
        if self._first_seed is None:
            self._clear()
            self._first_seed = news.seed
        self._add(news, 0 if news.regions else 1, news.seed - self._first_seed)

    def answered(self, answer: Imagined) -> None:
        """Let the pictures be saved."""
        self._imagined = answer

    def refuse(self, reason: str) -> None:
        """Show why it cannot be drawn, unless the line above the button says it already."""
        if reason != self.said:
            super().refuse(reason)

    def save_in(self, folder: Path) -> None:
        """Write the pictures to a folder."""
        if self._imagined is not None:
            with refusing():
                files = self._imagined.save(folder)
                inform(f"Wrote {', '.join(file.name for file in files)} in {folder}")


class _PictureLabel(QLabel):
    """A square picture as wide as its column."""

    def __init__(self, picture: Picture) -> None:
        super().__init__()
        self.setPixmap(pixmap_of(picture.pixels))
        self.setScaledContents(True)
        self.setMaximumWidth(_SIDE)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        name = f"{picture.title}, seed {picture.seed}"
        self.setAccessibleName(name)
        self.setToolTip(name)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        """Stay square."""
        super().resizeEvent(event)
        if self.height() != self.width():
            self.setFixedHeight(self.width())


# -- in a worker -----------------------------------------------------------------------------


def check(request: ImagineRequest, model: str, *, loaded: bool) -> str:
    """Return device and memory in one line."""
    start_torch()
    return plan(request, model, loaded=loaded).text


def draw_region(
    request: ImagineRequest,
    origin: RunSource,
    run_input: RunInput,
    region: RegionResult,
    info: RunInfo,
    store: ModelStore,
    kept: Kept[Drawer],
) -> Imagined:
    """Draw a region and [CLS], and show each finished picture."""
    start_torch()
    loaded = store.has(origin.model, origin.device)
    try:
        carried = plan(request, info.model, loaded=loaded)
    except NotEnoughMemoryError:
        kept.clear()  # what another decoder took
        carried = plan(request, info.model, loaded=loaded)
    model = origin.load(store)
    show(words.READING_IMAGE)
    seen = look_again(run_input, region, info, drawn=False)
    shown = targets(carried, model, [region], overview(seen.source), info.settings)
    key = (carried.folder, carried.device, carried.dtype)
    if not kept.has(key):
        show(words.LOADING_DECODER)
    with listening(_hear):
        pictures = draw(carried, kept.get(key, partial(load_decoder, carried)), shown)
    record = record_of(carried, info.model, info.fingerprint, info.settings, run_id=info.run_id)
    return Imagined(pictures=tuple(pictures), record=record)


def _hear(news: PictureStep | Picture) -> None:
    (show if isinstance(news, Picture) else hear)(news)
