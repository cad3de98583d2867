"""Table 3: accuracy on each sub-problem beside baselines and the paper."""

import polars as pl

from cadmus.errors import InputError
from cadmus.evaluate.baselines import BASELINES
from cadmus.evaluate.intervals import as_text, gap_as_text, percent
from cadmus.evaluate.questions import title
from cadmus.evaluate.results import METRICS, accuracy_by, gaps_by
from cadmus.figures import reported

COLUMNS = (("policy", "template", "question", "asked", "training_programs", *METRICS),)


def data(completions: pl.DataFrame) -> pl.DataFrame:
    """Return accuracies as fractions, one row per question, policy and metric.

    Returns:
        question, policy, metric, programs, correct, accuracy, low, high, training_programs, paper (accuracy,
        null if the paper has none), and for the model gap, gap_low and gap_high (accuracy minus that of the
        best baseline).
    """
    asked = completions.group_by("question").agg(pl.col("template").n_unique()).filter(pl.col("template") > 1)
    if len(asked):
        raise InputError(
            f"template: must be one for {asked['question'].min()!r}, got several; evaluate again"
        )
    gaps = pl.concat(
        gaps_by(completions, "question", metric=metric).select(
            "question",
            pl.lit("model").alias("policy"),
            pl.lit(metric).alias("metric"),
            "gap",
            pl.col("low").alias("gap_low"),
            pl.col("high").alias("gap_high"),
        )
        for metric in METRICS
    )
    trained = dict(completions.group_by("template").agg(pl.col("training_programs").max()).iter_rows())
    paper = {name: accuracy for name, (_, accuracy) in reported.TABLE3.items()}
    return (
        accuracy_by(completions, "template", "question")
        .with_columns(
            pl.col("template").replace_strict(trained, return_dtype=pl.Int64).alias("training_programs"),
            pl.col("template").replace_strict(paper, default=None, return_dtype=pl.Float64).alias("paper"),
        )
        .join(gaps, ["question", "policy", "metric"], "left", maintain_order="left")
        .drop("template")
        .select(pl.exclude("training_programs", "paper"), "training_programs", "paper")
    )


def table(completions: pl.DataFrame) -> pl.DataFrame:
    """Return the accuracies of ``cadmus evaluate completions`` in percent, with 95% intervals.

    A question for which ``fits`` is defined has a second row of that metric.
    """
    results = data(completions)
    rows = []
    for question in results["question"].unique(maintain_order=True):
        of_question = results.filter(question=question)
        shown = [metric for metric in ("solved", "fits") if metric in of_question["metric"]]
        rows += [_row(question, metric, of_question) for metric in shown]
    return pl.DataFrame(rows)


def _row(question: str, metric: str, results: pl.DataFrame) -> dict[str, str]:
    """Return a row of the table: one metric of a question beside that of the baselines."""
    (model,) = results.filter(policy="model", metric=metric).to_dicts()
    keys = results.select(pl.concat_str("policy", "metric", separator=" ")).to_series()
    accuracy = dict(zip(keys, map(percent, results["accuracy"]), strict=True))
    gap = "" if model["gap"] is None else gap_as_text(model["gap"], model["gap_low"], model["gap_high"])
    solved = metric == "solved"
    return {
        "Sub-problem": title(question) if solved else f"{title(question)}, {METRICS[metric].lower()}",
        "Tested": f"{model['programs']:,}",
        "Solved": as_text(model["accuracy"], model["low"], model["high"]),
        "Paper": "" if model["paper"] is None else percent(model["paper"]),
        "Gap to the best": gap,
        **{heading: accuracy.get(f"{policy} {metric}", "") for policy, heading in BASELINES.items()},
        "Exact": accuracy.get("model exact", "") if solved else "",
        "Next token": accuracy.get("model next_token", "") if solved else "",
        "Verified": accuracy.get("model verified", "") if solved else "",
    }
