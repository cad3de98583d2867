"""How far what takes long has come: a bar on standard error, where that is a terminal."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tqdm import tqdm

DELAY = 2.0
"""Seconds before there is a bar: what is done by then needs none."""


def progress(
    what: str, items: Iterable[Any] | None = None, total: int | None = None, unit: str = "it"
) -> "tqdm[Any]":
    """A bar called ``what`` that goes through ``items``, or is told of ``total`` units by its ``update``."""
    from tqdm import tqdm

    return tqdm(items, desc=what, total=total, unit=unit, unit_scale=True, delay=DELAY, disable=None)
