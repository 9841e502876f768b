"""Labels: vocabularies, presets, prompt templates and label files."""
