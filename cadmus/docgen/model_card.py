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
from cadmus.errors import InputError, naming, reading
from cadmus.evaluate.baselines import BASELINES
from cadmus.evaluate.questions import definitions, title
from cadmus.evaluate.results import METRICS, accuracy_by, read_results
from cadmus.figures import table3_accuracy, tables
from cadmus.model import METADATA, WEIGHTS
from cadmus.model.export import read_metadata, trained_config, weights_digest

TASK = "text-generation"
# Types of metrics on the Hub; the others are accuracies.
METRIC_TYPES = {"exact": "exact_match"}
# Keys of meta.json that the card needs beyond those of every export.
NEEDED = (
    "config",
    "data_digest",
    "parameters",
    "steps",
    "programs",
    "tokens",
    "flops",
    "seconds",
    "device",
    "cores",
)
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


def write_model_card(directory: Path, completions: Path, metrics: Path | None, output: Path) -> None:
    """Write the model card.

    Args:
        directory: The export of :func:`cadmus.train.loop.train`, with its config and data digest.
        completions: The output of ``cadmus evaluate completions`` for this model.
        metrics: The metrics of its training; None leaves the last loss out.
        output: The file to write; the Hub shows README.md in ``directory``.

    Raises:
        InputError: A file is missing, damaged or of another model, or the card cannot be written.
    """
    text = model_card(directory, completions, metrics)
    with replacing(output) as temporary:
        temporary.write_text(text, encoding="utf-8")


def model_card(directory: Path, completions: Path, metrics: Path | None) -> str:
    """Return the text of the model card; see :func:`write_model_card`."""
    noted = read_metadata(directory)
    place = directory / METADATA
    for key in NEEDED:
        if key not in noted:
            raise InputError(f"{place}: {key}: is missing; only models from `cadmus train` have cards")
    config = trained_config(directory)
    assert config is not None, "checked above"
    graded = _completions(completions, directory)
    flops, seconds = noted["flops"], noted["seconds"]
    trained_on = sum(getattr(config.dataset.templates, name).train for name in TEMPLATES)
    with naming(completions):
        accuracies = table3_accuracy.data(graded)
    solved = accuracies.filter(policy="model", metric="solved")
    if solved["gap"].has_nulls():
        raise InputError(f"{completions}: policy: has no baselines; evaluate again")
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
                "weights": f"fp32, SHA-256 `{weights_digest(directory)}…`",
                "instruction set": f"`{noted['cadmus']['isa_digest']}`",
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
                **_last_loss(metrics, noted["steps"]),
                "made by": f"commit `{noted['cadmus']['commit']}`; "
                + ", ".join(f"{name} {version}" for name, version in noted["cadmus"]["versions"].items()),
            }
        ),
        recipe=_listed(config.train.model_dump(exclude=OPERATIONAL)),
        accuracy=tables.render(table3_accuracy.table(graded))[0].strip(),
        questions="\n".join(
            f"- *{name}*, the prompt ends {prompt}: {condition}." for name, prompt, condition in definitions()
        ),
        below=f"{sentence}\n\n" if (sentence := table3_accuracy.below(accuracies)) else "",
        baselines=", ".join(name.lower() for name in BASELINES.values()),
        isa_digest=noted["cadmus"]["isa_digest"],
    )
    return hub.card(_front_matter(config, graded, _origin(completions).get("split")), text)


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
                metric_type=METRIC_TYPES.get(row["metric"], "accuracy"),
                metric_name=METRICS[row["metric"]] + (f", {rest}" if rest else ""),
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


def _origin(path: Path) -> dict[str, str]:
    """Return the metadata of results; none of those in CSV."""
    if path.suffix != ".parquet":
        return {}
    with reading(path, "evaluate again"):
        return pl.read_parquet_metadata(path)


def _completions(path: Path, directory: Path) -> pl.DataFrame:
    """Return the results of ``cadmus evaluate completions``, checked to be of this model and its dataset."""
    graded = read_results(path, table3_accuracy.COLUMNS[0])
    origin = _origin(path)
    ours = weights_digest(directory)
    if origin.get("model_digest") != ours:
        raise InputError(
            f"{path}: model_digest: is {origin.get('model_digest')}, but {directory / WEIGHTS} has {ours}; "
            "evaluate again"
        )
    trained_on = read_metadata(directory)["data_digest"]
    if origin.get("data_digest") != trained_on:
        raise InputError(
            f"{path}: data_digest: is {origin.get('data_digest')}, but the model was trained on "
            f"{trained_on}; evaluate it on its own dataset"
        )
    return graded


def _last_loss(path: Path | None, last: int) -> dict[str, str]:
    """Return the mean loss of the last hundredth of a training of ``last`` steps."""
    if path is None:
        return {}
    steps = read_results(path, ("step", "loss")).sort("step")
    if steps["step"][-1] != last:
        raise InputError(
            f"{path}: step: ends at {steps['step'][-1]}, but the model was trained for {last}; "
            "give the metrics of its training"
        )
    ending = steps.select("loss").tail(max(1, len(steps) // 100))
    return {"last loss": f"{ending.mean().item():.4f} nats per token, mean of the last {len(ending)} steps"}


def _device(noted: dict[str, Any]) -> str:
    return f"{noted['cores']} CPU cores" if noted["device"] == "cpu" else noted["device"]


def _listed(values: dict[str, Any]) -> str:
    """Return a Markdown list."""
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    return "\n".join(f"- {key.replace('_', ' ')}: {text}" for key, text in texts.items())
