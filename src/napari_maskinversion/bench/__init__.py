"""Measure models and methods on images with known regions."""
