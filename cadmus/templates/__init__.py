"""Templates of sub-problems, one file each: the nine of the paper's Table 3 and any you add.

A template is a function ``(draw, n) -> Samples``. It composes up to ``n`` candidate programs at once,
without a loop over programs. Candidates need not be true: :mod:`cadmus.dataset.sampler` executes them and
keeps the true ones.

The fields of :class:`cadmus.config.Templates` name the templates; ``docs/templates.md`` shows how to add one.
"""

from collections.abc import Callable
from importlib import import_module

from cadmus import config
from cadmus.programs import Samples
from cadmus.templates.draw import Draw

TEMPLATES: dict[str, Callable[[Draw, int], Samples]] = {
    name: getattr(import_module(f"{__name__}.{name}"), name) for name in config.TEMPLATES
}

__all__ = ["TEMPLATES", "Draw"]
