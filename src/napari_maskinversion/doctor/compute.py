"""Checks of PyTorch and of the device that it computes on."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .probe import Probed, probe
from .remedies import install, install_torch
from .report import Finding, Status

_AGAIN: Final = "--reinstall"
_NVIDIA: Final = "0x10de"  # maker in the tables of the PCI bus
_SCREENS: Final = "0x03"  # class of graphics cards there
# What the import of torch says where it is broken, and what helps.
IMPORT_TRAPS: Final = (
    (
        r"WinError (126|127|1114)|c10\.dll|fbgemm\.dll",
        "install the current Microsoft Visual C++ Redistributable (x64) and try again",
    ),
    (
        r"iJIT_NotifyEvent",
        'conda has an MKL that is too new for this torch: conda install "mkl<2024.1"',
    ),
    (
        r"nvJitLink|libcudnn|libcublas|libcusparse|libnccl|libcudart",
        "another CUDA comes first: unset LD_LIBRARY_PATH; if that does not help:\n"
        + install_torch("auto", _AGAIN),
    ),
    # Windows has a number in place of the signal.
    (
        r"SIGILL|3221225501",
        "this processor lacks instructions that torch needs (AVX); use another machine",
    ),
    (
        r"circular import|partially initialized",
        "a file or folder named torch lies in the folder where you started; start elsewhere",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What decides whether torch can use a GPU."""

    system: str = "Linux"  # "Linux", "Windows" or "Darwin"
    processor: str = "x86_64"  # "x86_64", "arm64"
    driver: bool = False  # Whether there is a driver of NVIDIA
    card: bool = False  # Whether a card of NVIDIA is on the bus; False where that is not known
    hidden: str | None = None  # The variable ``CUDA_VISIBLE_DEVICES``
    translated: bool = False  # Whether this Python for Intel runs on Apple silicon

    @classmethod
    def here(cls) -> Machine:
        """Return what this machine has."""
        return cls(
            system=platform.system(),
            processor=platform.machine(),
            driver=_has_driver(),
            card=_has_card(),
            hidden=os.environ.get("CUDA_VISIBLE_DEVICES"),
            translated=sys.platform == "darwin"
            and platform.machine() == "x86_64"
            and "ARM64" in platform.version().upper(),
        )


def check_torch() -> list[Finding]:
    """Check that torch works, and which device it uses and why."""
    return torch_findings(probe("torch"), Machine.here())


def torch_findings(probed: Probed, machine: Machine) -> list[Finding]:
    """Return what the facts about torch mean."""
    if probed.failure:
        return [Finding("torch", "problem", *_broken(probed, machine))]
    facts = probed.facts
    build = f"CUDA {facts['cuda']}" if facts["cuda"] else f"ROCm {facts['hip']}"
    if not facts["cuda"] and not facts["hip"]:
        build = "Metal" if facts["mps_built"] else "CPU only"
    summary = f"{facts['version']}, built for: {build}; {facts['threads']} threads"
    torch = Finding("torch", "ok", summary, "", facts)
    if facts["numpy_error"]:
        summary += f"; cannot share arrays with NumPy ({facts['numpy_error']})"
        remedy = install("--upgrade", "torch", "torchvision", "numpy")
        torch = Finding("torch", "problem", summary, remedy, facts)
    return [torch, _device(facts, machine)]


def _broken(probed: Probed, machine: Machine) -> tuple[str, str]:
    """Return summary and remedy where torch cannot be imported."""
    text = f"{probed.failure} {probed.output}"
    if re.search(r"ModuleNotFoundError: No module named '?torch'?$", probed.failure):
        if machine.system == "Darwin" and machine.processor == "x86_64" and not machine.translated:
            return "not installed", "PyTorch supports no Macs with Intel processors any more"
        return "not installed", install_torch()
    for pattern, remedy in IMPORT_TRAPS:
        if re.search(pattern, text):
            return f"cannot be imported: {probed.failure}", remedy
    return f"cannot be imported: {probed.failure}", install_torch("auto", _AGAIN)


def _device(facts: dict[str, Any], machine: Machine) -> Finding:
    status, summary, remedy = _gpu(facts) or _no_gpu(facts, machine)
    return Finding("device", status, summary, remedy, {"gpus": facts["gpus"], "mps": facts["mps"]})


def _gpu(facts: dict[str, Any]) -> tuple[Status, str, str] | None:
    """Return what there is to say where torch has a GPU."""
    if not facts["gpus"]:
        return ("ok", "Apple's GPU (mps)", "") if facts["mps"] else None
    for gpu in facts["gpus"]:
        if not _has_kernels(gpu["capability"], facts["architectures"]):
            major, minor = gpu["capability"]
            return (
                "problem",
                f"{gpu['name']} is too old for this torch (compute capability {major}.{minor})",
                "choose the device cpu, or install a torch for an older CUDA:\n"
                + install_torch("cu126", _AGAIN),
            )
    names = (f"{gpu['name']} ({gpu['memory'] / 2**30:.0f} GiB)" for gpu in facts["gpus"])
    return "ok", "cuda: " + ", ".join(names), ""


def _has_kernels(capability: list[int], architectures: list[str]) -> bool:
    """Return whether torch was built for a GPU: its own generation, or an older one's PTX."""
    own = [re.fullmatch(r"(sm|compute)_(\d+)(\d)[a-z]?", name) for name in architectures]
    pairs = [(m[1], int(m[2]), int(m[3])) for m in own if m]
    major, minor = capability
    return not pairs or any(
        (kind == "compute" and (a, b) <= (major, minor)) or (a == major and b <= minor)
        for kind, a, b in pairs
    )


def _no_gpu(facts: dict[str, Any], machine: Machine) -> tuple[Status, str, str]:
    """Return why torch has no GPU."""
    said = next((text for text in facts["warnings"] if "driver" in text or "CUDA" in text), "")
    if machine.system == "Darwin":
        if machine.translated:
            remedy = "install Python and the packages for arm64"
            return "note", "cpu: this Python for Intel runs on Apple silicon", remedy
        if facts["mps_built"]:
            remedy = "update macOS; Macs with Intel processors have no MPS"
            return "note", "cpu: Apple's GPU cannot be used with this macOS", remedy
        return "ok", "cpu", ""
    if facts["cuda"] and machine.hidden is not None and machine.hidden.strip() in ("", "-1"):
        summary = f"cpu: CUDA_VISIBLE_DEVICES={machine.hidden!r} hides the GPU"
        return "note", summary, "unset CUDA_VISIBLE_DEVICES"
    if machine.driver and not facts["cuda"] and not facts["hip"]:
        summary = "cpu: there is an NVIDIA driver, but this torch was built for the CPU only"
        return "note", summary, install_torch("auto", _AGAIN)
    if machine.driver and "too old" in said:
        summary = f"cpu: the NVIDIA driver is too old for CUDA {facts['cuda']}"
        return "note", summary, f"update the driver, or:\n{install_torch('auto', _AGAIN)}"
    if machine.driver and facts["cuda"]:
        summary = f"cpu: CUDA does not start{f' ({said})' if said else ''}"
        remedy = "run nvidia-smi; after an update of the driver, restart the machine"
        return "note", summary, remedy
    if machine.card:
        remedy = "install NVIDIA's driver; then nvidia-smi shows the card"
        return "note", "cpu: there is an NVIDIA card without a driver of NVIDIA", remedy
    return "ok", "cpu: no NVIDIA driver and no Apple GPU on this machine", ""


def _has_driver() -> bool:
    if sys.platform == "win32":
        return (Path(os.environ.get("SYSTEMROOT", r"C:\Windows")) / "System32/nvcuda.dll").exists()
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None


def _has_card() -> bool:
    for folder in Path("/sys/bus/pci/devices").glob("*"):
        try:
            maker, kind = ((folder / name).read_text().strip() for name in ("vendor", "class"))
        except OSError:
            continue
        if maker == _NVIDIA and kind.startswith(_SCREENS):
            return True
    return False
