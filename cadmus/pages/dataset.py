"""The card of a dataset: how to load it, its columns, splits and provenance."""

import json
from pathlib import Path
from string import Template
from typing import Any

import polars as pl
import pyarrow as pa
from huggingface_hub import DatasetCardData

from cadmus import isa
from cadmus.config import OOD
from cadmus.config.dataset import CONDITIONS
from cadmus.dataset.manifest import Described, read_file, read_manifest_as
from cadmus.dataset.shards import FOLDER, SCHEMA
from cadmus.evaluate.questions import title
from cadmus.figures.tables import render
from cadmus.pages import LICENSE, TAGS, card
from cadmus.tables import markdown, plain

_SIZES = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")
"""Bounds of the hub's size categories, powers of ten."""
MEANINGS = {
    "split": "`train`, `validation`, `test`, or `ood` for what a rule excludes",
    "template": "the sub-problem",
    "number": "number of the program among those of its split and template, from 0",
    "program": "one character per instruction, without the end",
    "prompt_length": "instructions in the prompt during evaluation; the model completes the rest",
    "x": "the first compared number; null if the program compares none",
    "y": "the second compared number",
}

TEXT = Template(Path(__file__).with_name("dataset.md").read_text(encoding="utf-8"))


def dataset_card(directory: Path) -> str:
    """Return the card of a finished dataset."""
    manifest = read_manifest_as(Described, directory)
    dataset = manifest.dataset
    header = ("template", "program", "prompt_length", "x", "y")
    # The first program of the first training shard of each template.
    examples = dict[str, tuple[str, ...]]()
    for file in manifest.files:
        if file.split == "train" and file.template not in examples:
            (row,) = read_file(directory, file, list(header[1:])).slice(0, 1).to_pylist()
            shown = (json.dumps(row[column]) for column in header[2:])
            examples[file.template] = (file.template, row["program"], *shown)
    splits = [split for split, templates in manifest.splits.items() if templates]
    templates = list(dict.fromkeys(name for split in splits for name in manifest.splits[split]))
    programs = {
        name: [manifest.splits[split].get(name, {}).get("programs", 0) for split in splits]
        for name in templates
    }
    programs["all"] = [sum(of_split) for of_split in zip(*programs.values(), strict=True)]
    counts = [[title(name), *(f"{count:,}" for count in of_splits)] for name, of_splits in programs.items()]
    text = TEXT.substitute(
        name=manifest.name,
        digest=manifest.digest,
        config_digest=manifest.config_digest,
        seed=manifest.seed,
        isa_digest=manifest.cadmus.isa_digest,
        max_length=dataset.max_length,
        low=dataset.values.low,
        high=dataset.values.high,
        programs=f"{sum(programs['all']):,}",
        vocabulary=isa.VOCABULARY_SIZE,
        first=templates[0],
        columns=markdown(["Column", "Type", "Null", "Meaning"], columns()).strip(),
        # A text block, as instructions may be Markdown markup.
        examples=f"```text\n{plain(header, examples.values())}\n```",
        splits=render(pl.DataFrame(counts, ["Template", *splits], orient="row")).strip(),
        shared="; ".join(f"{pair} {count}" for pair, count in manifest.shared_between_splits.items()),
        percentage=f"{100 * dataset.eval_fraction:g}",
        rules=f"\n{_rules(manifest)}" if manifest.ood else "",
    )
    # All templates together, and each alone, with the splits that have it.
    configs = [{**_config("default", "*", splits), "default": True}]
    for name in templates:
        with_it = [split for split in splits if name in manifest.splits[split]]
        configs.append(_config(name, f"{name}-*", with_it))
    data = DatasetCardData(
        license=LICENSE,
        pretty_name=f"Cadmus, run {manifest.name}",
        tags=[*TAGS, "synthetic"],
        task_categories=["text-generation"],
        size_categories=[size_category(sum(programs["all"]))],
        configs=configs,
        dataset_info={
            "config_name": "default",
            "features": [{"name": field.name, "dtype": _type(field)} for field in SCHEMA],
        },
    )
    return card(data.to_yaml(), text)


def columns() -> list[list[str]]:
    """Return the name, type, nullability and meaning of each column."""
    described = []
    for field in SCHEMA:
        stored = _type(field) + (", as a dictionary" if pa.types.is_dictionary(field.type) else "")
        null = "may be" if field.nullable else "never"
        described.append([f"`{field.name}`", stored, null, MEANINGS[field.name]])
    return described


def size_category(programs: int) -> str:
    above = max(0, len(str(programs)) - 3)
    return f"{_SIZES[above - 1]}<n<{_SIZES[above]}" if above else f"n<{_SIZES[0]}"


def _type(field: pa.Field) -> str:
    """Return the type of a column in the library ``datasets``, which decodes dictionaries."""
    return str(field.type.value_type if pa.types.is_dictionary(field.type) else field.type)


def _config(name: str, files: str, splits: list[str]) -> dict[str, Any]:
    paths = [{"split": split, "path": f"{FOLDER}/{split}/{files}.parquet"} for split in splits]
    return {"config_name": name, "data_files": paths}


def _rules(manifest: Described) -> str:
    rows = []
    for name, matched in manifest.ood.items():
        rule = manifest.dataset.ood[name].model_dump()
        kind = next(key for key in CONDITIONS if rule[key] is not None)
        how = f" ({rule['compared']})" if kind == "values" else ""
        counts = [f"{title(template)} {count:,}" for template, count in matched.items() if count]
        rows.append([name, f"`{kind}: {rule[kind]}`{how}", ", ".join(counts)])
    text = f"## OOD rules\n\nPrograms that match one of these rules are only in the split `{OOD}`:\n\n"
    return text + render(pl.DataFrame(rows, ["Rule", "Matches", "Matched candidates"], orient="row"))
