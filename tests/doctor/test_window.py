"""What keeps the panel's window shut, each with its remedy."""

import pytest

from napari_maskinversion.doctor.probe import Probed
from napari_maskinversion.doctor.window import (
    Setting,
    napari_finding,
    opengl_finding,
    qt_finding,
)

QT = Probed({"binding": "PyQt6", "binding_version": "6.11.0", "qt": "6.11.0"})
ONE = {"PyQt6": "6.11.0"}


def test_one_binding_that_works_is_all_there_is_to_say():
    finding = qt_finding(QT, Setting(bindings=ONE))
    assert (finding.status, finding.remedy) == ("ok", "")
    assert "PyQt6 6.11.0" in finding.summary


@pytest.mark.parametrize(
    ("setting", "probed", "status", "summary", "remedy"),
    [
        (Setting(), Probed(), "note", "none", "napari-maskinversion[all]"),
        (
            Setting(bindings={"PySide6": "6.12.0"}, python=(3, 11)),
            Probed(failure="the process was ended by SIGABRT"),
            "problem",
            "ends the process under Python 3.11",
            '"PySide6!=6.12.0"',
        ),
        (
            Setting(bindings=ONE, variables={"QT_API": "pyside6"}),
            Probed(failure="PythonQtError: No Qt bindings"),
            "problem",
            "QT_API=pyside6",
            "unset QT_API",
        ),
        (
            Setting(bindings={**ONE, "PySide6": "6.11.3"}),
            QT,
            "note",
            "PyQt6 is used",
            "QT_API=pyqt6",
        ),
        (
            Setting(bindings={"PyQt5": "5.15.11"}),
            Probed({"binding": "PyQt5", "binding_version": "5.15.11", "qt": "5.15.2"}),
            "note",
            "tested are PyQt6 and PySide6",
            "uninstall PyQt5",
        ),
        (
            Setting(bindings=ONE),
            Probed(failure="ImportError: libEGL.so.1: cannot open shared object file"),
            "problem",
            "a library of the system is missing",
            "apt-get install",
        ),
        (
            Setting(bindings=ONE),
            Probed(failure="ImportError: undefined symbol: qt_version_tag_6_10"),
            "problem",
            "cannot be loaded",
            "PyQt6 PyQt6-Qt6",
        ),
    ],
    ids=["none", "6.12.0", "QT_API", "two", "PyQt5", "libraries", "versions"],
)
def test_each_trap_of_qt_has_its_remedy(setting, probed, status, summary, remedy):
    finding = qt_finding(probed, setting)
    assert finding.status == status
    assert summary in finding.summary
    assert remedy in finding.remedy


def test_pyside6_6_12_0_works_with_a_later_python():
    facts = {"binding": "PySide6", "binding_version": "6.12.0", "qt": "6.12.0"}
    setting = Setting(bindings={"PySide6": "6.12.0"}, python=(3, 12))
    assert qt_finding(Probed(facts), setting).status == "ok"


DISPLAY = Setting(bindings=ONE, variables={"DISPLAY": ":0"})


def drawn(renderer, texture=16384):
    return Probed(
        {"platform": "xcb", "version": "4.6.0 x", "renderer": renderer, "texture": texture}
    )


@pytest.mark.parametrize(
    ("setting", "probed", "status", "said"),
    [
        (DISPLAY, drawn("NVIDIA RTX A5000"), "ok", "NVIDIA RTX A5000, OpenGL 4.6.0"),
        (DISPLAY, drawn("llvmpipe (LLVM 15)"), "note", "in software"),
        (DISPLAY, drawn("Intel", 2048), "ok", "above 2048 px are shown coarser"),
        (Setting(bindings=ONE), Probed(), "note", "xvfb-run"),
        (Setting(), Probed(), "note", "there is no Qt"),
        (
            DISPLAY,
            Probed(failure="the process was ended by SIGABRT", output='platform plugin "xcb"'),
            "problem",
            "libxcb-cursor0",
        ),
        (
            DISPLAY,
            Probed(failure="the process was ended by SIGABRT", output="cv2/qt/plugins xcb"),
            "problem",
            "opencv-python-headless",
        ),
        (
            Setting(bindings=ONE, variables={"DISPLAY": ":0", "QT_QPA_PLATFORM": "offscreen"}),
            Probed(failure="RuntimeError: Qt cannot make an OpenGL context"),
            "problem",
            "unset QT_QPA_PLATFORM",
        ),
        (
            Setting(bindings=ONE, system="win32"),
            Probed(failure="RuntimeError: Qt cannot make an OpenGL context"),
            "problem",
            "graphics driver",
        ),
    ],
)
def test_what_draws_is_named_and_what_keeps_it_from_drawing_too(setting, probed, status, said):
    finding = opengl_finding(probed, setting)
    assert finding.status == status
    assert said in f"{finding.summary} {finding.remedy}"


def test_napari_says_whether_it_knows_the_plugin():
    facts = {"version": "0.9.2", "npe2": "0.10.0", "disabled": False, "widgets": 1}
    assert napari_finding(Probed(facts)).status == "ok"
    off = napari_finding(Probed({**facts, "disabled": True}))
    assert off.status == "problem"
    assert "Plugins >" in off.remedy
    broken = napari_finding(Probed(failure="ImportError: cannot import name 'x' from 'pydantic'"))
    assert broken.status == "problem"
    assert "pydantic" in broken.summary
