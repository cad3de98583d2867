"""The model card of an export, written from files only."""

import json
from pathlib import Path
from typing import Any

import polars as pl
from huggingface_hub import EvalResult, ModelCardData

from cadmus import experiments, isa
from cadmus.config import TEMPLATES, Config
from cadmus.errors import InputError
from cadmus.evaluate.baselines import BASELINES
from cadmus.evaluate.questions import definitions, title
from cadmus.evaluate.results import CEILING, METRICS, accuracy_by, read_results
from cadmus.figures import table3_accuracy, tables
from cadmus.model import METADATA
from cadmus.model.export import read_metadata, trained_config, weights_digest
from cadmus.pages import LICENSE, TAGS, card

# Fields of the config section train that do not affect what is learned.
OPERATIONAL = {"checkpoint_every", "keep_checkpoints", "snapshots", "micro_batch_size", "row_length"}

TEXT = """\
# Cadmus, run {config.name}

A decoder with {size:,} parameters that completes programs of the Cadmus stack machine. Its vocabulary is
the machine's {vocabulary} instructions, one character each; `.` ends a program. A program is *true* if it
leaves at least one value on the stack and none of them is 0 or NAN. The model was trained on true programs
only.

## Use

With `transformers` only; `MODEL` is the directory of this model:

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("MODEL")
model = AutoModelForCausalLM.from_pretrained("MODEL")
prefixes = tokenizer(["62*4+54*4-", "34+7"], padding=True, return_tensors="pt")
for program in model.generate(**prefixes):
    print(tokenizer.decode(program, skip_special_tokens=True))
```

By default, completion is greedy and ends after {longest} new tokens at most.

With Cadmus, which also runs the program and shows the probabilities of each step:
`cadmus complete '62*4+54*4-' --model MODEL`.

## Model

- architecture: GPT-NeoX with sequential residuals, full rotary positions, LayerNorm
{model}
- weights: fp32, SHA-256 `{weights}…`
- instruction set: `{noted[cadmus][isa_digest]}`

## Data

{trained:,} training programs ({epoch:.2f} epochs) of the sub-problems in the table below, each sampled from a
template and executed. Compared values are in [{low}, {high}]; programs have at most {longest} instructions.
The hash of a program decides between training, validation and test, so no test program was trained on.{rules}

- content: `{noted[data_digest]}`
- seed and section dataset: `{dataset_digest}`
- seed: {config.seed}

## Training

- programs seen: {noted[programs]:,}
- tokens seen: {noted[tokens]:,}
- FLOPs: {noted[flops]:.3g} (forward and backward, without padding)
- time: {noted[seconds]:,.0f} s on {device}
- speed: {tokens_per_second:,.0f} tokens/s, {flops_per_second:.3g} FLOP/s
{last_loss}- made by: commit `{noted[cadmus][commit]}`; {versions}

{recipe}

## Accuracy

On test programs, completed greedily, with 95% bootstrap intervals. *Solved*: the completed program is true
when executed, the model ended it, the completion drops nothing from the stack, and it answers the question:

{questions}

{below}The baselines are graded alike: {baselines}. *Gap*: points between the model and the best of them.
*Exact*: the completion is that of the test program. *Next token*: its first instruction is. *Verified*, the
lenient figure: everything but the answer. *Best possible*: the accuracy of an exact Bayesian learner, below
100% for induction alone, as examples leave several functions open.

{accuracy}

## Limits

- A likely program need not be true; `cadmus complete` and `cadmus run` execute it to find out.
- Never seen: compared values outside [{low}, {high}] and programs of more than {longest} instructions.
- It knows the instruction set `{noted[cadmus][isa_digest]}` only: no other language, and no text.
- A random program has many true completions, so its next token is hardly predictable.
"""


def model_card(directory: Path, completions: Path, metrics: Path | None) -> str:
    """Return the model card of an export, from it and the output of ``cadmus evaluate completions``.

    Without the ``metrics`` of its training, the card has no last loss.
    """
    config = trained_config(directory)
    if config is None:
        problem = "config: is missing; only models from `cadmus train` have cards"
        raise InputError(f"{directory / METADATA}: {problem}")
    noted = read_metadata(directory)
    weights = weights_digest(directory)
    graded, origin = read_results(completions, experiments.columns("completions"))
    for key, ours in (("model_digest", weights), ("data_digest", noted["data_digest"])):
        if origin.get(key) != ours:
            problem = f"is {origin.get(key)}, but that of {directory} is {ours}"
            raise InputError(f"{completions}: {key}: {problem}; evaluate this model on its own dataset")
    trained_on = sum(getattr(config.dataset.templates, name).train for name in TEMPLATES)
    below = table3_accuracy.below(table3_accuracy.data(graded))
    ood = ", ".join(f"`{name}`" for name in config.dataset.ood)
    text = TEXT.format(
        config=config,
        noted=noted,
        size=noted["parameters"],
        vocabulary=isa.VOCABULARY_SIZE,
        longest=config.dataset.max_length,
        low=config.dataset.values.low,
        high=config.dataset.values.high,
        model=_listed(config.model.model_dump()),
        weights=weights,
        trained=trained_on,
        epoch=noted["programs"] / trained_on,
        rules=f" Programs that match the rules {ood} were excluded as well." if ood else "",
        dataset_digest=config.dataset_digest(),
        device=f"{noted['cores']} CPU cores" if noted["device"] == "cpu" else noted["device"],
        tokens_per_second=noted["tokens"] / noted["seconds"],
        flops_per_second=noted["flops"] / noted["seconds"],
        last_loss="" if metrics is None else _last_loss(metrics, noted["steps"]),
        versions=", ".join(f"{name} {version}" for name, version in noted["cadmus"]["versions"].items()),
        recipe=_listed(config.train.model_dump(exclude=OPERATIONAL)),
        questions="\n".join(
            f"- *{name}*, the prompt ends {prompt}: {condition}." for name, prompt, condition in definitions()
        ),
        below=f"{below}\n\n" if below else "",
        baselines=", ".join(map(tables.title, BASELINES)),
        accuracy=tables.render(table3_accuracy.table(graded)).strip(),
    )
    return card(_front_matter(config, graded, origin.get("split")).to_yaml(), text)


def _front_matter(config: Config, graded: pl.DataFrame, split: str | None) -> ModelCardData:
    results = []
    accuracies = accuracy_by(graded.filter(policy="model").drop(CEILING), "template", "question")
    for row in accuracies.iter_rows(named=True):
        # The Hub merges the results of one dataset, so a second question is in the names of the metrics.
        rest = title(row["question"]).partition(", ")[2]
        results.append(
            EvalResult(
                task_type="text-generation",
                task_name="program completion",
                # The Hub needs an identifier; the dataset's repository is unknown here.
                dataset_type=f"cadmus-{config.name}",
                dataset_name=f"Cadmus, run {config.name}: {title(row['template'])}",
                dataset_config=row["template"],
                dataset_split=split,
                metric_type="exact_match" if row["metric"] == "exact" else "accuracy",
                metric_name=METRICS[row["metric"]] + (f", {rest}" if rest else ""),
                metric_value=round(row["accuracy"], 4),
            )
        )
    return ModelCardData(
        model_name=f"cadmus-{config.name}",
        license=LICENSE,
        library_name="transformers",
        pipeline_tag="text-generation",
        tags=[*TAGS, "gpt_neox"],
        metrics=["accuracy", "exact_match"],
        eval_results=results,
    )


def _last_loss(metrics: Path, last: int) -> str:
    """Return the mean loss of the last hundredth of a training of ``last`` steps."""
    steps = read_results(metrics, experiments.columns("metrics"))[0].sort("step")
    if steps["step"][-1] != last:
        problem = f"ends at {steps['step'][-1]}, but the model was trained for {last}"
        raise InputError(f"{metrics}: step: {problem}; give the metrics of its training")
    ending = steps["loss"].tail(max(1, len(steps) // 100)).to_numpy()
    return f"- last loss: {ending.mean():.4f} nats per token, mean of the last {len(ending)} steps\n"


def _listed(values: dict[str, Any]) -> str:
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    return "\n".join(f"- {key.replace('_', ' ')}: {text}" for key, text in texts.items())
