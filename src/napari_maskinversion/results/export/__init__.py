"""Results to files, each written whole or not at all."""
