"""docs/isa.md and the table of instructions."""

from cadmus import isa
from cadmus.pages.manual import EXAMPLES, manual
from cadmus.vm import reference
from tests.checkout import ROOT

PAGE = ROOT / "docs/isa.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == manual(), "run: cadmus isa --markdown > docs/isa.md"


def test_every_instruction_has_an_example_that_executes_it() -> None:
    assert set(EXAMPLES) == set(isa.BY_SYMBOL)
    for symbol, program in EXAMPLES.items():
        assert symbol in program
        outputs = reference.run(program).outputs
        assert outputs
        assert reference.NAN not in outputs, program
