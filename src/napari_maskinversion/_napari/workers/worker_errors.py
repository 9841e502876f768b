"""What all work in a worker thread has in common. Knows neither Qt nor napari."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from ...base.errors import Cancelled, MaskInversionError

News = TypeVar("News")
Outcome = TypeVar("Outcome")


class JobError(MaskInversionError):
    """Something broke that this package did not foresee; the cause is attached.

    Not a RuntimeError on purpose: one that leaves a generator worker is swallowed by it.
    """


@dataclass(frozen=True, slots=True)
class Failed:
    """A job refused or failed for a reason that its user can do something about."""

    message: str


class Task:
    """Work for a `Runner`, whose generator is `work`.

    A worker that is told to quit just stops asking its generator for more, and whatever that
    generator holds lives until it is collected. So a task can be released from outside, once the
    worker has finished.

    Attributes
    ----------
    finished : object
        What there is to show, however the work ended; None where there is nothing.
    stop_requested : callable
        Whether the worker has been told to quit.
    drawing_seconds : float
        How long the windows took to show the last update; set by whoever shows them.
    """

    kept = ""  # what is not lost when something breaks

    def __init__(self) -> None:
        self.finished: Any = None
        self.stop_requested: Callable[[], bool] = lambda: False
        self.drawing_seconds = 0.0

    def work(self) -> Generator[Any, None, Any]:
        """Do the work; see `guarded`."""
        # A generator of its own: napari asks the function what it is.
        return (yield from guarded(self._work(), self.close, self.kept))

    def _work(self) -> Generator[Any, None, Any]:
        raise NotImplementedError

    def close(self) -> None:
        """Stop what is under way; the worker must be idle."""

    def release(self) -> None:
        """Let go of everything large: napari keeps every worker as long as its window lives."""
        self.close()
        self.finished = None
        self.stop_requested = lambda: False

    def check_stopped(self) -> None:
        """Stop here if the user asked for it.

        Raises
        ------
        Cancelled
        """
        if self.stop_requested():
            raise Cancelled("Stopped.")


def guarded(
    work: Generator[News, None, Outcome],
    close: Callable[[], None],
    kept: str = "",
    *,
    name: str = "The run",
) -> Generator[News, None, Outcome | Failed | None]:
    """Run work so that whatever goes wrong can be told.

    Parameters
    ----------
    work : generator
    close : callable
        Called at the end, whatever way it comes.
    kept : str
        A sentence on what is not lost, for errors that nobody foresaw.
    name : str
        What breaks off then.

    Returns
    -------
    What the work returns, or `Failed` for a reason the user can do something about; None where it
    was told to stop before there was anything.

    Raises
    ------
    JobError
        For everything else; never a RuntimeError.
    """
    warnings.filterwarnings("ignore", module=r"(torch|open_clip|huggingface_hub)(\.|$)")
    try:
        return (yield from work)
    except GeneratorExit:
        raise
    except JobError:
        raise
    except Cancelled:
        return None
    except MaskInversionError as error:
        return Failed(str(error))
    except BaseException as error:
        message = explain(error)
        if message:
            return Failed(message)
        said = f"{name} broke off: {type(error).__name__}: {error}."
        raise JobError(f"{said} {kept}".rstrip()) from error
    finally:
        close()


def failure_of(error: BaseException, name: str, kept: str = "") -> str | JobError:
    """Return what to tell about an error; empty where the task was stopped.

    Parameters
    ----------
    error : BaseException
    name : str
        Subject of the message: "The run".
    kept : str
        A sentence on what is not lost.

    Returns
    -------
    str or JobError
        A reason that the user can do something about, or an unexpected error to report.
    """
    if isinstance(error, Cancelled):
        return ""
    if isinstance(error, JobError):
        return error
    if isinstance(error, MaskInversionError):
        return str(error)
    advice = explain(error)
    if advice:
        return advice
    message = f"{name} broke off: {type(error).__name__}: {error}. {kept}".rstrip()
    unexpected = JobError(message)
    unexpected.__cause__ = error
    return unexpected


def explain(error: BaseException) -> str:
    """Return advice for errors that users can act on; empty for others."""
    if isinstance(error, MemoryError) or "out of memory" in str(error).lower():
        return (
            "There was not enough memory. Choose a smaller chunk size under Model > Advanced, "
            "or the device 'cpu'."
        )
    if isinstance(error, OSError):
        return f"A file could not be used: {error}"
    return ""
