"""Building blocks of the dock widget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QEvent, QObject, QPoint, QSignalBlocker, Qt, QTimer, Signal
from qtpy.QtGui import QKeyEvent, QPaintEvent, QResizeEvent
from qtpy.QtWidgets import (
    QAbstractButton,
    QCheckBox,
    QComboBox,
    QFormLayout,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QMenu,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QStyle,
    QStyleOptionComboBox,
    QStylePainter,
    QVBoxLayout,
    QWidget,
    QWidgetAction,
)
from superqt.utils import QSignalDebouncer

from .keys import SECTION, pressed

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.layers import Layer


_OPEN, _CLOSED = "\N{BLACK DOWN-POINTING SMALL TRIANGLE}", "\N{BLACK RIGHT-POINTING SMALL TRIANGLE}"

MARGINS = (6, 2, 2, 6)  # of a part of the panel
_INDENT = 4  # of a text, as Qt's labels have it
# Property of a widget in which the keys of the review work while one reviews.
HAS_REVIEW_KEYS = "has the keys of the review"
HAS_OWN_KEYS = "has these keys for itself"


class Section(QWidget):
    """A titled section that opens and closes, by mouse or by Space and Enter.

    While it is closed, a line says what it is for.
    """

    toggled = Signal(bool)
    siblings: Sequence[Section] = ()  # which close before it opens

    def __init__(self, title: str, content: QWidget, *, opened: bool = True, tip: str = "") -> None:
        super().__init__()
        self.title, self.content, self._about = title, content, Note(tip)
        self.toggle = button("", tip, name=title)
        self.toggle.setCheckable(True)
        self.toggle.setStyleSheet(
            "QPushButton { text-align: left; border: 1px solid transparent; padding: 3px 2px;"
            " font-weight: bold; background: transparent; }"
            "QPushButton:focus { border: 1px solid palette(highlight); }"
        )
        self._about.setContentsMargins(20, 0, 4, 4)
        stack(self, self.toggle, self._about, content)
        self._later = pause(self, 0, self._bring_into_view)  # once it is laid out
        self.toggle.setChecked(opened)
        self._show_state(opened)
        self.toggle.toggled.connect(self._toggled)
        self.toggle.installEventFilter(self)

    @property
    def is_open(self) -> bool:
        """Whether the content is shown."""
        return bool(self.toggle.isChecked())

    def open(self) -> None:
        """Show the content."""
        self.toggle.setChecked(True)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Let Enter toggle, as Space does."""
        is_ours = event.type() == QKeyEvent.Type.KeyPress and pressed(event, SECTION) == "toggle"
        if is_ours:
            self.toggle.click()
        return is_ours

    def _toggled(self, opened: bool) -> None:
        if opened:
            for sibling in self.siblings:
                sibling.toggle.setChecked(False)
        self._show_state(opened)
        if opened:
            self._later.start()
        self.toggled.emit(opened)

    def _show_state(self, opened: bool) -> None:
        # The arrow is part of the text: icons keep the colour of the theme they were drawn in.
        self.toggle.setText(f"{_OPEN if opened else _CLOSED}  {self.title}")
        self.content.setVisible(opened)
        self._about.setVisible(bool(self._about.text()) and not opened)

    def _bring_into_view(self) -> None:
        """Scroll until the content is in view, or as much of it as there is room for."""
        area = around(self, QScrollArea)
        if area is not None and self.isVisible():
            top = self.mapTo(area.widget(), QPoint(0, 0)).y()
            area.ensureVisible(0, top + self.height(), 0, 0)
            area.ensureVisible(0, top, 0, 0)


def around(widget: QWidget | None, kind: type[QWidget]) -> Any:
    """Return a widget, or the nearest one that it is in, of a kind; None without one."""
    while widget is not None and not isinstance(widget, kind):
        widget = widget.parentWidget()
    return widget


def one_at_a_time(*sections: Section) -> QWidget:
    """Stack sections of which at most one is open."""
    widget = QWidget()
    stack(widget, *sections, spacing=2)
    for section in sections:
        section.siblings = [other for other in sections if other is not section]
    return widget


class ElidedCombo(QComboBox):
    """Ends a text that does not fit with an ellipsis; Qt cuts it."""

    def paintEvent(self, _: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        """Draw the box with a text that fits."""
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        style, painter = self.style(), QStylePainter(self)
        part = QStyle.SubControl.SC_ComboBoxEditField
        field = style.subControlRect(QStyle.ComplexControl.CC_ComboBox, option, part, self)
        right = Qt.TextElideMode.ElideRight
        option.currentText = self.fontMetrics().elidedText(
            option.currentText or self.placeholderText(), right, field.width() - 4
        )
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)


class LayerCombo(ElidedCombo):
    """Chooses a layer of the viewer, held as an object and not by name.

    Follows the viewer: a suitable new layer is chosen until the user chooses one.
    """

    layer_changed = Signal()

    def __init__(self, viewer: ViewerModel, accepts: Callable[[Layer], bool], empty: str) -> None:
        super().__init__()
        self._viewer = viewer
        self._accepts = accepts
        self._empty = empty
        self.setPlaceholderText(empty)
        self._layers: list[Layer] = []
        self._pinned = False
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMinimumContentsLength(8)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.currentIndexChanged.connect(lambda _: self.layer_changed.emit())
        self.activated.connect(self._pin)

    @property
    def layer(self) -> Layer | None:
        """The chosen layer, or None."""
        index = self.currentIndex()
        return self._layers[index] if 0 <= index < len(self._layers) else None

    def choose(self, layer: Layer) -> None:
        """Choose a layer, if offered."""
        if layer in self._layers:
            self.setCurrentIndex(self._layers.index(layer))

    def refresh(self, added: Layer | None = None) -> None:
        """List the viewer's suitable layers; keep the choice, or take the new layer."""
        before = self.layer
        layers = self.suitable()
        if before not in layers:
            self._pinned = False
        active = self._viewer.layers.selection.active
        if added in layers and not self._pinned:
            choice = added
        elif before in layers:
            choice = before
        elif active in layers:
            choice = active
        else:
            choice = layers[-1] if layers else None
        self.show_choice(layers, choice)
        if self.layer is not before:
            self.layer_changed.emit()

    def show_choice(self, layers: Sequence[Layer], choice: Layer | None) -> None:
        """List layers with one of them chosen, without emitting a signal."""
        self._layers = list(layers)
        with QSignalBlocker(self):
            self.clear()
            self.addItems([layer.name for layer in layers] or [self._empty])
            if choice in self._layers:
                index = self._layers.index(choice)
            elif layers:
                index = -1  # none of them is chosen
            else:
                index = 0  # the text that there is none
            self.setCurrentIndex(index)
            self.setEnabled(bool(layers))

    def suitable(self) -> list[Layer]:
        """Return the viewer's layers that can be chosen, lowest first."""
        return [layer for layer in self._viewer.layers if self._accepts(layer)]

    def _pin(self, _: int) -> None:
        self._pinned = True


def form(rows: Sequence[tuple[str | QWidget, QWidget] | QWidget]) -> QWidget:
    """Stack labelled rows that wrap when the dock is narrow; a check box may be a label."""
    widget = QWidget()
    layout = QFormLayout(widget)
    layout.setContentsMargins(*MARGINS)
    layout.setVerticalSpacing(4)
    layout.setHorizontalSpacing(8)
    layout.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
    layout.setLabelAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
    for row in rows:
        if isinstance(row, QWidget):
            layout.addRow(row)
        else:
            label, field = row
            layout.addRow(label, field)
            if isinstance(label, str):
                _name(field, label.replace("&", ""))
    return widget


def _name(field: QWidget, name: str) -> None:
    """Name a field, and the controls in it that have neither a name nor a text."""
    for control in (field, *field.findChildren(QWidget)):
        if not control.accessibleName() and not isinstance(control, QAbstractButton | QLabel):
            control.setAccessibleName(name)


def stack(
    widget: QWidget,
    *items: QWidget,
    margins: tuple[int, int, int, int] = (0, 0, 0, 0),
    spacing: int = 0,
) -> QVBoxLayout:
    """Stack items in a widget."""
    layout = QVBoxLayout(widget)
    layout.setContentsMargins(*margins)
    layout.setSpacing(spacing)
    for item in items:
        layout.addWidget(item)
    return layout


def column(*items: QWidget) -> QWidget:
    """Stack items in a new widget."""
    widget = QWidget()
    stack(widget, *items, margins=MARGINS, spacing=4)
    return widget


def line(*widgets: QWidget, shares: Sequence[int] = ()) -> QWidget:
    """Place widgets side by side, by their shares; else shrinkable ones take the space left."""
    row = QWidget()
    layout = QHBoxLayout(row)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(4)
    shrinks = [w.sizePolicy().horizontalPolicy() == QSizePolicy.Policy.Ignored for w in widgets]
    for widget, share in zip(widgets, shares or shrinks, strict=True):
        layout.addWidget(widget, int(share))
    return row


class _ScrollArea(QScrollArea):
    """Scrolls vertically; the bar leaves with the need for it, which Qt forgets at first."""

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        """Lay out the bar once more."""
        super().resizeEvent(event)
        self.setVerticalScrollBarPolicy(self.verticalScrollBarPolicy())


def scrolled(*widgets: QWidget) -> QScrollArea:
    """Stack widgets in a vertical scroll area."""
    inside = QWidget()
    stack(inside, *widgets, margins=(2, 2, 2, 2), spacing=2).addStretch(1)
    area = _ScrollArea()
    area.setWidgetResizable(True)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    area.setWidget(inside)
    return area


def combo_box(
    texts: Iterable[str] = (), *, name: str = "", tip: str = "", typed: bool = False
) -> QComboBox:
    """Make a combo box that may be narrower than its longest text; a mapping gives data to each.

    With ``typed`` another text can be typed, too.
    """
    box = ElidedCombo()
    refill(box, texts)
    box.setEditable(typed)
    box.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
    box.setAccessibleName(name)
    box.setToolTip(tip)
    box.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    return box


def refill(box: QComboBox, texts: Iterable[str]) -> None:
    """Offer other texts, or a mapping, without a signal; what is chosen stays if it is there."""
    chosen = box.currentText()
    with QSignalBlocker(box):
        box.clear()
        for text in texts:
            box.addItem(text, texts[text] if isinstance(texts, Mapping) else None)
        if box.count():
            box.setCurrentIndex(max(box.findText(chosen), 0))


def button(
    text: str, tip: str, action: Callable[[], object] | None = None, *, name: str = ""
) -> QPushButton:
    """Make a button; ``name`` is for those whose text says too little."""
    push_button = QPushButton(text)
    push_button.setToolTip(tip)
    push_button.setAccessibleName(name)
    if action is not None:
        push_button.clicked.connect(lambda _=False: action())
    return push_button


def check_box(text: str, tip: str, *, name: str = "") -> QCheckBox:
    """Make a check box."""
    box = QCheckBox(text)
    box.setToolTip(tip)
    box.setAccessibleName(name)
    return box


def text_field(placeholder: str, tip: str, *, name: str = "") -> QLineEdit:
    """Make a field for a line of text."""
    field = QLineEdit()
    field.setPlaceholderText(placeholder)
    field.setToolTip(tip)
    field.setAccessibleName(name)
    return field


class Note(QLabel):
    """Text that wraps, and is never cut."""

    least_lines = 0

    def __init__(self, text: str = "", *, name: str = "") -> None:
        super().__init__(text)
        self.setWordWrap(True)
        self.setTextFormat(Qt.TextFormat.PlainText)
        # Of its own indent, which a frame of the theme brings, Qt measures twice what it draws.
        self.setIndent(_INDENT)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.setAccessibleName(name)

    def setText(self, text: str | None) -> None:  # noqa: N802 - Qt's name
        """Show a text."""
        super().setText(text)
        self._claim_height()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        """Wrap at another width."""
        super().resizeEvent(event)
        self._claim_height()

    def _claim_height(self) -> None:
        # A form takes the height of wrapped lines from its other rows: they overlap.
        self.setMinimumHeight(0)  # which is part of the answer
        least = self.least_lines * self.fontMetrics().lineSpacing()
        self.setMinimumHeight(max(self.heightForWidth(self.width()), least))

    def say(self, text: str) -> None:
        """Show a text; hide the line if there is none."""
        self.setText(text)
        self.setVisible(bool(text))


def pause(parent: QObject, milliseconds: int, then: Callable[[], object]) -> QTimer:
    """Return a timer that calls a function once, after a pause since its last start."""
    timer = QTimer(parent)
    timer.setSingleShot(True)
    timer.setInterval(milliseconds)
    timer.timeout.connect(then)
    return timer


def check_entry(menu: QMenu, text: str, tip: str) -> QCheckBox:
    """Add an option to a menu, which stays open when it is pressed."""
    box, action = QCheckBox(text, menu), QWidgetAction(menu)
    box.setToolTip(tip)
    action.setDefaultWidget(box)
    menu.addAction(action)
    return box


def debouncer(parent: QObject, milliseconds: int, then: Callable[[], object]) -> QSignalDebouncer:
    """Return a debouncer that calls a function a pause after the last `throttle`."""
    debounced = QSignalDebouncer(parent=parent)
    debounced.setTimeout(milliseconds)
    debounced.triggered.connect(then)
    return debounced
