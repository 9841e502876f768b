"""How the user reviews; the panel keeps it for the next start. No Qt here."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ...review.exemplars import WEIGHT
from ...review.queue import Order

BY_WORD = "by word"
DIMMED, INSIDE = "dimmed", "inside the region"


class ReviewOptions(BaseModel):
    """Options of the review. The panel's form is made from these fields."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    order: Literal["automatic", Order] = Field(
        default="automatic",
        title="Order",
        description="Which regions come first. Automatic: the least certain ones; while the review "
        "learns, those that look least like what is decided.",
    )
    show: Literal[
        "undecided", "doubtful", "nothing found", "all", "accepted", "rejected", "skipped"
    ] = Field(
        default="undecided",
        title="Show",
        description="Which regions to review: all undecided ones, those whose suggestion is "
        "flagged, those without a word, those of one word...",
    )
    keys: Literal["by rank", "by word"] = Field(
        default="by rank",
        title="Keys 1 to 9",
        description="By rank: 1 accepts the best suggestion. By word: 1 accepts the first word of "
        "the list, for every region.",
    )
    heatmap: Literal["dimmed", "inside the region", "full"] = Field(
        default="dimmed",
        title="Heatmap",
        description="While you review: paler, cut off at the border of the region, or as always.",
    )
    colors: bool = Field(
        default=False,
        title="Colours and text on the canvas",
        description="Show accepted regions in the colour of their word, and the word as text (in "
        "Labels layers, the 100 nearest to the current region); your own colours come back when "
        "this is off.",
    )
    learn: bool = Field(
        default=False,
        title="Learn from decisions",
        description="Use the words and what accepted regions look like, also on earlier images; "
        "suggestions that change are marked *.",
    )
    weight: float = Field(
        default=WEIGHT,
        ge=0,
        le=1,
        title="Their weight",
        description="What counts: 0 is the text only, 1 is what accepted regions look like.",
    )
    other_words: bool = Field(
        default=False,
        title="Suggest words of other lists",
        description="Also suggest words that are not in the list but were accepted on other "
        "images.",
    )

    @property
    def sorting(self) -> Order:
        """The order of the queue; the automatic one needs the fewest decisions to learn from."""
        if self.order == "automatic":
            return "different" if self.learn else "margin"
        return self.order
