"""docs/isa.md and the table of instructions."""

from cadmus import isa
from cadmus.pages.manual import manual
from cadmus.vm import reference
from tests.checkout import ROOT

PAGE = ROOT / "docs/isa.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == manual(), "run: python -m dev.docs config"


def test_every_instruction_has_an_example_that_executes_it() -> None:
    for row in isa.INSTRUCTIONS:
        assert row.symbol in row.example
        outputs = reference.run(row.example).outputs
        assert outputs
        assert reference.NAN not in outputs, row.example
