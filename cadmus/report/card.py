"""The dataset card: README.md of a dataset, read by the Hugging Face hub and the library ``datasets``."""

from string import Template
from typing import Any

import polars as pl
import pyarrow as pa
from huggingface_hub import DatasetCardData

from cadmus import isa
from cadmus.config import OOD
from cadmus.dataset.shards import SCHEMA
from cadmus.docgen import hub
from cadmus.figures import tables
from cadmus.report.plots import title
from cadmus.report.survey import Survey

ALL_TEMPLATES = "default"
"""The configuration of all templates; each template also has its own."""

SIZES = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")
"""Bounds of the hub's size categories, powers of ten."""

MEANINGS = {
    "template": "the sub-problem",
    "program": "one character per instruction, without the end",
    "prompt_length": "instructions in the prompt during evaluation; the model completes the rest",
    "x": "the first compared number; null if the program compares none",
    "y": "the second compared number",
    "shard": "number of the file among those of its template and split",
}

TEXT = Template("""\
# Cadmus, dataset of the run $name

$programs true programs of the Cadmus stack machine. Its $vocabulary instructions are one character each. A
program is *true* if it leaves at least one value and none of them is 0 or NAN. The programs are synthetic:
sampled from the template of a sub-problem, executed, and kept only if true.

## Use

`DATASET` is this directory or its name on the hub:

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

## Provenance

- content: `$digest`
- config digest of seed and `dataset`: `$config_digest`, seed $seed
- instruction set: `$isa_digest`
- compared numbers: $low to $high
- instructions per program: at most $max_length

[manifest.json](manifest.json) has the section `dataset` of the config and the SHA-256 of every file, and
[croissant.json](croissant.json) describes the files to tools. The same seed and section give the same bytes,
whatever the number of jobs. The hash of a program determines its split:
$share% of all programs are for validation and $share% for test. Duplicates within a split of a template are
removed, but kept once it has hardly any new programs left. [report.md](report.md) has the fates of all
candidates and the distributions of lengths, values and instructions.
$rules
## Limitations

- The programs are for one VM, made for experiments; they teach no other language.
- They are true, not useful.
- Compared numbers are in [$low, $high], and programs have at most $max_length instructions.
- The sampling weights of the templates are those of the run and do not reflect difficulty.
""")


def dataset_card(found: Survey) -> str:
    """Return the card of a dataset, from its manifest and shards."""
    manifest = found.manifest
    dataset = manifest["dataset"]
    templates = list(dict.fromkeys(file["template"] for file in manifest["files"]))
    programs = sum(file["rows"] for file in manifest["files"])
    text = TEXT.substitute(
        name=manifest["name"],
        programs=f"{programs:,}",
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
        isa_digest=manifest["cadmus"]["isa_digest"],
        max_length=dataset["max_length"],
        low=dataset["values"]["low"],
        high=dataset["values"]["high"],
        share=f"{100 * dataset['eval_fraction']:g}",
        rules=_rules(manifest),
    )
    configs = [
        {"config_name": name, "data_files": _data_files(manifest, name)}
        for name in (ALL_TEMPLATES, *templates)
    ]
    configs[0]["default"] = True
    data = DatasetCardData(
        license=hub.LICENSE,
        pretty_name=f"Cadmus, run {manifest['name']}",
        tags=[*hub.TAGS, "synthetic"],
        task_categories=["text-generation"],
        size_categories=[_size_category(programs)],
        configs=configs,
        dataset_info={
            "config_name": ALL_TEMPLATES,
            "features": [{"name": field.name, "dtype": _type(field)} for field in SCHEMA],
        },
    )
    return hub.card(data, text)


def _data_files(manifest: dict[str, Any], name: str) -> list[dict[str, str]]:
    files = "*" if name == ALL_TEMPLATES else f"{name}-*"
    return [{"split": split, "path": f"{split}/{files}.parquet"} for split in _counts(manifest, name)]


def _counts(manifest: dict[str, Any], name: str) -> dict[str, dict[str, int]]:
    """Return the number of programs in a configuration, by split and template."""
    counts: dict[str, dict[str, int]] = {}
    for file in manifest["files"]:
        if name in (ALL_TEMPLATES, file["template"]):
            of_split = counts.setdefault(file["split"], {})
            of_split[file["template"]] = of_split.get(file["template"], 0) + file["rows"]
    return counts


def _size_category(programs: int) -> str:
    """Return the hub's size category of a number of programs.

    >>> _size_category(80_200_000)
    '10M<n<100M'
    """
    above = sum(programs >= 10 ** (3 + power) for power in range(len(SIZES)))
    if not above:
        return f"n<{SIZES[0]}"
    return f"{SIZES[above - 1]}<n<{SIZES[above]}" if above < len(SIZES) else f"n>{SIZES[-1]}"


def _type(field: pa.Field) -> str:
    """Return the type of a column in the library ``datasets``, which decodes dictionaries."""
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
            for field in SCHEMA
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
    counts = _counts(manifest, ALL_TEMPLATES)
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
## OOD rules

Programs that match one of these rules are only in the split `{OOD}`:

{rules}
"""
