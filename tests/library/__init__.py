"""Tests of the library of regions."""
