"""Regions with names, as the files of other programs: each format's reader beside its writer.

Knows regions, names and numbers; nothing of models and results.
"""
