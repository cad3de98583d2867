"""All templates: true programs, composed as documented."""

from collections import Counter
from functools import partial

import numpy as np
import pytest
import yaml

from cadmus import isa
from cadmus.config import OF_THE_PAPER, TEMPLATES, Dataset, load_config
from cadmus.dataset.sampler import sample
from cadmus.templates import TEMPLATES as FUNCTIONS
from cadmus.templates import Draw
from cadmus.templates.answers import numeral
from cadmus.vm import compiled, reference
from tests import recipes
from tests.checkout import ROOT, copy_folder
from tests.commands import python
from tests.templates.conftest import COUNT

TEXT = (ROOT / "docs" / "templates.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module", params=TEMPLATES)
def drawn(request):
    return request.param, sample(Dataset(), 1, request.param, "train", 0, COUNT)


def test_the_nine_templates_of_the_paper_come_first():
    assert tuple(FUNCTIONS) == TEMPLATES
    # Others would follow. tests/test_docs.py compares the nine with docs/concepts.md.
    assert TEMPLATES == OF_THE_PAPER


def test_programs_are_true_on_the_reference_vm(drawn):
    _, programs = drawn
    assert len(programs.programs) == COUNT
    assert all(reference.run(program).true for program in programs.programs.to_strings())


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("n", [0, 1, 5, 300])
def test_templates_return_at_most_n_candidates(template, n):
    candidates = FUNCTIONS[template](Draw(np.random.default_rng(n), Dataset()), n)
    columns = [candidates.prompt_length, candidates.x, candidates.y]
    assert len(candidates) <= n
    assert all(len(column) == len(candidates) for column in columns if column is not None)
    if template not in {"random", "less_greater"}:
        assert compiled.are_true(candidates.programs).all()
        assert len(candidates.programs) > 150 or n < 300


def test_prompts_leave_something_to_complete(drawn):
    _, programs = drawn
    assert (programs.programs.lengths > programs.prompt_length).all()
    assert programs.prompt_length.min() >= 1


@pytest.mark.parametrize("template", ["basic_sequences", "advanced_sequences"])
def test_sequence_programs_have_one_query_and_a_canonical_answer(template):
    drawn = sample(Dataset(), 1, template, "train", 0, COUNT)
    kinds = Counter()
    for text, prompt in zip(drawn.programs.to_strings(), drawn.prompt_length, strict=True):
        (asked,) = reference.run(text[:prompt]).outputs
        kinds[type(asked)] += 1
        if isinstance(asked, reference.Number):
            assert text[prompt:] == numeral(np.array([asked.value])).to_strings()[0] + "="
        else:
            assert text[prompt:].startswith("u")
            assert text[prompt:].endswith("Y")
    assert min(kinds.values()) > COUNT / 10


def test_every_instruction_occurs_in_a_template():
    groups = {"sequences", "higher order", "decorations", "arithmetic", "comparison and logic", "unary"}
    wanted = {row.symbol for row in isa.INSTRUCTIONS if row.group in groups | {"calls", "stack", "literals"}}
    seen = Counter()
    for template in TEMPLATES:
        if template != "random":
            drawn = sample(Dataset(), 1, template, "train", 0, COUNT)
            # Programs with the symbol, not its occurrences.
            seen.update(symbol for text in drawn.programs.to_strings() for symbol in set(text))
    assert {symbol: seen[symbol] for symbol in wanted if seen[symbol] < 20} == {}


def test_random_programs_use_every_instruction():
    programs = sample(Dataset(), 1, "random", "train", 0, COUNT)
    texts = programs.programs.to_strings()
    assert {len(text) for text in texts} == set(range(4, 17))
    assert set("".join(texts)) == set(isa.BY_SYMBOL) - {isa.END}
    assert all(programs.prompt_length == programs.programs.lengths // 2)


def test_the_document_explains_every_template():
    sections = TEXT.split("\n### ")[1:]
    explained = [section.split("\n")[0] for section in sections]
    assert explained[: len(OF_THE_PAPER)] == list(OF_THE_PAPER)
    # One that somebody adds may have none.
    assert set(explained) <= set(TEMPLATES)
    # An example of a prompt and its completion, which tests/test_docs.py checks.
    assert all("` → `" in section and "prompt" in section.lower() for section in sections)


def test_a_tenth_template_can_be_added_as_documented(tmp_path):
    for folder in ("cadmus", "docs"):
        copy_folder(folder, tmp_path)
    recipes.add_template(tmp_path)
    (counts,) = recipes.blocks(ROOT / "docs/templates.md", "## Adding a tenth", "yaml")
    values = yaml.safe_load((ROOT / "tests/tiny.yaml").read_text(encoding="utf-8"))
    values["dataset"]["templates"] |= yaml.safe_load(counts)["dataset"]["templates"]
    (tmp_path / "ten.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")

    run = partial(python, "-c", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    # Datasets without its programs stay the same.
    digests = "import sys; from cadmus.config import load_config as load; "
    digests += "print(*[load(path).dataset_digest() for path in sys.argv[1:]])"
    quick = ROOT / "config/quick.yaml"
    same, other = run(digests, quick, "ten.yaml").stdout.split()
    assert same == load_config(quick).dataset_digest()
    assert other != load_config(ROOT / "tests/tiny.yaml").dataset_digest()
    command = "from cadmus.cli.main import main; main()"
    sampled = run(command, "sample", "modular_sum", "-n", "100", "--config", "ten.yaml")
    assert sampled.stderr == ""
    programs = sampled.stdout.splitlines()
    assert len(set(programs)) == 100
    assert all("%" in program and reference.run(program).true for program in programs)
