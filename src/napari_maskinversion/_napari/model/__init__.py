"""Choice of model, method and explainability map."""

from typing import Any


def pages(panel: Any) -> dict[str, Any]:
    """Return the pages of the settings."""
    return {"Model": panel.model, "Method": panel.model.how}
