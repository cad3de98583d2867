"""Table 3: accuracy on each sub-problem, with baselines and the paper."""

import polars as pl

from cadmus.evaluate.baselines.policies import EXECUTING
from cadmus.evaluate.questions import title
from cadmus.evaluate.statistics.intervals import percent
from cadmus.evaluate.statistics.results import CEILING, METRICS, accuracy_by, best_baseline, gaps_by
from cadmus.figures import reported, tables


def data(completions: pl.DataFrame) -> pl.DataFrame:
    """Return accuracies as fractions, one row per question, policy and metric.

    Only the model has a gap to the best baseline and a ceiling, and only solved the accuracy of the paper.
    Counts and accuracies are null where a baseline is absent from a question.
    """
    gaps = pl.concat(
        gaps_by(completions, "question", metric=metric).select(
            "question", "gap", gap_low="low", gap_high="high", policy=pl.lit("model"), metric=pl.lit(metric)
        )
        for metric in METRICS
    )
    trained = dict(completions.group_by("template").agg(pl.col("training_programs").max()).iter_rows())
    accuracies = accuracy_by(completions, "template", "question")
    policies = accuracies.select(pl.col("policy").unique(maintain_order=True))
    asked_of_all = accuracies.select("template", "question", "metric").unique(maintain_order=True)
    absent = asked_of_all.join(policies, how="cross").join(
        accuracies, ["question", "policy", "metric"], "anti", maintain_order="left"
    )
    return (
        pl.concat([accuracies, absent], how="diagonal")
        .join(gaps, ["question", "policy", "metric"], "left", maintain_order="left")
        .with_columns(
            pl.col("template").replace_strict(trained, return_dtype=pl.Int64).alias("training_programs"),
            # The paper does not say what it counts; its accuracy is compared with one metric.
            pl.when(metric="solved")
            .then(pl.col("template").replace_strict(reported.TABLE3, default=None, return_dtype=pl.Float64))
            .alias("paper"),
        )
        .drop("template")
    )


def table(completions: pl.DataFrame) -> pl.DataFrame:
    """Return the accuracies of ``cadmus evaluate completions`` in percent, with 95% intervals."""
    results = data(completions)
    rows = []
    for question in results["question"].unique(maintain_order=True):
        of_question = results.filter(question=question)
        shown = [metric for metric in ("solved", "fits") if metric in of_question["metric"]]
        rows += [_row(question, metric, of_question) for metric in shown]
    return pl.DataFrame(rows)


def below(results: pl.DataFrame) -> str:
    """Return a sentence that names the questions of :func:`data` whose gap is below 0, interval included."""
    worse = results.filter(pl.col("gap_high") < 0, pl.col("metric").is_in(["solved", "fits"]))
    if worse.is_empty():
        return ""
    texts = [
        f"*{name(row['question'], row['metric'])}*, {percent(row['accuracy'])} against "
        + tables.best_accuracy(best_baseline(results.filter(question=row["question"]), row["metric"]))
        for row in worse.iter_rows(named=True)
    ]
    sentence = f"The model is below the best baseline on {'; '.join(texts)}."
    if any(text.endswith(f"({EXECUTING})") for text in texts):
        sentence += " Retrieval executes completions of the training set until the VM accepts one."
    return sentence


def name(question: str, metric: str) -> str:
    """Return the name of a row: a question, graded by one metric."""
    return title(question) if metric == "solved" else f"{title(question)}, {METRICS[metric].lower()}"


def _row(question: str, metric: str, results: pl.DataFrame) -> dict[str, str]:
    """Return a row of the table: one metric of a question, with the best baseline."""
    model = {row["metric"]: row for row in results.filter(policy="model").iter_rows(named=True)}
    shown = model[metric]
    below = shown["gap"] is not None and shown["gap_high"] < 0
    without = results.filter(pl.col("policy") != EXECUTING)
    others = ("exact", "next_token", "verified")
    return {
        "Sub-problem": name(question, metric),
        "Tested": f"{shown['programs']:,}",
        "Solved": tables.accuracy(shown),
        "Paper": "" if shown["paper"] is None else percent(shown["paper"]),
        "Best possible": percent(model[CEILING]["accuracy"]) if metric == "solved" else "100.0%",
        "Best baseline": tables.best_accuracy(best_baseline(results, metric)),
        "Gap": tables.gap(shown) + (", below" if below else ""),
        "Best without execution": tables.best_accuracy(best_baseline(without, metric)),
        **{METRICS[name]: percent(model[name]["accuracy"]) if metric == "solved" else "" for name in others},
    }
