"""The test of readers, with those that Cadmus does not install, and the SQL of the README."""

import re
from pathlib import Path

import pytest

from tests.pages.conftest import ruled
from tests.pages.test_readers import TABLES, dataset, test_one_line_reads_all_programs_with_their_splits

__all__ = ["dataset", "ruled", "test_one_line_reads_all_programs_with_their_splits"]


@pytest.mark.parametrize("package", TABLES)
def test_every_reader_is_installed(package):
    __import__(package)


def test_the_sql_counts_the_programs(ruled, capsys):
    page = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(code.replace("results/quick/dataset", str(ruled)), {})
    printed = capsys.readouterr().out
    assert re.search(r"train +│ equality +│ +100 ", printed)
