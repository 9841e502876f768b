"""Images with known regions."""
