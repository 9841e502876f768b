"""Findings about an installation, and how they are shown."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, cast

Status = Literal["ok", "note", "problem"]
MARK: Final = 8  # width of the status in the text
_NAME: Final = 12  # and of the names of the checks


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check says."""

    name: str  # Of what was checked
    status: Status  # A note costs speed or a feature; a problem keeps something from working
    summary: str  # One line
    # What to do; "" if there is nothing to do. Each command stands on a line of its own.
    remedy: str = ""
    # More for ``--json``: values that JSON can hold
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """All findings, in the order of the checks."""

    version: str
    findings: tuple[Finding, ...]

    @property
    def problems(self) -> int:
        """Number of problems."""
        return sum(finding.status == "problem" for finding in self.findings)

    @property
    def verdict(self) -> str:
        """The last line: how many problems and notes there are."""
        notes = sum(finding.status == "note" for finding in self.findings)
        return f"{_count(self.problems, 'problem')}, {_count(notes, 'note')}.".capitalize()

    def text(self) -> str:
        """Return the report as plain lines, to read and to paste."""
        lines = [f"napari-maskinversion {self.version}"]
        for finding in self.findings:
            lines.append(f"{finding.status:<{MARK}}{finding.name:<{_NAME}}{finding.summary}")
            for place, remedy in enumerate(finding.remedy.splitlines()):
                lines.append(f"{'':<{MARK + _NAME}}{'  ' if place else '->'} {remedy}")
        return without_home("\n".join([*lines, self.verdict]))

    def as_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        report = {
            "napari-maskinversion": self.version,
            "problems": self.problems,
            "findings": [asdict(finding) for finding in self.findings],
        }
        return cast("dict[str, Any]", _public(report))


def without_home(text: str) -> str:
    """Replace the home folder by ``~``: reports are public, and it names the user."""
    home = str(Path.home())
    return text if len(home) < 2 else text.replace(home, "~")


def _public(value: Any) -> Any:
    """Replace the home folder in all texts of a value for JSON."""
    if isinstance(value, str):
        return without_home(value)
    if isinstance(value, dict):
        return {key: _public(item) for key, item in value.items()}
    return [_public(item) for item in value] if isinstance(value, list | tuple) else value


def one_line(error: BaseException) -> str:
    """Return an error as one line that begins with its type."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"
