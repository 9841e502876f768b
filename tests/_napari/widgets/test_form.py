"""Forms made from settings."""

from typing import Literal

import pytest
from pydantic import Field
from qtpy.QtWidgets import QCheckBox, QComboBox, QDoubleSpinBox, QSlider

from napari_maskinversion._napari.model import model_widget
from napari_maskinversion._napari.model.model_widget import ModelWidget
from napari_maskinversion._napari.widgets.form import SettingsForm
from napari_maskinversion._napari.widgets.sections import form
from napari_maskinversion.app.session import Session
from napari_maskinversion.results.settings import RunSettings, fields_of


class MoreSettings(RunSettings):
    """Run settings with fields of every kind."""

    momentum: float = Field(
        0.5,
        title="Momentum",
        description="Share of the last update.",
        gt=0,
        le=1,
        json_schema_extra={"group": "inversion"},
    )
    patience: int | None = Field(
        None,
        title="Patience",
        description="Updates without progress.",
        ge=2,
        json_schema_extra={"group": "inversion", "unit": "updates", "ui_max": 50, "automatic": 8},
    )
    norm: Literal["l1", "l2"] = Field(
        "l2", title="Norm", description="Of the loss.", json_schema_extra={"group": "inversion"}
    )
    verbose: bool = Field(
        False, title="Say more", description="Say it.", json_schema_extra={"group": "inversion"}
    )


@pytest.fixture
def settings_form(qtbot):
    made = SettingsForm(
        fields_of("inversion", model=MoreSettings),
        options={"inversion.alpha": {"widget_type": "FloatSlider"}},
    )
    window = form(list(made.rows().values()))
    qtbot.addWidget(window)
    made.window = window  # keep it alive
    return made


def test_titles_help_ranges_and_choices_are_those_of_the_fields(settings_form):
    rows = settings_form.rows()
    assert rows["inversion.learning_rate"][0] == "Learning rate"
    momentum = settings_form["momentum"]
    assert momentum.toolTip() == "Share of the last update."
    assert momentum.accessibleName() == "Momentum"
    assert (momentum.minimum(), momentum.maximum()) == (0.001, 1)  # above 0
    norm = settings_form["norm"]
    assert isinstance(norm, QComboBox)
    assert [norm.itemText(index) for index in range(norm.count())] == ["l1", "l2"]
    assert isinstance(rows["verbose"], QCheckBox)
    assert rows["verbose"].text() == "Say more"
    assert rows["patience"][0] == "Patience (updates)"
    assert settings_form["inversion.alpha"].findChild(QSlider)


def test_values_go_into_run_settings_and_back(settings_form, qtbot):
    assert MoreSettings().changed(settings_form.values()) == MoreSettings()
    values = {
        "inversion.steps": 20,
        "inversion.alpha": 2.5,
        "inversion.learning_rate": 0.025,
        "inversion.explainer": "chefer",
        "momentum": 0.9,
        "patience": 12,
        "norm": "l1",
        "verbose": True,
    }
    with qtbot.waitSignal(settings_form.changed):
        settings_form.set_values(values)
    changed = MoreSettings().changed(settings_form.values())
    assert changed == MoreSettings().changed(values)


def test_a_setting_that_may_be_none_has_a_box_automatic(settings_form):
    automatic = settings_form.rows()["patience"][1].findChild(QCheckBox)
    spin = settings_form["patience"]
    assert automatic.isChecked()
    assert not spin.isEnabled()
    assert settings_form.values()["patience"] is None
    automatic.setChecked(False)
    assert spin.isEnabled()
    assert settings_form.values()["patience"] == 8
    settings_form.set_values({"patience": None})
    assert automatic.isChecked()


def test_a_new_setting_appears_in_the_panel(qtbot, monkeypatch):
    monkeypatch.setattr(
        model_widget, "fields_of", lambda *groups: fields_of(*groups, model=MoreSettings)
    )
    part = ModelWidget(Session())
    qtbot.addWidget(part)
    assert part.form["momentum"].window() is part.how
    with qtbot.waitSignal(part.form.changed):
        part.form["momentum"].setValue(0.25)
    assert part.form.values()["momentum"] == 0.25


def test_a_number_that_is_automatic_says_so_and_its_value_comes_back(qtbot):
    (margin,) = (one for one in fields_of("uncertainty") if one.name == "margin")
    made = SettingsForm([margin])
    made.name_least("off")
    holder = form(made.rows().values())
    qtbot.addWidget(holder)
    number, automatic = made[margin.key], holder.findChild(QCheckBox)
    assert (number.text(), number.isEnabled()) == ("automatic", False)
    automatic.setChecked(False)
    assert number.text() == "off"
    number.setValue(0.125)
    automatic.setChecked(True)
    assert number.text() == "automatic"
    assert made.values() == {margin.key: None}
    automatic.setChecked(False)
    assert made.values() == {margin.key: 0.125}


@pytest.mark.parametrize(
    "values",
    [
        {"inversion.learning_rate": 0.00025, "momentum": 0.12345},
        {"inversion.alpha": 0.125},  # on a slider
        {"inversion.alpha": 100 / 3},  # farther than it goes at first
    ],
)
def test_numbers_of_a_file_are_shown_as_they_are(settings_form, values):
    settings_form.set_values(values)
    assert {key: settings_form.values()[key] for key in values} == values
    name, value = values.popitem()
    number = settings_form[name]
    shown = number if hasattr(number, "text") else number.findChild(QDoubleSpinBox)
    assert float(shown.text().split()[0]) == pytest.approx(value, abs=1e-6)
