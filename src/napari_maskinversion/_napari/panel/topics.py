"""The topics of the panel, each a package with its own section.

To add a topic, write a package whose ``__init__`` has ``TITLE`` and ``content(panel)`` (see
`inputs`; ``OPEN = False`` starts the section closed), and add its name to `_TOPICS`. A topic that
holds workers stops them on ``panel.closed``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from ..widgets.sections import Section

_TOPICS: Final = ("inputs", "model", "vocabulary", "run", "results", "review", "explore")


def make_sections(panel: Any) -> dict[str, Section]:
    """Return a numbered section for each topic, in order, by the name of its package."""
    topics = {name: import_module(f"...{name}", __name__) for name in _TOPICS}
    return {
        name: Section(
            f"{number}  {topic.TITLE}",
            topic.content(panel),
            opened=getattr(topic, "OPEN", True),
        )
        for number, (name, topic) in enumerate(topics.items(), 1)
    }
