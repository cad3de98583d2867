"""Model card of an export for the Hugging Face Hub, written from files only."""

import json
from pathlib import Path
from string import Template
from typing import Any

import polars as pl
from huggingface_hub import EvalResult, ModelCardData

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
# Types of metrics on the Hub; the others are accuracies.
METRIC_TYPES = {"exact": "exact_match"}
# Keys of meta.json that the card needs beyond those of every export.
NEEDED = ("config", "data_digest", "steps", "programs", "tokens", "flops", "device", "cores")
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
prefix = tokenizer("62*4+54*4-", return_tensors="pt", return_token_type_ids=False)
program = model.generate(**prefix, do_sample=False, max_new_tokens=$max_length)
print(tokenizer.decode(program[0]))
```

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

On test programs, each cut at its template's question and completed greedily, with 95% Wilson intervals.
*Verified*: the completed program is true when executed, the model ended it, and the completion drops nothing
from the stack. *Exact*: it equals the test program. *Next token*: the first instruction does.

$accuracy

## Limits

- A likely program need not be true; `cadmus complete` and `cadmus run` execute it to find out.
- Lowest accuracy: *$weakest*, $worst verified.
- Never seen: compared values outside [$low, $high] and programs of more than $max_length instructions.
- It knows the instruction set `$isa_digest` only: no other language, and no text.
- A random program has many true completions, so its next token is hardly predictable.
""")


def write_model_card(directory: Path, completions: Path, metrics: Path, output: Path) -> None:
    """Write the model card.

    Args:
        directory: The export of :func:`cadmus.train.loop.train`, with its config and data digest.
        completions: The output of ``cadmus evaluate`` for this model.
        metrics: The metrics of its training.
        output: The file to write; the Hub shows README.md in ``directory``.

    Raises:
        InputError: A file is missing, damaged or of another model, or the card cannot be written.
    """
    text = model_card(directory, completions, metrics)
    with replacing(output) as temporary:
        temporary.write_text(text, encoding="utf-8")


def model_card(directory: Path, completions: Path, metrics: Path) -> str:
    """Return the text of the model card; see :func:`write_model_card`."""
    noted = read_metadata(directory)
    place = directory / METADATA
    for key in NEEDED:
        if key not in noted:
            raise InputError(f"{place}: {key}: is missing; only models from `cadmus train` have cards")
    config = trained_config(directory)
    assert config is not None, "checked above"
    graded = _completions(completions, directory)
    steps = _metrics(metrics, noted["steps"])
    seconds = steps["seconds"][-1]
    flops = noted["flops"]
    # Drops equality_solve, the equality programs again.
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
                "time": f"{seconds:,.0f} s on {_device(noted)}",
                "speed": f"{noted['tokens'] / seconds:,.0f} tokens/s, {flops / seconds:.3g} FLOP/s",
                "last loss": f"{last.mean().item():.4f} nats per token, mean of the last {len(last)} steps",
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


def _front_matter(config: Config, graded: pl.DataFrame, split: str | None) -> ModelCardData:
    accuracies = accuracy_by(graded, "template").filter(pl.col("accuracy").is_not_null())
    results = []
    for row in accuracies.iter_rows(named=True):
        # The Hub merges the results of one dataset, so its second task is in the names of the metrics.
        solve = row["template"] == SOLVE
        template = "equality" if solve else row["template"]
        results.append(
            EvalResult(
                task_type=TASK,
                task_name="program completion",
                # The Hub needs an identifier; the dataset's repository is unknown here.
                dataset_type=f"cadmus-{config.name}",
                dataset_name=f"Cadmus, run {config.name}: {template.replace('_', ' ')}",
                dataset_config=template,
                dataset_split=split,
                metric_type=METRIC_TYPES.get(row["metric"], "accuracy"),
                metric_name=METRICS[row["metric"]] + (", solve" if solve else ""),
                metric_value=round(row["accuracy"], 4),
            )
        )
    return ModelCardData(
        model_name=f"cadmus-{config.name}",
        license=hub.LICENSE,
        library_name="transformers",
        pipeline_tag=TASK,
        tags=[*hub.TAGS, "gpt_neox"],
        metrics=sorted({"accuracy", *METRIC_TYPES.values()}),
        eval_results=results,
    )


def _completions(path: Path, directory: Path) -> pl.DataFrame:
    """Return the results of ``cadmus evaluate``, checked to be of this model."""
    graded = read_results(path, table3_accuracy.COLUMNS[0])
    ours = weights_digest(directory)
    found = pl.read_parquet_metadata(path).get("model_digest") if path.suffix == ".parquet" else None
    if found != ours:
        raise InputError(
            f"{path}: model_digest: is {found}, but {directory / WEIGHTS} has {ours}; evaluate again"
        )
    return graded


def _metrics(path: Path, last: int) -> pl.DataFrame:
    """Return the metrics of a training of ``last`` steps, sorted by step."""
    steps = read_results(path, ("step", "loss", "seconds")).sort("step")
    if steps["step"][-1] != last:
        raise InputError(
            f"{path}: step: ends at {steps['step'][-1]}, but the model was trained for {last}; "
            "give the metrics of its training"
        )
    return steps


def _device(noted: dict[str, Any]) -> str:
    return f"{noted['cores']} CPU cores" if noted["device"] == "cpu" else noted["device"]


def _listed(values: dict[str, Any]) -> str:
    """Return a Markdown list."""
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    return "\n".join(f"- {key.replace('_', ' ')}: {text}" for key, text in texts.items())
