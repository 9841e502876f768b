"""Explains why the selected region got its label."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final

from qtpy.QtCore import QObject

from ...base import progress_words as words
from ...base.errors import InputError, MaskInversionError
from ..layers.results_on_canvas import ResultsOnCanvas
from ..run_requests.run_source import RunSource, look_again
from ..session import Session
from ..workers.driver import often
from ..workers.model_store import ModelStore
from ..workers.preload import start_torch
from ..workers.worker import Worker
from .why_widget import AGAINST, REGION, STEPS, WhyWidget

if TYPE_CHECKING:
    from ...pipeline.explaining import Explainer
    from ...results.region_result import RegionResult
    from ...results.run_info import RunInfo

# Recent explanations; one of 200 steps at 28 x 28 takes 0.6 MB.
_KEPT: Final = 8
CHANGED_IMAGE: Final = (
    "The image has changed since this run; the heatmap belongs to the image as it is now."
)


class WhyController(QObject):
    """Shows explanations of the selected region in the heatmap layer."""

    def __init__(
        self,
        viewer: Any,
        canvas: ResultsOnCanvas,
        part: WhyWidget,
        session: Session,
        store: ModelStore,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._viewer, self._canvas, self._part = viewer, canvas, part
        self._session, self._store = session, store
        self.worker = Worker("latest", "The explanation", parent=self)
        self._explainers: list[Explainer] = []  # the last one; used in the worker
        self._origin: RunSource | None = None
        self._region: RegionResult | None = None
        self._info: RunInfo | None = None
        self._answers: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._asked_for: tuple[Any, ...] | None = None
        self._open = False
        part.changed.connect(self._changed)
        part.step_changed.connect(lambda _: self._show_answer())
        self.worker.progressed.connect(lambda update: part.say(f"{update.text} ..."))
        self.worker.done.connect(self._answered)
        self.worker.failed.connect(self._refuse)

    def belong_to(self, origin: RunSource | None) -> None:
        """Use results of another run; None without any."""
        self.stop()
        self._origin, self._region, self._info = origin, None, None
        self._answers.clear()
        self._part.pinned = False
        self._settle()
        self._part.explain([])

    def stop(self) -> None:
        """Stop, and release the model's encodings."""
        self.worker.drop()
        self._explainers.clear()

    def show(self, region: RegionResult | None, info: RunInfo | None) -> None:
        """Explain another region, whose own heatmap is already shown."""
        self._region, self._info = region, info
        if self._open:
            self._refresh()

    @property
    def region(self) -> RegionResult | None:
        """The explained region."""
        return self._region

    def renew(self, region: RegionResult, info: RunInfo) -> None:
        """Use the same region with other limits."""
        self._region, self._info = region, info
        if self._open:
            from ...pipeline.explaining import in_words

            self._part.explain(in_words(region))

    def set_open(self, opened: bool) -> None:
        """Explain only while the section is open; closing it shows the region's own heatmap."""
        self._open = opened
        if opened:
            self._refresh()
        else:
            self.worker.drop()
            self._settle()
            self._show_own()

    def _changed(self) -> None:
        if self._part.shown == REGION:
            self._show_own()
        self._refresh()

    def _refuse(self, reason: str) -> None:
        self._part.say("")
        self._session.refuse("why", reason)

    def _settle(self) -> None:
        self._part.say("")
        self._session.settle("why")

    def _show_own(self) -> None:
        if self._region is not None:
            self._canvas.show_map(self._region, self._region.grid_map)

    def _refresh(self) -> None:
        part, region, info = self._part, self._region, self._info
        self.worker.drop()
        self._settle()
        part.legend.hide()
        part.show_course([], 0)
        if region is None or info is None:
            part.explain([])
            return
        from ...pipeline.explaining import in_words

        part.explain(in_words(region))
        part.show_windowed(not region.window.whole)
        if region.ranking is not None:
            best = () if part.pinned else region.ranking.labels[:2]
            part.offer(sorted(region.ranking.labels, key=str.casefold), best=best)
        if not region.has_heatmap:
            part.say(info.method.lacks)
            return
        if part.shown == REGION:
            return
        try:
            if self._origin is None:
                raise InputError("The source of these results is unknown; run again.")
            self._origin.check(self._viewer, drawn=False)
        except MaskInversionError as error:
            self._refuse(str(error))
            return
        if part.shown != STEPS and not part.labels:
            self._refuse("These results have no words; suggest again with words.")
            return
        answer, _ = self._answers.get(self._key(), (None, None))
        # The image had changed then; it may be back.
        if answer is None or not answer.same_image:
            self._ask(region, info)
            return
        self._answers.move_to_end(self._key())
        self._show_answer(fresh=True)

    def _key(self) -> tuple[Any, ...]:
        # With other limits the region is another object; its embedding is the same array.
        part, region = self._part, self._region
        return (id(region and region.raw_embedding), part.shown, part.labels, part.on_whole)

    def _ask(self, region: RegionResult, info: RunInfo) -> None:
        part, origin, store = self._part, self._origin, self._store
        if self._session.run.running:
            self._refuse("Wait until the run is over.")
            return
        assert origin is not None  # `_refresh` has seen to it
        drawn, names, whole = part.shown == STEPS, part.labels, part.on_whole
        try:
            run_input = origin.again(self._viewer, region, drawn=drawn)
        except MaskInversionError as error:
            self._refuse(str(error))
            return
        explainers = self._explainers

        def question() -> Generator[Any, None, Any]:
            yield from start_torch()
            from ...pipeline.explaining import Explainer

            if not store.has(origin.model, origin.device):
                origin.check_model()
                yield words.loading_model(origin.model)
            model = store.get(origin.model, origin.device)
            if not explainers or explainers[0].model is not model:
                explainers[:] = [Explainer(model)]
            seen = look_again(run_input, region, info, drawn=drawn)
            explainer = explainers[0]
            if drawn:
                return (yield from often(explainer.course(seen)))
            return (yield from often(explainer.labels(seen, names, whole=whole)))

        part.say(f"{words.READING_IMAGE} ...")
        self._asked_for = self._key()
        # Keep the region with the answer: its id must not be reused.
        self._answers.pop(self._asked_for, None)
        self.worker.start(question)

    def _answered(self, answer: Any) -> None:
        if self._asked_for is None or self._asked_for != self._key():
            return
        self._answers[self._asked_for] = (answer, self._region)
        while len(self._answers) > _KEPT:
            self._answers.popitem(last=False)
        self._show_answer(fresh=True)

    def _show_answer(self, *, fresh: bool = False) -> None:
        from ...pipeline.explaining import difference

        part, region = self._part, self._region
        answer, _ = self._answers.get(self._key(), (None, None))
        if answer is None or region is None:
            return
        part.say("" if answer.same_image else CHANGED_IMAGE)
        if part.shown == STEPS:
            if fresh:
                part.show_course(answer.losses.tolist(), answer.steps)
            self._canvas.show_map(region, answer.grid_maps[part.step.value()])
        elif part.shown == AGAINST:
            part.show_legend(*part.labels)
            self._canvas.show_map(region, difference(*answer.maps), signed=True, box=answer.box)
        else:
            if answer.words[0] != part.labels[0]:
                part.say(
                    f"The heatmap shows its closest synonym: {answer.words[0]}. "
                    f"{part.line.text()}".strip()
                )
            self._canvas.show_map(region, answer.maps[0], box=answer.box)
