"""The recipes of the documents, applied as printed to a copy of the checkout."""

import re
from pathlib import Path


def blocks(page: Path, heading: str, kind: str = "python") -> list[str]:
    """Return the code of a page after a heading."""
    text = page.read_text(encoding="utf-8").split(heading)[1]
    return re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


def add_template(copy: Path) -> None:
    function, line = blocks(copy / "docs/templates.md", "## Adding a tenth")[:2]
    (copy / "cadmus/templates/modular_sum.py").write_text(function, encoding="utf-8")
    last = "    complete_algorithm: CompleteAlgorithm = CompleteAlgorithm()\n"
    _insert(copy / "cadmus/config/dataset.py", last, last + line)


def add_experiment(copy: Path) -> None:
    page = copy / "docs/experiments.md"
    settings, module = blocks(page, "## How to add one")[:2]
    (field,) = re.findall(r"add `(entropy: Entropy.*?)` to `Evaluate`", page.read_text(encoding="utf-8"))
    (copy / "cadmus/experiments/entropy.py").write_text(module, encoding="utf-8")
    registry = copy / "cadmus/config/evaluation.py"
    evaluate = '@plugins.extended("EVALUATE", "EXPERIMENTS")\nclass Evaluate'
    _insert(registry, evaluate, f"{settings}\n\n{evaluate}")
    last = "    probe: Probe = Probe()\n"
    _insert(registry, last, f"{last}    {field}\n")


def add_objective(copy: Path) -> None:
    module, field, entry = blocks(copy / "docs/training.md", "## An objective of your own")[:3]
    (copy / "cadmus/train/objectives/z_loss.py").write_text(module, encoding="utf-8")
    for place, line in (("    precision: ", field), ('            "reinforcement": len', entry)):
        _insert(copy / "cadmus/config/training.py", place, line + place)


def add_schedule(copy: Path) -> None:
    lines, field = blocks(copy / "docs/training.md", "## A schedule of your own")[:2]
    last = '    return 1 - done if train.schedule == "linear" else 1.0\n'
    _insert(copy / "cadmus/train/engine.py", last, lines + last)
    before = '    schedule: Literal["cosine", "linear", "constant"] = "linear"\n'
    _insert(copy / "cadmus/config/training.py", before, field)


def add_instruction(copy: Path) -> None:
    page = copy / ".github/CONTRIBUTING.md"
    row, function, opcode, branch, cases = blocks(page, "## An instruction", "text")
    (in_page,) = blocks(page, "## An instruction", "js")
    for path, place, text in (
        ("cadmus/isa.py", '        ("e", "even", ', row),
        ("cadmus/vm/reference.py", '    "even": _arith', function),
        ("cadmus/vm/opcodes.py", "ABSOLUTE, EVEN = _op", opcode),
        ("cadmus/vm/operations.py", "    elif opcode == op.EVEN:\n", branch),
        ("cadmus/explore/page/machine.js", "    even: arith", in_page),
        ("tests/vm/instruction_cases.py", '    "e": cases', cases),
    ):
        _insert(copy / path, place, text + place)


def add_lab(copy: Path) -> None:
    settings, module = blocks(copy / "docs/labs.md", "### An example")[:2]
    folder = copy / "cadmus/labs/confidence"
    folder.mkdir()
    (folder / "__init__.py").write_text('"""The confidence penalty."""\n', encoding="utf-8")
    (folder / "settings.py").write_text(settings, encoding="utf-8")
    (folder / "confidence.py").write_text(module, encoding="utf-8")


def _insert(path: Path, place: str, text: str) -> None:
    before = path.read_text(encoding="utf-8")
    assert before.count(place) == 1, place
    path.write_text(before.replace(place, text), encoding="utf-8")
