"""The speed record: the FLOPs of a training that reaches a fixed accuracy on the validation split."""

from datetime import UTC, datetime
from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from cadmus.config import OF_THE_PAPER
from cadmus.evaluate.statistics.intervals import as_text, mean_interval, percent, programs_error
from cadmus.store import replacing, write_text
from cadmus.study.results import MINUTES, read
from cadmus.tables import escape, markdown
from dev.docs import with_generated

TARGET = 0.97
"""Mean next-token accuracy of the questions to reach, over the seeds."""
SEEDS = 3
"""Fewest seeds of a record."""
LEVEL = 0.05
"""Of the one-sided t-test over the seeds that the mean is above the target."""
ASKED = {"equality": "equality_comparator"}
QUESTIONS = tuple(ASKED.get(name, name) for name in OF_THE_PAPER if name != "random")
"""One of each template whose next token is determined: all but random."""
TITLES = "date, commit, change, FLOPs, minutes, at 1 TFLOP/s, next token, each seed, best baseline, target"
COLUMNS = {
    **dict.fromkeys(("date", "commit", "change"), pl.String),
    "seeds": pl.Int64,
    **dict.fromkeys(("flops", "seconds", "minutes", "next_token", "low", "high", "baseline"), pl.Float64),
    "by_seed": pl.String,
    "errors": pl.Float64,
    "reached": pl.Boolean,
    **dict.fromkeys(QUESTIONS, pl.Float64),
}
"""Columns of the records; ``errors`` is the mean above the target in standard errors over the seeds. The last
are the means of each question."""
PAGE = "docs/open-problems.md"
RECORDS = "docs/records/speedrun.csv"


def add_record(results: Path, config: Path, change: str, root: Path) -> None:
    """Add the results of a study with one variant, on the validation split, and write the page.

    The folder of the record gets the results and the config of the study.
    """
    study = read(results)
    asked = study.rows.filter(metric="next_token").filter(pl.col("template").is_in(QUESTIONS))
    costs = (pl.col("flops", "seconds").first(), MINUTES.first().alias("minutes"))
    by_seed = asked.group_by("seed").agg(pl.col("value").mean(), pl.len(), *costs)
    if len(by_seed) < SEEDS or set(by_seed["len"]) != {len(QUESTIONS)}:
        raise SystemExit(f"{results}: a record has one variant, {len(QUESTIONS)} questions and {SEEDS} seeds")
    of_questions = asked.group_by("template").agg(pl.col("value").mean(), pl.col("n").min())
    errors = (programs_error(accuracy, n) / len(QUESTIONS) for _, accuracy, n in of_questions.iter_rows())
    values = by_seed.sort("seed")["value"].to_numpy()
    mean, low, high = mean_interval(values, *errors)
    above, reached = reaches(values)
    row = {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": study.commit,
        "change": change,
        "seeds": len(by_seed),
        # Of one training, means over the seeds.
        "flops": by_seed["flops"].mean(),
        "seconds": by_seed["seconds"].mean(),
        "minutes": by_seed["minutes"].mean(),
        "next_token": mean,
        # The 95% interval over seeds and programs.
        "low": low,
        "high": high,
        "baseline": asked["baseline"].mean(),
        "by_seed": " ".join(f"{value:.4f}" for value in values),
        "errors": above,
        "reached": reached,
        **dict(of_questions.select("template", "value").iter_rows()),
    }
    path = root / RECORDS
    for source, name in ((results, "study.parquet"), (config, "config.yaml")):
        with replacing(root / folder_of(row) / name) as copy:
            copyfile(source, copy)
    records = pl.DataFrame([row], COLUMNS)
    if path.exists():
        records = pl.concat([pl.read_csv(path, schema_overrides=COLUMNS), records])
    write_text(path, records.write_csv())
    write_text(root / PAGE, with_generated(root / PAGE, tables(records.to_dicts())))


def reaches(values: np.ndarray) -> tuple[float, bool]:
    """Return the mean above the target in standard errors over the seeds, and whether that is enough.

    >>> reaches(np.array([0.974, 0.972, 0.976]))[1], reaches(np.array([0.974, 0.962, 0.980]))[1]
    (True, False)
    """
    error = values.std(ddof=1) / np.sqrt(len(values))
    above = float((values.mean() - TARGET) / error) if error else float(np.sign(values.mean() - TARGET)) * 1e6
    return above, bool(above >= stats.t.ppf(1 - LEVEL, len(values) - 1))


def folder_of(row: dict[str, Any]) -> str:
    """Return the folder of a row, as a path in the checkout."""
    return f"docs/records/{row['date']}-{row['commit'][:7]}"


def tables(rows: list[dict[str, Any]]) -> str:
    """Return the table of the records, the oldest first."""
    return markdown(
        TITLES.split(", "),
        [
            [
                escape(str(row["date"])),
                f"[{row['commit'][:7]}]({folder_of(row).removeprefix('docs/')}/config.yaml)",
                escape(row["change"]),
                f"{row['flops']:.2g}",
                f"{row['seconds'] / 60:.0f}",
                "–" if row["minutes"] is None else f"{row['minutes']:.0f}",
                as_text(row["next_token"], row["low"], row["high"]),
                _seeds(row),
                percent(row["baseline"]),
                "reached" if row["reached"] else "missed",
            ]
            for row in rows
        ],
    )


def _seeds(row: dict[str, Any]) -> str:
    """Return the accuracy of each seed, or how many there are if a row is older than this column."""
    if row["by_seed"] is None:
        return f"{row['seeds']} seeds"
    return f"{', '.join(percent(float(value)) for value in row['by_seed'].split())} ({row['errors']:+.1f} SE)"
