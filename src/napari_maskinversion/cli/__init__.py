"""The command line: one file per command."""


def main() -> None:
    """Run the command line; the entry point ``napari-maskinversion``."""
    from .main import main as run

    run()
