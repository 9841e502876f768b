"""A closer look at results: why, compare, captions, find by words."""
