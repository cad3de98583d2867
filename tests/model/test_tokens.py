"""Token ids."""

from cadmus import isa
from cadmus.model.tokens import TOKEN_OF_BYTE


def test_token_ids_are_those_of_the_instruction_table():
    assert {chr(byte): token for byte, token in enumerate(TOKEN_OF_BYTE) if token >= 0} == isa.TOKEN_ID
