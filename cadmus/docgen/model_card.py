"""The model card of an export, in the format of the Hugging Face hub, from files alone."""

import json
from pathlib import Path
from string import Template
from typing import Any

import polars as pl

from cadmus import isa
from cadmus.common.files import replacing
from cadmus.config import TEMPLATES, Config
from cadmus.docgen import hub
from cadmus.errors import InputError
from cadmus.evaluate.intervals import as_text
from cadmus.evaluate.results import METRICS, SOLVE, accuracy_by, read_results
from cadmus.figures import table3_accuracy, tables
from cadmus.model import METADATA, WEIGHTS
from cadmus.model.export import read_metadata, trained_config, weights_digest

TASK = "text-generation"
METRIC_TYPES = {"exact": "exact_match"}
"""What the hub calls a metric, where it is no plain share of right answers."""
NEEDED = ("config", "data_digest", "steps", "programs", "tokens", "flops", "device", "cores")
"""What the card takes from ``meta.json`` besides what every export has."""
OPERATIONAL = {"checkpoint_every", "keep_checkpoints", "snapshots", "micro_batch_size", "row_length"}
"""Fields of the section train that do not decide what is learnt."""

TEXT = Template("""\
# Cadmus, run $name

A decoder of $parameters parameters that completes programs of the stack machine of Cadmus. Its vocabulary is
the machine's $vocabulary instructions, one character each; `.` ends a program. A program is *true* if it
leaves at least one value and none of them is 0 or NAN. The model was trained on nothing but true programs.

## Use

With `transformers` alone; `MODEL` is the directory of this model:

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("MODEL")
model = AutoModelForCausalLM.from_pretrained("MODEL")
prefix = tokenizer("62*4+54*4-", return_tensors="pt", return_token_type_ids=False)
program = model.generate(**prefix, do_sample=False, max_new_tokens=$max_length)
print(tokenizer.decode(program[0]))
```

With Cadmus, which also runs the program and shows the probabilities of each step:
`cadmus complete '62*4+54*4-' --model MODEL`.

## Model

$model

## Data

$programs training programs ($epoch epochs were trained) of the sub-problems in the table below, each drawn
at random from a template and executed. Compared numbers lie in [$low, $high], programs have at most
$max_length instructions. What a program hashes to decides whether it is for training, validation or test,
so no test program was trained on.$rules

$data

## Training

$compute

$recipe

## Accuracy

Of held-out programs, each cut where its template asks something and completed greedily, with Wilson 95 %
intervals. *Verified*: the completed program is true when executed, the model ended it, and the completion
drops nothing. *Exact*: it is the held-out program. *Next token*: the first instruction is.

$accuracy

## Limits

- Being likely is not being true: a verdict needs the machine, as `cadmus complete` and `cadmus run` ask it.
- Weakest here is *$weakest*: $worst verified.
- Compared numbers outside [$low, $high] and programs of more than $max_length instructions were never seen.
- It knows the instruction set `$isa_digest` and nothing else: no other language, and no text.
- Of a random program there are many true completions, so its next token can hardly be foreseen.
""")


def write_model_card(directory: Path, completions: Path, metrics: Path, output: Path) -> None:
    """Write the card of a model.

    Args:
        directory: the export, as :func:`cadmus.train.loop.train` writes it; what the card says of config and
            data it takes from there.
        completions: what ``cadmus evaluate`` wrote of this model.
        metrics: the metrics of its training.
        output: the file to write; README.md in ``directory`` is what the hub shows of a model.

    Raises:
        InputError: a file is missing, damaged, or of another model, or the card cannot be written.
    """
    text = model_card(directory, completions, metrics)
    with replacing(output) as temporary:
        temporary.write_text(text, encoding="utf-8")


def model_card(directory: Path, completions: Path, metrics: Path) -> str:
    """The card of a model, see :func:`write_model_card`."""
    noted = read_metadata(directory)
    place = directory / METADATA
    for key in NEEDED:
        if key not in noted:
            raise InputError(f"{place}: says nothing of {key}; a card is for a model that was trained here")
    config = trained_config(directory)
    assert config is not None, "noted, as was just seen"
    graded = _completions(completions, directory)
    steps = _metrics(metrics, noted["steps"])
    seconds = steps["seconds"][-1]
    flops = noted["flops"]
    # Equality programs are there twice, by another name.
    trained = graded.filter(pl.col("template").is_in(TEMPLATES)).unique("template")
    trained_on = int(trained["training_programs"].sum())
    worst = accuracy_by(graded, "template").filter(metric="verified").sort("accuracy").row(0, named=True)
    last = steps.select("loss").tail(max(1, len(steps) // 100))
    ood = ", ".join(f"`{name}`" for name in config.dataset.ood)
    text = TEXT.substitute(
        name=config.name,
        parameters=f"{noted['parameters']:,}",
        vocabulary=isa.VOCABULARY_SIZE,
        max_length=config.dataset.max_length,
        model=_listed(
            {
                "architecture": "GPT-NeoX with sequential residuals, full rotary positions, LayerNorm, GELU",
                **config.model.model_dump(),
                "weights": f"fp32, SHA-256 `{weights_digest(directory)}…`",
                "instruction set": f"`{noted['isa_digest']}`",
            }
        ),
        programs=f"{trained_on:,}",
        epoch=f"{noted['programs'] / trained_on:.2f}",
        low=config.dataset.values.low,
        high=config.dataset.values.high,
        rules=f" Programs that match the rules {ood} were kept out as well." if ood else "",
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
                "FLOPs": f"{flops:.3g} (forward and backward passes, padding left out)",
                "time": f"{seconds:,.0f} s on {_device(noted)}",
                "speed": f"{noted['tokens'] / seconds:,.0f} tokens/s, {flops / seconds:.3g} FLOP/s",
                "last loss": f"{last.mean().item():.4f} nats a token, mean of the last {len(last)} steps",
                "made by": f"commit `{noted['commit']}`; "
                + ", ".join(f"{name} {version}" for name, version in noted["versions"].items()),
            }
        ),
        recipe=_listed(config.train.model_dump(exclude=OPERATIONAL)),
        accuracy=tables.render(table3_accuracy.table(graded))[0].strip(),
        weakest=worst["template"].replace("_", " "),
        worst=as_text(worst["accuracy"], worst["low"], worst["high"]),
        isa_digest=noted["isa_digest"],
    )
    return hub.card(_front_matter(config, graded, pl.read_parquet_metadata(completions).get("split")), text)


def _front_matter(config: Config, graded: pl.DataFrame, split: str | None) -> dict[str, Any]:
    accuracies = accuracy_by(graded, "template").filter(pl.col("accuracy").is_not_null())
    return {
        "license": hub.LICENSE,
        "library_name": "transformers",
        "pipeline_tag": TASK,
        "tags": [*hub.TAGS, "gpt_neox"],
        "metrics": sorted({"accuracy", *METRIC_TYPES.values()}),
        "model-index": [
            {
                "name": f"cadmus-{config.name}",
                "results": [
                    _result(config, template, split, of_template)
                    for (template,), of_template in accuracies.group_by("template", maintain_order=True)
                ],
            }
        ],
    }


def _result(config: Config, template: object, split: str | None, accuracies: pl.DataFrame) -> dict[str, Any]:
    """What the hub is told of the accuracy on one template."""
    of_dataset = "equality" if template == SOLVE else template
    return {
        "task": {"type": TASK, "name": "program completion"},
        "dataset": {
            # The hub wants an identifier, and where the dataset is uploaded to is not known here.
            "type": f"cadmus-{config.name}",
            "name": f"Cadmus, run {config.name}: {str(template).replace('_', ' ')}",
            "config": of_dataset,
            **({"split": split} if split else {}),
        },
        "metrics": [
            {
                "type": METRIC_TYPES.get(metric, "accuracy"),
                "name": METRICS[metric],
                "value": round(accuracy, 4),
            }
            for metric, accuracy in accuracies.select("metric", "accuracy").iter_rows()
        ],
    }


def _completions(path: Path, directory: Path) -> pl.DataFrame:
    """What ``cadmus evaluate`` wrote, of this model."""
    graded = read_results(path, table3_accuracy.COLUMNS[0])
    ours = weights_digest(directory)
    found = pl.read_parquet_metadata(path).get("model_digest") if path.suffix == ".parquet" else None
    if found != ours:
        raise InputError(
            f"{path}: completions of the model {found or 'of no name'}, {directory / WEIGHTS} is {ours}; "
            "evaluate it again"
        )
    return graded


def _metrics(path: Path, last: int) -> pl.DataFrame:
    """The metrics of a training of ``last`` steps, in their order."""
    steps = read_results(path, ("step", "loss", "seconds")).sort("step")
    if steps["step"][-1] != last:
        raise InputError(
            f"{path}: ends at step {steps['step'][-1]}, the model was trained for {last} steps; "
            "these are the metrics of another training"
        )
    return steps


def _device(noted: dict[str, Any]) -> str:
    return f"{noted['cores']} CPU cores" if noted["device"] == "cpu" else noted["device"]


def _listed(values: dict[str, Any]) -> str:
    """Values as a Markdown list, one a line."""
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    return "\n".join(f"- {key.replace('_', ' ')}: {text}" for key, text in texts.items())
