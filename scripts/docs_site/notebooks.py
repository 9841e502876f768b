"""Hook of mkdocs: notebooks are shown as they run, on the bundled model and without a network.

They run in a folder of their own, since some write files. The notebooks in docs/ hold no outputs.
"""

import tempfile
from functools import cache
from pathlib import Path

import nbformat
from mkdocs.plugins import event_priority
from nbclient import NotebookClient


@event_priority(100)  # before mkdocs-jupyter looks where they are
def on_files(files, config):
    """Put executed copies in the place of the notebooks."""
    for file in files:
        if file.src_uri.endswith(".ipynb"):
            source = Path(file.abs_src_path)
            folder = executed(source, file.src_uri, source.stat().st_mtime_ns)
            file.src_dir, file.abs_src_path = str(folder), str(folder / file.src_uri)
    return files


@cache
def executed(source, name, _changed):
    """Run a notebook and return the folder with the copy that has its outputs."""
    folder = Path(tempfile.mkdtemp(prefix="maskinversion-notebook-"))
    (copy := folder / name).parent.mkdir(parents=True)
    notebook = nbformat.read(source, as_version=4)
    NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    nbformat.write(notebook, copy)
    return folder
