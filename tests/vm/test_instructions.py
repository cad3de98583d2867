"""Both VMs against the specification: every instruction and properties of all programs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadmus import isa
from cadmus.programs import Programs
from cadmus.vm import compiled, reference
from cadmus.vm.reference import show
from tests.vm.instruction_cases import CASES

INSTRUCTION_TEXT = "".join(isa.BY_SYMBOL)
programs = st.text(INSTRUCTION_TEXT, max_size=80)


def outputs_of(vm: str, program: str) -> list[reference.Value]:
    if vm == "reference":
        return reference.run(program).outputs
    return compiled.outputs(Programs.from_strings([program]))[0]


@pytest.mark.parametrize("vm", ["reference", "compiled"])
@pytest.mark.parametrize("symbol", CASES)
def test_instruction_gives_the_specified_outputs(vm: str, symbol: str) -> None:
    for program, expected in CASES[symbol]:
        assert " ".join(map(show, outputs_of(vm, program))) == expected, program


def test_every_instruction_has_a_normal_an_underflow_and_a_bounds_case() -> None:
    assert set(CASES) == set(isa.BY_SYMBOL)
    for symbol, cases in CASES.items():
        assert len({program for program, _ in cases}) == len(cases) >= 3, symbol
        assert all(symbol in program for program, _ in cases), symbol
        if isa.BY_SYMBOL[symbol].inputs:
            assert symbol in dict(cases), f"no case in which all inputs of {symbol} are missing"


@pytest.mark.parametrize(
    ("program", "true"),
    [
        ("34+7=.", True),
        ("34+8=.", False),
        ("941-*55*2+=", True),
        ("8Bt-Z?Ex+'", True),
        (r"u2;\&c$;b", True),
        ("", False),
        (".", False),
        ("u", True),
        ("10", False),
        ("01", False),
        ("Z", True),
        ("03:", False),
        ("10/", False),
        ("10/1", False),
        (r"\5;", False),
    ],
)
def test_truth(program: str, true: bool) -> None:
    assert reference.run(program).true is true
    batch = Programs.from_strings([program])
    assert compiled.are_true(batch).tolist() == compiled.execute(batch).true.tolist() == [true]


@given(programs)
def test_number_of_outputs_follows_from_the_text(program: str) -> None:
    height = 0
    for symbol in isa.split_definitions(program)[0]:
        instruction = isa.BY_SYMBOL[symbol]
        height = max(height - instruction.inputs, 0) + instruction.outputs
    assert len(reference.run(program).outputs) == height
    assert compiled.execute(Programs.from_strings([program])).count.tolist() == [height]


@pytest.mark.parametrize("symbol", [row.symbol for row in isa.INSTRUCTIONS if row.inputs])
def test_a_nan_input_makes_all_outputs_nan(symbol: str) -> None:
    instruction = isa.BY_SYMBOL[symbol]
    for filler in ("5", "3I"):
        for place in range(instruction.inputs):
            inputs = [filler] * instruction.inputs
            inputs[place] = "10/"
            program = "".join(inputs) + symbol + r"\;\;\;"
            for vm in ("reference", "compiled"):
                assert outputs_of(vm, program) == [None] * instruction.outputs, program


@pytest.mark.parametrize(
    "program",
    [
        "r" * 5000,
        "9" * 5000,
        "E" * 5000,
        "\\" + "r" * 5000 + ";5f",
        "\\" + "oE1R;" * 9 + "1f" * 2000,
        ";" * 5000,
    ],
)
def test_long_programs_run_to_their_end(program: str) -> None:
    assert outputs_of("compiled", program) == outputs_of("reference", program)
