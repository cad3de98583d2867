"""All templates: true programs, composed as documented."""

from collections import Counter

import numpy as np
import pytest

from cadmus import isa
from cadmus.config import OF_THE_PAPER, TEMPLATES, Dataset
from cadmus.dataset.sampler import sample
from cadmus.templates import TEMPLATES as FUNCTIONS
from cadmus.templates import Draw
from cadmus.templates.answers import numeral
from cadmus.vm import compiled, reference
from tests.checkout import ROOT
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
