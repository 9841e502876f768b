"""One attack: a command on a folder, and what must hold however it ends."""

import functools
import hashlib
import re
import signal
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

try:
    import resource
except ImportError:  # not on Windows
    resource = None


OUT = "out"
# A tiny image and the demo model need less than a tenth.
MOST_MEMORY = 1 << 30  # bytes more than before
# A case takes up to three seconds. Each example of a property counts for itself, and the time that
# other programs take does not count.
MOST_TIME = 60  # seconds of this process
# Keeps a command that fails the test from taking the machine with it.
_ADDRESSES = 8 << 30
_LEFTOVERS = re.compile(r"\.(part|commit|commit-new|tmp)$")
_RAN_OUT = "there was not enough memory; use a smaller"


@dataclass(frozen=True)
class Ending:
    """How a command ended."""

    code: int
    out: str
    err: str
    memory: int  # bytes at most, more than before

    @property
    def error(self):
        """The line that says what is wrong; "" if there is none."""
        lines = [line for line in self.err.splitlines() if line.startswith("Error: ")]
        return lines[-1] if lines else ""


# What commands write besides: calibrations, among the preferences, the rest of a bank that is not
# complete, a project that images are added to, a library.
_OWN = ((OUT,), ("config", "preferences.json"), ("bank",), ("project",), ("library",))


def contents(folder):
    """Hashes of the files of a folder, except those that the commands write."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        path: _hash(path, path.stat().st_mtime_ns, path.stat().st_size)
        for path in files
        if not any(path.relative_to(folder).parts[: len(own)] == own for own in _OWN)
    }


@functools.lru_cache(100_000)
def _hash(path, changed, size):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def attack(call, folder, *words, names=(), anywhere=False):
    """Call a command in a folder and check what holds for every command.

    It succeeds, or ends with code 2 and one line that names one of ``names``; it changes no file,
    leaves no file half written, and needs little memory. ``anywhere`` lets it write new files
    outside of `OUT`.
    """
    before, standing = contents(folder), set((folder / OUT).rglob("*"))
    with _limited(), _peak() as memory:
        code, out, err = call(*words)
    ending = Ending(code, out, err, memory())
    said = f"{' '.join(map(str, words))}\n{code}\n{err}"
    if code == 1 and words[:2] in (("models", "check"), ("doctor",)):  # its verdict
        assert "rror: " not in err, said
        return ending
    assert code in (0, 2), said
    assert "Traceback" not in err, said
    assert "nternal error" not in err, said
    assert _RAN_OUT not in err, said
    if code:
        _check_refusal(ending, names, said)
    after = contents(folder)
    if anywhere:
        after = {path: after.get(path) for path in before}
    assert after == before, said
    written = set((folder / OUT).rglob("*")) - standing
    assert not [path for path in folder.rglob("*") if _LEFTOVERS.search(path.name)], said
    assert code == 0 or not written, (said, written)
    assert ending.memory < MOST_MEMORY, (said, ending.memory)
    return ending


def _check_refusal(ending, names, said):
    if ending.err.lstrip().startswith("Usage: "):  # an option's value that typer refuses
        assert "Error" in ending.err, said
        return
    assert [line[:7] for line in ending.err.splitlines()].count("Error: ") == 1, said
    assert len(ending.error) < 3000, said
    assert not names or any(str(name) in ending.error for name in names), (said, names)


@contextmanager
def _limited():
    """Let allocations of many gigabytes and work without end fail, on systems that can."""
    if resource is None:
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    wanted = psutil.Process().memory_info().vms + _ADDRESSES
    resource.setrlimit(resource.RLIMIT_AS, (wanted, before[1]))
    handler = signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, MOST_TIME)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


def _stop(*_):
    pytest.fail(f"the command takes more than {MOST_TIME} seconds")


@contextmanager
def _peak():
    """Measure the most memory that this process takes."""
    if not sys.platform.startswith("linux"):
        yield lambda: 0
        return
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again
    before = _highest()
    yield lambda: _highest() - before


def _highest():
    (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(line) * 1024
