"""The command line: one file per command."""


def main() -> None:
    """Run the command line; the entry point ``napari-maskinversion``."""
    from .app import main as run

    run()
