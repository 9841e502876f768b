"""What pages of the documentation show of the code and of kept figures: macros of mkdocs.

A page asks for them with `render_macros: true` in its head, then writes `{{ measured("scenes") }}`.
"""

import re
from functools import wraps

from . import figures, reference

INTERVAL = re.compile(r"(\d) (\(\d[\d.]*–)(\d[\d.]*\))")  # 81.3 (78–84)

MACROS = (
    figures.batch_costs,
    figures.batch_kills,
    figures.batch_note,
    figures.batch_rates,
    figures.cpu_times,
    figures.demo,
    figures.demo_figures,
    figures.figure,
    figures.flags,
    figures.found,
    figures.gpu_models,
    figures.gpu_times,
    figures.launches,
    figures.learning_curves,
    figures.learning_doubtful,
    figures.learning_orders,
    figures.measured,
    figures.methods_compared,
    figures.paper,
    figures.plot,
    figures.rows,
    figures.sample_captions,
    figures.sample_regions,
    figures.window_sides,
    reference.annotation_formats,
    reference.caches,
    reference.citation,
    reference.columns,
    reference.commands,
    reference.export_formats,
    reference.included,
    reference.keys,
    reference.library_columns,
    reference.maps,
    reference.methods,
    reference.models,
    reference.models_elsewhere,
    reference.other_programs,
    reference.own_formats,
    reference.preferences,
    reference.presets,
    reference.settings,
)


def define_env(env):
    """Name the macros; called by mkdocs-macros."""
    for macro in MACROS:
        env.macro(_unbroken(macro))


def _unbroken(macro):
    """Keep a figure and its interval on one line."""

    @wraps(macro)
    def shown(*args, **options):
        made = macro(*args, **options)
        whole = "\\1\N{NO-BREAK SPACE}\\2\N{WORD JOINER}\\3"
        return INTERVAL.sub(whole, made) if isinstance(made, str) else made

    return shown
