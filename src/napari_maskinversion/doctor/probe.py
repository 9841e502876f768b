"""Import what may be broken in a process of its own, and say what it is.

``python -m napari_maskinversion.doctor.probe NAME`` prints the facts as JSON on its last line. A
library that ends its process, as Qt does without a display and torch on an old processor, ends
that process only.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from .report import one_line

Facts = dict[str, Any]
_PATIENCE: Final = 120.0  # seconds; torch's first import from a cold disk takes a minute


@dataclass(frozen=True, slots=True)
class Probed:
    """What a probe said."""

    facts: Facts = field(default_factory=dict)  # Empty if it failed
    failure: str = ""  # One line; "" if it did not fail
    output: str = ""  # What the process printed on standard error


def probe(name: str) -> Probed:
    """Run one of `PROBES` in a fresh process."""
    # -P: as for the installed command, the folder where the user works holds no packages.
    command = [sys.executable, "-P", "-m", f"{__package__}.probe", name]
    environment = os.environ | {"PYTHONIOENCODING": "utf-8"}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=_PATIENCE,
            env=environment,
            stdin=subprocess.DEVNULL,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except subprocess.TimeoutExpired:
        return Probed(failure=f"no answer within {_PATIENCE:.0f} s")
    except OSError as error:
        return Probed(failure=one_line(error))
    with suppress(ValueError, IndexError, KeyError):
        answer = json.loads(done.stdout.splitlines()[-1])
        return Probed(answer["facts"], answer["failure"], done.stderr)
    return Probed(failure=_ending(done.returncode), output=done.stderr)


def _ending(code: int) -> str:
    """Return how a process ended that did not answer."""
    if code >= 0:
        return f"the process ended with status {code}"
    try:
        return f"the process was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"the process was ended by signal {-code}"


# -- what runs in the process ---------------------------------------------------------------------


def _torch() -> Facts:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch = import_module("torch")
        cuda = bool(torch.cuda.is_available())
        gpus = []
        for index in range(torch.cuda.device_count() if cuda else 0):
            about = torch.cuda.get_device_properties(index)
            gpus.append(
                {
                    "name": about.name,
                    "memory": int(about.total_memory),
                    "capability": [about.major, about.minor],
                }
            )
        numpy_error = ""
        try:
            torch.zeros(1).numpy()
        except Exception as error:
            numpy_error = one_line(error)
    return {
        "version": str(torch.__version__),
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "gpus": gpus,
        "architectures": list(torch.cuda.get_arch_list()) if cuda else [],
        "mps_built": bool(torch.backends.mps.is_built()),
        "mps": bool(torch.backends.mps.is_available()),
        "threads": int(torch.get_num_threads()),
        "numpy_error": numpy_error,
        "warnings": [" ".join(str(warning.message).split()) for warning in caught],
    }


def _qt() -> Facts:
    # By name, here and below: only the panel depends on Qt and napari.
    qtpy = import_module("qtpy")
    import_module("qtpy.QtWidgets")
    return {
        "binding": qtpy.API_NAME,
        "binding_version": _binding_version(qtpy),
        "qt": qtpy.QT_VERSION,
    }


def _binding_version(qtpy: Any) -> str:
    return str(qtpy.PYQT_VERSION or qtpy.PYSIDE_VERSION or "")


def _opengl() -> Facts:
    gui = import_module("qtpy.QtGui")
    widgets = import_module("qtpy.QtWidgets")
    application = widgets.QApplication.instance() or widgets.QApplication(["doctor"])
    surface = gui.QOffscreenSurface()
    surface.create()
    context = gui.QOpenGLContext()
    if not context.create() or not context.makeCurrent(surface):
        raise RuntimeError("Qt cannot make an OpenGL context")
    gl = import_module("vispy.gloo.gl")
    facts = {
        "platform": str(application.platformName()),
        "version": str(gl.glGetParameter(gl.GL_VERSION)),
        "renderer": str(gl.glGetParameter(gl.GL_RENDERER)),
        "texture": int(gl.glGetParameter(gl.GL_MAX_TEXTURE_SIZE)),
    }
    context.doneCurrent()
    return facts


def _napari() -> Facts:
    napari = import_module("napari")
    settings = import_module("napari.settings").get_settings()
    npe2 = import_module("npe2")
    name = str(__package__).partition(".")[0].replace("_", "-")
    manifest = npe2.PluginManifest.from_distribution(name)
    return {
        "version": str(napari.__version__),
        "npe2": str(npe2.__version__),
        "disabled": name in settings.plugins.disabled_plugins,
        "widgets": len(manifest.contributions.widgets or ()),
    }


PROBES: Final[dict[str, Callable[[], Facts]]] = {
    "torch": _torch,
    "qt": _qt,
    "opengl": _opengl,
    "napari": _napari,
}


def main(name: str) -> None:
    """Run a probe and print its facts or its failure as one line of JSON."""
    facts: Facts = {}
    failure = ""
    try:
        facts = PROBES[name]()
    except BaseException as error:  # whatever a broken library raises
        failure = one_line(error)
    print("\n" + json.dumps({"facts": facts, "failure": failure}), flush=True)
    os._exit(0)  # a broken library may crash when it is unloaded


if __name__ == "__main__":
    main(sys.argv[1])
