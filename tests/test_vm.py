r"""Both machines against the specification: every instruction, and what holds for all programs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadmus import isa
from cadmus.errors import InputError
from cadmus.programs import Programs
from cadmus.vm import compiled, reference
from cadmus.vm.reference import Number, Sequence, show
from tests.instruction_cases import CASES

INSTRUCTION_TEXT = "".join(isa.BY_SYMBOL)
programs = st.text(INSTRUCTION_TEXT, max_size=80)


def outputs_of(machine: str, program: str) -> list[reference.Value]:
    if machine == "reference":
        return reference.run(program).outputs
    return compiled.outputs(Programs.from_strings([program]))[0]


@pytest.mark.parametrize("machine", ["reference", "compiled"])
@pytest.mark.parametrize("symbol", CASES)
def test_instruction_gives_the_specified_outputs(machine: str, symbol: str) -> None:
    for program, expected in CASES[symbol]:
        assert " ".join(map(show, outputs_of(machine, program))) == expected, program


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
        ("34+8=!.", True),
        ("12+0>", True),
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
def test_verdict(program: str, true: bool) -> None:
    assert reference.run(program).true is true
    batch = Programs.from_strings([program])
    assert compiled.verdicts(batch).tolist() == compiled.execute(batch).true.tolist() == [true]


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
            for machine in ("reference", "compiled"):
                assert outputs_of(machine, program) == [None] * instruction.outputs, program


@given(programs)
def test_values_stay_within_the_limits(program: str) -> None:
    for value in reference.run(program).outputs:
        if value is None:
            continue
        numbers = value if isinstance(value, Sequence) else [value]
        assert len(numbers) <= isa.MAX_SEQUENCE_LENGTH
        for number in numbers:
            assert isa.INTEGER_MIN <= number.value <= isa.INTEGER_MAX
            assert 0 <= number.decoration <= isa.MAX_DECORATION


@given(programs)
def test_trace_ends_with_the_outputs(program: str) -> None:
    steps = reference.trace(program)
    assert "".join(step.symbol for step in steps) == isa.split_definitions(program)[0]
    assert "".join(program[step.position] for step in steps) == isa.split_definitions(program)[0]
    assert (steps[-1].stack if steps else []) == reference.run(program).outputs


def test_trace_shows_what_is_inside_calls() -> None:
    program = r"2f\1-ER;"
    steps = reference.trace(program, calls=True)
    assert [(step.symbol, step.depth, [show(value) for value in step.stack]) for step in steps] == [
        ("2", 0, ["2"]),
        ("1", 1, ["2", "1"]),
        ("-", 1, ["1"]),
        ("E", 1, ["1", "1"]),
        ("1", 2, ["1", "1"]),
        ("-", 2, ["0"]),
        ("E", 2, ["0", "0"]),
        ("R", 2, ["0"]),
        ("R", 1, ["0"]),
        ("f", 0, ["0"]),
    ]
    assert "".join(program[step.position] for step in steps) == "21-E1-ERRf"
    assert reference.trace(program) == [steps[0], steps[-1]]


@given(programs)
def test_trace_is_bounded(program: str) -> None:
    steps = reference.trace(program, calls=True)
    assert sum(step.depth > 0 for step in steps) <= isa.CALL_BUDGET
    assert max((step.depth for step in steps), default=0) <= isa.MAX_CALL_DEPTH


def test_trace_shows_the_stack_after_each_instruction() -> None:
    assert [(step.symbol, [show(value) for value in step.stack]) for step in reference.trace("34+_+.5")] == [
        ("3", ["3"]),
        ("4", ["3", "4"]),
        ("+", ["7"]),
        ("_", []),
        ("+", ["NAN"]),
    ]


def test_execute_describes_the_top_output() -> None:
    outcome = compiled.execute(Programs.from_strings(["", "10/", "9I1", "73:", "5u1b2Z*3:b", "1u"]))
    assert outcome.true.tolist() == [False, False, True, True, True, True]
    assert outcome.count.tolist() == [0, 1, 2, 1, 2, 2]
    assert outcome.kind.tolist() == [
        compiled.NAN,
        compiled.NAN,
        compiled.NUMBER,
        compiled.NUMBER,
        compiled.SEQUENCE,
        compiled.SEQUENCE,
    ]
    assert outcome.length.tolist() == [0, 0, 0, 0, 2, 0]
    values = np.zeros((6, isa.MAX_SEQUENCE_LENGTH), int)
    values[2, 0], values[3, 0], values[4, :2] = 1, 7, [1, -2]
    decorations = np.zeros_like(values)
    decorations[3, 0], decorations[4, 1] = 3, 3
    np.testing.assert_array_equal(outcome.values, values)
    np.testing.assert_array_equal(outcome.decorations, decorations)
    assert (outcome.values.dtype, outcome.decorations.dtype) == (np.int32, np.uint8)


def test_outputs_are_values_of_the_readable_machine() -> None:
    (values,) = compiled.outputs(Programs.from_strings(["73:u0b9:10/"]))
    assert values == [Number(7, 3), Sequence([Number(0, 9)]), None]
    assert [type(value) for value in values[:2]] == [Number, Sequence]


def test_a_batch_without_programs_has_no_outcome() -> None:
    assert compiled.verdicts(Programs.from_strings([])).shape == (0,)
    assert compiled.outputs(Programs.from_strings([])) == []


@pytest.mark.parametrize(
    ("batch", "program", "symbol", "position"),
    [(["q"], 0, "q", 1), (["12", "", "3q4"], 2, "q", 2), (["1.q"], 0, "q", 3), (["12", "1 2"], 1, " ", 2)],
)
def test_a_byte_that_is_no_instruction_is_named(batch, program, symbol, position) -> None:
    with pytest.raises(InputError) as error:
        compiled.verdicts(Programs.from_strings(batch))
    assert f"program {program}: unknown symbol {symbol!r} at position {position};" in str(error.value)
    with pytest.raises(InputError, match=f"unknown symbol '{symbol}' at position {position} of the program"):
        reference.run(batch[program])


def test_bytes_beyond_ascii_are_no_instructions() -> None:
    for byte in set(range(256)) - set(INSTRUCTION_TEXT.encode()):
        with pytest.raises(InputError):
            compiled.verdicts(Programs(np.array([byte], np.uint8), np.array([0, 1])))


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


def test_compiled_code_survives_its_cache(tmp_path) -> None:
    """A second process loads from Numba's cache what the first one compiled."""
    script = (
        "from cadmus.programs import Programs; from cadmus.vm import compiled\n"
        r"print(compiled.outputs(Programs.from_strings([r'\1-ER;\g;5f', '34+7=', r'9I0l\+;'])))"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    printed = [
        subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert any(tmp_path.rglob("*.nbi"))
    assert printed[0] == printed[1]
    assert printed[0].count("Number(") == 3


def test_a_change_of_the_instruction_table_invalidates_the_compiled_code(tmp_path) -> None:
    """Renaming symbols in isa.py alone is enough; nothing stale comes from Numba's cache."""
    package = Path(isa.__file__).parent
    for source in ("isa.py", "errors.py", "programs.py", "vm"):
        copy = shutil.copytree if (package / source).is_dir() else shutil.copy
        (tmp_path / "cadmus").mkdir(exist_ok=True)
        copy(package / source, tmp_path / "cadmus" / source)
    shutil.rmtree(tmp_path / "cadmus/vm/__pycache__", ignore_errors=True)
    script = (
        "from cadmus.programs import Programs; from cadmus.vm import compiled, reference\n"
        "programs = ['52-3=', '52-7=', 't', 'Z']\n"
        "print(compiled.verdicts(Programs.from_strings(programs)).tolist(),\n"
        "      [reference.run(program).true for program in programs])"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def verdicts() -> str:
        command = [sys.executable, "-c", script]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()

    assert verdicts() == "[True, False, True, True] [True, False, True, True]"
    table = tmp_path / "cadmus/isa.py"
    exchanged = table.read_text().replace('("-", "subtract"', '("+", "subtract"', 1)
    table.write_text(exchanged.replace('("+", "add"', '("-", "add"', 1))
    assert verdicts() == "[False, True, True, True] [False, True, True, True]"
