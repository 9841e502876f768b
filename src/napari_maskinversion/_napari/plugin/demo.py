"""``napari-maskinversion demo``: napari with a sample scene, its regions labelled.

Without a display it runs under a virtual one and writes files.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...base.errors import InputError, MaskInversionError
from ...base.preferences import VARIABLE

if TYPE_CHECKING:
    from napari.viewer import Viewer

    from ..panel.widget import MaskInversionWidget


SCREENSHOT: Final = "screenshot.png"
_WINDOW: Final = (1400, 900)
_DOCK: Final = 400
_SCREEN: Final = "1600x1000x24"
_SAMPLE: Final = "everyday-1"  # as the record of its results says
_MARK: Final = "NAPARI_MASKINVERSION_VIRTUAL_DISPLAY"  # set in the process we start under one
_PATIENCE: Final = 600.0  # seconds for the run


def run_demo(out: Path, *, screenshot: bool = False) -> int:
    """Show the demonstration."""
    from ..workers import needs_qt  # noqa: F401

    display = _has_display()
    show = display and not screenshot
    if not show:
        _check(out)
    if not display:
        if os.environ.get(_MARK):
            raise InputError("The virtual display did not start; try: xvfb-run -a xdpyinfo")
        return _under_virtual_display(out)
    # A platform plugin without OpenGL, set for other programs' tests, would show nothing.
    if os.environ.get("QT_QPA_PLATFORM") in ("offscreen", "minimal"):
        del os.environ["QT_QPA_PLATFORM"]
    # With the usual settings: the panel's last ones may name a model that is not here, and are
    # to be what they were when the demonstration is over.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ[VARIABLE] = folder
        return _demonstrate(out, show=show)


def _names() -> list[str]:
    """Return the names of the files that are written."""
    from ...results.export.catalogue import DEFAULT, check_formats

    return [SCREENSHOT, *check_formats(DEFAULT)]


def describe(out: Path) -> list[str]:
    """Return one line for each file that was written, with its size."""
    lines = []
    for path in (out / name for name in _names()):
        if not path.is_file() or not path.stat().st_size:
            raise InputError(f"The demo's file {path} is missing or empty; run the demo again.")
        lines.append(f"{path.name:<16}{path.stat().st_size / 1e3:>8,.0f} kB")
    return lines


def _check(out: Path) -> None:
    from ...base.targets import check_targets

    # A second demonstration replaces the first one.
    check_targets([out / name for name in _names()], overwrite=_is_demonstration(out))


def _is_demonstration(out: Path) -> bool:
    """Return whether the results in a folder are of a demonstration, not of the user's images."""
    from ...base.reading import read_json

    try:
        record = read_json(out / "result.json")
    except InputError:
        return False
    source = record.get("source") if isinstance(record, dict) else None
    return isinstance(source, dict) and source.get("sample") == _SAMPLE


def _has_display() -> bool:
    if not sys.platform.startswith("linux"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _under_virtual_display(out: Path) -> int:
    """Run this module again under a virtual display."""
    starter = shutil.which("xvfb-run")
    if starter is None or shutil.which("Xvfb") is None or shutil.which("xauth") is None:
        raise InputError(
            "There is no display. To run under a virtual one, install xvfb and xauth "
            "(Debian, Ubuntu: apt-get install xvfb xauth libgl1 libegl1 libxcb-cursor0 "
            "libxkbcommon-x11-0)."
        )
    print("No display: running under a virtual one.", flush=True)
    command = [starter, "-a", "-s", f"-screen 0 {_SCREEN}", sys.executable, "-m", __name__]
    environment = os.environ | {_MARK: "1"}
    environment.pop("QT_QPA_PLATFORM", None)
    return subprocess.run([*command, "--out", str(out)], env=environment).returncode


def _demonstrate(out: Path, *, show: bool) -> int:
    import napari
    from superqt.utils import WorkerBase

    from .commands import everyday_1, open_widget

    viewer = napari.Viewer()
    viewer.window.resize(*_WINDOW)
    for data, options, kind in everyday_1():
        getattr(viewer, f"add_{kind}")(data, **options)
    widget = open_widget(viewer).panel()
    _set_width(viewer, widget)
    _wait(lambda: False, 0.3)  # the canvas takes the size that the dock leaves it
    viewer.reset_view()
    widget.start()
    if show:
        napari.run()
        return 0
    try:
        return _record(viewer, widget, out)
    finally:
        viewer.close()
        # As napari does when its application quits: a thread still at work would abort the process.
        WorkerBase.await_workers()


def _record(viewer: Viewer, widget: MaskInversionWidget, out: Path) -> int:
    """Wait for the results, then write everything there is."""
    from ...results.export.bundle import Bundle
    from ...results.export.catalogue import write_results
    from ...results.printing import print_results

    session = widget.session
    if not _wait(lambda: not widget.runner.busy, _PATIENCE):
        print(f"The run did not end within {_PATIENCE:.0f} s.", file=sys.stderr)
        return 1
    record, notice = session.run.record, session.status.notice
    if record is None or session.run.progress.phase != "done":
        reason = "There are no results." if notice is None else notice.text
        print(reason, file=sys.stderr)
        return 1
    _wait(lambda: False, 1.0)  # the heatmap has to reach the canvas
    source = {**record.source, "sample": _SAMPLE}
    files = write_results(Bundle(results=record.results, source=source), out, overwrite=True)
    picture = out / SCREENSHOT
    partial = out / f".{SCREENSHOT}"
    widget.reveal("results")
    _wait(lambda: False, 0.3)
    viewer.window.screenshot(str(partial.with_suffix(".part.png")), canvas_only=False, flash=False)
    partial.with_suffix(".part.png").replace(picture)
    print_results(record.results)
    print(f"Wrote {', '.join(path.name for path in [picture, *files])} to {out}")
    return 0


def _wait(done: Callable[[], bool], seconds: float) -> bool:
    """Process Qt events until a condition holds; return whether it did."""
    from qtpy.QtCore import QElapsedTimer, QEventLoop
    from qtpy.QtWidgets import QApplication

    clock = QElapsedTimer()
    clock.start()
    while clock.elapsed() < seconds * 1000:
        QApplication.processEvents(QEventLoop.ProcessEventsFlag.AllEvents, 50)
        if done():
            return True
    return False


def _set_width(viewer: Viewer, widget: MaskInversionWidget) -> None:
    from qtpy.QtCore import Qt
    from qtpy.QtWidgets import QDockWidget

    from ..widgets.sections import around

    dock = around(widget, QDockWidget)
    if dock is not None:
        dock.window().resizeDocks([dock], [_DOCK], Qt.Orientation.Horizontal)


def main(arguments: Sequence[str] | None = None) -> int:
    """Record the demonstration on the display there is."""
    parser = argparse.ArgumentParser(description="Record the demonstration.")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        return run_demo(options.out, screenshot=True)
    except MaskInversionError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
