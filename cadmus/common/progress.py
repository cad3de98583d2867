"""Progress bars on standard error."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tqdm import tqdm

DELAY = 2.0
"""Seconds before a bar appears."""


def progress(
    what: str, items: Iterable[Any] | None = None, total: int | None = None, unit: str = "it"
) -> "tqdm[Any]":
    """Return a bar over ``items``, or over ``total`` units counted by ``update``; shown on terminals only."""
    from tqdm import tqdm

    return tqdm(items, desc=what, total=total, unit=unit, unit_scale=True, delay=DELAY, disable=None)
