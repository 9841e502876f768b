"""Pieces of work on tasks, which other processes import."""

import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

from napari_maskinversion.base.progress import tell
from napari_maskinversion.batch.image_task import ImageTask, Report
from napari_maskinversion.results.settings import RunSettings


def task(number, folder=Path()):
    """Return a task of which nothing but its name and folder is used."""
    return ImageTask(
        name=f"image {number}",
        image=folder / "image.png",
        regions=folder / "masks.png",
        settings=RunSettings(),
        vocabulary=None,
        out=folder,
    )


def say_process(task):
    """Report the number of the process."""
    return Report(name=task.name, regions=os.getpid())


def say_variable(task):
    """Report the process, and its environment variable that has the name of the task."""
    return Report(name=task.name, regions=os.getpid(), notes=(os.environ.get(task.name, ""),))


def die_once(task):
    """Be killed the first time that the second image is done; count how often each is begun."""
    begun = task.out / task.name
    times = len(begun.read_text()) if begun.exists() else 0
    begun.write_text("x" * (times + 1))
    tell(SimpleNamespace(fraction=0.25))
    if task.name == "image 1" and not times:
        os.kill(os.getpid(), signal.SIGKILL)
    return Report(name=task.name)


def wait_silently(task):
    """Tell nothing until a file appears."""
    while not (task.out / "go").exists():
        time.sleep(0.02)
    return Report(name=task.name)


def wait_halfway(task):
    """Tell that a half is done, until a file appears or somebody stops it."""
    while not (task.out / "go").exists():
        tell(SimpleNamespace(fraction=0.5))
        tell(SimpleNamespace(text="a step that does not tell"))
        time.sleep(0.02)
    return Report(name=task.name)
