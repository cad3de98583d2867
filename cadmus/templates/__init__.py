"""The sub-problems, one file each: the nine of the paper's Table 3 and those of your own.

A template is a function ``(draw, n) -> Candidates``: it composes pieces of programs, drawn for ``n``
programs at once, and never looks at a single program.  Its candidates need not be true; whoever samples
executes every one and keeps the true ones (:mod:`cadmus.dataset.sampler`).

The fields of :class:`cadmus.config.Templates` say which templates there are; ``docs/templates.md`` shows
how to add one.
"""

from collections.abc import Callable
from importlib import import_module

from cadmus import config
from cadmus.templates.draw import Candidates, Draw

TEMPLATES: dict[str, Callable[[Draw, int], Candidates]] = {
    name: getattr(import_module(f"{__name__}.{name}"), name) for name in config.TEMPLATES
}

__all__ = ["TEMPLATES", "Candidates", "Draw"]
