"""Random true programs: uniform instructions, ``8Bt-Z?Ex+'``."""

import numpy as np

from cadmus import isa
from cadmus.programs import Programs, Samples, offsets_of
from cadmus.templates.draw import Draw

SYMBOLS = "".join(row.symbol for row in isa.INSTRUCTIONS if row.symbol != isa.END).encode()


def random(draw: Draw, n: int) -> Samples:
    """Draw every instruction but the end with equal probability; the prompt is the first half."""
    low, high = draw.dataset.templates.random.length
    lengths = draw.rng.integers(low, high + 1, size=n)
    offsets = offsets_of(lengths)
    programs = Programs(draw.choice(int(offsets[-1]), SYMBOLS), offsets)
    return Samples(programs, np.maximum(lengths // 2, 1))  # a program of one instruction has a prompt, too
