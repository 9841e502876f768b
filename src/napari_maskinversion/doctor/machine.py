"""Checks of Python, the memory, the models and the cache folder.

Imports other parts of the package late: they need packages that may be broken.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from .report import Finding

OLDEST: Final = (3, 11)
NEWEST: Final = (3, 14)
_LEAST_MEMORY: Final = 4 * 2**30
_LEAST_DISK: Final = 2 * 10**9  # the largest common weights, ViT-L-14, have 1.7 GB
_CONTAINER: Final = Path("/sys/fs/cgroup/memory.max")


def check_python() -> list[Finding]:
    """Check the version of Python and tell the system."""
    bits = 64 if sys.maxsize > 2**32 else 32
    conda = ", conda" if (Path(sys.prefix) / "conda-meta").is_dir() else ""
    system = f"{_system()} {platform.machine()}"
    summary = f"{platform.python_version()}, {bits} bit{conda}, {system}"
    facts = {"executable": sys.executable, "prefix": sys.prefix}
    span = f"{'.'.join(map(str, OLDEST))} to {'.'.join(map(str, NEWEST))}"
    if bits == 32:
        remedy = f"install Python {span} for 64 bit: torch has no other"
        return [Finding("Python", "problem", summary, remedy, facts)]
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        remedy = f"tested are Python {span}"
        return [Finding("Python", "note", summary, remedy, facts)]
    return [Finding("Python", "ok", summary, "", facts)]


def _system() -> str:
    if platform.system() == "Darwin":
        return f"macOS {platform.mac_ver()[0]}"
    with suppress(OSError):  # Linux has the file, other systems do not
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    return f"{platform.system()} {platform.release()}"


def check_memory() -> list[Finding]:
    """Tell how much memory there is."""
    import psutil

    memory = psutil.virtual_memory()
    return [memory_finding(memory.total, memory.available, _container_limit())]


def memory_finding(total: int, available: int, limit: int | None = None) -> Finding:
    """Return what amounts of memory mean, in bytes; the limit is a container's."""
    summary = f"{total / 2**30:.1f} GiB, {available / 2**30:.1f} GiB free"
    if limit is not None and limit < total:
        summary += f"; this container may use {limit / 2**30:.1f} GiB"
        total = limit
    facts = {"total": total, "available": available, "limit": limit}
    if total < _LEAST_MEMORY:
        remedy = "choose ViT-B-16 or smaller, and fewer regions at once (--chunk-size)"
        return Finding("memory", "note", summary, remedy, facts)
    return Finding("memory", "ok", summary, "", facts)


def _container_limit() -> int | None:
    try:
        return int(_CONTAINER.read_text())
    except (OSError, ValueError):  # "max": no limit
        return None


def check_models() -> list[Finding]:
    """List the models on this machine."""
    from ..base.cache_folder import cache_folder, is_offline
    from ..diffusion.decoders import DECODERS as DRAWERS
    from ..diffusion.decoders import default_folder
    from ..diffusion.folders import is_whole
    from ..engine.models.registry import list_models, model_state
    from ..engine.models.specs import DEMO
    from ..language.generation.registry import DECODERS as CAPTIONERS
    from ..regions.sam.checkpoints import CHECKPOINTS

    states = {spec.name: model_state(spec) for spec in list_models()}
    decoders = [
        f"captions by {one.name}" for one in CAPTIONERS.values() if one.model and one.is_on_disk
    ]
    decoders += [
        f"pictures by {one.name}" + ("" if is_whole(one) else " (not whole)")
        for one in DRAWERS.values()
        if default_folder(one).is_dir()
    ]
    sams = [sam.name for sam in CHECKPOINTS.values() if sam.is_on_disk]
    present = [name for name, state in states.items() if state == "on disk"]
    parts = sorted(path.name for path in cache_folder().rglob("*.part"))
    sam_names = (f"SAM {name}" for name in sams)
    summary = ", ".join([f"{DEMO} (bundled)", *present, *sam_names, *decoders])
    if parts:
        downloads = "download" if len(parts) == 1 else "downloads"
        summary += f"; {len(parts)} unfinished {downloads}, which the next fetch continues"
    facts = {"models": states, "sam": sams, "decoders": decoders, "unfinished": parts}
    if not present:
        from ..images.known_images import INSTEAD, how_to_bring

        remedy = f"napari-maskinversion models fetch {INSTEAD}"
        if is_offline():
            remedy = how_to_bring()
        summary += "; demo does not know photographs"
        return [Finding("models", "note", summary, remedy, facts)]
    return [Finding("models", "ok", summary, "", facts)]


def check_limits() -> list[Finding]:
    """Tell for which models the limits of flags are calibrated."""
    from ..results.calibrations import own_calibrations, shipped_calibrations

    kept = {
        **{f"{key} (with the package)": one for key, one in shipped_calibrations().items()},
        **{f"{key} (yours)": one for key, one in own_calibrations().items()},
    }
    facts = {key: {"margin": one.margin, "overlap": one.overlap} for key, one in kept.items()}
    said = (
        f"{_named(key)}: "
        + ", ".join(f"{name} {limit:.3f}" for name, limit in limits.items() if limit)
        for key, limits in facts.items()
    )
    return [Finding("limits", "ok", f"flags are calibrated for {'; '.join(said)}", "", facts)]


def _named(key: str) -> str:
    """Return a key of limits with the bundled model's name in place of its fingerprint."""
    from ..engine.models.specs import DEMO

    return f"{DEMO}-{key.partition('-')[2]}" if key.endswith("(with the package)") else key


def check_network() -> list[Finding]:
    """Tell whether downloads are allowed, and by which way. Opens no connection."""
    from ..base.cache_folder import is_offline

    proxies = [name for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY") if os.environ.get(name)]
    certificates = [
        name
        for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE")
        if os.environ.get(name)
    ]
    for name in certificates:
        path = Path(os.environ[name])
        if not path.exists():
            summary = f"{name} names {path}, which is not there"
            return [Finding("network", "problem", summary, f"unset {name}, or correct it")]
    # Names only: the values can hold passwords.
    used = [*proxies, *certificates, *(n for n in ("HF_ENDPOINT",) if os.environ.get(n))]
    summary = "downloads are forbidden (offline)" if is_offline() else "downloads are allowed"
    summary += f", with {', '.join(used)}" if used else ""
    return [Finding("network", "ok", summary, "", {"offline": is_offline(), "variables": used})]


def check_cache() -> list[Finding]:
    """Tell where downloads and cached results are, their sizes, and the room that is left."""
    from ..base.cache_folder import VARIABLE, cache_folder
    from ..pipeline.cache_usage import readable, usage

    folder = cache_folder()
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    remedy = f"set {VARIABLE} to a folder with room, or see napari-maskinversion models clear"
    if not nearest.is_dir() or not _writable(nearest):
        return [Finding("cache", "problem", f"{folder} cannot be written to", remedy)]
    cache, free = usage(), shutil.disk_usage(nearest).free
    sizes = {**cache.sizes, **cache.others}
    facts = {"folder": str(folder), "sizes": sizes, "other": cache.other, "free": free}
    parts = f" ({'; '.join(cache.lines())})" if cache.total else ""
    summary = f"{folder}: {readable(cache.total)}{parts}, {readable(free)} free"
    if free < _LEAST_DISK:
        return [Finding("cache", "note", summary, remedy, facts)]
    return [Finding("cache", "ok", summary, "", facts)]


def _writable(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
