"""All checks of an installation, and the report of them.

Other parts of the package are imported late: they need packages that may be broken.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from .. import __version__

if TYPE_CHECKING:
    from packaging.requirements import Requirement

Facts = dict[str, Any]
Status = Literal["ok", "note", "problem"]
US: Final = "napari-maskinversion"
_PATIENCE: Final = 120.0  # seconds; torch's first import from a cold disk takes a minute
MARK: Final = 8  # width of the status in the text
_NAME: Final = 12  # and of the names of the checks
_PYTHONS: Final = ((3, 11), (3, 14))  # the oldest and the newest that is tested
BINDINGS: Final = ("PyQt6", "PySide6", "PyQt5", "PySide2")
_SOFTWARE: Final = ("llvmpipe", "softpipe", "swrast", "swiftshader", "gdi generic", "software")
LIBRARIES: Final = (
    "sudo apt-get install libgl1 libegl1 libopengl0 libxkbcommon-x11-0 libxcb-cursor0 "
    "libxcb-icccm4 libxcb-image0 libxcb-keysyms1 libxcb-randr0 libxcb-render-util0 libxcb-shape0 "
    "libxcb-xinerama0 libdbus-1-3"
)
# What each extra brings. The Qts, [all] and [pyside6], are checked with the window.
EXTRAS: Final = {
    "batch": "batches on several machines",
    "bench": "plots of bench",
    "bioio": "ND2 and LIF as images",
    "captioning": "captions by CLIPCap",
    "diffusion": "pictures of what an embedding shows",
    "map": "t-SNE on the map of embeddings",
    "sam2": "SAM 2 and SAM 3",
    "spatial": "GeoPackage, AnnData and SpatialData",
    "tokenizers": "SigLIP and other models with tokenizers of their own",
}
# What a report about an error needs to name.
_NAMED: Final = ("torchvision", "open_clip_torch", "timm", "numpy", "vispy", "pydantic", "zarr")


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check says."""

    name: str  # Of what was checked
    status: Status  # A note costs speed or a feature; a problem keeps something from working
    summary: str  # One line
    # What to do; "" if there is nothing to do. Each command stands on a line of its own.
    remedy: str = ""
    # More for ``--json``: values that JSON can hold
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """All findings, in the order of the checks."""

    version: str
    findings: tuple[Finding, ...]

    @property
    def problems(self) -> int:
        """Number of problems."""
        return sum(finding.status == "problem" for finding in self.findings)

    def text(self) -> str:
        """Return the report as plain lines, to read and to paste."""
        lines = [f"{US} {self.version}"]
        for finding in self.findings:
            lines.append(f"{finding.status:<{MARK}}{finding.name:<{_NAME}}{finding.summary}")
            for place, remedy in enumerate(finding.remedy.splitlines()):
                lines.append(f"{'':<{MARK + _NAME}}{'  ' if place else '->'} {remedy}")
        notes = sum(finding.status == "note" for finding in self.findings)
        lines.append(f"{_count(self.problems, 'problem')}, {_count(notes, 'note')}.".capitalize())
        return without_home("\n".join(lines))

    def json(self) -> str:
        """Return the report with all facts."""
        findings = [asdict(finding) for finding in self.findings]
        values = {US: self.version, "problems": self.problems, "findings": findings}
        return without_home(json.dumps(values, indent=1))


def without_home(text: str) -> str:
    """Replace the home folder by ``~``: reports are public, and it names the user."""
    home = str(Path.home())
    in_json = json.dumps(home)[1:-1]  # with its backslashes doubled
    if len(home) < 2:
        return text
    return text.replace(in_json, "~").replace(home, "~")


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


# -- commands that mend an installation -----------------------------------------------------------
# sh, cmd.exe and PowerShell agree on double quotes around an argument, and on little else: a
# program in quotes is a text for PowerShell, single quotes stay for cmd.exe, and none of the signs
# between two commands means the same to all. So a remedy has one command a line.


def install(*packages: str, command: str = "install") -> str:
    """Return the command that installs packages or takes options of ``pip install``."""
    if find_spec("pip") is None:  # as in environments that uv made
        return _uv("uv", command, *packages)
    return " ".join([_python(), "-m pip", command, *map(_quoted, packages)])


def install_torch(backend: str = "auto", *options: str) -> str:
    """Return the commands that install the build of torch for this machine."""
    arguments = ("install", *options, "torch", "torchvision", "--torch-backend", backend)
    if shutil.which("uv"):
        return _uv("uv", *arguments)
    return f"{install('uv')}\n{_uv(f'{_python()} -m uv', *arguments)}"


def _uv(uv: str, *words: str) -> str:
    command, *arguments = map(_quoted, words)
    # Named, since uv refuses a Python that is in no virtual environment unless it is named.
    return " ".join([f"{uv} pip {command} --python {_quoted(sys.executable)}", *arguments])


def _python() -> str:
    """Return what starts this Python: its name where that does, else its path."""
    on_path = shutil.which("python")
    # Links are not followed: the Pythons of all virtual environments lead to one file.
    same = on_path is not None and Path(on_path).absolute() == Path(sys.executable).absolute()
    if same:
        return "python"
    return _quoted(sys.executable)


def _quoted(argument: str) -> str:
    if re.fullmatch(r"[\w./:\\+~=-]+", argument, re.ASCII):
        return argument
    return f'"{argument}"'


# -- what may be broken ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Probed:
    """What a probe said."""

    facts: Facts = field(default_factory=dict)  # Empty if it failed
    failure: str = ""  # One line; "" if it did not fail
    output: str = ""  # What the process printed on standard error


def probe(names: Iterable[str]) -> dict[str, Probed]:
    """Run some of `_PROBES` in one process; where one ends it, the others run in the next."""
    answers: dict[str, Probed] = {}
    while left := [name for name in names if name not in answers]:
        out, error, ending = _process(left)
        for line in out.splitlines():
            with suppress(ValueError):  # a package may print lines of its own
                name, facts, failure = json.loads(line)
                answers[name] = Probed(facts, failure, error)
        if ending and (unanswered := [name for name in left if name not in answers]):
            answers[unanswered[0]] = Probed(failure=ending, output=error)
    return answers


def _process(names: list[str]) -> tuple[str, str, str]:
    """Return what a process printed on both streams, and how it ended."""
    # -P: as for the installed command, the folder where the user works holds no packages.
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", __name__, *names],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    )
    try:
        out, error = process.communicate(timeout=_PATIENCE * len(names))
    except subprocess.TimeoutExpired:
        process.kill()
        return *process.communicate(), f"no answer within {_PATIENCE:.0f} s"
    code = process.returncode
    if code < 0:
        by = f"was ended by {signal.Signals(-code).name}"
    else:
        by = f"ended with status {code}"
    return out, error, f"the process {by}"


def one_line(error: BaseException) -> str:
    """Return an error as one line that begins with its type."""
    return " ".join(f"{type(error).__name__}: {error}".split())


# -- the checks -----------------------------------------------------------------------------------


def examine() -> Report:
    """Run all checks. Takes some seconds, in a process of its own: not for the GUI thread."""
    probed = probe(_PROBES)
    checks: dict[str, Callable[[], list[Finding]]] = {
        "Python": check_python,
        "torch": partial(torch_findings, probed["torch"]),
        "Qt": lambda: [qt_finding(probed["Qt"], versions(BINDINGS))],
        "napari": lambda: [napari_finding(probed["napari"])],
        "models": check_models,
        "cache": check_cache,
        "packages": check_packages,
    }
    findings = []
    for name, check in checks.items():
        findings.extend(_checked(name, check))
    return Report(__version__, tuple(findings))


def _checked(name: str, check: Callable[[], list[Finding]]) -> list[Finding]:
    """Run one check; one that breaks off is a finding."""
    try:
        return check()
    except Exception as error:
        summary = f"could not be checked: {one_line(error)}"
        return [Finding(name, "problem", summary, install("--upgrade", US))]


def versions(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    present = {}
    for name in names:
        try:
            present[name] = version(name)
        except PackageNotFoundError:
            continue
    return present


def check_python() -> list[Finding]:
    """Check the version of Python and tell the system."""
    conda = ""
    if (Path(sys.prefix) / "conda-meta").is_dir():
        conda = ", conda"
    summary = f"{platform.python_version()}{conda}, {platform.platform()}"
    facts = {"executable": sys.executable, "prefix": sys.prefix}
    oldest, newest = _PYTHONS
    if not oldest <= sys.version_info[:2] <= newest:
        tested = " to ".join(".".join(map(str, version)) for version in _PYTHONS)
        return [Finding("Python", "note", summary, f"tested are Python {tested}", facts)]
    return [Finding("Python", "ok", summary, "", facts)]


def torch_findings(probed: Probed) -> list[Finding]:
    """Return what the facts about torch mean: that it works, and which device it uses and why."""
    if probed.failure:
        return [Finding("torch", "problem", *_broken_torch(probed))]
    facts = probed.facts
    build = "CPU only"
    if facts["cuda"]:
        build = f"CUDA {facts['cuda']}"
    build = f"ROCm {facts['hip']}" if facts["hip"] else build
    summary = f"{facts['version']}, built for: {build}; {facts['threads']} threads"
    device = Finding("device", *_device(facts))
    return [Finding("torch", "ok", summary, "", facts), device]


def _broken_torch(probed: Probed) -> tuple[str, str]:
    """Return summary and remedy where torch cannot be imported."""
    text = f"{probed.failure} {probed.output}"
    if re.search(r"No module named '?torch'?$", probed.failure):
        return "not installed", install_torch()
    remedy = install_torch("auto", "--reinstall")
    if re.search(r"WinError (126|127|1114)|c10\.dll|fbgemm\.dll", text):
        remedy = "install the current Microsoft Visual C++ Redistributable (x64) and try again"
    elif re.search(r"nvJitLink|libcudnn|libcublas|libcusparse|libnccl|libcudart", text):
        first = "another CUDA comes first: unset LD_LIBRARY_PATH; if that does not help:"
        remedy = f"{first}\n{remedy}"
    return f"does not work: {probed.failure}", remedy


def _device(facts: Mapping[str, Any]) -> tuple[Status, str, str]:
    """Return status, summary and remedy: the device that torch uses, and why it is no GPU."""
    said = next((text for text in facts["warnings"] if "driver" in text or "CUDA" in text), "")
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if facts["gpus"] and "not compatible" in said:
        summary = f"{facts['gpus'][0]} is of another age than this torch ({said.strip()})"
        first = "choose the device cpu, or install a torch for an older CUDA:"
        return "problem", summary, f"{first}\n{install_torch('cu126', '--reinstall')}"
    if facts["gpus"]:
        return "ok", f"cuda: {', '.join(facts['gpus'])}; {facts['kernels']}", ""
    if facts["mps"]:
        return "ok", "Apple's GPU (mps)", ""
    if hidden is not None and hidden.strip() in ("", "-1"):
        summary = f"cpu: CUDA_VISIBLE_DEVICES={hidden!r} hides the GPU"
        return "note", summary, "unset CUDA_VISIBLE_DEVICES"
    if not shutil.which("nvidia-smi"):
        return "ok", "cpu: no NVIDIA driver and no Apple GPU on this machine", ""
    if not facts["cuda"] and not facts["hip"]:
        summary = "cpu: there is an NVIDIA driver, but this torch was built for the CPU only"
        return "note", summary, install_torch("auto", "--reinstall")
    if "too old" in said:
        remedy = f"update the driver, or:\n{install_torch('auto', '--reinstall')}"
        return "note", f"cpu: the NVIDIA driver is too old for CUDA {facts['cuda']}", remedy
    remedy = "run nvidia-smi; after an update of the driver, restart the machine"
    return "note", f"cpu: CUDA does not start{f' ({said})' if said else ''}", remedy


def qt_finding(probed: Probed, bindings: Mapping[str, str]) -> Finding:
    """Return what the facts about Qt and OpenGL mean; ``bindings`` are the installed `BINDINGS`."""
    say = partial(Finding, "Qt")
    listed = ", ".join(f"{name} {number}" for name, number in bindings.items())
    if not bindings:
        missing = "the command line works, the panel needs one ([all]: PyQt6, [pyside6]: PySide6)"
        return say("note", f"none: {missing}", install(f"{US}[all]"))
    if probed.failure:
        return say("problem", f"{listed}: {probed.failure}", _remedy_for_qt(probed, bindings))
    facts = probed.facts
    summary = f"{facts['binding']} {facts['version']} (Qt {facts['qt']})"
    if len(bindings) > 1:
        summary += f" is used of {listed}: two in one process can crash"
        return say("note", summary, f"uninstall others, or set QT_API={facts['binding'].lower()}")
    if not facts["renderer"]:
        summary += "; there is no display: no window can open; the command line works"
        remedy = "start it on a desktop, or under a virtual display: xvfb-run -a napari"
        return say("note", summary, remedy, facts)
    summary += f"; OpenGL {facts['opengl']}, {facts['renderer']}"
    if any(word in facts["renderer"].lower() for word in _SOFTWARE):
        remedy = "install the graphics driver; over a network, use a remote desktop with OpenGL"
        return say("note", f"{summary}: in software, drawing is slow", remedy, facts)
    return say("ok", summary, "", facts)


def _remedy_for_qt(probed: Probed, bindings: Mapping[str, str]) -> str:
    text = f"{probed.failure} {probed.output}"
    wanted = os.environ.get("QT_API", "")
    if wanted and wanted.lower() not in map(str.lower, bindings):
        return f"unset QT_API ({wanted} is not installed)"
    if "cv2" in text:  # OpenCV brings a Qt of its own
        uninstalled = install("opencv-python", "opencv-contrib-python", command="uninstall")
        return f"{uninstalled}\n{install('opencv-python-headless')}"
    if re.search(r"lib(GL|EGL|OpenGL|xkbcommon|xcb|dbus)[\w-]*\.so|xcb|plugin", text):
        return LIBRARIES
    if "OpenGL" in text:
        return "install or update the graphics driver"
    parts = [*bindings, *(["PyQt6-Qt6", "PyQt6-sip"] if "PyQt6" in bindings else [])]
    return f"the versions of its parts may differ:\n{install('--force-reinstall', *parts)}"


def napari_finding(probed: Probed) -> Finding:
    """Return what the facts about napari mean: that it works and knows the plugin."""
    if probed.failure:
        remedy = f"napari --info shows more\n{install('--upgrade', 'napari', 'npe2', 'pydantic')}"
        return Finding("napari", "problem", f"cannot be loaded: {probed.failure}", remedy)
    facts = probed.facts
    summary = f"{facts['version']} (npe2 {facts['npe2']})"
    if facts["disabled"]:
        summary += "; this plugin is switched off in napari"
        remedy = f"in napari, Plugins > Install/Uninstall Plugins...: tick {US}"
        return Finding("napari", "problem", summary, remedy, facts)
    return Finding("napari", "ok", f"{summary}, which knows this plugin", "", facts)


def check_models() -> list[Finding]:
    """List the models on this machine, and tell whether others may be downloaded."""
    from ..base.cache_folder import is_offline
    from ..engine.models.registry import list_models, model_state
    from ..engine.models.specs import DEMO
    from ..images.known_images import INSTEAD, how_to_bring

    states = {spec.name: model_state(spec) for spec in list_models()}
    present = []
    for name, state in states.items():
        if state == "on disk":
            present.append(name)
    summary = ", ".join([f"{DEMO} (bundled)", *present])
    summary += "; downloads are forbidden (offline)" if is_offline() else ""
    if not present:
        if is_offline():
            remedy = how_to_bring()
        else:
            remedy = f"{US} models fetch {INSTEAD}"
        summary += "; demo does not know photographs"
        return [Finding("models", "note", summary, remedy, states)]
    return [Finding("models", "ok", summary, "", states)]


def check_cache() -> list[Finding]:
    """Tell where downloads and cached results are, their sizes, and the room that is left."""
    from ..base.cache_folder import VARIABLE, cache_folder
    from ..pipeline.cache_usage import readable, usage

    folder = cache_folder()
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    remedy = f"set {VARIABLE} to a folder with room, or see {US} models clear"
    if not os.access(nearest, os.W_OK):
        return [Finding("cache", "problem", f"{folder} cannot be written to", remedy)]
    cache = usage()
    free = shutil.disk_usage(nearest).free
    parts = ""
    if cache.total:
        parts = f" ({'; '.join(cache.lines())})"
    summary = f"{folder}: {readable(cache.total)}{parts}, {readable(free)} free"
    facts = {"folder": str(folder), "total": cache.total, "free": free}
    if free < 2e9:  # the largest common weights, ViT-L-14, have 1.7 GB
        return [Finding("cache", "note", summary, remedy, facts)]
    return [Finding("cache", "ok", summary, "", facts)]


def check_packages() -> list[Finding]:
    """Compare the installed versions with the bounds that this package declares."""
    from packaging.requirements import Requirement

    wanted = [Requirement(text) for text in requires(US) or []]
    extras: dict[str, list[Requirement]] = {extra: [] for extra in EXTRAS}
    needed = []
    for requirement in wanted:
        marker = str(requirement.marker)
        if "extra" not in marker:
            needed.append(requirement)
        for extra in EXTRAS:
            if f'extra == "{extra}"' in marker:
                extras[extra].append(requirement)
    # A torchvision that was built for another torch ends with odd errors.
    present = versions(requirement.name for requirement in wanted)
    if "torchvision" in present:
        pairs = map(Requirement, requires("torchvision") or [])
        needed += [requirement for requirement in pairs if requirement.name == "torch"]
    return [packages_finding(needed, present), *extras_findings(extras, present)]


def packages_finding(needed: Iterable[Requirement], present: Mapping[str, str]) -> Finding:
    """Return what the installed versions mean."""
    facts = {"versions": dict(sorted(present.items()))}
    if problems := _unfit(needed, present):
        return Finding("packages", "problem", problems, install("--upgrade", US), facts)
    named = []
    for name, n in present.items():
        if name.replace("-", "_") in _NAMED:
            named.append(f"{name} {n}")
    return Finding("packages", "ok", f"fit their bounds: {', '.join(named)}", "", facts)


def _unfit(needed: Iterable[Requirement], present: Mapping[str, str]) -> str:
    """Return what is missing or outside of its bounds; "" if nothing is."""
    missing = []
    outside = []
    for requirement in needed:
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        if requirement.name not in present:
            missing.append(requirement.name)
            continue
        version = present[requirement.name]
        without_build = version.partition("+")[0]  # torch 2.9.0+cu130 is 2.9.0
        if not requirement.specifier.contains(without_build, prereleases=True):
            outside.append(f"{requirement.name} {version} (needs {requirement.specifier})")
    parts = []
    if missing:
        parts.append(f"missing: {', '.join(missing)}")
    if outside:
        parts.append(f"outside of the bounds: {', '.join(outside)}")
    return "; ".join(parts)


def extras_findings(
    extras: Mapping[str, Iterable[Requirement]], present: Mapping[str, str]
) -> list[Finding]:
    """Tell which extras are installed, and what the others are for."""
    whole = []
    for name, group in extras.items():
        if all(r.name in present for r in group):
            whole.append(name)
    absent = [name for name in extras if name not in whole]
    said = []
    if whole:
        said = [f"installed: {', '.join(whole)}"]
    if absent:
        texts = [f"{extra} ({EXTRAS[extra]})" for extra in absent]
        said.append(f"not installed: {'; '.join(texts)}")
    names = f"{US}[{','.join(absent)}]"
    remedy = ""
    if absent:
        remedy = f"for those that you need:\n{install(names)}"
    return [Finding("extras", "ok", "; ".join(said), remedy, {"installed": whole})]


# -- what runs in a process of its own -----------------------------------------------------------


def _torch() -> Facts:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch = import_module("torch")
        cuda = bool(torch.cuda.is_available())
        about = torch.cuda.get_device_properties
        gpus = [about(index) for index in range(torch.cuda.device_count() if cuda else 0)]
        torch.zeros(1).numpy()  # fails where torch is older than NumPy
        from ..engine.compute.devices import kernels_text

    texts = [" ".join(str(warning.message).split()) for warning in caught]
    return {
        "version": str(torch.__version__),
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "gpus": [f"{gpu.name} ({gpu.total_memory / 2**30:.0f} GiB)" for gpu in gpus],
        "kernels": kernels_text(torch.device("cuda", 0)) if gpus else "",
        "mps": bool(torch.backends.mps.is_available()),
        "threads": int(torch.get_num_threads()),
        "warnings": texts,
    }


def _qt() -> Facts:
    # By name, here and below: only the panel depends on Qt and napari.
    qtpy = import_module("qtpy")
    widgets = import_module("qtpy.QtWidgets")
    gui = import_module("qtpy.QtGui")
    version = str(qtpy.PYQT_VERSION or qtpy.PYSIDE_VERSION or "")
    facts = {"binding": qtpy.API_NAME, "version": version, "qt": qtpy.QT_VERSION, "renderer": ""}
    displays = map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY"))
    if sys.platform.startswith("linux") and not any(displays):
        return facts  # an application would end the process
    application = widgets.QApplication(["doctor"])
    surface = gui.QOffscreenSurface()
    context = gui.QOpenGLContext()
    surface.create()
    if not context.create() or not context.makeCurrent(surface):
        raise RuntimeError("Qt cannot make an OpenGL context")
    gl = import_module("vispy.gloo.gl")
    opengl, renderer = (str(gl.glGetParameter(name)) for name in (gl.GL_VERSION, gl.GL_RENDERER))
    facts |= {"opengl": opengl.partition(" ")[0], "renderer": renderer}
    return facts | {"platform": str(application.platformName())}


def _napari() -> Facts:
    napari = import_module("napari")
    settings = import_module("napari.settings").get_settings()
    npe2 = import_module("npe2")
    npe2.PluginManifest.from_distribution(US)
    return {
        "version": str(napari.__version__),
        "npe2": str(npe2.__version__),
        "disabled": US in settings.plugins.disabled_plugins,
    }


_PROBES: Final = {"torch": _torch, "napari": _napari, "Qt": _qt}


if __name__ == "__main__":
    for name in sys.argv[1:]:
        facts: Facts = {}
        failure = ""
        try:
            facts = _PROBES[name]()
        except BaseException as error:  # whatever a broken library raises
            failure = one_line(error)
        print("\n" + json.dumps([name, facts, failure]), flush=True)
    os._exit(0)  # a broken library may crash when it is unloaded
