"""Examples in the documents, and what the documents name."""

import re
import shlex
from importlib.util import find_spec

import click
import pytest
from click.testing import CliRunner

from cadmus import Cadmus, Task, verify
from cadmus.cli.main import cadmus
from cadmus.config import OF_THE_PAPER
from cadmus.evaluate.questions import questions_of
from cadmus.vm import reference as machine
from dev.bench.__main__ import BENCHMARKS
from dev.docs.__main__ import KINDS
from tests.checkout import ROOT

# The log tells what was, also with commands and files that are gone.
PAGES = [
    *(ROOT / name for name in ("README.md", ".github/CONTRIBUTING.md", "config/README.md")),
    *(page for page in sorted(ROOT.glob("docs/**/*.md")) if page.parent.name != "log"),
]
COMMAND = re.compile(r"(?:\$ )?(?:\w+=\S+ )*(?:\.venv/bin/)?(?:cadmus|make|python -m) ")
BLOCK = re.compile(r"```(?:sh|console)\n(.*?)```", re.DOTALL)
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
    command, _, lines = command.partition(" | head -")
    done = CliRunner().invoke(cadmus, shlex.split(command), input=f"{typed}\n")
    assert done.exit_code == 0
    output = "".join(done.output.splitlines(keepends=True)[: int(lines) if lines else None])
    # Split at percentages: their last digit depends on the CPU.
    shown, expected = (re.split(r" *(\d+\.\d)%", text) for text in (output, printed))
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
    # The model was trained on no others.
    in_templates = [example for example in in_templates if example[0] in OF_THE_PAPER]
    assert [template for template, *_ in in_concepts] == list(OF_THE_PAPER)
    assert list(dict.fromkeys(template for template, *_ in in_templates)) == list(OF_THE_PAPER)
    asked = ("equality", "subroutines", "complete_algorithm")
    pairs = [(template, *pair) for template, pair in zip(asked, in_readme, strict=True)]
    pairs += in_concepts + in_templates
    written, _ = Cadmus.load().complete([prompt for _, prompt, _ in pairs])
    for (template, prompt, shown), text in zip(pairs, written.to_strings(), strict=True):
        # The second of two questions may be the one that is asked.
        assert any(
            all(verify([Task(prompt, shown, question)] * 2, [shown, text]))
            for question in questions_of(template)
        ), (prompt, text)


@pytest.mark.parametrize("page", ["README.md", "docs/python.md", "docs/how-do-i.md"])
def test_the_python_of_a_page_prints_the_shown_output(page, capsys):
    names = {}
    for code, shown in examples(page, r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?"):
        exec(code, names)
        assert capsys.readouterr().out == shown, code


def test_the_readme_draws_the_stacks():
    rows = examples("README.md", r"^\| `([^`]+)` \| `([^`]+)` \| (?:[^\n]*: )?([^\n]*) \|$")
    for prompt, completion, drawn in rows:
        stacks = [" ".join(map(machine.show, step.stack)) for step in machine.trace(prompt + completion)]
        first, _, last = drawn.partition(" → … → ")
        assert " → ".join(stacks).startswith(first)
        assert " → ".join(stacks).endswith(last)


def test_flagship_fails_the_example_beyond_its_training_range():
    ((prompt, shown),) = examples("README.md", r"After\s`(\S+)`, [^`]*it writes `(\S+)`")
    (written,) = Cadmus.load(ROOT / "models/flagship").complete([prompt])[0].to_strings()
    assert written == shown
    assert not machine.run(prompt + shown).true


def commands_in(line):
    """Yield the words of each command in a line of shell that starts with one that is checked.

    They are without variables of the environment and the directory of the program.
    """
    if not COMMAND.match(line):
        return
    words = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
    words.whitespace_split = True
    command = []
    for word in [*words, ";"]:
        if word[0] not in "|<>;&":
            command.append(word)
            continue
        while command and re.match(r"\w+=", command[0]):
            del command[0]
        if command:
            yield [command[0].removeprefix(".venv/bin/"), *command[1:]]
        command = []


def commands_of(page):
    """Yield the words of each command in the blocks of a document."""
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            yield from commands_in(line.strip())


def commands_in_the_text_of(page):
    """Yield the words of each command in the text of a document, between its blocks."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for code in re.findall(r"`([^`]+)`", text):
        yield from commands_in(" ".join(code.split()))


FILES_TO_MAKE = re.compile(
    r"(?:[Ss]ave this as|as its) `(?P<text>[^`]+)`|^# (?P<block>(?:cadmus|config)/\S+)$", re.MULTILINE
)
MADE = {
    made["text"] or made["block"]
    for page in PAGES
    for made in FILES_TO_MAKE.finditer(page.read_text(encoding="utf-8"))
}
"""Files that a document shows how to make."""


def exists(path):
    return path in MADE or (ROOT / path).exists()


def is_config(name):
    return any(map(exists, (name, f"config/{name}.yaml")))


def unknown_in_cadmus(words):
    """Yield the commands and options of `cadmus` that do not exist."""
    command, context = cadmus, click.Context(cadmus)
    for word in words:
        option = word.partition("=")[0]
        if option.startswith("--"):
            known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
            yield from {option} - known - {"--help"}
        elif isinstance(command, click.Group) and word != "…" and not word.isupper():
            below = command.get_command(context, word)
            if below is None:
                if not exists(f"cadmus/experiments/{word}.py"):
                    yield word
                return
            command = below


def unknown_to_make(words):
    """Yield the targets, variables and configs that do not exist."""
    rules = (ROOT / "Makefile").read_text(encoding="utf-8")
    for word in words:
        name, is_variable, value = word.partition("=")
        if is_variable:
            yield from [name] if not re.search(rf"\b{name}\b", rules) else []
            yield from [value] if name == "CONFIG" and "NAME" not in value and not is_config(value) else []
        elif not re.search(rf"^{re.escape(word)}:(?!=)", rules, re.MULTILINE):
            yield word


def unknown_to_python(words):
    """Yield the modules, and the first arguments of those with several tools, that do not exist."""
    _, module, *arguments = words
    tools = {"dev.docs": KINDS, "dev.bench": BENCHMARKS}.get(module)
    if find_spec(module) is None:
        yield module
    elif tools and arguments and arguments[0] not in tools:
        yield arguments[0]


PROGRAMS = {
    "cadmus": unknown_in_cadmus,
    "make": unknown_to_make,
    "python": unknown_to_python,
}
PAGE_NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]


@pytest.mark.parametrize("name", PAGE_NAMES)
def test_the_commands_and_configs_of_a_page_exist(name):
    page = ROOT / name
    for program, *words in (*commands_of(page), *commands_in_the_text_of(page)):
        if program in PROGRAMS:
            assert list(PROGRAMS[program](words)) == [], [program, *words]
    text = page.read_text(encoding="utf-8")
    for config in re.findall(r"\bconfig/[a-z\d_/]+\.yaml", re.sub(r"`git show .*?`", "", text)):
        assert exists(config)


def test_the_links_and_pictures_of_the_readme_exist():
    """Those of all other pages are checked by `make docs`, which has them in the site."""
    for target in examples("README.md", r"\]\(([^)#]+)\)"):
        assert target.startswith("http") or exists(target), target


def test_the_python_of_the_random_orders_reads_the_published_results(monkeypatch, capsys):
    page = ROOT / "docs/findings/random_orders/README.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(ROOT)
    exec(code, {})
    printed = capsys.readouterr().out
    assert "│ complete_algorithm ┆ 1.18" in printed
    assert "│ -0.70" in printed
