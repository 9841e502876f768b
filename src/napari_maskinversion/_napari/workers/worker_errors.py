"""Messages for errors in a worker. Knows neither Qt nor napari."""

from __future__ import annotations

from ...base.errors import Cancelled, MaskInversionError


class JobError(MaskInversionError):
    """An unexpected error; its cause is attached."""


def failure_of(error: BaseException, name: str, kept: str = "") -> str | JobError:
    """Return what to tell about an error; empty if the task was stopped."""
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
    if isinstance(error, (MemoryError, RuntimeError)):
        from ...base.oom_fallback import is_out_of_memory

        if is_out_of_memory(error):
            return (
                "There was not enough memory. Choose fewer regions at once in Settings > Method, "
                "or the device 'cpu'."
            )
    if isinstance(error, OSError):
        return f"A file could not be used: {error}"
    return ""
