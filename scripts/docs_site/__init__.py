"""What pages of the documentation show of the code and of kept figures: macros of mkdocs.

A page asks for them with `render_macros: true` in its head, then writes `{{ measured("scenes") }}`.
"""

from . import figures, reference

MACROS = (
    figures.batch_costs,
    figures.batch_kills,
    figures.batch_note,
    figures.batch_rates,
    figures.demo,
    figures.demo_figures,
    figures.figure,
    figures.flags,
    figures.learning,
    figures.measured,
    figures.paper,
    figures.plot,
    figures.rows,
    figures.sample_captions,
    figures.sample_regions,
    reference.annotation_formats,
    reference.caches,
    reference.citation,
    reference.columns,
    reference.commands,
    reference.export_formats,
    reference.included,
    reference.keys,
    reference.maps,
    reference.methods,
    reference.models,
    reference.other_programs,
    reference.preferences,
    reference.presets,
    reference.settings,
)


def define_env(env):
    """Name the macros; called by mkdocs-macros."""
    for macro in MACROS:
        env.macro(macro)
