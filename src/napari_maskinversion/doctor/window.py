"""Checks of what the panel needs: a Qt, OpenGL and napari."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from .packages import distribution_versions, installed_version
from .probe import Probed, probe
from .remedies import extra, install, uninstall
from .report import Finding

BINDINGS: Final = ("PyQt6", "PySide6", "PyQt5", "PySide2")
_TESTED: Final = BINDINGS[:2]
_CRASHES: Final = ("PySide6", "6.12.0")  # frees None and True under Python 3.11
LIBRARIES: Final = (
    "sudo apt-get install libgl1 libegl1 libopengl0 libxkbcommon-x11-0 libxcb-cursor0 "
    "libxcb-icccm4 libxcb-image0 libxcb-keysyms1 libxcb-randr0 libxcb-render-util0 libxcb-shape0 "
    "libxcb-xinerama0 libdbus-1-3"
)
_SOFTWARE: Final = ("llvmpipe", "softpipe", "swrast", "swiftshader", "gdi generic", "software")
_LEAST_TEXTURE: Final = 4096  # pixels


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What decides which Qt is used, and whether windows can open."""

    # Versions of the installed `BINDINGS`
    bindings: Mapping[str, str] = field(default_factory=dict)
    python: tuple[int, int] = (3, 12)
    system: str = "linux"  # As in `sys.platform`
    variables: Mapping[str, str] = field(default_factory=dict)  # Of the environment

    @classmethod
    def here(cls) -> Setting:
        """Return what this process has."""
        return cls(
            bindings=distribution_versions(BINDINGS),
            python=sys.version_info[:2],
            system=sys.platform,
            variables=os.environ,
        )

    @property
    def display(self) -> bool:
        """Whether windows can open."""
        return not self.system.startswith("linux") or any(
            self.variables.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
        )


def check_qt() -> list[Finding]:
    """Check that there is one Qt that works."""
    setting = Setting.here()
    return [qt_finding(probe("qt") if setting.bindings else Probed(), setting)]


def qt_finding(probed: Probed, setting: Setting) -> Finding:
    """Return what the facts about Qt mean."""
    name, bindings = "Qt", setting.bindings
    listed = ", ".join(f"{binding} {version}" for binding, version in bindings.items())
    if not bindings:
        summary = (
            "none: the command line works, the panel needs one ([all]: PyQt6, [pyside6]: PySide6)"
        )
        return Finding(name, "note", summary, extra("all"))
    binding, bad = _CRASHES
    if bindings.get(binding) == bad and setting.python < (3, 12):
        summary = f"{binding} {bad} ends the process under Python {_dotted(setting.python)}"
        return Finding(name, "problem", summary, install(f"{binding}!={bad}"))
    wanted = setting.variables.get("QT_API", "")
    if wanted and wanted.lower() not in (binding.lower() for binding in bindings):
        summary = f"QT_API={wanted} names a binding that is not installed (there is {listed})"
        return Finding(name, "problem", summary, f"unset QT_API, or install {wanted}")
    if probed.failure:
        return Finding(name, "problem", *_broken_qt(probed, listed))
    facts = probed.facts
    binding = next((b for b in bindings if b.lower() == facts["binding"].lower()), "")
    summary = f"{facts['binding']} {bindings.get(binding, '')} (Qt {facts['qt']})"
    if len(bindings) > 1:
        summary = f"two or more are installed ({listed}); {facts['binding']} is used"
        chosen = facts["binding"].lower()
        remedy = f"uninstall all but one, or set QT_API={chosen}: two in one process can crash"
        return Finding(name, "note", summary, remedy, facts)
    if binding not in _TESTED:
        remedy = f"{uninstall(binding)}\n{extra('all')}"
        return Finding(name, "note", f"{summary}; tested are PyQt6 and PySide6", remedy, facts)
    return Finding(name, "ok", summary, "", facts)


def _broken_qt(probed: Probed, listed: str) -> tuple[str, str]:
    text = f"{probed.failure} {probed.output}"
    if re.search(r"lib(GL|EGL|OpenGL|xkbcommon|xcb|dbus)[\w-]*\.so", text):
        return f"a library of the system is missing ({probed.failure})", LIBRARIES
    parts = ["PyQt6", "PyQt6-Qt6", "PyQt6-sip"] if "PyQt6" in listed else [listed.partition(" ")[0]]
    remedy = "the parts of Qt may have different versions:\n" + install("--force-reinstall", *parts)
    return f"{listed} cannot be loaded: {probed.failure}", remedy


def check_opengl() -> list[Finding]:
    """Check that a window can draw, and what draws it."""
    setting = Setting.here()
    probed = probe("opengl") if setting.bindings and setting.display else Probed()
    return [opengl_finding(probed, setting)]


def opengl_finding(probed: Probed, setting: Setting) -> Finding:
    """Return what the facts about OpenGL mean."""
    name = "OpenGL"
    if not setting.bindings:
        return Finding(name, "note", "not examined: there is no Qt", extra("all"))
    if not setting.display:
        summary = "there is no display: no window can open; the command line works"
        remedy = "start it on a desktop, or under a virtual display: xvfb-run -a napari"
        return Finding(name, "note", summary, remedy)
    if probed.failure:
        text = f"{probed.failure} {probed.output}"
        summary = f"no window can be drawn: {probed.failure}"
        if setting.variables.get("QT_QPA_PLATFORM") in ("offscreen", "minimal"):
            return Finding(name, "problem", summary, "unset QT_QPA_PLATFORM")
        if "cv2" in text or "opencv" in text:
            return Finding(name, "problem", summary, without_opencv_s_qt())
        if "xcb" in text or "plugin" in text:
            return Finding(name, "problem", summary, LIBRARIES)
        return Finding(name, "problem", summary, "install or update the graphics driver")
    facts = probed.facts
    summary = f"{facts['renderer']}, OpenGL {facts['version'].partition(' ')[0]}"
    if facts["texture"] < _LEAST_TEXTURE:
        summary += f"; pictures above {facts['texture']} px are shown coarser"
    if any(word in facts["renderer"].lower() for word in _SOFTWARE):
        remedy = "install the graphics driver; over a network, use a remote desktop with OpenGL"
        return Finding(name, "note", f"{summary}: in software, drawing is slow", remedy, facts)
    return Finding(name, "ok", summary, "", facts)


def without_opencv_s_qt() -> str:
    """Return what takes OpenCV's own Qt away."""
    return "\n".join(
        (
            "OpenCV brings a Qt of its own:",
            uninstall("opencv-python", "opencv-contrib-python"),
            install("opencv-python-headless"),
        )
    )


def check_napari() -> list[Finding]:
    """Check that napari works and knows the plugin."""
    if not installed_version("napari"):
        return [Finding("napari", "problem", "not installed", install("napari"))]
    return [napari_finding(probe("napari"))]


def napari_finding(probed: Probed) -> Finding:
    """Return what the facts about napari mean."""
    if probed.failure:
        remedy = f"napari --info shows more\n{install('--upgrade', 'napari', 'npe2', 'pydantic')}"
        return Finding("napari", "problem", f"cannot be loaded: {probed.failure}", remedy)
    facts = probed.facts
    summary = f"{facts['version']} (npe2 {facts['npe2']})"
    if facts["disabled"]:
        summary += "; this plugin is switched off in napari"
        remedy = "in napari, Plugins > Install/Uninstall Plugins...: tick napari-maskinversion"
        return Finding("napari", "problem", summary, remedy, facts)
    return Finding("napari", "ok", f"{summary}, which knows this plugin", "", facts)


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
