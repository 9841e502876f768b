"""Decisions about regions: made, kept safe, put in order, learned from. Knows no Qt."""
