"""Captions of results: from a bank, or written by a decoder."""
