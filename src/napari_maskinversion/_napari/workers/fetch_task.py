"""Fetching a model's weights in a worker. Knows neither Qt nor napari."""

from __future__ import annotations

from collections.abc import Callable

from ...base.errors import Cancelled, MaskInversionError
from .worker_errors import Failed, JobError


def fetch_model(
    name: str, on_progress: Callable[[int, int], None], cancelled: Callable[[], bool]
) -> str | Failed | None:
    """Fetch a model's weights; None if cancelled, `Failed` for reasons a user can act on."""
    from ...engine.models.weights_download import fetch

    return fetched(name, lambda: fetch(name, on_progress=on_progress, cancelled=cancelled))


def fetched(name: str, fetch: Callable[[], object]) -> str | Failed | None:
    """Give the name of what was fetched; None if cancelled, `Failed` for what a user can act on."""
    try:
        fetch()
    except Cancelled:
        return None
    except (MaskInversionError, OSError) as error:
        return Failed(str(error))
    except RuntimeError as error:
        raise JobError(f"Fetching {name} broke off: {error}") from error
    return name
