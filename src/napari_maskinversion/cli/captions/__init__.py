"""Captions: banks of sentences, and sentences written by a decoder."""
