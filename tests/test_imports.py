"""What a call or a command imports: no package that takes long to load or is of an extra without need."""

import pytest

from tests.commands import python

SLOW = "deepspeed joblib matplotlib numba polars pyarrow scipy sklearn sympy torch._dynamo transformers"
EXTRAS = "joblib matplotlib numba numpy polars pyarrow pydantic sklearn torch tqdm yaml"
TASK = "task = next(cadmus.tasks('equality')); cadmus.verify(task, task.reference)"


def command(*words: str) -> str:
    return f"from cadmus.cli.main import main; sys.argv = ['cadmus', *{words}]; main()"


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import cadmus; cadmus.run('34+7=')", "numba numpy polars pydantic torch"),
        (f"import cadmus; {TASK}", "polars torch"),
        # As Snakemake lists them.
        ("from cadmus import experiments; experiments.figures()", "matplotlib numba scipy torch"),
        *((command(*words), EXTRAS) for words in (["--help"], ["--version"], ["isa"], ["run", "34+7="])),
        (command("explore", "--help"), "polars torch"),
        (command("plan", "tests/tiny.yaml"), "deepspeed polars snakemake torch"),
        (command("complete", "--", "-12+"), SLOW),
    ],
)
def test_only_what_is_needed_is_imported(code: str, absent: str) -> None:
    script = f"import sys\ntry:\n {code}\nfinally:\n print(*sys.modules, file=sys.stderr)"
    done = python("-c", script)
    assert done.returncode == 0, done.stderr
    # Nothing else is printed, such as a warning.
    (modules,) = done.stderr.splitlines()
    assert "cadmus" in modules.split()
    assert not set(absent.split()) & set(modules.split())
