"""Examples in the documents, and the command reference."""

import re
import shlex

import click
import pytest
from click.testing import CliRunner

from cadmus.cli.main import cadmus
from cadmus.cli.reference import reference
from cadmus.vm import reference as machine
from tests.checkout import ROOT

PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
EXAMPLES = [
    pytest.param(typed, command, printed, id=f"{page.stem}: {command}")
    for page in PAGES
    for block in re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    for typed, command, printed in re.findall(
        r"^\$ (?:echo '(.*)' \| )?cadmus (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE
    )
]


@pytest.mark.parametrize(("typed", "command", "printed"), EXAMPLES)
def test_examples_print_the_shown_output(typed, command, printed):
    done = CliRunner().invoke(cadmus, shlex.split(command), input=f"{typed}\n")
    assert done.exit_code == 0
    # Split at percentages: their last digit depends on the CPU.
    shown, expected = (re.split(r" *(\d+\.\d) %", text) for text in (done.output, printed))
    assert shown[::2] == expected[::2]
    assert list(map(float, shown[1::2])) == pytest.approx(list(map(float, expected[1::2])), abs=0.11)


@pytest.mark.parametrize(("page", "number"), [("README.md", 3), ("docs/concepts.md", 9)])
def test_programs_in_tables_are_true(page, number):
    text = (ROOT / page).read_text(encoding="utf-8")
    rows = re.findall(r"^\|.*? `([^`]+)` \| `([^`]+)` \| ", text, re.MULTILINE)
    assert len(rows) == number
    for prompt, completion in rows:
        assert machine.run(prompt + completion).true, prompt


def test_reference_has_every_command_and_option():
    text = reference()

    def check(command: click.Command, context: click.Context) -> None:
        section = text.split(f"# `{context.command_path}`\n")[1].split("\n#")[0]
        for option in command.params:
            assert isinstance(option, click.Argument) or all(name in section for name in option.opts)
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                assert below is not None
                check(below, click.Context(below, info_name=name, parent=context))

    check(cadmus, click.Context(cadmus, info_name="cadmus"))
    assert "# `cadmus llm submit`" in text
