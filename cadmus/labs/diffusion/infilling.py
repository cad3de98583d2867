"""Infilling: a hole in the middle of a true program, which only a model that sees both sides can fill."""

from collections import Counter, defaultdict

import numpy as np
import polars as pl

from cadmus.columns import COUNT, NAME, POSITIVE, one_of
from cadmus.evaluate.statistics.results import at, measured, with_accuracy
from cadmus.experiments.experiment import ACCURACY, Experiment, Figure, Subject, Summary
from cadmus.labs.diffusion.settings import Infilling
from cadmus.programs import Programs, join
from cadmus.tools import generator, progress

POLICIES = ("model", "most frequent")
"""The baseline fills a hole with what is most often between its two neighbors in training programs."""
KNOWN = 5_000
"""Training programs of each template that the baseline knows."""


def measure(subject: Subject) -> pl.DataFrame:
    """Holes in true programs.

    A hole of some instructions is in a test program, after the first instruction and before the last one. It
    is solved if the program with the filled hole leaves the same outputs, and the filling drops no value. A
    causal model fills it without what follows. The best possible accuracy is 100%.
    """
    from cadmus.dataset.manifest import read_split
    from cadmus.labs.diffusion.decoding import infilled
    from cadmus.vm.compiled import same_outputs
    from cadmus.vm.verifying import drops

    config, model, tests = subject.config, subject.model(), subject.test_programs()
    settings = Infilling.below(config.evaluate)
    training = read_split(subject.dataset_directory(), "train")
    templates, of_training = np.asarray(tests.template), np.asarray(training.template)
    rows = []
    for template in progress("infilling", list(dict.fromkeys(templates.tolist()))):
        chosen = np.flatnonzero((templates == template) & ~drops(tests.programs))
        programs = tests.programs.take(chosen[: settings.programs])
        known = training.programs.take(np.flatnonzero(of_training == template)[:KNOWN]).to_strings()
        for hole in settings.holes:
            asked = programs.take(programs.lengths >= hole + 2)
            starts = generator(config.seed, "infilling", template, hole).integers(1, asked.lengths - hole)
            fillings = infilled(model, asked, starts, hole), most_frequent(known, asked, starts, hole)
            for policy, filling in zip(POLICIES, fillings, strict=True):
                filled = join(asked.prefixes(starts), filling, asked.suffixes(starts + hole))
                solved = same_outputs(filled, asked) & ~drops(filling) & (filling.lengths == hole)
                rows.append((template, policy, hole, len(asked), int(solved.sum())))
    names = ["question", "policy", "hole", "programs", "correct"]
    return with_accuracy(pl.DataFrame(rows, names, orient="row"))


def most_frequent(known: list[str], programs: Programs, starts: np.ndarray, hole: int) -> Programs:
    """Fill holes by the neighbors of a hole, those of unknown neighbors with what is most frequent."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for text in known:
        for start in range(1, len(text) - hole):
            end = start + hole
            counts[text[start - 1] + text[end]][text[start:end]] += 1
    best = {neighbors: found.most_common(1)[0][0] for neighbors, found in counts.items()}
    anywhere = Counter(best.values()).most_common(1)[0][0] if best else ""
    starting = zip(programs.to_strings(), starts.tolist(), strict=True)
    return Programs.from_strings(best.get(text[at - 1] + text[at + hole], anywhere) for text, at in starting)


def metrics(results: pl.DataFrame) -> pl.DataFrame:
    """Return the fraction of the holes of each length that are filled rightly."""
    tested = results.filter(pl.col("programs") > 0).with_columns(metric=pl.lit("filled"))
    return measured(tested.with_columns(metric=at("hole")))


def summarize(results: pl.DataFrame) -> Summary:
    """Return the accuracy of the model by template and hole."""
    table = results.filter(policy="model").pivot("hole", index="question", values="accuracy")
    return Summary("holes of some instructions that the model fills rightly", table)


EXPERIMENT = Experiment(
    measure=measure,
    seconds=12,
    columns={
        "question": NAME,
        "policy": one_of(POLICIES),
        "hole": POSITIVE,
        "programs": COUNT,
        "correct": COUNT,
        **ACCURACY,
    },
    metrics=metrics,
    summary=summarize,
    dataset=True,
    figures=(
        Figure(
            "infilling",
            module="cadmus.labs.diffusion.infilling_figure",
            caption="Holes in true programs, by their number of instructions: how often the program with "
            "the filled hole leaves the same outputs. A causal model does not see what follows a hole; the "
            "baseline fills it with what is most often between its neighbors in training programs. Bands: "
            "95% intervals.",
        ),
    ),
)
