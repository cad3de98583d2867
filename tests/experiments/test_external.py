"""Experiments on functions in the place of an exported model."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from cadmus import Cadmus, Task, evaluate_model, isa, pipeline, verify
from cadmus.config import load_config
from cadmus.dataset.manifest import read_split
from cadmus.errors import InputError
from cadmus.model.export import save_export
from cadmus.programs import Programs
from tests.model.models import ending_model

CONFIG = """
name: tiny
dataset:
  validation: 5
  test: 30
  templates: {equality: {train: 40}, less_greater: {train: 40}, complete_algorithm: {train: 40}}
model: {layers: 3, width: 32, heads: 4, mlp: 48}
train: {steps: 1}
evaluate:
  pass_at_k: {samples: 4}
  induction: {programs: 6, samples: 4, examples: 3}
  grid: {low: -1, high: 1, programs_per_pixel: 2, balanced: 9}
"""
EXPERIMENTS = ("completions", "pass_at_k", "induction", "grid", "infilling")


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Return a directory with a config, a dataset and a random model that ends some programs."""
    place = tmp_path_factory.mktemp("external")
    (place / "config.yaml").write_text(CONFIG)
    run = load_config(place / "config.yaml")
    pipeline.sample(run, place / "dataset")
    pipeline.dataset(run, place / "dataset")
    save_export(ending_model(run.model), place / "model", {"config": run.model_dump()})
    return place


@pytest.fixture(scope="module")
def config(place):
    return load_config(place / "config.yaml")


def as_function(model, cut_off):
    """Return greedy completions of a model as a function; those that did not end are None, or texts."""

    def complete(prompts):
        completions, ended = model.complete(prompts)
        texts = completions.to_strings()
        return [text if end or cut_off else None for text, end in zip(texts, ended, strict=True)]

    return complete


@pytest.mark.parametrize("experiment", ["completions", "grid", "infilling"])
def test_a_function_that_asks_an_export_has_its_results(place, config, tmp_path, experiment):
    own, other = tmp_path / "own.parquet", tmp_path / "other.parquet"
    model = Cadmus.load(place / "model")

    # The others read completions that are cut off as well.
    complete = as_function(model, cut_off=experiment != "completions")
    found = evaluate_model(complete, place / "dataset", experiment, config=config, output=own)
    expected = pipeline.evaluate(experiment, place / "model", other, place / "dataset", config)
    if experiment == "completions":
        graded = expected.filter(policy="model")
        assert 0 < graded["ended"].sum() < len(graded)
        # What was cut off has no text here.
        cut = pl.when("ended").then("completion").otherwise(pl.lit(""))
        drops, first = (pl.col(name) & pl.col("ended") for name in ("uses_drop", "next_token"))
        model_rows = pl.col("policy") == "model"
        changes = {"completion": cut, "uses_drop": drops, "next_token": first}
        expected = expected.with_columns(
            pl.when(model_rows).then(new).otherwise(name).alias(name) for name, new in changes.items()
        )
    assert found.equals(expected)
    origins = [pl.read_parquet_metadata(path) for path in (own, other)]
    assert origins[1].keys() - origins[0].keys() == {"model_digest"}
    assert origins[0]["data_digest"] == origins[1]["data_digest"]


def test_the_grid_reads_logits_if_it_gets_them(place, config):
    model = Cadmus.load(place / "model")
    functions = {"complete": lambda prompts: [None] * len(prompts), "next_logits": model.next_logits}
    expected = evaluate_model(as_function(model, cut_off=True), place / "dataset", "grid", config=config)
    assert evaluate_model(**functions, dataset=place / "dataset", experiment="grid", config=config).equals(
        expected
    )
    nothing = evaluate_model(functions["complete"], place / "dataset", "grid", config=config)
    assert nothing.select("correct", "less", "equal", "greater").sum().row(0) == (0, 0, 0, 0)


def test_all_votes_of_a_function_that_does_not_sample_are_one(place, config):
    asked = []

    def complete(prompts):
        asked.append(prompts)
        return [own.get(prompt) for prompt in prompts]

    # Right answers to the prompts of the dataset, which are others; none to these.
    own: dict[str, str] = {}
    evaluate_model(complete, place / "dataset", "induction", config=config)
    own |= dict.fromkeys((prompt for batch in asked for prompt in batch), r"\1+;")
    asked.clear()
    results = evaluate_model(complete, place / "dataset", "induction", config=config)
    assert set(results["votes"]) <= {0, 4}
    assert results["greedy"].equals(results["voted"])
    greedy, sampled = asked[:2]
    assert sampled == [prompt for prompt in greedy for _ in range(4)]


def test_a_perfect_function_solves_all(place, config, tmp_path):
    rest = rest_of(place)
    output = tmp_path / "completions.parquet"
    results = evaluate_model(
        lambda prompts: (rest[p] + "." for p in prompts), place / "dataset", output=output
    )
    assert results.filter(policy="model")["solved"].all()
    table, _ = pipeline.draw("table3_accuracy", [output], tmp_path)
    assert set(pl.read_csv(table).filter(policy="model", metric="solved")["accuracy"]) == {1.0}
    sampled = evaluate_model(
        lambda prompts: [*map(rest.get, prompts)], place / "dataset", "pass_at_k", config=config
    )
    assert sampled.filter(policy="model")["solved"].unique().to_list() == [4]


def rest_of(place):
    """Return the completion of each prompt that test programs of a dataset are asked."""
    from cadmus.evaluate.grading import tasks_of

    tasks = tasks_of(read_split(place / "dataset", "test"))
    return {
        prompt: program[len(prompt) :]
        for task in tasks
        for prompt, program in zip(task.prompts.to_strings(), task.programs.to_strings(), strict=True)
    }


def test_bad_completions_are_graded_as_verify_grades_them(place, config):
    rest, bad = rest_of(place), [None, "", ".", "é\n", "=.1", "=" * 70, "q", " =", "=.", ">", "__1"]
    texts = {prompt: [*bad, own][row % (len(bad) + 1)] for row, (prompt, own) in enumerate(rest.items())}
    results = evaluate_model(lambda prompts: list(map(texts.get, prompts)), place / "dataset", config=config)
    results = results.filter(policy="model")
    tasks = [
        Task(program[:length], program[length:], question)
        for program, length, question in results.select("program", "prompt_length", "question").iter_rows()
    ]
    verdicts = verify(tasks, [texts[task.prompt] for task in tasks])
    assert results["solved"].to_list() == [verdict.solved for verdict in verdicts]
    assert results["verified"].to_list() == [verdict.verified for verdict in verdicts]
    assert len({verdict.reason for verdict in verdicts}) >= 6


@pytest.mark.parametrize(("size", "expected"), [(None, 512), (7, 7)])
def test_a_function_is_asked_for_so_many_completions_at_a_time(place, size, expected):
    changes = {"evaluate.batch_size": size, "evaluate.pass_at_k.samples": 40}
    most = []
    evaluate_model(
        lambda prompts: most.append(len(prompts)) or prompts,
        place / "dataset",
        "pass_at_k",
        config=load_config(place / "config.yaml", changes),
    )
    assert max(most) == expected


class Broken(Exception):
    """An error of a function of the user."""


def broken(prompts):
    yield "="
    raise Broken("out of memory")


def test_an_error_of_a_function_passes_with_a_note(place, config):
    with pytest.raises(Broken, match="out of memory") as caught:
        evaluate_model(broken, place / "dataset", config=config)
    (note,) = caught.value.__notes__
    assert note.startswith("raised by complete, for 28 prompts; the first is '")


WRONG = "complete: must return a list of .*, one for each prompt, got "
SHAPE = r"next_logits: must return numbers, shape \(\d+, 65\), got "


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"complete": lambda prompts: None}, f"{WRONG}NoneType$"),
        ({"complete": lambda prompts: "="}, f"{WRONG}str$"),
        ({"complete": lambda prompts: dict.fromkeys(prompts, "=")}, f"{WRONG}dict$"),
        ({"complete": lambda prompts: prompts[1:]}, f"{WRONG}27$"),
        ({"complete": lambda prompts: (p for p in prompts[1:])}, f"{WRONG}27$"),
        (
            {"complete": lambda prompts: [*prompts[1:], float("nan")]},
            "complete: completion 27: must be text, or None if it did not end, got nan",
        ),
        ({"complete": lambda prompts: [[p] for p in prompts]}, "complete: completion 0: must be text, .*'"),
        ({"complete": "models/laptop"}, "complete: must be a function of a list of prompts, got str; cadmus"),
        ({"next_logits": 3}, "next_logits: must be a function of a list of prompts, got int"),
        ({"next_logits": lambda p: np.zeros((len(p), 66))}, SHAPE + r"float64, shape \(\d+, 66\)"),
        ({"next_logits": lambda p: [["a"] * 65] * len(p)}, SHAPE + "<U1"),
        ({"next_logits": lambda p: torch.full((len(p), 65), torch.nan)}, "next_logits: must return no NaN"),
        ({"experiment": "gird"}, r"no experiment 'gird'; did you mean 'grid'\?"),
        ({"dataset": "nowhere"}, "nowhere/manifest.json: no such file"),
        ({"output": "no.parquet/own.parquet"}, "cannot write no.parquet/own.parquet"),
    ],
)
def test_bad_input_is_one_line(place, config, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "no.parquet").touch()
    experiment = "grid" if "next_logits" in arguments else "completions"
    options = {"complete": lambda prompts: prompts, "dataset": place / "dataset", "experiment": experiment}
    if "dataset" not in arguments:
        options["config"] = config
    with pytest.raises(InputError, match=message):
        evaluate_model(**options | arguments)


@pytest.mark.parametrize("experiment", ["loss", "curve", "probe", "interchange", "unmasking"])
def test_an_experiment_that_reads_more_says_so(place, experiment):
    message = f"{experiment}: needs .*, which no function gives; choose {', '.join(EXPERIMENTS)}$"
    with pytest.raises(InputError, match=message):
        evaluate_model(lambda prompts: prompts, place / "dataset", experiment)


def test_logits_are_needed_for_logits(place):
    from cadmus.experiments.external import External

    with pytest.raises(InputError, match="next_logits: is missing; give a function that returns logits"):
        External(lambda prompts: prompts, None, 1).next_logits(Programs.from_strings(["34+7"]))
    tokens = External(lambda prompts: ["=", "", None, ".", "é"], None, 9).next_tokens(
        Programs.from_strings(["34+7"] * 5)
    )
    assert tokens.tolist() == [isa.TOKEN_ID["="], isa.END_ID, -1, isa.END_ID, -1]
