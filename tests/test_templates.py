"""The templates: true programs, composed as the specification says, held to the readable machine."""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import yaml
from cadmus.evaluate.completion import second_expression
from hypothesis import given, settings
from hypothesis import strategies as st

from cadmus import isa
from cadmus.config import OPERATORS, TEMPLATES, Dataset, ExpressionTemplate, Values
from cadmus.dataset.sampler import sample
from cadmus.errors import InputError
from cadmus.programs import Programs, interleave, join
from cadmus.templates import TEMPLATES as FUNCTIONS
from cadmus.templates import Draw, functions
from cadmus.templates.answers import NUMERAL_MAX, numeral
from cadmus.templates.draw import definition, merged, only_where
from cadmus.templates.expressions import expressions
from cadmus.templates.values import ValueSampler, alias_table
from cadmus.vm import compiled, reference

ROOT = Path(__file__).parent.parent
COUNT = 2_000


@pytest.fixture(scope="module", params=TEMPLATES)
def drawn(request):
    return request.param, sample(Dataset(), 1, request.param, "train", 0, COUNT)


def test_the_templates_are_those_of_the_paper_in_its_order():
    assert tuple(FUNCTIONS) == TEMPLATES
    # Templates of your own follow.
    assert TEMPLATES[:9] == (
        "basic_math",
        "equality",
        "less_greater",
        "subroutines",
        "random",
        "basic_sequences",
        "advanced_sequences",
        "apply_labels",
        "complete_algorithm",
    )


def test_programs_are_true_on_the_readable_machine(drawn):
    _, programs = drawn
    assert len(programs.programs) == COUNT
    assert all(reference.run(program).true for program in programs.programs.to_strings())


def test_programs_are_distinct_and_within_the_limits(drawn):
    _, programs = drawn
    texts = programs.programs.to_strings()
    assert len(set(texts)) == COUNT
    assert max(map(len, texts)) <= Dataset().max_length
    assert all(isa.END not in text for text in texts)


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("n", [0, 1, 5, 300])
def test_templates_give_at_most_as_many_candidates_as_asked_for(template, n):
    candidates = FUNCTIONS[template](Draw(np.random.default_rng(n), Dataset()), n)
    columns = [candidates.prompt_length, candidates.x, candidates.y]
    assert len(candidates) <= n
    assert all(len(column) == len(candidates) for column in columns if column is not None)
    if template not in {"random", "less_greater"}:
        assert compiled.verdicts(candidates.programs).all()
        assert len(candidates.programs) > 150 or n < 300


def test_prompts_leave_something_to_complete(drawn):
    template, programs = drawn
    left = programs.programs.lengths - programs.prompt_length
    # A sequence whose label is 1 is completed by the end of the program alone.
    assert left.min() >= (0 if template == "apply_labels" else 1)
    assert programs.prompt_length.min() >= 1


def test_no_completion_drops_anything(drawn):
    template, programs = drawn
    texts = zip(programs.programs.to_strings(), programs.prompt_length, strict=True)
    # Grading does not count a completion that does.
    assert template == "random" or not any("_" in text[prompt:] for text, prompt in texts)


COMPARED = {"basic_math": "<>=", "equality": "=", "less_greater": "<>"}


@pytest.mark.parametrize("template", COMPARED)
def test_comparisons_note_their_values(template):
    programs = sample(Dataset(), 2, template, "train", 0, COUNT)
    limits = Dataset().values
    for text, prompt, x, y in zip(
        programs.programs.to_strings(), programs.prompt_length, programs.x, programs.y, strict=True
    ):
        left, right = reference.run(text[:prompt]).outputs
        assert (left.value, right.value) == (x, y)
        assert len(text) == prompt + 1
        assert text[-1] in COMPARED[template]
        assert limits.low <= x <= limits.high
        assert limits.low <= y <= limits.high
    if template != "basic_math":
        # Half of the numbers are uniform over the range, so all of it appears.
        assert set(programs.x.tolist()) == set(range(limits.low, limits.high + 1))


@pytest.fixture(scope="module")
def subroutines():
    drawn = sample(Dataset(), 1, "subroutines", "train", 0, COUNT)
    return list(zip(drawn.programs.to_strings(), drawn.prompt_length.tolist(), drawn.x, drawn.y, strict=True))


def test_subroutines_are_completed_from_the_comparator_or_the_last_definition(subroutines):
    completed = [text[prompt:] for text, prompt, _, _ in subroutines]
    before = [text for text in completed if text in {"<", ">", "="}]
    after = [text for text in completed if text.count("\\") == 1 == text.count(";")]
    assert len(before) + len(after) == COUNT
    assert all(text.startswith("\\") and text.endswith(";") for text in after)
    assert min(len(before), len(after)) > COUNT / 3


def test_subroutines_define_call_and_recur_in_every_way(subroutines):
    texts = [text for text, _, _, _ in subroutines]
    assert {text.count("\\") for text in texts} == {1, 2, 3}
    top = [isa.split_definitions(text)[0] for text in texts]
    for call in "fghFG":
        assert sum(call in text for text in top) > COUNT / 100
    bodies = [body for text in texts for body in isa.split_definitions(text)[1]]
    assert sum("R" in body for body in bodies) > COUNT / 20
    assert sum(bool(set("fgF") & set(body)) for body in bodies) > COUNT / 20
    # A definition between the call and the comparator.
    assert sum(text[0] != "\\" and "\\" in text and text[-1] != ";" for text in texts) > COUNT / 20


def test_subroutines_note_their_values(subroutines):
    low, high = Dataset().values.low, Dataset().values.high
    for text, _, x, y in subroutines:
        top, bodies = isa.split_definitions(text)
        definitions = "".join(f"\\{body};" for body in bodies)
        left, right = reference.run(definitions + top[:-1]).outputs
        assert (left.value, right.value) == (x, y)
        assert top[-1] == "<=>"[np.sign(x - y) + 1]
        assert low <= x <= high
        assert low <= y <= high
    assert COUNT / 3 < sum(x == y for _, _, x, y in subroutines) < COUNT * 2 / 3


def test_recursion_calls_itself_more_than_once(subroutines):
    def depth_matters(text):
        """Whether the program is another when a call within the subroutine gives its argument back."""
        return not reference.run(text.replace("R", "_")).true

    recursive = [text for text, _, _, _ in subroutines if "R" in text]
    assert sum(map(depth_matters, recursive)) > len(recursive) / 10


@pytest.mark.parametrize("template", ["basic_sequences", "advanced_sequences"])
def test_sequences_are_asked_one_thing_and_answered_in_one_way(template):
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


def test_every_instruction_has_its_place_in_a_template():
    groups = {"sequences", "higher order", "decorations", "arithmetic", "comparison and logic", "unary"}
    wanted = {row.symbol for row in isa.INSTRUCTIONS if row.group in groups | {"calls", "stack", "literals"}}
    seen = Counter()
    for template in TEMPLATES:
        if template != "random":
            drawn = sample(Dataset(), 1, template, "train", 0, COUNT)
            # In how many programs, of however many a symbol has.
            seen.update(symbol for text in drawn.programs.to_strings() for symbol in set(text))
    assert {symbol: seen[symbol] for symbol in wanted if seen[symbol] < 20} == {}


def test_labels_are_an_exclamation_mark_exactly_when_zero():
    programs = sample(Dataset(), 1, "apply_labels", "train", 0, COUNT)
    seen = Counter()
    for text, prompt in zip(programs.programs.to_strings(), programs.prompt_length, strict=True):
        answer = text[prompt:]
        (label,) = reference.run(text[:prompt]).outputs
        if isinstance(label, reference.Number):
            assert label.value in (0, 1)
            assert answer == ("!" if label.value == 0 else "")
            seen[answer] += 1
        else:
            assert answer.endswith("Y")
            seen["elements"] += 1
            seen["decorated"] += ":" in answer
    assert 0.4 < seen["elements"] / COUNT < 0.6
    assert 0.35 < seen["!"] / (seen["!"] + seen[""]) < 0.65
    assert seen["decorated"] > seen["elements"] / 2


def examples_of(text):
    """The examples of a program of complete_algorithm: the value called on, the call and its result."""
    top, (body,) = isa.split_definitions(text)
    found = re.findall(r"(?:u(?:[0-9tZ]b)*|[0-9tZ]I?)(?:[0-9tZ])?[fFlmw](?:!|[^fFlmw]*?[=Y])?", top)
    assert "".join(found) == top
    return found, body


def test_induction_shows_how_the_results_differ():
    programs = sample(Dataset(), 1, "complete_algorithm", "train", 0, COUNT)
    calls = Counter()
    for text, prompt in zip(programs.programs.to_strings(), programs.prompt_length, strict=True):
        found, body = examples_of(text)
        assert text[prompt:] == f"\\{body};"
        assert 3 <= len(found) <= 5
        assert not reference.run(text[:prompt]).true, "without its definition no example holds"
        (call,) = {symbol for example in found for symbol in example if symbol in "fFlmw"}
        calls[call] += 1
        results = {example.split(call)[1] for example in found}
        if results & {"", "!"}:
            # Labels: some examples are denied, some are not.
            calls["labels"] += 1
            assert results == {"", "!"}
        else:
            assert len(results) > 1
    assert set(calls) == {"f", "F", "l", "m", "w", "labels"}
    assert min(calls.values()) > COUNT / 50
    assert calls["labels"] > COUNT / 4


def test_the_number_of_examples_is_configured():
    fields = {"examples": [6, 6], "sequence_length": [1, 2]}
    dataset = Dataset.model_validate({"templates": {"complete_algorithm": fields}})
    programs = sample(dataset, 1, "complete_algorithm", "train", 0, 200)
    assert {len(examples_of(text)[0]) for text in programs.programs.to_strings()} == {6}


@pytest.mark.parametrize("function", [functions.sequence_predicate, functions.number_predicate])
def test_predicates_give_0_and_1(function):
    draw = Draw(np.random.default_rng(1), Dataset())
    argument = draw.sequence(COUNT, (1, 4)) if "sequence" in function.__name__ else join(draw.literal(COUNT))
    outcome = compiled.execute(join(definition(function(draw, COUNT)), argument, b"f"))
    assert np.all(outcome.kind == compiled.NUMBER)
    assert set(outcome.values[:, 0].tolist()) == {0, 1}


def test_random_programs_use_every_instruction():
    programs = sample(Dataset(), 1, "random", "train", 0, COUNT)
    texts = programs.programs.to_strings()
    assert {len(text) for text in texts} == set(range(4, 17))
    assert set("".join(texts)) == set(isa.BY_SYMBOL) - {isa.END}
    assert all(programs.prompt_length == programs.programs.lengths // 2)


def test_the_table_of_five_instruction_expressions():
    table = expressions(5)
    # Of 98,000, the others are NAN.
    assert len(table.values) == 98_000 - 6_700
    distinct = np.unique(table.values)
    assert (len(distinct), distinct[0], distinct[-1]) == (237, -81, 729)


@pytest.mark.parametrize("length", [1, 3, 5, 7])
@pytest.mark.parametrize("operators", [OPERATORS, "+-", "%"])
def test_expressions_have_the_value_asked_for(length, operators):
    table = expressions(length, operators)
    values = np.unique(table.values)
    texts = table.sample(np.random.default_rng(1), values).to_strings()
    assert {len(text) for text in texts} == {length}
    assert set("".join(texts)) <= set("0123456789" + operators)
    for text, value in zip(texts, values, strict=True):
        (output,) = reference.run(text).outputs
        assert output.value == value
    assert table.extent == (values[0], values[-1])
    assert table.count(values).sum() == table.before[-1]
    with pytest.raises(ValueError, match="-730"):
        table.sample(np.random.default_rng(1), np.array([-730]))


@settings(max_examples=20, deadline=None)
@given(
    operators=st.sets(st.sampled_from(OPERATORS), min_size=1).map("".join),
    lengths=st.sets(st.sampled_from([1, 3, 5, 7]), min_size=1).map(sorted),
    low=st.integers(-80, 9),
    width=st.integers(10, 100),
)
def test_expressions_are_drawn_within_the_range(operators, lengths, low, width):
    dataset = Dataset.model_validate({"values": {"low": low, "high": low + width}})
    draw = Draw(np.random.default_rng(1), dataset)
    of = ExpressionTemplate(expression_lengths=lengths, operators=operators)
    try:
        values = draw.values(200, of)
    except InputError:
        extents = [expressions(length, operators).extent for length in lengths]
        assert all(low + width < smallest or largest < low for smallest, largest in extents)
        return
    assert low <= values.min() <= values.max() <= low + width
    drawn = draw.expression(values, of)
    outcome = compiled.execute(drawn)
    assert np.array_equal(outcome.values[:, 0], values)
    assert np.all(outcome.count == 1)
    assert set(drawn.lengths.tolist()) <= set(lengths)


def test_values_and_lengths_are_as_frequent_as_configured():
    lengths, weights, limits = [1, 3, 5], [1, 2, 5], Values(low=-5, high=12, uniform_fraction=0.25)
    of = ExpressionTemplate(expression_lengths=lengths, length_weights=weights, operators="+-%")
    numbers, rng, n = ValueSampler(of, limits), np.random.default_rng(1), 400_000
    values = numbers.values(rng, n)
    drawn = numbers.expressions(rng, values)
    possible = np.arange(-5, 13)
    # By hand: the natural share follows from listing, the uniform one is the same for each value.
    expected = np.zeros((len(lengths), len(possible)))
    for place, length in enumerate(lengths):
        table = expressions(length, "+-%")
        listed = np.array([np.sum(table.values == value) for value in possible])
        expected[place] = 0.75 * weights[place] / 8 * listed / listed.sum()
    has = np.array([[value in expressions(length, "+-%").values for value in possible] for length in lengths])
    shares = has * np.array(weights)[:, None]
    expected += 0.25 / len(possible) * shares / shares.sum(axis=0)
    for place, length in enumerate(lengths):
        found = np.bincount(values[drawn.lengths == length] + 5, minlength=len(possible))
        deviation = np.sqrt(n * expected[place] * (1 - expected[place])) + 1e-9
        assert np.max(np.abs(found - n * expected[place]) / deviation) < 4.5, length


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=60))
def test_the_alias_table_has_the_shares_asked_for(shares):
    keep, other = alias_table(np.array(shares))
    found = keep + np.bincount(other, 1 - keep, len(shares))
    assert np.allclose(found / len(shares), np.array(shares) / sum(shares), atol=1e-12)
    assert keep.min() >= 0


@pytest.mark.parametrize("operator", ["-", "/"])
def test_seven_instructions_are_composed_as_if_all_were_enumerated(operator):
    shapes = ("ddododo", "ddoddoo", "dddoodo", "dddodoo", "ddddooo")
    digits = [
        Programs.from_strings([f"{number:04}"[place] for number in range(10_000)]) for place in range(4)
    ]
    enumerated = []
    for shape in shapes:
        left = iter(digits)
        outcome = compiled.execute(join(*(next(left) if at == "d" else operator.encode() for at in shape)))
        enumerated.append(outcome.values[outcome.kind == compiled.NUMBER, 0])
    values, counts = np.unique(np.concatenate(enumerated), return_counts=True)
    table = expressions(7, operator)
    assert np.array_equal(np.unique(table.values), values)
    assert np.array_equal(table.count(values), counts)
    # Uniform among those of a value: no text stands out.
    drawn = table.sample(np.random.default_rng(1), np.full(20_000, values[0])).to_strings()
    frequency = Counter(drawn)
    assert max(frequency.values()) < 5 * max(20_000 / counts[0], 4)


@pytest.mark.parametrize("template", COMPARED)
def test_lengths_and_operators_of_expressions_are_those_configured(template):
    for lengths, operators in (([1], "+"), ([7], "+-x"), ([1, 3, 5, 7], "*-")):
        fields = {"expression_lengths": lengths, "operators": operators}
        dataset = Dataset.model_validate({"templates": {template: fields}})
        programs = sample(dataset, 1, template, "train", 0, 20 if lengths == [1] else 500)
        used, halves = set(), set()
        for text in programs.programs.to_strings():
            right = 1 if template == "basic_math" else len(text) - 1 - second_expression(text)
            halves |= {len(text) - 1 - right} | ({right} if template != "basic_math" else set())
            used |= set(text[:-1]) - set("0123456789")
        assert halves == set(lengths)
        assert used == (set(operators) if lengths != [1] else set())


def test_uniform_share_flattens_the_values():
    def draw(share):
        dataset = Dataset.model_validate({"values": {"uniform_fraction": share}})
        values = Draw(np.random.default_rng(1), dataset).values(20_000, ExpressionTemplate())
        return np.bincount(values + 20, minlength=41)

    assert draw(1.0).min() > 300
    assert draw(0.0).min() < 100
    assert draw(0.0).max() > 1_000


def test_numerals_have_their_value():
    values = np.array([-NUMERAL_MAX, -30, -1, 0, 9, 10, 11, 20, 99, 100, 101, 110, 729, NUMERAL_MAX])
    texts = numeral(values).to_strings()
    assert [reference.run(text).outputs[0].value for text in texts] == values.tolist()
    with pytest.raises(ValueError, match="range from"):
        numeral(np.array([NUMERAL_MAX + 1]))


def test_interleave_keeps_the_order_within_a_variant():
    drawn = [Programs.from_strings(["1", "2", "3"]), Programs.from_strings(["77", "88"])]
    mixed = interleave(np.array([1, 0, 0, 1, 0]), drawn)
    assert mixed.to_strings() == ["77", "1", "2", "88", "3"]


def test_merging_puts_rows_one_after_another():
    rows = Programs.from_strings(["1", "22", "3", "", "4"])
    assert merged(rows, np.array([2, 0, 3])).to_strings() == ["122", "", "34"]


def test_parts_that_belong_together_stay_together():
    draw = Draw(np.random.default_rng(1), Dataset())

    def letters(symbols):
        return lambda k: tuple(join(draw.choice(k, symbols)) for _ in range(2))

    left, right = draw.mix_parts(1_000, letters(b"12"), letters(b"78"))
    pairs = Counter(zip(left.to_strings(), right.to_strings(), strict=True))
    assert len(pairs) == 8
    assert all((a in "12") == (b in "12") for a, b in pairs)


def test_pieces_join_row_by_row():
    left = Programs.from_strings(["1", "", "333"])
    marks = np.frombuffer(b"+-*", np.uint8)
    joined = join(left, b"\\x", marks, only_where(left, np.array([True, True, False])))
    assert joined.to_strings() == ["1\\x+1", "\\x-", "333\\x*"]
    with pytest.raises(ValueError, match="2 rows among pieces of 3"):
        join(left, Programs.from_strings(["1", "2"]))


def test_a_range_without_programs_is_named():
    dataset = Dataset.model_validate({"values": {"low": 800, "high": 900}})
    with pytest.raises(InputError, match=r"dataset\.values: no expression of 5 .*-81 to 729"):
        sample(dataset, 1, "less_greater", "train", 0, 10)


def test_a_template_that_keeps_nothing_stops():
    dataset = Dataset.model_validate({"values": {"low": 3, "high": 3}})
    with pytest.raises(InputError, match=r"less_greater.*not true"):
        sample(dataset, 1, "less_greater", "train", 0, 10)


def test_an_unknown_template_is_named():
    with pytest.raises(InputError, match=r"no template 'equalty'; did you mean 'equality'"):
        sample(Dataset(), 1, "equalty", "train", 0, 10)


TEXT = (ROOT / "docs" / "templates.md").read_text(encoding="utf-8")


def test_the_document_explains_every_template():
    sections = TEXT.split("\n### ")[1:]
    assert tuple(section.split("\n")[0] for section in sections) == TEMPLATES[:9]
    assert all("```console" in section and "prompt" in section.lower() for section in sections)


def test_a_tenth_template_is_added_as_the_document_says(tmp_path):
    blocks = re.findall(r"```(python|yaml)\n(.*?)```", TEXT.split("## Adding a tenth")[1], re.DOTALL)
    (_, function), (_, line), (_, counts) = blocks
    # Compiled code is copied as well, so that nothing is compiled anew.
    shutil.copytree(ROOT / "cadmus", tmp_path / "cadmus")
    (tmp_path / "cadmus/templates/modular_sum.py").write_text(function, encoding="utf-8")
    config = tmp_path / "cadmus/config/templates.py"
    text = config.read_text(encoding="utf-8")
    last = "    complete_algorithm: CompleteAlgorithm = CompleteAlgorithm()\n"
    assert text.count(last) == 1
    config.write_text(text.replace(last, last + line), encoding="utf-8")
    values = yaml.safe_load((ROOT / "tests/tiny.yaml").read_text(encoding="utf-8"))
    values["dataset"]["templates"] |= yaml.safe_load(counts)["dataset"]["templates"]
    (tmp_path / "ten.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")

    command = "from cadmus.cli.main import main; main()"
    sampled = subprocess.run(
        [sys.executable, "-c", command, "sample", "modular_sum", "-n", "100", "--config", "ten.yaml"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert sampled.stderr == ""
    programs = sampled.stdout.splitlines()
    assert len(set(programs)) == 100
    assert all("%" in program and reference.run(program).true for program in programs)
