"""The report of a dataset: text, card and Croissant metadata in its directory, figures in ``report/``."""

import json
from pathlib import Path
from typing import Any

import polars as pl

from cadmus.common.files import replacing_together
from cadmus.config import OOD
from cadmus.docgen import hub
from cadmus.evaluate.intervals import percent
from cadmus.figures import style, tables
from cadmus.report import CROISSANT, FIGURES
from cadmus.report.card import dataset_card
from cadmus.report.croissant import croissant
from cadmus.report.plots import DATA, DRAW, title
from cadmus.report.survey import EXAMPLES, FATES, Survey, survey
from cadmus.tools import progress

NAME = "report.md"
FOLDER = "report"

_CAPTIONS = {
    "acceptance": "Fates of the candidates for training programs. Surplus: valid, beyond the number wanted.",
    "lengths": "Lengths of the programs, in instructions without the end. Vertical scales differ.",
    "values": "The compared values x and y; grey: the configured interval.",
    "instructions": "Frequency of each instruction in the training programs, log scale; white: never used.",
}


def write_report(directory: Path | str) -> tuple[Path, ...]:
    """Write the report of a finished dataset, its figures, its dataset card and its Croissant metadata.

    Returns:
        The paths of the report, of the card and of the metadata.

    Raises:
        InputError: the dataset or a shard is missing, truncated or from another instruction set, or the
            report cannot be written.
    """
    directory = Path(directory)
    found = survey(directory)
    metadata = json.dumps(croissant(found.manifest), indent=1)
    texts = {
        directory / NAME: _text(found),
        directory / hub.CARD: dataset_card(found),
        directory / CROISSANT: f"{metadata}\n",
    }
    with replacing_together() as replaced:
        for name in progress("draw", FIGURES, unit="figure"):
            stem = directory / FOLDER / name
            style.save(DRAW[name](found), [replaced(stem.with_suffix(suffix)) for suffix in (".pdf", ".png")])
            DATA[name](found).write_csv(replaced(stem.with_suffix(".csv")))
        for path, text in texts.items():
            replaced(path).write_text(text, encoding="utf-8")
    return tuple(texts)


def _text(found: Survey) -> str:
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
    for split in manifest["splits"]:
        counts = found.counts.filter(split=split)
        if len(counts):
            parts += [
                f"## {title(split).capitalize()}\n",
                tables.render(_split_table(counts, OOD in manifest))[0],
            ]
    parts.append(
        "*Distinct* counts over all shards of a template. Duplicates within a split of a template are "
        "removed, but kept once it has hardly any new programs left. *True* is the fraction "
        "of the candidates that were executed: those of the split with at most dataset.max_length "
        "instructions.\n"
    )
    if OOD in manifest:
        parts += ["## OOD rules\n", tables.render(_rules_table(manifest))[0]]
    for name, caption in _CAPTIONS.items():
        parts += [
            f"## {name.capitalize()}\n",
            f"![{caption}]({FOLDER}/{name}.png)\n",
            f"{caption} As [PDF]({FOLDER}/{name}.pdf) and [CSV]({FOLDER}/{name}.csv).\n",
        ]
    shown = f"The first {EXAMPLES} training programs of each template.\n"
    parts += ["## Examples\n", shown, _examples(found)]
    return "\n".join(parts)


def _split_table(counts: pl.DataFrame, has_rules: bool) -> pl.DataFrame:
    """Return the counts of a split as text: one row per template and a total."""
    total = counts.select(pl.lit("all").alias("template"), pl.col(pl.Int64).sum())
    fates = {fate: label for fate, label in FATES.items() if fate != "kept" and (fate != OOD or has_rules)}
    rows = []
    for row in pl.concat([counts.drop("split"), total]).iter_rows(named=True):
        executed = row["sampled"] - row["unfit"] - row["too_long"] - row["other_split"]
        rows.append(
            {
                "Template": title(row["template"]),
                "Programs": f"{row['programs']:,}",
                "Distinct": f"{row['distinct']:,}",
                "Candidates": f"{row['sampled']:,}",
                "True": percent(1 - row["rejected"] / executed) if executed else "",
                **{label[0].upper() + label[1:]: f"{row[fate]:,}" for fate, label in fates.items()},
                "Duplicates, kept": f"{row['duplicates_kept']:,}",
            }
        )
    return pl.DataFrame(rows)


def _rules_table(manifest: dict[str, Any]) -> pl.DataFrame:
    """Return each rule and the number of candidates that it matched, per template."""
    rows = []
    for name, matched in manifest[OOD].items():
        rule = manifest["dataset"][OOD][name]
        kind = next(key for key in ("values", "length", "contains") if rule[key] is not None)
        how = f" ({rule['compared']})" if kind == "values" else ""
        counts = ", ".join(f"{title(template)} {count:,}" for template, count in matched.items() if count)
        rows.append({"Rule": name, "Matches": f"`{kind}: {rule[kind]}`{how}", "Matched candidates": counts})
    return pl.DataFrame(rows)


def _examples(found: Survey) -> str:
    rows = [
        (title(name), example.prompt, example.completion or "(end)", str(example.verdict).lower())
        for name, examples in found.examples.items()
        for example in examples
    ]
    return tables.columns([("template", "prompt", "completion", "verdict"), *rows]) + "\n"
