"""The dataset card: README.md in the folder of a dataset, which the Hugging Face hub shows and loads by."""

from string import Template
from typing import Any

import polars as pl
import pyarrow as pa

from cadmus import isa
from cadmus.config import OOD
from cadmus.dataset import parquet
from cadmus.docgen import hub
from cadmus.figures import tables
from cadmus.report.pictures import title
from cadmus.report.survey import Survey

EVERYTHING = "default"
"""The configuration with all templates; each template has one of its own besides."""

MARKS = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")
"""Between which the hub sorts datasets by their number of rows, each ten times the one before."""

MEANINGS = {
    "template": "the sub-problem that the program is of",
    "program": "one character an instruction, without its end",
    "prompt_length": "instructions that a model is given in evaluation; it is to write the others",
    "x": "the first of the two numbers that the program compares; null where it compares none",
    "y": "the second one",
    "shard": "number of the file among those of its template and split",
}

TEXT = Template("""\
# Cadmus, dataset of the run $name

$programs true programs of the stack machine of Cadmus, whose $vocabulary instructions are one character
each. A program is *true* if it leaves at least one value and none of them is 0 or NAN. They are synthetic:
each was drawn at random from the template of a sub-problem and executed, and only true ones were kept.

## Use

`DATASET` is this directory, or its name on the hub:

```python
from datasets import load_dataset

programs = load_dataset("DATASET")
one_template = load_dataset("DATASET", "$first", split="train")
```

With polars, from the directory (or from `hf://datasets/` and the name on the hub):

```python
import polars as pl

programs = pl.read_parquet("DATASET/train/*.parquet")
```

With Cadmus, `cadmus run PROGRAM` executes a program and `cadmus run --trace PROGRAM` shows the stack after
each instruction.

## Columns

$columns

## Examples

The first training program of each template.

$examples

## Splits

$splits

$disjoint

## How it was made

- content: `$digest`
- seed and section dataset: `$config_digest`, seed $seed
- instruction set: `$isa_digest`
- compared numbers: from $low to $high
- instructions of a program: at most $max_length

[manifest.json](manifest.json) has the whole section and the SHA-256 of every file. The same seed and section
give the same bytes again, whatever the number of jobs. A hash of a program decides its split before anything
is sampled: $share % of all programs are for validation, and as many for test. Duplicates are removed from
each split of a template, and kept where it has hardly any new programs left. What became of all candidates,
and how lengths, values and instructions are distributed, is in [report.md](report.md).
$rules
## Limits

- The programs are of one machine, made for experiments: no other language, and no text.
- They are true, not useful: what a program says holds, and most say nothing that anyone asked.
- Compared numbers outside [$low, $high] and programs of more than $max_length instructions are not there.
- The share of the templates is that of the run, and says nothing about how difficult they are.
""")


def dataset_card(found: Survey) -> str:
    """The card of a dataset, from what its manifest and shards say."""
    manifest = found.manifest
    dataset = manifest["dataset"]
    templates = list(dict.fromkeys(file["template"] for file in manifest["files"]))
    text = TEXT.substitute(
        name=manifest["name"],
        programs=f"{_total(manifest):,}",
        vocabulary=isa.VOCABULARY_SIZE,
        first=templates[0],
        columns=tables.render(_columns())[0].strip(),
        examples=_examples(found),
        splits=tables.render(_splits(manifest, templates))[0].strip(),
        disjoint="Programs that two splits share: "
        + "; ".join(f"{pair} {count}" for pair, count in manifest["shared_between_splits"].items())
        + ".",
        digest=manifest["digest"],
        config_digest=manifest["config_digest"],
        seed=manifest["seed"],
        isa_digest=manifest["isa_digest"],
        max_length=dataset["max_length"],
        low=dataset["values"]["low"],
        high=dataset["values"]["high"],
        share=f"{100 * dataset['eval_fraction']:g}",
        rules=_rules(manifest),
    )
    return hub.card(_front_matter(manifest, templates), text)


def _front_matter(manifest: dict[str, Any], templates: list[str]) -> dict[str, Any]:
    return {
        "license": hub.LICENSE,
        "pretty_name": f"Cadmus, run {manifest['name']}",
        "tags": [*hub.TAGS, "synthetic"],
        "task_categories": ["text-generation"],
        "size_categories": [_size_category(_total(manifest))],
        "configs": [
            {"config_name": name, "data_files": _data_files(manifest, name)}
            | ({"default": True} if name == EVERYTHING else {})
            for name in (EVERYTHING, *templates)
        ],
        "dataset_info": {
            "config_name": EVERYTHING,
            "features": [{"name": field.name, "dtype": _type(field)} for field in parquet.SCHEMA],
        },
    }


def _data_files(manifest: dict[str, Any], name: str) -> list[dict[str, str]]:
    files = "*" if name == EVERYTHING else f"{name}-*"
    return [{"split": split, "path": f"{split}/{files}.parquet"} for split in _counts(manifest, name)]


def _counts(manifest: dict[str, Any], name: str) -> dict[str, dict[str, int]]:
    """The programs of each template of a configuration, by split; only what there are files of."""
    counts: dict[str, dict[str, int]] = {}
    for file in manifest["files"]:
        if name in (EVERYTHING, file["template"]):
            of_split = counts.setdefault(file["split"], {})
            of_split[file["template"]] = of_split.get(file["template"], 0) + file["rows"]
    return counts


def _total(manifest: dict[str, Any]) -> int:
    return sum(file["rows"] for file in manifest["files"])


def _size_category(programs: int) -> str:
    """As the hub writes it.

    >>> _size_category(80_200_000)
    '10M<n<100M'
    """
    above = sum(programs >= 10 ** (3 + power) for power in range(len(MARKS)))
    if not above:
        return f"n<{MARKS[0]}"
    return f"{MARKS[above - 1]}<n<{MARKS[above]}" if above < len(MARKS) else f"n>{MARKS[-1]}"


def _type(field: pa.Field) -> str:
    """The type of a column for the library ``datasets``, which reads a dictionary as what it stands for."""
    return str(field.type.value_type if pa.types.is_dictionary(field.type) else field.type)


def _columns() -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "Column": f"`{field.name}`",
                "Type": _type(field) + (", as a dictionary" if pa.types.is_dictionary(field.type) else ""),
                "Null": "may be" if field.nullable else "never",
                "Meaning": MEANINGS[field.name],
            }
            for field in parquet.SCHEMA
        ]
    )


def _examples(found: Survey) -> str:
    cells: list[tuple[str, ...]] = [("template", "program", "prompt_length", "x", "y")]
    for template, (example, *_) in found.examples.items():
        compared = ("null" if value is None else str(value) for value in (example.x, example.y))
        program = example.prompt + example.completion
        cells.append((template, program, str(len(example.prompt)), *compared))
    return tables.columns(cells)


def _splits(manifest: dict[str, Any], templates: list[str]) -> pl.DataFrame:
    counts = _counts(manifest, EVERYTHING)
    rows = [
        {"Template": title(name), **{split: f"{counts[split].get(name, 0):,}" for split in counts}}
        for name in templates
    ]
    rows.append({"Template": "all", **{split: f"{sum(of.values()):,}" for split, of in counts.items()}})
    return pl.DataFrame(rows)


def _rules(manifest: dict[str, Any]) -> str:
    if OOD not in manifest:
        return ""
    rules = "\n".join(
        f"- {name}: `"
        + ", ".join(f"{key}: {value}" for key, value in rule.items() if value is not None)
        + f"`, matched {sum(manifest[OOD][name].values()):,} candidates"
        for name, rule in manifest["dataset"][OOD].items()
    )
    return f"""
## Held-out rules

What one of these rules matches is in no split but `{OOD}`:

{rules}
"""
