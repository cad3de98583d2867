"""Near-duplicates: test programs that ask about a thing that a training program asks about."""

import polars as pl

from cadmus.evaluate.intervals import as_text, percent
from cadmus.evaluate.questions import in_order, questions_of, title
from cadmus.evaluate.results import accuracy_by, best_baseline
from cadmus.figures import tables


def data(completions: pl.DataFrame) -> pl.DataFrame:
    """Return the accuracy of each policy by question, with and without near-duplicates.

    Returns:
        question, seen (1 or 0), policy, programs, correct, accuracy, low, high; no row where there is no
        program.
    """
    counted = completions.with_columns(pl.col("seen").cast(pl.Int64))
    solved = accuracy_by(counted, "question", "seen").filter(metric="solved")
    question = pl.col("question").cast(in_order(completions["question"]))
    return solved.sort(question, "seen", maintain_order=True)


def table(completions: pl.DataFrame) -> pl.DataFrame:
    """Return the share of near-duplicates, and the accuracies in percent with 95% intervals."""
    about = {
        name: question.about
        for template in completions["template"].unique()
        for name, question in questions_of(template).items()
    }
    rows = []
    for (question,), part in data(completions).group_by(["question"], maintain_order=True):
        found = {row["seen"]: row for row in part.filter(policy="model").iter_rows(named=True)}
        seen = found[1]["programs"] if 1 in found else 0
        baselines = {of: best_baseline(part.filter(seen=of)) for of in (0, 1)}
        rows.append(
            {
                "Sub-problem": title(str(question)),
                "Asked about": about.get(str(question), ""),
                "Seen in training": percent(seen / sum(row["programs"] for row in found.values())),
                "Solved, seen": _accuracy(found.get(1)),
                "Best baseline, seen": tables.best_accuracy(baselines[1]),
                "Solved, not seen": _accuracy(found.get(0)),
                "Best baseline, not seen": tables.best_accuracy(baselines[0]),
            }
        )
    return pl.DataFrame(rows)


def _accuracy(row: dict[str, float] | None) -> str:
    return "none tested" if row is None else as_text(row["accuracy"], row["low"], row["high"])
