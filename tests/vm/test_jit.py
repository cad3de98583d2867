"""Numba's cache of the compiled VM."""

from tests.checkout import copy_folder
from tests.commands import python


def test_compiled_code_is_cached_until_the_instruction_table_changes(tmp_path) -> None:
    # With the compiled code of this checkout, which is valid until the change.
    copy_folder("cadmus", tmp_path)
    script = (
        "from cadmus.programs import Programs; from cadmus.vm import compiled, reference\n"
        r"programs = ['52-3=', '52-7=', 't', r'\1-ER;\g;5f', r'9I0l\+;']"
        "\nprint(compiled.execute(Programs.from_strings(programs)).true.tolist(),\n"
        "      [reference.run(program).true for program in programs])"
    )

    def are_true() -> str:
        return python("-c", script, cwd=tmp_path, PYTHONPATH=str(tmp_path)).stdout.strip()

    def cached() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb?")}

    before = cached()
    assert are_true() == "[True, False, True, False, True] [True, False, True, False, True]"
    table = tmp_path / "cadmus/isa.py"
    exchanged = table.read_text().replace('("-", "subtract"', '("+", "subtract"', 1)
    table.write_text(exchanged.replace('("+", "add"', '("-", "add"', 1))
    assert are_true() == "[False, True, True, False, True] [False, True, True, False, True]"
    after = cached()
    assert after != before
    # A second process loads what the first one compiled.
    assert are_true() == "[False, True, True, False, True] [False, True, True, False, True]"
    assert cached() == after


COMPILES = """
import sys
sys.stderr.isatty = lambda: True
from cadmus.vm import compiled
from cadmus.programs import Programs
print(compiled.are_true(Programs.from_strings(["34+7="])))
"""


def test_the_first_compilation_says_so(tmp_path):
    for said in ("compiling the machine, once ...\n", ""):
        done = python("-c", COMPILES, NUMBA_CACHE_DIR=str(tmp_path))
        assert done.returncode == 0
        assert done.stderr == said
