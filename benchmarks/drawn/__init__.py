"""What a model makes of drawn scenes: ``bench scenes``, ``steps``, ``alpha``, ``captions``."""
