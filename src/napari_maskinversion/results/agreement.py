"""How many suggestions are the names that the regions have in their file."""

from __future__ import annotations

from dataclasses import dataclass

from ..base.wording import listed
from .results import Results


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Suggestions compared with the names of the regions in their file."""

    # Regions whose name is a label, or a synonym of one; upper and lower case are the same
    compared: int
    same: int  # Those of them whose suggestion is that label
    other_names: tuple[str, ...] = ()  # Names that are no labels
    others: int = 0  # Regions with such names; they are not compared

    @property
    def accuracy(self) -> float | None:
        """Share of the compared regions, 0..1; None if there are none."""
        if self.compared:
            return self.same / self.compared
        return None

    @property
    def text(self) -> str:
        """What to tell the user, in one line."""
        parts = []
        if self.accuracy is not None:
            parts.append(
                f"{self.same} of {self.compared} suggestions ({100 * self.accuracy:.0f} %) are the "
                "names in the file of the regions."
            )
        if self.others:
            if self.others == 1:
                regions = "1 region has a name that is"
            else:
                regions = f"{self.others} regions have names that are"
            parts.append(f"{regions} none of the words ({listed(self.other_names)}); not compared.")
        return " ".join(parts)


def agreement_of(results: Results) -> Agreement | None:
    """Compare suggestions with the names in the file; None without labels or names."""
    vocabulary = results.info.vocabulary
    named = [region for region in results.regions if region.source_label]
    if vocabulary is None or not named:
        return None
    labels: dict[str, str] = {}
    for label in vocabulary.full_labels:
        labels |= {word.casefold(): label.name for word in label.words}
    # A word as it is written comes before one in other letters.
    for label in vocabulary.full_labels:
        labels |= dict.fromkeys(label.words, label.name)

    def label_of(name: str) -> str | None:
        return labels.get(name.strip(), labels.get(name.strip().casefold()))

    truths = [(label_of(region.source_label), region) for region in named]
    unlisted = [region.source_label for label, region in truths if label is None]
    return Agreement(
        compared=len(named) - len(unlisted),
        same=sum(label == region.suggestion for label, region in truths),
        other_names=tuple(dict.fromkeys(unlisted)),
        others=len(unlisted),
    )
