"""Programs as arrays of token ids."""

import numpy as np

from cadmus import isa
from cadmus.programs import Programs

TOKEN_OF_BYTE = np.full(256, -1, np.int64)
"""Token id of every byte that is an instruction, -1 for the others."""
for _symbol, _token in isa.TOKEN_ID.items():
    TOKEN_OF_BYTE[ord(_symbol)] = _token

BYTE_OF_TOKEN = np.array([ord(row.symbol) for row in isa.INSTRUCTIONS], np.uint8)
"""The instruction of every token id."""


def padded_tokens(programs: Programs) -> np.ndarray:
    """Token ids, one program a row, the end token filling each row: int64, shape (n, longest).

    The end of a program itself is not appended.
    """
    lengths = programs.lengths
    tokens = np.full((len(programs), lengths.max(initial=0)), isa.END_ID, np.int64)
    inside = np.arange(tokens.shape[1]) < lengths[:, None]
    start, stop = programs.offsets[0], programs.offsets[-1]
    tokens[inside] = TOKEN_OF_BYTE[programs.data[start:stop]]
    return tokens
