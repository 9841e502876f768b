"""What pages of the documentation show of the code and of kept figures: macros of mkdocs."""


def define_env(env):
    """Name the macros for pages with `render_macros: true`."""
