"""Choice of model, device and settings of the inversion."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, get_args

from qtpy.QtCore import QSignalBlocker, Qt, Signal
from qtpy.QtWidgets import QComboBox, QWidget

from ...app.requests.preparing import check_on_disk
from ...app.session import Session, Topic
from ...base.errors import ModelError
from ...base.preferences import Device
from ...engine.compute.lazy_torch import torch_if_loaded
from ...engine.models.registry import list_models, model_state, own_model, short_name, unread_spec
from ...engine.models.specs import CHECKPOINTS, MODELS, ModelSpec
from ...language.labels.fields import field_of, models_for
from ...results.settings import RunSettings, fields_of
from ..widgets.dialogs import ask_file, ask_folder, file_filter
from ..widgets.form import SettingsForm
from ..widgets.progress_row import FetchRow
from ..widgets.sections import Note, button, combo_box, form, line, refill, stack, text_field
from .method_widget import ExplainerWidget, MethodWidget

# Settings of the inversion and of the model's input that no generated row shows: the map has a
# widget of its own, and the others need more than a value here.
_NOT_IN_FORM: Final = ("inversion.explainer", "inversion.keep_last_step_heatmaps", "resolution")
_ALPHA: Final = "inversion.alpha"
_FIRST: Final = "choose it"


class ModelWidget(Topic, QWidget):
    """Model, device and settings of the inversion."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._specs: list[ModelSpec] = []
        self._own: tuple[ModelSpec, str | None] | None = None  # not listed, and its architecture
        self._wanted = ""  # a device that may be offered once PyTorch is loaded
        self.model = combo_box()
        self.about = Note()
        self.field = Note(name="Models of the image's field")
        self.own = OwnModelWidget()
        self.fetching = FetchRow("the model")
        self.device = QComboBox()
        self.device.setToolTip("auto: CUDA, else Apple's MPS, else the CPU")
        self.device.addItems(get_args(Device))
        self.method = MethodWidget()
        self.form = SettingsForm(
            [
                setting
                for setting in fields_of("inversion", "input")
                if setting.key not in _NOT_IN_FORM
            ],
            options={_ALPHA: {"widget_type": "FloatSlider", "step": 0.25}},
            parent=self,
        )
        self.explainer = ExplainerWidget(self.form["inversion.layers"])
        self._build()
        self.fill()
        self.model.currentIndexChanged.connect(lambda _: self._describe())
        self.model.currentIndexChanged.connect(lambda _: self._tell())
        self.device.currentIndexChanged.connect(lambda _: self._device_chosen())
        self.method.changed.connect(self._method_changed)
        self.form.changed.connect(self._tell)
        self.explainer.changed.connect(self._tell)
        self._tell()
        self.fill_devices()

    def _build(self) -> None:
        rows = self.form.rows()
        alpha = rows.pop(_ALPHA)
        self.how = form([self.method, alpha, ("Map", self.explainer), *rows.values()])
        rows_of_model = [("Model", self.model), self.field, self.about, self.fetching]
        rows_of_model.append(("Device", self.device))
        stack(self, form(rows_of_model), self.own)
        self.show_fetch(None)

    @property
    def spec(self) -> ModelSpec:
        """The chosen model."""
        return self._specs[max(self.model.currentIndex(), 0)]

    @property
    def _device(self) -> str:
        return self.device.currentText() or "auto"

    def needs_fetch(self) -> bool:
        """Whether the chosen model's weights are not on this machine."""
        return model_state(self.spec) == "to fetch"

    @property
    def architecture(self) -> str | None:
        """The architecture of the chosen model, if it is a checkpoint file."""
        return self._own[1] if self._own is not None and self.spec is self._own[0] else None

    def choose(self, name: str, architecture: str | None = None) -> None:
        """Choose a model by name; one that is not listed is added to the list."""
        is_listed = name in MODELS
        if self._own is not None:
            spec, listed_architecture = self._own
            is_listed |= (spec.name, listed_architecture) == (name, architecture)
        if not is_listed:
            try:
                check_on_disk(name)
                self._list_own(unread_spec(name, architecture), architecture)
            except ModelError:
                return
        names = [spec.name for spec in self._specs]
        self.model.setCurrentIndex(names.index(name))

    def use_own(self, spec: ModelSpec, architecture: str | None) -> None:
        """Choose a model that was read; one that is not listed is added to the list."""
        if spec.name not in MODELS:
            self._list_own(spec, architecture)
        self.choose(spec.name, architecture)
        self._tell()

    def _list_own(self, spec: ModelSpec, architecture: str | None) -> None:
        self._own = spec, architecture
        self.fill()
        self.own.show_model(spec.name, architecture)

    def choose_device(self, name: str) -> None:
        """Choose a device by name, now or once it is offered; the first GPU has two names."""
        for offered_name in (name, name.removesuffix(":0"), f"{name}:0"):
            if self.device.findText(offered_name) >= 0:
                self.device.setCurrentText(offered_name)
                self._wanted = ""
                return
        self._wanted = name

    def bind(self) -> None:
        """Follow the session."""
        run = self._session.run.events
        self.after(self.show_settings, run.settings)
        self.show_settings(self._session.run.settings)
        self.after(
            lambda *_: self._suggest_field(),
            run.image,
            run.vocabulary,
            run.settings,
            run.georeferenced,
        )
        self._suggest_field()

    def _suggest_field(self) -> None:
        """Name the models of the field that image or words belong to, if the chosen one is not."""
        image, words = self._session.run.image, self._session.run.vocabulary
        names: list[str] = []
        templates: Sequence[str] = ()
        file = None
        if words is not None:
            names, templates = list(words.labels), words.templates
        if image is not None:
            names.append(image.name)
            file = image.source.path
        guess = field_of(
            file=file,
            georeferenced=self._session.run.georeferenced,
            names=names,
            templates=templates,
        )
        self.field.say(models_for(guess, self.spec.name))

    def show_settings(self, settings: RunSettings) -> None:
        """Show settings; model and device stay where they are not offered here."""
        before = self.model.currentIndex()
        with QSignalBlocker(self.model), QSignalBlocker(self.device):
            self.choose(settings.model, settings.architecture)
            # A device that is offered later is chosen then, unless another one is set meanwhile.
            if settings.device != self._device:
                self.choose_device(settings.device)
        with QSignalBlocker(self.method), QSignalBlocker(self.explainer):
            self.method.show_method(settings.method)
            self.explainer.choose(settings.inversion.explainer)
        self.form.show_settings(settings)
        if self.model.currentIndex() != before:
            self._describe()
        self._method_changed()

    def fill(self) -> None:
        """List the models, each with a badge for the state of its weights."""
        chosen = self.spec.name if self._specs else None
        self._specs = list(list_models())
        if self._own is not None:
            spec, _ = self._own
            self._specs.append(spec)
        names = [spec.name for spec in self._specs]
        with QSignalBlocker(self.model):
            self.model.clear()
            for place, spec in enumerate(self._specs):
                field = "" if spec.domain == "general" else f", {spec.domain}"
                self.model.addItem(f"{short_name(spec.name)}{field}  [{badge(spec)}]")
                self.model.setItemData(place, spec.title, Qt.ItemDataRole.ToolTipRole)
            self.model.setCurrentIndex(names.index(chosen) if chosen in names else 0)
        self._describe()

    def fill_devices(self) -> None:
        """List the available devices, once torch is loaded."""
        if torch_if_loaded() is None or self.device.count() == 0:
            return
        from ...engine.compute.devices import devices

        chosen = self._wanted or self.device.currentText()
        with QSignalBlocker(self.device):  # the choice changes only where it is not offered
            self.device.clear()
            self.device.addItems(["auto", *devices()])
            self.choose_device(chosen)
        self._tell()

    def show_fetch(self, progress: tuple[int, int] | None) -> None:
        """Show a download's progress in bytes; None for no download."""
        self.fetching.show_progress(progress, needed=bool(self._specs) and self.needs_fetch())
        self.model.setEnabled(progress is None)

    def _device_chosen(self) -> None:
        self._wanted = ""
        self._tell()

    def _method_changed(self) -> None:
        inverts = self.method.method.uses_inversion
        for key in self.form.values():
            if key.startswith("inversion."):
                self.form[key].setEnabled(inverts)
        self.explainer.setEnabled(inverts)
        self.form["inversion.layers"].setEnabled(inverts and not self.explainer.last_only)
        self._tell()

    def _tell(self) -> None:
        """Pass the settings to the session."""
        self._session.run.change_settings(
            {
                "model": self.spec.name,
                "architecture": self.architecture,
                "device": self._device,
                "method": self.method.method,
                "inversion.explainer": self.explainer.name,
                **self.form.values(),
            }
        )

    def _describe(self) -> None:
        spec = self.spec
        is_own = own_model(spec.name) is not None
        size = (
            f"{spec.size_text}, licence {spec.license}, works at {spec.working_resolution} px, "
            f"{spec.activation}, prompts: {spec.prompts}."
        )
        trained = f"{spec.title}. Trained at {spec.native_resolution} px."
        self.about.setText(spec.title if is_own else f"{spec.title}.\n{size}")
        self.fetching.button.setText(f"Fetch {spec.size_text}")
        self.model.setToolTip(spec.title if is_own else trained)
        self.show_fetch(None)


def badge(spec: ModelSpec) -> str:
    """Return the state of a model's weights, for its badge."""
    if own_model(spec.name) is not None:
        return "your own"
    state = model_state(spec)
    return f"{spec.size_text} to fetch" if state == "to fetch" else state


class OwnModelWidget(QWidget):
    """What to type or choose for a model that is not in the list."""

    chosen = Signal(str, object)  # the model, and the architecture of a checkpoint file or None

    def __init__(self) -> None:
        super().__init__()
        tip = (
            "Any architecture/tag of open_clip, a checkpoint file, or a folder as rebuild-demo "
            "makes it; press Enter"
        )
        self.name = text_field("ARCHITECTURE/tag, a file or a folder", tip, name="Another model")
        tip = "Choose a checkpoint file: safetensors, or torch with tensors only"
        self.file = button("File...", tip, self._choose_file)
        tip = "Choose a folder with open_clip_config.json and weights"
        self.folder = button("Folder...", tip, self._choose_folder)
        self.architecture = combo_box(
            [_FIRST],
            name="Architecture of the checkpoint file",
            tip="The name in open_clip. Names with -quickgelu are for weights "
            "trained with QuickGELU, such as OpenAI's.",
        )
        self.problem = Note(name="Why this model cannot be used")
        self._needed = form([("Architecture", self.architecture)])
        chooses = line(self.name, self.file, self.folder, shares=(1, 0, 0))
        stack(self, form([("Another", chooses)]), self._needed, self.problem)
        self.problem.say("")
        self._show_needed()
        self.name.textChanged.connect(self._show_needed)
        self.name.returnPressed.connect(self._ask)
        self.architecture.activated.connect(lambda _: self._ask())

    def offer(self, architectures: Iterable[str]) -> None:
        """List architectures; keep the chosen one."""
        refill(self.architecture, [_FIRST, *architectures])

    def show_model(self, name: str, architecture: str | None) -> None:
        """Show a model that is in use."""
        with QSignalBlocker(self.architecture):
            if architecture is not None and self.architecture.findText(architecture) < 0:
                self.architecture.addItem(architecture)
            self.architecture.setCurrentText(architecture or _FIRST)
        self.name.setText(name)
        self.problem.say("")

    def use(self, path: Path) -> None:
        """Ask for a file or folder."""
        self.name.setText(str(path))
        self._ask()

    @property
    def _is_file(self) -> bool:
        path = own_model(self.name.text().strip())
        return path is not None and path.suffix in CHECKPOINTS and not path.is_dir()

    def _show_needed(self, _: str = "") -> None:
        self._needed.setVisible(self._is_file)
        self.problem.say("")

    def _ask(self) -> None:
        name = self.name.text().strip()
        first = self.architecture.currentIndex() <= 0
        if self._is_file and first:
            self.problem.say(f"Choose the architecture of {Path(name).name}.")
        elif name:
            self.chosen.emit(name, self.architecture.currentText() if self._is_file else None)

    def _choose_file(self) -> None:
        kinds = file_filter("Checkpoints", CHECKPOINTS)
        if file := ask_file(self, "Checkpoint of a model", kinds):
            self.use(file)

    def _choose_folder(self) -> None:
        if folder := ask_folder(self, "Folder of a model"):
            self.use(folder)
