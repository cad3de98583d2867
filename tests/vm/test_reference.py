"""Traces of the reference VM."""

from hypothesis import given
from hypothesis import strategies as st

from cadmus import isa
from cadmus.vm import reference
from cadmus.vm.reference import show

programs = st.text("".join(isa.BY_SYMBOL), max_size=80)


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
