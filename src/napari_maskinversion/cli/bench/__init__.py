"""The ``bench`` commands: measure models and methods on regions with known names."""
