"""A process that imports everything once and divides for each piece of work, which may be killed.

No piece of work, nor the imports, may open a connection, except where it is allowed.
"""

import json
import mmap
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Audit events: what Python does to files, and connections.
OPERATIONS = {
    *("open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"),
    *("os.chmod", "shutil.rmtree"),
}
SOCKETS = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"}
CONNECTED = 7  # exit code
_PRELOADED = (
    *("torch", "open_clip", "zarr", "tifffile", "pandas", "pyarrow.parquet", "huggingface_hub"),
    *("napari_maskinversion.cli.app", "napari_maskinversion.engine.models.loading"),
    *("napari_maskinversion.pipeline.window_runner", "requests", "tests.kill.work"),
    "napari_maskinversion.engine.invert.inverter",
    "napari_maskinversion.bench.measures.measuring",
    # What exports in all formats need: 5 s of processor time for each piece of work otherwise.
    *("anndata", "geopandas", "pycocotools.mask", "pyogrio", "shapely", "skimage.measure"),
    "spatialdata",
)


class Forks:
    """The process, from outside."""

    def __init__(self):
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        environment.pop("HF_HUB_OFFLINE", None)
        paths = [str(ROOT), str(ROOT / "src")]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.forks"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=ROOT,
        )

    def run(self, work, *arguments, folder, kill=None, after=None, sockets=False):
        """Do a piece of work of `tests.kill.work` in a folder.

        Parameters
        ----------
        kill : int, optional
            The work is killed before its operation of this number on files in the folder.
        after : float, optional
            It is killed after so many seconds.
        sockets : bool
            It may open connections.

        Returns
        -------
        dict
            ``code`` (-9 if it was killed), ``operations`` and ``seconds`` until then, ``said``.
        """
        order = {"work": work, "arguments": [str(word) for word in arguments], "kill": kill}
        order |= {"folder": str(folder), "after": after, "sockets": sockets}
        names = ("NAPARI_MASKINVERSION_CACHE", "NAPARI_MASKINVERSION_CONFIG")
        order["environment"] = {name: os.environ[name] for name in names}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self):
        """End the process."""
        self._process.stdin.close()
        self._process.wait()


def _refuse_sockets(event, arguments):
    if event in SOCKETS and not _refuse_sockets.allowed:
        os.write(2, f"a connection was opened: {event} {arguments[1:]}\n".encode())
        os._exit(CONNECTED)


_refuse_sockets.allowed = False


def _child(order, counter, output):
    import importlib

    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    _refuse_sockets.allowed = order["sockets"]
    count = 0

    def hook(event, arguments):
        nonlocal count
        if event not in OPERATIONS or not arguments or not isinstance(arguments[0], str | Path):
            return
        if not str(Path(arguments[0]).absolute()).startswith(order["folder"]):
            return
        if count == order["kill"]:
            os.kill(os.getpid(), signal.SIGKILL)
        count += 1
        counter[:8] = count.to_bytes(8, "little")

    sys.addaudithook(hook)
    works = importlib.import_module("tests.kill.work")
    getattr(works, order["work"])(*order["arguments"])


def _serve():
    import importlib
    import tempfile

    sys.addaudithook(_refuse_sockets)
    for name in _PRELOADED:
        importlib.import_module(name)
    counter = mmap.mmap(-1, 8)
    for line in sys.stdin:
        order = json.loads(line)
        counter[:8] = bytes(8)
        with tempfile.TemporaryFile() as output:
            started = time.monotonic()
            child = os.fork()
            if not child:
                code = 1
                try:
                    _child(order, counter, output.fileno())
                    code = 0
                except SystemExit as stop:
                    code = stop.code or 0
                except BaseException:
                    import traceback

                    traceback.print_exc()
                finally:
                    sys.stdout.flush()
                    sys.stderr.flush()
                    os._exit(code)
            if order["after"] is not None:
                time.sleep(order["after"])
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            output.seek(0)
            answer = {
                "code": os.waitstatus_to_exitcode(status),
                "operations": int.from_bytes(counter[:8], "little"),
                "seconds": time.monotonic() - started,
                "said": output.read().decode(errors="replace"),
            }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve()
