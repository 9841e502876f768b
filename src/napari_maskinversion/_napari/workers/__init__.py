"""Work outside the GUI thread."""
