"""All ``bench`` commands: importing their modules registers them."""

from . import data_sets, paper
from .scenes import bench

__all__ = ["bench", "data_sets", "paper"]
