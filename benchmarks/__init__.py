"""Measurements; not part of the package. Scripts lie here, commands in ``drawn``."""
