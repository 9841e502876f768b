"""An environment without any Qt: the command line works, the rest says what is missing."""

import subprocess
import sys
from textwrap import dedent

from .scenes import write_scene

HIDDEN = dedent(
    """
    import sys
    from importlib.abc import MetaPathFinder

    class Hidden(MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in ("PyQt5", "PyQt6", "PySide2", "PySide6"):
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Hidden())
    from napari_maskinversion.cli import main

    def call(*arguments):
        sys.argv = ["napari-maskinversion", *arguments]
        try:
            main()
        except SystemExit as stop:
            return stop.code or 0
        return 0
    """
)


def python(code, tmp_path, monkeypatch):
    monkeypatch.delenv("QT_API", raising=False)
    monkeypatch.delenv("PYTEST_QT_API", raising=False)
    return subprocess.run(
        [sys.executable, "-c", HIDDEN + dedent(code)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=200,
    )


def test_run_works_and_the_demo_says_in_one_sentence_what_is_missing(tmp_path, monkeypatch):
    write_scene(tmp_path, 1)
    done = python(
        """
        code = call(
            "run", "image.png", "masks.png", "--labels", "car,key", "--steps", "1",
            "--out", "out", "--format", "csv",
        )
        assert code == 0, code
        print("RUN WORKED")
        sys.exit(call("demo"))
        """,
        tmp_path,
        monkeypatch,
    )
    assert "RUN WORKED" in done.stdout, done.stderr[-2000:]
    assert (tmp_path / "out" / "regions.csv").exists()
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("Error: The panel and the demo need Qt")
    assert "napari-maskinversion[all]" in last
    assert "Traceback" not in done.stderr


def test_the_panel_says_so_too(tmp_path, monkeypatch):
    done = python(
        "import napari_maskinversion._napari.panel.widget",
        tmp_path,
        monkeypatch,
    )
    assert done.returncode == 1
    assert "InputError: The panel and the demo need Qt" in done.stderr.strip().splitlines()[-1]
