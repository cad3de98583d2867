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
from cadmus.evaluate.grading import tasks_of
from cadmus.experiments.external import External
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
EXPERIMENTS = ("completions", "pass_at_k", "induction", "grid")


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


@pytest.fixture(scope="module")
def rest(place):
    """Return the completion of each prompt that test programs of the dataset are asked."""
    tasks = tasks_of(read_split(place / "dataset", "test"))
    return {
        prompt: program[len(prompt) :]
        for task in tasks
        for prompt, program in zip(task.prompts.to_strings(), task.programs.to_strings(), strict=True)
    }


@pytest.mark.parametrize("experiment", ["completions", "grid"])
def test_a_function_that_asks_an_export_has_its_results(place, config, tmp_path, experiment):
    own, other = tmp_path / "own.parquet", tmp_path / "other.parquet"
    model = Cadmus.load(place / "model")

    def complete(prompts):
        completions, ended = model.complete(prompts)
        # The others read completions that were cut off.
        ended |= experiment != "completions"
        return [text if end else None for text, end in zip(completions.to_strings(), ended, strict=True)]

    found = evaluate_model(complete, place / "dataset", experiment, config=config, output=own)
    expected = pipeline.evaluate(experiment, place / "model", other, place / "dataset", config)
    if experiment == "completions":
        assert 0 < expected.filter(policy="model")["ended"].sum() < expected.filter(policy="model").height
        # Here completions that were cut off have no text.
        found, expected = (each.drop("completion", "next_token") for each in (found, expected))
    assert found.equals(expected)
    origins = [pl.read_parquet_metadata(path) for path in (own, other)]
    assert origins[1].keys() - origins[0].keys() == {"model_digest"}
    assert origins[0]["data_digest"] == origins[1]["data_digest"]


def test_the_grid_reads_logits_if_it_gets_them(place, config, tmp_path):
    logits, grid = Cadmus.load(place / "model").next_logits, (place / "dataset", "grid")
    expected = pipeline.evaluate("grid", place / "model", tmp_path / "grid.parquet", config=config)
    found = evaluate_model(lambda prompts: [None] * len(prompts), *grid, next_logits=logits, config=config)
    assert found.equals(expected)
    nothing = evaluate_model(lambda prompts: [None] * len(prompts), *grid, config=config)
    assert nothing.select("correct", "less", "equal", "greater").sum().row(0) == (0, 0, 0, 0)


def test_all_votes_of_a_function_that_does_not_sample_are_one(place, config):
    asked = []

    def complete(prompts):
        asked.append(prompts)
        return [r"\1+;"] * len(prompts)

    results = evaluate_model(complete, place / "dataset", "induction", config=config)
    assert set(results["votes"]) <= {0, 4}
    assert results["greedy"].equals(results["voted"])
    greedy, sampled = asked[:2]
    assert sampled == [prompt for prompt in greedy for _ in range(4)]


def test_a_perfect_function_solves_all(place, rest, config, tmp_path):
    data, output = place / "dataset", tmp_path / "completions.parquet"
    evaluate_model(lambda prompts: (rest[p] + "." for p in prompts), data, output=output)
    table, _ = pipeline.draw("table3_accuracy", [output], tmp_path)
    assert set(pl.read_csv(table).filter(policy="model", metric="solved")["accuracy"]) == {1.0}
    sampled = evaluate_model(lambda prompts: [*map(rest.get, prompts)], data, "pass_at_k", config=config)
    assert set(sampled.filter(policy="model")["solved"]) == {4}


def test_bad_completions_are_graded_as_verify_grades_them(place, rest, config):
    bad = [None, "", ".", "é\n", "=.1", "=" * 70, "q", " =", "=.", ">", "__1"]
    texts = {prompt: [*bad, own][row % (len(bad) + 1)] for row, (prompt, own) in enumerate(rest.items())}
    results = evaluate_model(lambda prompts: list(map(texts.get, prompts)), place / "dataset", config=config)
    results = results.filter(policy="model")
    rows = results.select("program", "prompt_length", "question").iter_rows()
    tasks = [Task(program[:length], program[length:], question) for program, length, question in rows]
    verdicts = verify(tasks, [texts[task.prompt] for task in tasks])
    assert results["solved"].to_list() == [verdict.solved for verdict in verdicts]
    assert results["verified"].to_list() == [verdict.verified for verdict in verdicts]
    assert len({verdict.reason for verdict in verdicts}) >= 6


@pytest.mark.parametrize(("size", "expected"), [(None, 512), (7, 7)])
def test_a_function_is_asked_for_so_many_completions_at_a_time(place, size, expected):
    changes = {"evaluate.batch_size": size, "evaluate.pass_at_k.samples": 40}
    config, most = load_config(place / "config.yaml", changes), []
    evaluate_model(
        lambda prompts: most.append(len(prompts)) or prompts, place / "dataset", "pass_at_k", config=config
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
    assert note.startswith("The function was asked about 28 prompts, the first is '")


WRONG = "complete: must return a list of .*, one for each prompt, got "
SHAPE = r"next_logits: must return numbers without NaN, shape \(\d+, 65\), got "


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
        ({"complete": "models/laptop"}, "complete: must be a function of a list of prompts, got str$"),
        ({"next_logits": 3}, "next_logits: must be a function of a list of prompts, got int"),
        ({"next_logits": lambda p: np.zeros((len(p), 66))}, SHAPE + r"float64, shape \(\d+, 66\)"),
        ({"next_logits": lambda p: [["a"] * 65] * len(p)}, SHAPE + "<U1"),
        ({"next_logits": lambda p: torch.full((len(p), 65), torch.nan)}, SHAPE),
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


@pytest.mark.parametrize("experiment", ["loss", "curve", "probe"])
def test_an_experiment_that_reads_more_says_so(place, experiment):
    message = f"{experiment}: needs .*, which no function gives; choose {', '.join(EXPERIMENTS)}$"
    with pytest.raises(InputError, match=message):
        evaluate_model(lambda prompts: prompts, place / "dataset", experiment)


def test_the_first_instruction_is_the_next_token():
    model = External(lambda prompts: ["=", "", None, ".", "é"], None, 9)
    prompts = Programs.from_strings(["34+7"] * 5)
    assert model.next_tokens(prompts).tolist() == [isa.TOKEN_ID["="], isa.END_ID, -1, isa.END_ID, -1]
    with pytest.raises(InputError, match="next_logits: is missing; give a function that returns logits"):
        model.next_logits(prompts)
