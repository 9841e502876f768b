"""How the user reviews; the panel keeps it for the next start. No Qt here."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ...results.orders import Order

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
    words_on_canvas: bool = Field(
        default=False,
        title="Words on the canvas",
        description="Write the words of accepted regions on the image, of the 100 nearest to the "
        "current region, in a layer of their own; the colours of your layers stay.",
    )
    learn: bool = Field(
        default=False,
        title="Learn from decisions",
        description="Suggest what the words and your decisions teach, also regions accepted on "
        "earlier images; suggestions that change are bold, and are exported as shown.",
    )
    other_words: bool = Field(
        default=False,
        title="Suggest words of other lists",
        description="Also suggest words that are not in the list but were accepted on other "
        "images.",
    )
    measures: bool = Field(
        default=False,
        title="Learn... from measures",
        description="Learn... takes shape and intensity, too, of regions that were measured "
        "(Measure regions in the settings).",
    )

    @property
    def sorting(self) -> Order:
        """The order of the queue; the automatic one needs the fewest decisions to learn from."""
        if self.order == "automatic":
            return "different" if self.learn else "margin"
        return self.order
