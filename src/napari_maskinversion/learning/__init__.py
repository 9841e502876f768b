"""Classifiers that begin as the words and learn from decisions."""
