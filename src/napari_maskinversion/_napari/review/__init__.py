"""Review of suggestions: accept, correct, reject, undo."""
