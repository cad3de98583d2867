"""The model card of an export, written from files only."""

import json
from pathlib import Path
from string import Template
from typing import Any

import polars as pl
from huggingface_hub import EvalResult, ModelCardData

from cadmus import isa, store
from cadmus.config import TEMPLATES, Config
from cadmus.errors import InputError
from cadmus.evaluate.baselines import BASELINES
from cadmus.evaluate.questions import definitions, title
from cadmus.evaluate.results import METRICS, accuracy_by, read_results
from cadmus.figures import table3_accuracy, tables
from cadmus.model import METADATA
from cadmus.model.export import read_metadata, trained_config, weights_digest
from cadmus.pages import LICENSE, TAGS, card

TASK = "text-generation"
# Fields of the config section train that do not affect what is learned.
OPERATIONAL = {"checkpoint_every", "keep_checkpoints", "snapshots", "micro_batch_size", "row_length"}

TEXT = Template("""\
# Cadmus, run $name

A decoder with $parameters parameters that completes programs of the Cadmus stack machine. Its vocabulary is
the machine's $vocabulary instructions, one character each; `.` ends a program. A program is *true* if it
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

By default, completion is greedy and ends after $max_length new tokens at most.

With Cadmus, which also runs the program and shows the probabilities of each step:
`cadmus complete '62*4+54*4-' --model MODEL`.

## Model

$model

## Data

$programs training programs ($epoch epochs) of the sub-problems in the table below, each sampled from a
template and executed. Compared values are in [$low, $high]; programs have at most $max_length instructions.
The hash of a program decides between training, validation and test, so no test program was trained on.$rules

$data

## Training

$compute

$recipe

## Accuracy

On test programs, completed greedily, with 95% bootstrap intervals. *Solved*: the completed program is true
when executed, the model ended it, the completion drops nothing from the stack, and it answers the question:

$questions

${below}The baselines are graded alike: $baselines. *Gap*: points between the model and the best of them.
*Exact*: the completion is that of the test program. *Next token*: its first instruction is. *Verified*, the
lenient figure: everything but the answer.

$accuracy

## Limits

- A likely program need not be true; `cadmus complete` and `cadmus run` execute it to find out.
- Never seen: compared values outside [$low, $high] and programs of more than $max_length instructions.
- It knows the instruction set `$isa_digest` only: no other language, and no text.
- A random program has many true completions, so its next token is hardly predictable.
""")


def model_card(directory: Path, completions: Path, metrics: Path | None) -> str:
    """Return the model card.

    Args:
        directory: the export of :func:`cadmus.train.loop.train`, with its config and data digest.
        completions: the output of ``cadmus evaluate completions`` for this model.
        metrics: the metrics of its training; None leaves the last loss out.
    """
    config = trained_config(directory)
    if config is None:
        raise InputError(
            f"{directory / METADATA}: config: is missing; only models from `cadmus train` have cards"
        )
    noted = read_metadata(directory)
    header = noted["cadmus"]
    weights = weights_digest(directory)
    graded = read_results(completions, table3_accuracy.COLUMNS[0])
    _, origin = store.read_parquet(completions, "results")
    for key, ours in (("model_digest", weights), ("data_digest", noted["data_digest"])):
        if origin.get(key) != ours:
            raise InputError(
                f"{completions}: {key}: is {origin.get(key)}, but that of {directory} is {ours}; "
                "evaluate this model on its own dataset"
            )
    flops, seconds = noted["flops"], noted["seconds"]
    trained_on = sum(getattr(config.dataset.templates, name).train for name in TEMPLATES)
    below = table3_accuracy.below(table3_accuracy.data(graded))
    ood = ", ".join(f"`{name}`" for name in config.dataset.ood)
    text = TEXT.substitute(
        name=config.name,
        parameters=f"{noted['parameters']:,}",
        vocabulary=isa.VOCABULARY_SIZE,
        max_length=config.dataset.max_length,
        model=_listed(
            {
                "architecture": "GPT-NeoX with sequential residuals, full rotary positions, LayerNorm",
                **config.model.model_dump(),
                "weights": f"fp32, SHA-256 `{weights}…`",
                "instruction set": f"`{header['isa_digest']}`",
            }
        ),
        programs=f"{trained_on:,}",
        epoch=f"{noted['programs'] / trained_on:.2f}",
        low=config.dataset.values.low,
        high=config.dataset.values.high,
        rules=f" Programs that match the rules {ood} were excluded as well." if ood else "",
        data=_listed(
            {
                "content": f"`{noted['data_digest']}`",
                "seed and section dataset": f"`{config.dataset_digest()}`",
                "seed": config.seed,
            }
        ),
        compute=_listed(
            {
                "programs seen": f"{noted['programs']:,}",
                "tokens seen": f"{noted['tokens']:,}",
                "FLOPs": f"{flops:.3g} (forward and backward, without padding)",
                "time": f"{seconds:,.0f} s on "
                + (f"{noted['cores']} CPU cores" if noted["device"] == "cpu" else noted["device"]),
                "speed": f"{noted['tokens'] / seconds:,.0f} tokens/s, {flops / seconds:.3g} FLOP/s",
                **({} if metrics is None else {"last loss": _last_loss(metrics, noted["steps"])}),
                "made by": f"commit `{header['commit']}`; "
                + ", ".join(f"{name} {version}" for name, version in header["versions"].items()),
            }
        ),
        recipe=_listed(config.train.model_dump(exclude=OPERATIONAL)),
        accuracy=tables.render(table3_accuracy.table(graded))[0].strip(),
        questions="\n".join(
            f"- *{name}*, the prompt ends {prompt}: {condition}." for name, prompt, condition in definitions()
        ),
        below=f"{below}\n\n" if below else "",
        baselines=", ".join(name.lower() for name in BASELINES.values()),
        isa_digest=header["isa_digest"],
    )
    return card(_front_matter(config, graded, origin.get("split")), text)


def _front_matter(config: Config, graded: pl.DataFrame, split: str | None) -> ModelCardData:
    results = []
    for row in accuracy_by(graded.filter(policy="model"), "template", "question").iter_rows(named=True):
        # The Hub merges the results of one dataset, so a second question is in the names of the metrics.
        rest = title(row["question"]).partition(", ")[2]
        results.append(
            EvalResult(
                task_type=TASK,
                task_name="program completion",
                # The Hub needs an identifier; the dataset's repository is unknown here.
                dataset_type=f"cadmus-{config.name}",
                dataset_name=f"Cadmus, run {config.name}: {row['template'].replace('_', ' ')}",
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
        pipeline_tag=TASK,
        tags=[*TAGS, "gpt_neox"],
        metrics=["accuracy", "exact_match"],
        eval_results=results,
    )


def _last_loss(metrics: Path, last: int) -> str:
    """Return the mean loss of the last hundredth of a training of ``last`` steps."""
    steps = read_results(metrics, ("step", "loss")).sort("step")
    if steps["step"][-1] != last:
        raise InputError(
            f"{metrics}: step: ends at {steps['step'][-1]}, but the model was trained for {last}; "
            "give the metrics of its training"
        )
    ending = steps["loss"].tail(max(1, len(steps) // 100)).to_numpy()
    return f"{ending.mean():.4f} nats per token, mean of the last {len(ending)} steps"


def _listed(values: dict[str, Any]) -> str:
    """Return a Markdown list."""
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    return "\n".join(f"- {key.replace('_', ' ')}: {text}" for key, text in texts.items())
