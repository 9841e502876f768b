"""What buttons of the panel do: the next step, those beside it, and that of a message."""

from __future__ import annotations

from enum import Enum


class Action(Enum):
    """Something that a button of the foot, or of a message, does. The value is its title."""

    OPEN_SAMPLE = "Open a sample"
    OPEN_SMEAR = "Blood smear"
    DRAW = "Draw regions"
    OPEN_REGIONS = "From file..."
    SEGMENT = "Segment..."
    CHOOSE_WORDS = "Choose words"
    CHOOSE_PRESET = "Presets..."
    RUN = "Suggest words"
    UPDATE = "Compute what has changed and keep everything else"
    CONTINUE = "Compute the missing regions and keep everything else"
    REVIEW = "Review"
    ACCEPT = "Accept the best suggestion, and go to the next region"
    NEXT_UNDECIDED = "Go to the next undecided region"
    EXPORT = "Export..."
    NEXT_IMAGE = "Go to the next image that is not done"
    EXPORT_ALL = "Export all images..."
    ADD_IMAGES = "Add them"
    SAVE_REGIONS = "Save again"
    SETTINGS = "Settings..."
    SWITCH_LAYER = "Work on it"
    CHOOSE_MODEL = "Change the model..."
