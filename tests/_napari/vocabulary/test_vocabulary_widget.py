"""The vocabulary section as its user meets it."""

import threading
from pathlib import Path

import pytest
from qtpy.QtCore import Qt
from qtpy.QtGui import QColor
from qtpy.QtWidgets import QColorDialog, QDialogButtonBox, QFileDialog, QLineEdit, QMessageBox

from napari_maskinversion._napari.vocabulary import vocabulary_widget
from napari_maskinversion._napari.vocabulary.vocabulary_widget import VocabularyWidget
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.language.labels.files import read_label_file
from napari_maskinversion.language.labels.label import TEMPLATES
from napari_maskinversion.language.labels.presets import TITLES, preset, presets
from napari_maskinversion.language.labels.vocabulary import Vocabulary

CLASSIFIER = Path(__file__).parents[2] / "learning/version_1.safetensors"


@pytest.fixture
def part(qtbot, sessions):
    made = VocabularyWidget(sessions())
    qtbot.addWidget(made)
    made.show()
    return made


def menu(part):
    return {action.text().split(":")[0]: action for action in part.presets.menu().actions()}


def settled(qtbot, part):
    qtbot.waitUntil(lambda: not part.files.busy)


def retype(qtbot, part, text):
    part.text.selectAll()
    qtbot.keyClicks(part.text, text)


def test_every_list_is_in_the_menu_and_brings_its_prompts(part):
    assert list(menu(part)) == [one.name for one in presets()] == list(TITLES)
    for name in ("dota", "blood-cells"):
        menu(part)[name].trigger()
        assert part.vocabulary() == preset(name).vocabulary
    assert part.templates.currentData() == "microscopy"


def test_a_classifier_ranks_as_long_as_one_of_its_words_is_left(qtbot, part):
    part.take(read_label_file(CLASSIFIER))
    retype(qtbot, part, "platelet, parasite")
    assert part.vocabulary().learned is not None
    retype(qtbot, part, "parasite, worm")
    assert part.vocabulary().learned is None
    assert "Classifier" not in part.count.text()


def test_ctrl_z_brings_back_what_a_list_has_replaced(qtbot, part):
    retype(qtbot, part, "my own word")
    menu(part)["voc"].trigger()
    qtbot.keyClick(part.text, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert part.text.toPlainText() == "my own word"


class Layer:
    """Stands in for a layer that brings words, as samples do."""

    def __init__(self, name, *words):
        self.name, self.metadata = name, {"vocabulary": words}


def test_a_sample_brings_its_words_once_and_ctrl_z_brings_back_ones_own(qtbot, part):
    session = part._session
    part.follow()
    retype(qtbot, part, "debris")
    sample, other = Layer("elephant", "elephant", "tree"), Layer("photo")
    session.run.image = sample
    assert part.text.toPlainText() == "elephant\ntree"
    assert session.run.vocabulary.labels == ("elephant", "tree")
    assert "These words came with 'elephant'; Ctrl+Z brings back yours." in part.count.text()
    qtbot.keyClick(part.text, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert part.text.toPlainText() == "debris"
    assert "Ctrl+Z" not in part.count.text()
    session.run.image = other
    session.run.image = sample  # chosen again: what the user typed stays
    assert part.text.toPlainText() == "debris"
    session.run.regions = read = Layer("regions of a file", "ring")
    assert part.text.toPlainText() == "debris"
    assert session.run.regions is read
    part.stop()


def test_groups_and_colours_outlive_changes_of_the_text(qtbot, part):
    menu(part)["coco"].trigger()
    part.text.setPlainText("")
    retype(qtbot, part, "zebu, dog | hound")
    made = part.vocabulary()
    assert made.labels == ("zebu", "dog")
    assert made.groups == ("", "animal")
    assert made.synonyms == ((), ("hound",))


def dialog_cell(qtbot, dialog, row, column, text):
    table = dialog.table
    table.setCurrentCell(row, column)
    qtbot.keyClick(table, Qt.Key.Key_F2)
    (editor,) = (one for one in table.findChildren(QLineEdit) if one.isVisible())
    editor.selectAll()
    editor.insert(text)  # QTest types ASCII only
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: dialog.rows[row][column] == text)


def test_labels_are_edited_in_a_table_by_keyboard(qtbot, part, monkeypatch):
    retype(qtbot, part, "cat")
    qtbot.mouseClick(part.edit, Qt.MouseButton.LeftButton)
    dialog = part.dialog
    qtbot.waitUntil(dialog.isVisible)
    qtbot.keyClick(dialog.table, Qt.Key.Key_Insert)
    for column, text in ((0, "caf\u00e9, red"), (1, r"bistro | a\|b"), (2, "places")):
        dialog_cell(qtbot, dialog, 1, column, text)
    monkeypatch.setattr(QColorDialog, "getColor", lambda *_: QColor("#ff8800"))
    qtbot.mouseClick(dialog.color, Qt.MouseButton.LeftButton)
    qtbot.mouseClick(dialog.copy, Qt.MouseButton.LeftButton)
    ok = dialog.buttons.button(QDialogButtonBox.StandardButton.Ok)
    qtbot.mouseClick(ok, Qt.MouseButton.LeftButton)
    assert dialog.isVisible()
    assert "Row 3" in dialog.problem.text()
    assert "(see row 2)" in dialog.problem.text()
    assert dialog.table.currentIndex().row() == 2
    qtbot.keyClick(dialog.table, Qt.Key.Key_Delete)
    qtbot.mouseClick(ok, Qt.MouseButton.LeftButton)
    made = part.vocabulary()
    assert made.labels == ("cat", "caf\u00e9, red")
    assert made.synonyms == ((), ("bistro", "a|b"))
    assert made.groups == ("", "places")
    assert made.colors == ("", "#ff8800")


def test_cancel_changes_nothing_and_asks_before_it_discards(qtbot, part, monkeypatch):
    text = "# mine\ncat\ndog | hound"
    part.text.setPlainText(text)
    part.edit.click()
    dialog, answers, asked = part.dialog, [False, True], []

    def question(*_):
        asked.append(1)
        yes = QMessageBox.StandardButton.Yes
        return yes if answers.pop(0) else QMessageBox.StandardButton.No

    monkeypatch.setattr(QMessageBox, "question", question)
    dialog_cell(qtbot, dialog, 0, 0, "cow")
    for visible in (True, False):
        qtbot.keyClick(dialog, Qt.Key.Key_Escape)
        assert dialog.isVisible() == visible
    assert part.text.toPlainText() == text
    # Where no word changes the text stays as somebody wrote it, comments too.
    part.edit.click()
    part.dialog.fill.click()
    part.dialog.accept()
    assert len(asked) == 2
    assert part.text.toPlainText() == text
    assert all(part.vocabulary().colors)


def test_words_changed_in_the_table_replace_the_text_and_ctrl_z_brings_it_back(qtbot, part):
    typed = "# mine\ncat\n\n# seen once\ndog | hound\n# no more"
    part.text.setPlainText(typed)
    part.edit.click()
    dialog_cell(qtbot, part.dialog, 0, 0, "lion")
    dialog_cell(qtbot, part.dialog, 1, 1, "hound | puppy")
    part.dialog.accept()
    assert part.text.toPlainText() == "lion\ndog | hound | puppy"
    qtbot.keyClick(part.text, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert part.text.toPlainText() == typed


@pytest.mark.parametrize("suffix", [".txt", ".csv", ".yaml"])
def test_what_is_saved_can_be_loaded(
    qtbot, part, sessions, tmp_path, monkeypatch, messages, suffix
):
    menu(part)["dota"].trigger()
    part.none.setChecked(True)
    part.threshold.setValue(0.31)
    before = part.vocabulary()
    chosen = (str(tmp_path / "list"), {".txt": "Text (*.txt)", ".csv": "CSV (*.csv)"}.get(suffix))
    chosen = chosen if chosen[1] else (chosen[0] + suffix, "")
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *a, **k: chosen)
    qtbot.mouseClick(part.save, Qt.MouseButton.LeftButton)
    settled(qtbot, part)
    file = tmp_path / f"list{suffix}"
    assert f"Saved 15 words in {file}" in messages[-1]
    assert ("file cannot hold" in messages[-1]) == (suffix != ".yaml")
    other = VocabularyWidget(sessions())
    qtbot.addWidget(other)
    other.files.read(file)
    settled(qtbot, other)
    assert other.vocabulary().labels == before.labels
    if suffix == ".yaml":
        assert other.vocabulary() == before


def test_saving_asks_before_it_replaces(qtbot, part, tmp_path, monkeypatch, messages):
    part.text.setPlainText("cat")
    file = tmp_path / "labels.txt"
    file.write_text("mine")
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *a, **k: (str(file), ""))
    for answer, written in (("No", "mine"), ("Yes", "cat\n")):
        button = getattr(QMessageBox.StandardButton, answer)
        monkeypatch.setattr(QMessageBox, "question", lambda *_, button=button: button)
        part.save.click()
        settled(qtbot, part)
        assert file.read_text() == written
    part.files.save(part.vocabulary(), tmp_path / "nowhere" / "labels.txt")
    settled(qtbot, part)
    assert "cannot be written" in messages[-1]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("broken.yaml", "labels: [cat, dog", "not YAML in line"),
        ("twice.yaml", "- car | auto\n- bus | auto", "label 2"),
        ("empty.txt", "# nothing\n", "no labels"),
        ("open.csv", 'label\n"cat', "never closed"),
        ("bytes.txt", b"caf\xe9", "UTF-8"),
        ("clash.txt", "car | auto\nbus | auto", "clash.txt"),
    ],
)
def test_a_broken_file_is_refused_and_nothing_is_lost(
    qtbot, part, tmp_path, messages, name, content, says
):
    part.text.setPlainText("cat\ndog")
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    part.files.read(file)
    settled(qtbot, part)
    assert len(messages) == 1
    assert says in messages[0]
    assert part.text.toPlainText() == "cat\ndog"


@pytest.mark.parametrize(
    ("typed", "says", "labels"),
    [
        (" \n# only a comment", "no words yet", None),
        ("cat", "1 word: every region gets it", ("cat",)),
        ("cat\ndog, cat\n", "2 words, 1 repeated", ("cat", "dog")),
        ("\u732b | \u0645\u0627\u0631\nbl\u00e5", "2 words", ("\u732b", "bl\u00e5")),
        ('"a ""b"", c", 5"', "2 words", ('a "b", c', '5"')),
        ("car | auto\nbus | auto", "'auto' is a synonym of 'car' and of 'bus'", None),
    ],
)
def test_what_was_typed_is_told_beside_the_field(part, typed, says, labels):
    part.text.setPlainText(typed)
    assert part.count.text().startswith(says)
    if labels is None:
        with pytest.raises(InputError):
            part.vocabulary()
    else:
        assert part.vocabulary().labels == labels
    assert part.text.toPlainText() == typed


def test_five_thousand_labels_are_read_beside_the_main_thread(qtbot, part, monkeypatch):
    threads, read = [], vocabulary_widget.TypedLabels.read

    def noted(text):
        threads.append(threading.current_thread() is threading.main_thread())
        return read(text)

    monkeypatch.setattr(vocabulary_widget.TypedLabels, "read", noted)
    part.text.setPlainText("\n".join(f"label {number} | word {number}" for number in range(5000)))
    assert part.count.text() == "counting ..."
    qtbot.waitUntil(lambda: part.count.text().startswith("5,000 words"))
    assert len(part.vocabulary().labels) == 5000
    assert threads == [False]


def test_own_prompts_are_looked_at_while_they_are_typed(qtbot, part):
    part.text.setPlainText("cat")
    parts = part.templates_widget
    assert parts.own.isHidden()
    part.templates.setCurrentIndex(part.templates.count() - 1)
    assert parts.own.toPlainText() == "\n".join(TEMPLATES["photo"])  # something to begin with
    parts.own.selectAll()
    qtbot.keyClicks(parts.own, "a sketch of a {}.")
    qtbot.keyClick(parts.own, Qt.Key.Key_Return)
    qtbot.keyClicks(parts.own, "{} in ")
    assert parts.problem.isHidden()
    qtbot.keyClicks(parts.own, "{}")
    assert "exactly one {}" in parts.problem.text()
    assert not parts.problem.isHidden()
    with pytest.raises(InputError, match="exactly one"):
        part.vocabulary()
    for _ in "{}":
        qtbot.keyClick(parts.own, Qt.Key.Key_Backspace)
    assert part.vocabulary() == Vocabulary(("cat",), ("a sketch of a {}.", "{} in"))


def test_words_that_the_chosen_model_does_not_know_are_named_while_they_are_typed(qtbot, sessions):
    session = sessions()
    part = VocabularyWidget(session)
    qtbot.addWidget(part)
    part.follow()
    part.text.setPlainText("car\nperson")
    assert part.count.text().endswith("\n1 word that the demo model does not know: person")
    qtbot.keyClicks(part.text, "helmet")  # before the first word
    qtbot.keyClick(part.text, Qt.Key.Key_Return)
    assert part.count.text().endswith("2 words that the demo model does not know: helmet, person")
    session.run.change_settings({"model": "ViT-B-16/openai"})
    assert "does not know" not in part.count.text()
    session.run.change_settings({"model": "demo"})
    assert "does not know" in part.count.text()


def test_none_of_these_may_be_off(qtbot, part):
    part.text.setPlainText("cat")
    assert part.vocabulary().threshold is None
    assert not part.threshold.isEnabled()
    qtbot.keyClick(part.none, Qt.Key.Key_Space)
    part.threshold.setValue(0.35)
    assert part.vocabulary().threshold == pytest.approx(0.35)


def test_limits_of_flags_reach_the_run(qtbot, widget, slow, run_to_end):
    slow.free = True
    part = widget.vocabulary.uncertainty
    assert not part["unsure.tokens"].isVisible()  # on a page of the settings
    part["unsure.tokens"].setValue(3)
    part.set_values({"unsure.overlap": 0, "unsure.margin": 0.0025})
    assert part["unsure.overlap"].text() == "off"
    run_to_end(widget)
    limits = slow.settings.unsure
    assert (limits.tokens, limits.overlap, limits.margin) == (3, 0, 0.0025)
