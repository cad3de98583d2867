"""Messages of errors."""

import os

import pytest

from cadmus.config import load_config
from cadmus.errors import InputError


def test_a_message_is_one_printable_line_of_bounded_length():
    message = str(InputError("a.yaml: no\n  name \x1b" + "x" * 100_000 + "; write it again"))
    assert message.startswith("a.yaml: no name \\x1bxxx")
    assert message.endswith("xxx; write it again")
    assert len(message) < 1_300


def test_a_pipe_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "config.yaml")
    with pytest.raises(InputError, match=r"config\.yaml: not a regular file$"):
        load_config(tmp_path / "config.yaml")
