"""Token ids of programs."""

import numpy as np

from cadmus import isa
from cadmus.programs import Programs

TOKEN_OF_BYTE = np.full(256, -1, np.int64)
"""Token id of every byte; -1 for bytes that are not instructions."""
for _symbol, _token in isa.TOKEN_ID.items():
    TOKEN_OF_BYTE[ord(_symbol)] = _token

BYTE_OF_TOKEN = np.array([ord(row.symbol) for row in isa.INSTRUCTIONS], np.uint8)
"""Byte of every token id."""


def padded_tokens(programs: Programs) -> np.ndarray:
    """Return token ids, one program per row, padded with the end token: int64, shape (n, longest)."""
    lengths = programs.lengths
    tokens = np.full((len(programs), lengths.max(initial=0)), isa.END_ID, np.int64)
    inside = np.arange(tokens.shape[1]) < lengths[:, None]
    start, stop = programs.offsets[0], programs.offsets[-1]
    tokens[inside] = TOKEN_OF_BYTE[programs.data[start:stop]]
    return tokens
