"""Numba's cache of the compiled VM."""

from tests.checkout import copy_folder
from tests.commands import python


def test_compiled_code_survives_its_cache(tmp_path) -> None:
    """A second process loads from Numba's cache what the first one compiled."""
    script = (
        "from cadmus.programs import Programs; from cadmus.vm import compiled\n"
        r"print(compiled.execute(Programs.from_strings([r'\1-ER;\g;5f', '34+7=', r'9I0l\+;'])))"
    )
    printed = [python("-c", script, NUMBA_CACHE_DIR=str(tmp_path)).stdout for _ in range(2)]
    assert any(tmp_path.rglob("*.nbi"))
    assert printed[0] == printed[1]
    assert printed[0].startswith("Outcome(true=array([False,  True,  True])")


def test_a_change_of_the_instruction_table_invalidates_the_compiled_code(tmp_path) -> None:
    # With the compiled code of this checkout, which is valid until the change.
    copy_folder("cadmus", tmp_path)
    script = (
        "from cadmus.programs import Programs; from cadmus.vm import compiled, reference\n"
        "programs = ['52-3=', '52-7=', 't', 'Z']\n"
        "print(compiled.are_true(Programs.from_strings(programs)).tolist(),\n"
        "      [reference.run(program).true for program in programs])"
    )

    def are_true() -> str:
        return python("-c", script, cwd=tmp_path, PYTHONPATH=str(tmp_path)).stdout.strip()

    assert are_true() == "[True, False, True, True] [True, False, True, True]"
    table = tmp_path / "cadmus/isa.py"
    exchanged = table.read_text().replace('("-", "subtract"', '("+", "subtract"', 1)
    table.write_text(exchanged.replace('("+", "add"', '("-", "add"', 1))
    assert are_true() == "[False, True, True, True] [False, True, True, True]"
