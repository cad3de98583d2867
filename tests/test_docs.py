"""Examples in the documents, and the command reference."""

import re
import shlex
from itertools import takewhile

import click
import pytest
from click.testing import CliRunner

from cadmus import Cadmus, experiments, verify
from cadmus.cli.main import cadmus, main
from cadmus.config import TEMPLATES
from cadmus.evaluate.questions import questions_of
from cadmus.vm import reference as machine
from dev.docs.commands import reference
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
    shown, expected = (re.split(r" *(\d+\.\d)%", text) for text in (done.output, printed))
    assert shown[::2] == expected[::2]
    assert list(map(float, shown[1::2])) == pytest.approx(list(map(float, expected[1::2])), abs=0.11)


def examples(page, pattern):
    """Return the groups of a pattern at its places in a document."""
    return re.findall(pattern, (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_shipped_model_solves_the_examples():
    in_readme = examples("README.md", r"^\| `([^`]+)` \| `([^`]+)` \| ")
    in_concepts = examples("docs/concepts.md", r"^\| \[(\w+)\]\S+ \| `([^`]+)` \| `([^`]+)` \| ")
    in_templates = [
        (template, *pair)
        for template, section in examples("docs/templates.md", r"^### (\w+)\n(.*?)(?=^##)")
        for pair in re.findall(r"`(\S+)` → `(\S+)`", section)
    ]
    assert len(in_readme) == 3
    assert [template for template, *_ in in_concepts] == list(TEMPLATES)
    assert list(dict.fromkeys(template for template, *_ in in_templates)) == list(TEMPLATES)
    asked = ("equality", "subroutines", "complete_algorithm")
    pairs = [(template, *pair) for template, pair in zip(asked, in_readme, strict=True)]
    pairs += in_concepts + in_templates
    written, _ = Cadmus.load().complete([prompt for _, prompt, _ in pairs])
    for (template, prompt, shown), text in zip(pairs, written.to_strings(), strict=True):
        # The second of two questions may be the one that is asked.
        assert any(
            all(verify([prompt] * 2, [shown, text], [shown] * 2, question))
            for question in questions_of(template)
        ), (prompt, text)


def test_the_python_of_the_readme_prints_the_shown_output(capsys):
    ((code, shown),) = examples("README.md", r"```python\n(.*?)```\n\n```text\n(.*?)```")
    exec(code, {})
    assert capsys.readouterr().out == shown


def test_the_readme_draws_the_stacks():
    rows = examples("README.md", r"^\| `([^`]+)` \| `([^`]+)` \| (?:[^\n]*: )?([^\n]*) \|$")
    for prompt, completion, drawn in rows:
        stacks = [" ".join(map(machine.show, step.stack)) for step in machine.trace(prompt + completion)]
        first, _, last = drawn.partition(" → … → ")
        assert " → ".join(stacks).startswith(first)
        assert " → ".join(stacks).endswith(last)


def test_the_shipped_model_fails_the_example_beyond_its_training_range():
    ((prompt, shown),) = examples("README.md", r"After\s`(\S+)`, [^`]*it writes `(\S+)`")
    (written,) = Cadmus.load().complete([prompt])[0].to_strings()
    assert written == shown
    assert not machine.run(prompt + shown).true


def commands_of_the_documents():
    """Yield the arguments of every `cadmus` command in a block of a document."""
    for page in PAGES:
        for block in re.findall(r"```(?:sh|console)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                if typed := re.match(r"(?:\$ )?(?:\w+=\S+ )*(?:\.venv/bin/)?cadmus (.*)", line):
                    words = shlex.shlex(typed[1], posix=True, punctuation_chars=True)
                    words.whitespace_split = True
                    yield list(takewhile(lambda word: word[0] not in "|<>;&", words))


def misspelt():
    """Yield commands of the documents with one of their names misspelt, and the name, each pair once."""
    names = {*TEMPLATES, *experiments.figures(), "quick", "laptop", "paper"}
    seen = set()
    for words in commands_of_the_documents():
        command, context = cadmus, click.Context(cadmus)
        path = []
        for place, word in enumerate(words):
            below = command.get_command(context, word) if isinstance(command, click.Group) else None
            if isinstance(command, click.Group) and not (below or word.startswith("-")):
                # An experiment that a page shows how to add.
                break
            known = (
                below or (word.startswith("--") and len(word) > 4) or word in names or (ROOT / word).is_file()
            )
            if known and (*path, word) not in seen:
                seen.add((*path, word))
                middle = len(word) // 2
                wrong = word[:middle] + word[middle + 1] + word[middle] + word[middle + 2 :]
                if wrong == word:
                    wrong = word[: middle + 1] + word[middle:]
                yield pytest.param(
                    [*words[:place], wrong, *words[place + 1 :]], word, id=" ".join([*path, wrong])
                )
            if below:
                command = below
                path.append(word)


@pytest.mark.parametrize(("words", "meant"), list(misspelt()))
def test_a_misspelt_command_is_put_right(words, meant, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("sys.argv", ["cadmus", *words])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(rf"[Dd]id you mean [^?]*'{re.escape(meant)}'", line), line


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
    assert "# `cadmus llm ask`" in text
