"""The caption decoder of a demo model: its sentences and its training."""
