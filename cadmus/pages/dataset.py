"""The report of a dataset, and its card.

The card is for users of the dataset: how to load it, its columns, splits and provenance. The report is for
its maker: the fates of all candidates.
"""

import json
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
from huggingface_hub import DatasetCardData

from cadmus import isa, store
from cadmus.config import OOD
from cadmus.dataset.manifest import read_file, read_manifest
from cadmus.dataset.shards import SCHEMA
from cadmus.evaluate.intervals import percent
from cadmus.evaluate.questions import title
from cadmus.figures.tables import columns, render
from cadmus.model import CARD
from cadmus.pages import LICENSE, TAGS, card
from cadmus.vm import reference

EXAMPLES = 3
"""Programs shown per template: the first ones of its first training shard."""
FATES = {
    "kept": "kept",
    "surplus": "surplus",
    "duplicates": "duplicates, removed",
    "ood": "excluded by an OOD rule",
    "rejected": "not true",
    "other_split": "in another split",
    "too_long": "too long",
    "unfit": "incomplete",
}
"""Titles of the fates of a candidate, the best first; fields of :class:`cadmus.dataset.sampler.Counts`."""
_SIZES = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")
"""Bounds of the hub's size categories, powers of ten."""
MEANINGS = {
    "template": "the sub-problem",
    "program": "one character per instruction, without the end",
    "prompt_length": "instructions in the prompt during evaluation; the model completes the rest",
    "x": "the first compared number; null if the program compares none",
    "y": "the second compared number",
    "shard": "number of the file among those of its template and split",
}

TEXT = Template(Path(__file__).with_name("dataset.md").read_text(encoding="utf-8"))


class Survey(NamedTuple):
    """Contents of the report and the card of a dataset."""

    manifest: dict[str, Any]
    size: int
    """Bytes of all shards."""
    counts: pl.DataFrame
    """Columns split, template, programs, distinct, sampled, duplicates_kept and the :data:`FATES`."""
    examples: dict[str, list[dict[str, Any]]]
    """Rows by template, with the columns program, prompt_length, x and y."""


def survey(directory: Path) -> Survey:
    """Read the manifest of a dataset and the first training shard of each template."""
    manifest = read_manifest(directory)
    examples = dict[str, list[dict[str, Any]]]()
    for file in manifest["files"]:
        if file["split"] == "train" and file["template"] not in examples:
            table = read_file(directory, file, ["program", "prompt_length", "x", "y"])
            examples[file["template"]] = table.slice(0, EXAMPLES).to_pylist()
    # The manifest has no OOD counts without OOD rules.
    counts = pl.DataFrame(
        {"split": split, "template": template, "ood": 0, **of_template}
        for split, templates in manifest["splits"].items()
        for template, of_template in templates.items()
    ).select("split", "template", "programs", "distinct", "sampled", "duplicates_kept", *FATES)
    size = sum((directory / file["file"]).stat().st_size for file in manifest["files"])
    return Survey(manifest, size, counts, examples)


def write_report(directory: Path | str) -> tuple[Path, ...]:
    """Write the report and the card of a finished dataset; return their paths."""
    directory = Path(directory)
    found = survey(directory)
    texts = {directory / "report.md": report(found), directory / CARD: dataset_card(found)}
    for path, text in texts.items():
        store.write_text(path, text)
    return tuple(texts)


def report(found: Survey) -> str:
    manifest = found.manifest
    programs = int(found.counts["programs"].sum())
    parts = [
        f"# Dataset of the run {manifest['name']}\n",
        f"{programs:,} true programs in {len(manifest['files'])} shards, {found.size / 1e6:,.1f} MB; "
        f"seed {manifest['seed']}, instruction set `{manifest['cadmus']['isa_digest']}`, config "
        f"`{manifest['config_digest']}`, content `{manifest['digest']}`.\n",
        f"No two splits share a program ({'; '.join(manifest['shared_between_splits'])}). Every program was "
        "executed and is true.\n",
    ]
    for (split,), counts in found.counts.group_by("split", maintain_order=True):
        parts += [f"## {str(split).capitalize()}\n", _split_table(counts, OOD in manifest)]
    parts.append(
        "*Distinct* counts over all shards of a template. Duplicates within a split of a template are "
        "removed, but kept once it has hardly any new programs left. *True* is the fraction "
        "of the candidates that were executed: those of the split with at most dataset.max_length "
        "instructions.\n"
    )
    if OOD in manifest:
        parts.append(_rules(manifest))
    examples = [("template", "prompt", "completion", "verdict")]
    for name, rows in found.examples.items():
        for program, at in ((row["program"], row["prompt_length"]) for row in rows):
            verdict = str(reference.run(program).true).lower()
            examples.append((title(name), program[:at], program[at:] or "(end)", verdict))
    first = f"The first {EXAMPLES} training programs of each template.\n"
    return "\n".join([*parts, "## Examples\n", first, f"{columns(examples)}\n"])


def _split_table(counts: pl.DataFrame, has_rules: bool) -> str:
    """Return the counts of a split: one row per template and a total."""
    total = counts.select(pl.lit("all").alias("template"), pl.col(pl.Int64).sum())
    fates = {fate: label for fate, label in FATES.items() if fate != "kept" and (fate != OOD or has_rules)}
    rows = []
    for row in pl.concat([counts.drop("split"), total]).iter_rows(named=True):
        executed = row["sampled"] - row["unfit"] - row["too_long"] - row["other_split"]
        share = percent(1 - row["rejected"] / executed) if executed else ""
        wanted = [f"{row[name]:,}" for name in ("programs", "distinct", "sampled")]
        rows.append([title(row["template"]), *wanted, share])
        rows[-1] += [f"{row[name]:,}" for name in (*fates, "duplicates_kept")]
    labels = [label[0].upper() + label[1:] for label in fates.values()]
    header = ["Template", "Programs", "Distinct", "Candidates", "True", *labels, "Duplicates, kept"]
    return render(pl.DataFrame(rows, header, orient="row"))


def dataset_card(found: Survey) -> str:
    manifest = found.manifest
    programs = found.counts.pivot("split", index="template", values="programs", maintain_order=True)
    templates, splits = programs["template"].to_list(), programs.columns[1:]
    totals = programs.select(pl.lit("all"), pl.col(splits).sum()).row(0)
    counts = [
        [title(name), *(f"{count or 0:,}" for count in of_splits)]
        for name, *of_splits in (*programs.iter_rows(), totals)
    ]
    fields = []
    for field in SCHEMA:
        stored = _type(field) + (", as a dictionary" if pa.types.is_dictionary(field.type) else "")
        null = "may be" if field.nullable else "never"
        fields.append([f"`{field.name}`", stored, null, MEANINGS[field.name]])
    header = ("template", "program", "prompt_length", "x", "y")
    examples = [
        (name, first["program"], *(json.dumps(first[column]) for column in header[2:]))
        for name, (first, *_) in found.examples.items()
    ]
    text = TEXT.substitute(
        {**manifest, **manifest["cadmus"], **manifest["dataset"], **manifest["dataset"]["values"]},
        programs=f"{sum(totals[1:]):,}",
        vocabulary=isa.VOCABULARY_SIZE,
        first=templates[0],
        columns=render(pl.DataFrame(fields, ["Column", "Type", "Null", "Meaning"], orient="row")).strip(),
        examples=columns([header, *examples]),
        splits=render(pl.DataFrame(counts, ["Template", *splits], orient="row")).strip(),
        shared="; ".join(f"{pair} {count}" for pair, count in manifest["shared_between_splits"].items()),
        share=f"{100 * manifest['dataset']['eval_fraction']:g}",
        rules=f"\n{_rules(manifest)}" if OOD in manifest else "",
    )
    # All templates together, and each alone, with the splits that have it.
    configs = [{**_config("default", "*", splits), "default": True}]
    for (name,), rows in found.counts.group_by(["template"], maintain_order=True):
        configs.append(_config(str(name), f"{name}-*", rows["split"].to_list()))
    data = DatasetCardData(
        license=LICENSE,
        pretty_name=f"Cadmus, run {manifest['name']}",
        tags=[*TAGS, "synthetic"],
        task_categories=["text-generation"],
        size_categories=[size_category(sum(totals[1:]))],
        configs=configs,
        dataset_info={
            "config_name": "default",
            "features": [{"name": field.name, "dtype": _type(field)} for field in SCHEMA],
        },
    )
    return card(data.to_yaml(), text)


def size_category(programs: int) -> str:
    above = max(0, len(str(programs)) - 3)
    return f"{_SIZES[above - 1]}<n<{_SIZES[above]}" if above else f"n<{_SIZES[0]}"


def _type(field: pa.Field) -> str:
    """Return the type of a column in the library ``datasets``, which decodes dictionaries."""
    return str(field.type.value_type if pa.types.is_dictionary(field.type) else field.type)


def _config(name: str, files: str, splits: list[str]) -> dict[str, Any]:
    paths = [{"split": split, "path": f"{split}/{files}.parquet"} for split in splits]
    return {"config_name": name, "data_files": paths}


def _rules(manifest: dict[str, Any]) -> str:
    rows = []
    for name, matched in manifest[OOD].items():
        rule = manifest["dataset"][OOD][name]
        kind = next(key for key in ("values", "length", "contains") if rule[key] is not None)
        how = f" ({rule['compared']})" if kind == "values" else ""
        found_in = [f"{title(template)} {count:,}" for template, count in matched.items() if count]
        rows.append([name, f"`{kind}: {rule[kind]}`{how}", ", ".join(found_in)])
    text = f"## OOD rules\n\nPrograms that match one of these rules are only in the split `{OOD}`:\n\n"
    return text + render(pl.DataFrame(rows, ["Rule", "Matches", "Matched candidates"], orient="row"))
