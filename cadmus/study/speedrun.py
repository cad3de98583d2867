"""The speed record: the FLOPs of a training that reaches a fixed accuracy on the validation split."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from cadmus.common.files import replacing_together
from cadmus.errors import InputError, reading
from cadmus.evaluate.intervals import as_text, percent
from cadmus.evaluate.questions import title
from cadmus.evaluate.seeds import mean_interval, programs_error
from cadmus.study.results import read
from cadmus.tables import escape, markdown

TARGET = 0.97
"""Mean next-token accuracy of the questions to reach, over the seeds."""
SEEDS = 3
"""Fewest seeds of a record."""
QUESTIONS = (
    "basic_math",
    "equality_comparator",
    "less_greater",
    "subroutines",
    "basic_sequences",
    "advanced_sequences",
    "apply_labels",
    "complete_algorithm",
)
"""One of each template whose next token is determined: all but random."""
COLUMNS = {
    "date": pl.String,
    "commit": pl.String,
    "change": pl.String,
    "seeds": pl.Int64,
    "flops": pl.Float64,
    "seconds": pl.Float64,
    "next_token": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "baseline": pl.Float64,
    "reached": pl.Boolean,
    **dict.fromkeys(QUESTIONS, pl.Float64),
}
"""Columns of the records; the last are the means of each question."""
PAGE = "docs/speedrun.md"
RECORDS = "docs/results/speedrun.csv"

_TEXT = """\
# Speed record

How few FLOPs reach {target:.0%} next-token accuracy on the validation split? It is the mean over eight
questions, one of each template whose next token is determined ({questions}),
and over at least {seeds} seeds. The record counts the FLOPs of the training by formula, as machines differ;
the time is that of one training on the machine of the record. On two cores, two seeds train at once, each on
one core.

{table}
The best baseline of each question is chosen by its accuracy there, and averaged like the model.
By question, in percent:

{by_question}
A row that does not reach the target is a step on the way, not a record. To repeat the last one, and to
write a row:

```sh
snakemake --cores all --configfile config/studies/speedrun.yaml
cadmus study record results/speedrun/study.parquet --change "what is new"
```

`cadmus study record` writes this page and [{records}]({records}).
"""


def add_record(results: Path, change: str, root: Path) -> dict[str, Any]:
    """Add a row to the records of a checkout and write their page.

    Args:
        results: those of a study with one variant, on the validation split.
        change: what is new since the last row.
        root: the checkout.

    Returns:
        The row, see :data:`COLUMNS`: flops and seconds are of one training, means over the seeds; low and
        high are the 95% interval over seeds and programs.

    Raises:
        InputError: the study has several variants, fewer than three seeds, or lacks a question; or the
            records are damaged.
    """
    study = read(results)
    if study.rows["variant"].n_unique() > 1:
        raise InputError(f"{results}: a record has one variant; keep the best in the study")
    asked = study.rows.filter(metric="next_token").filter(pl.col("template").is_in(QUESTIONS))
    by_seed = asked.group_by("seed").agg(pl.col("value").mean(), pl.len(), pl.col("flops", "seconds").first())
    if len(by_seed) < SEEDS or set(by_seed["len"]) != {len(QUESTIONS)}:
        raise InputError(
            f"{results}: a record needs next_token of {len(QUESTIONS)} questions for at least {SEEDS} seeds"
        )
    gaps = [name for name in ("n", "baseline", "flops", "seconds") if asked[name].has_nulls()]
    if gaps:
        raise InputError(f"{results}: {gaps[0]}: is missing in some rows; collect the study again")
    of_questions = asked.group_by("template").agg(pl.col("value").mean(), pl.col("n").min())
    errors = (programs_error(accuracy, n) / len(QUESTIONS) for _, accuracy, n in of_questions.iter_rows())
    mean, low, high = mean_interval(by_seed["value"].to_numpy(), *errors)
    by_question = dict(of_questions.select("template", "value").iter_rows())
    row = {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": study.commit,
        "change": change,
        "seeds": len(by_seed),
        "flops": float(np.mean(by_seed["flops"].to_numpy())),
        "seconds": float(np.mean(by_seed["seconds"].to_numpy())),
        "next_token": mean,
        "low": low,
        "high": high,
        "baseline": asked["baseline"].mean(),
        "reached": mean >= TARGET,
        **by_question,
    }
    path = root / RECORDS
    records = pl.concat([_read_records(path), pl.DataFrame([row], COLUMNS)])
    with replacing_together() as replaced:
        records.write_csv(replaced(path))
        replaced(root / PAGE).write_text(page(records.to_dicts()), encoding="utf-8")
    return row


def _read_records(path: Path) -> pl.DataFrame:
    """Read the records; none if there is no file yet."""
    if not path.exists():
        return pl.DataFrame(schema=COLUMNS)
    with reading(path, "restore it from the repository"):
        records = pl.read_csv(path, schema_overrides=COLUMNS)
    numbers = records.select(pl.selectors.float())
    if (
        records.columns != [*COLUMNS]
        or any(column.has_nulls() for column in records)
        or not np.isfinite(numbers.to_numpy()).all()
    ):
        raise InputError(f"{path}: must have {', '.join(COLUMNS)} in every row")
    return records


def page(rows: list[dict[str, Any]]) -> str:
    """Return the page of the records, the oldest first."""
    table = markdown(
        ["date", "commit", "change", "seeds", "FLOPs", "minutes", "next token", "best baseline", "target"],
        [
            [
                escape(str(row["date"])),
                escape(str(row["commit"])[:7]),
                escape(row["change"]),
                f"{row['seeds']}",
                f"{row['flops']:.2g}",
                f"{row['seconds'] / 60:.0f}",
                as_text(row["next_token"], row["low"], row["high"]),
                percent(row["baseline"]),
                "reached" if row["reached"] else "missed",
            ]
            for row in rows
        ],
    )
    by_question = markdown(
        ["commit", *map(title, QUESTIONS)],
        [
            [escape(str(row["commit"])[:7]), *(f"{100 * row[question]:.1f}" for question in QUESTIONS)]
            for row in rows
        ],
    )
    return _TEXT.format(
        by_question=by_question,
        target=TARGET,
        questions="; ".join(map(title, QUESTIONS)),
        seeds=SEEDS,
        table=table,
        records=RECORDS.removeprefix("docs/"),
    )
