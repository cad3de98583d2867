"""Verdicts of Cadmus as a reward of TRL, and GRPO of a model of Cadmus with it."""

import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import click
import numpy as np

from cadmus import Cadmus, Task, prefix_values, tasks, verify
from cadmus.errors import InputError
from cadmus.evaluate.prompts.language_models import completion_in, question_text
from cadmus.evaluate.statistics.intervals import as_text, bootstrap, gap_as_text, gap_interval
from cadmus.model import find_model
from cadmus.model.export import weights_digest
from cadmus.store import check_writable, commit

COUNT = click.IntRange(1)
Reward = Callable[..., list[float]]


def row(task: Task, alphabet: str = "program") -> dict[str, str]:
    """Return a row of the dataset of a trainer: the columns that :func:`solved` reads."""
    return {
        **task._asdict(),
        "program": task.prompt,
        "prompt": question_text(task.prompt, task.question, alphabet),
    }


def solved(end: int, alphabet: str = "program", dataset: Mapping[str, Any] | None = None) -> Reward:
    """Return a reward function: 1 for a completion that solves the question of its row, else 0.

    Of a conversation, the text of the last message is the completion. No completion raises an error.

    Args:
        end: token id of the end; a completion without it was cut off.
        alphabet, dataset: those of the rows and tasks.
    """

    def solved(
        completions: list[Any],
        completion_ids: list[list[int]],
        program: list[str],
        reference: list[str],
        question: list[str],
        **_: object,
    ) -> list[float]:
        texts = [completion_in(_last_text(each), alphabet) for each in completions]
        ended = [end in ids for ids in completion_ids]
        asked = list(map(Task, program, reference, question))
        verdicts = verify(asked, texts, ended=ended, dataset=dataset)
        return [float(verdict.solved) for verdict in verdicts]

    return solved


def _last_text(completion: Any) -> Any:
    """Return the content of the last message, if a completion is a conversation."""
    if not isinstance(completion, list):
        return completion
    return completion[-1].get("content") if completion else None


def valued(end: int, alphabet: str = "program", dataset: Mapping[str, Any] | None = None) -> Reward:
    """Return a process reward: the mean value after the tokens of a completion, the end included.

    TRL takes one number per completion. This one is 1 for a solved completion; for another it is the fraction
    of its tokens after which it could still be solved. For an induction, values are probabilities. Arguments
    are those of :func:`solved`.
    """

    def valued(
        completions: list[Any],
        completion_ids: list[list[int]],
        program: list[str],
        reference: list[str],
        question: list[str],
        split: list[str],
        **_: object,
    ) -> list[float]:
        rewards = []
        for task, completion, ids in zip(
            map(Task, program, reference, question, split), completions, completion_ids, strict=True
        ):
            text = completion_in(_last_text(completion), alphabet)
            values = prefix_values(task, text, dataset=dataset).probability[1:]
            # One that was cut off never ends.
            values[-1] *= end in ids
            rewards.append(float(values.mean()))
        return rewards

    return valued


def measure(directory: Path, held_out: list[Task], dataset: Mapping[str, Any] | None = None) -> np.ndarray:
    """Return which tasks the greedy completions of an exported model solve: bool, shape (n,)."""
    completions, ended = Cadmus.load(directory).complete([task.prompt for task in held_out])
    return _solved(held_out, completions.to_strings(), ended, dataset)


def _solved(
    found: list[Task], completions: list[str], ended: Any, dataset: Mapping[str, Any] | None
) -> np.ndarray:
    verdicts = verify(found, completions, ended=ended, dataset=dataset)
    return np.array([verdict.solved for verdict in verdicts])


def constant(training: list[Task], held_out: list[Task], dataset: Mapping[str, Any]) -> np.ndarray:
    """Return which held-out tasks the most frequent reference of training tasks solves: bool, shape (n,)."""
    completion = Counter(task.reference for task in training).most_common(1)[0][0]
    return _solved(held_out, [completion] * len(held_out), True, dataset)


@click.command()
@click.option(
    "--model", type=click.Path(path_type=Path), help="Export of a model; by default the shipped one."
)
@click.option(
    "--output", type=click.Path(path_type=Path), required=True, help="Directory of the trained model."
)
@click.option("--template", default="equality", show_default=True)
@click.option("--question", help="By default the one of the template's name.")
@click.option(
    "--dataset", default="{}", help="Difficulty, as JSON: fields of the section dataset of a config."
)
@click.option("--steps", type=COUNT, default=200, show_default=True)
@click.option("--prompts", type=COUNT, default=32, show_default=True, help="Prompts per step.")
@click.option("--samples", type=click.IntRange(2), default=8, show_default=True, help="Samples per prompt.")
@click.option("--tokens", type=COUNT, default=24, show_default=True, help="Most tokens of a completion.")
@click.option("--learning-rate", type=click.FloatRange(0, min_open=True), default=1e-4, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--held-out", type=COUNT, default=1000, show_default=True, help="Test programs to measure on.")
def grpo(
    model: Path | None,
    output: Path,
    template: str,
    question: str | None,
    dataset: str,
    steps: int,
    prompts: int,
    samples: int,
    tokens: int,
    learning_rate: float,
    seed: int,
    held_out: int,
) -> None:
    """Train a model with GRPO on train programs, and measure *solved* on test programs before and after."""
    if not math.isfinite(learning_rate):
        raise click.BadParameter("must be finite", param_hint="'--learning-rate'")
    try:
        difficulty = json.loads(dataset)
    except (ValueError, RecursionError) as error:
        raise InputError(f"--dataset: not valid JSON ({error})") from None
    check_writable(output, directory=True)
    source = find_model(model)
    options = {"question": question, "seed": seed, "dataset": difficulty}
    training = list(islice(tasks(template, "train", **options), steps * prompts))
    test = list(islice(tasks(template, "test", **options), held_out))
    try:
        from datasets import Dataset
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from trl import GRPOConfig, GRPOTrainer
    except ModuleNotFoundError:
        raise InputError("cadmus_trl needs trl, which is not installed; pip install trl") from None
    before = measure(source, test, difficulty)
    tokenizer = AutoTokenizer.from_pretrained(source, padding_side="left")
    trainer = GRPOTrainer(
        AutoModelForCausalLM.from_pretrained(source, dtype="float32"),
        solved(tokenizer.eos_token_id, dataset=difficulty),
        args=GRPOConfig(
            output_dir=str(output),
            max_steps=steps,
            per_device_train_batch_size=prompts * samples,
            num_generations=samples,
            max_completion_length=tokens,
            learning_rate=learning_rate,
            lr_scheduler_type="constant_with_warmup",
            warmup_steps=min(10, steps),
            seed=seed,
            logging_steps=10,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
        ),
        train_dataset=Dataset.from_list([row(task) for task in training]),
        processing_class=tokenizer,
    )
    trainer.train()
    trainer.save_model(str(output))
    after = measure(output, test, difficulty)
    measured = {"after": after, "before": before, "baseline": constant(training, test, difficulty)}
    counts, programs = np.column_stack(list(measured.values())).astype(float), np.ones(held_out)
    result = {
        name: as_text(
            float(right.mean()), *(float(bound[0]) for bound in bootstrap(counts[:, [i]], programs))
        )
        for i, (name, right) in enumerate(measured.items())
    }
    gap = gap_as_text(float(after.mean() - before.mean()), *gap_interval(counts[:, :2], programs))
    result |= {
        "gap": gap,
        "config": {
            name: str(value) if isinstance(value, Path) else value
            for name, value in click.get_current_context().params.items()
        },
        "weights": weights_digest(source),
        "commit": commit(),
    }
    (output / "grpo.json").write_text(json.dumps(result, indent=2) + "\n")
    click.echo(
        f"solved: before {result['before']}, after {result['after']}, gap {gap} points; "
        f"most frequent completion {result['baseline']}"
    )


def main() -> None:
    """Run the command; bad input is one line."""
    try:
        grpo()
    except InputError as error:
        click.echo(f"cadmus-grpo: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
