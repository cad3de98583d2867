"""Linear datamodelling scores: attribution methods checked against models trained again on subsets.

Park et al. (2023) sum the scores of the training programs of each subset, and correlate the sums with the
losses of the models trained on the subsets: Spearman's correlation for each test program, then its mean.
"""

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from scipy.stats import rankdata

from cadmus import experiments, store
from cadmus.config import Subset, digest
from cadmus.config.study import StudyRuns
from cadmus.dataset.manifest import read_split
from cadmus.errors import InputError, reading
from cadmus.evaluate.attribution import scores_of
from cadmus.evaluate.questions import title
from cadmus.figures import style
from cadmus.model.inference import Cadmus
from cadmus.programs import Programs, Samples
from cadmus.study.results import unfinished
from cadmus.tools import generator
from cadmus.train.subset import in_subset

NAME = "attribution"
"""Stem of the files."""
CEILING = "ceiling"
"""In the place of a method."""
LEAST = 3
"""Subsets without which a correlation says nothing."""
_RESAMPLES = 500
_FORM = "give a .npz file with scores, test and train; see docs/findings/attribution.md"


class Retrained(NamedTuple):
    """Losses on T test programs of models that were trained on S subsets."""

    model: Path
    """The model whose training programs are scored: the first one of the base."""
    test: Samples
    """T programs, with templates."""
    train: Samples
    """N programs, with templates."""
    members: np.ndarray
    """bool, shape (S, N)"""
    losses: np.ndarray
    """float64, shape (S, seeds, T), the mean over the tokens of a completion, in nats"""


def read_retrained(study: StudyRuns, results: Path) -> Retrained:
    """Read the results of a study with variants that differ in ``train.subset``."""
    if "loss" not in study.study.experiments:
        raise InputError(f"{study.name}: study.experiments: attribution needs loss; add it")
    if len({digest(run.config.model_dump(exclude={"train"})) for run in study.runs}) > 1:
        problem = "attribution needs variants that differ in train alone"
        raise InputError(f"{study.name}: {problem}; make it a study of its own")
    for run in study.runs:
        if reason := unfinished(study, run, results):
            raise InputError(f"{study.name}: {run.variant}, seed {run.seed}: {reason}; run the study first")
    subsets = {
        run.variant: run.config.train.subset for run in study.runs if run.config.train.subset != Subset()
    }
    if len(subsets) < LEAST:
        problem = f"has {len(subsets)} variants with a train.subset; attribution needs at least {LEAST}"
        raise InputError(f"{study.name}: {problem}")
    losses: dict[str, list[pl.Series]] = {name: [] for name in subsets}
    for run in study.runs:
        path = results / run.evaluation / "experiments/loss.parquet"
        # All have the same test programs.
        table = store.read_results(path, experiments.table("loss"))[0]
        if run.variant in subsets:
            losses[run.variant].append(table["loss"])
    programs = Programs.from_strings(table["program"])
    test = Samples(programs, table["prompt_length"].to_numpy(), template=table["template"].to_numpy())
    base = next(run for run in study.runs if run.variant == study.base)
    train = read_split(results / base.dataset / "dataset", "train")
    members = np.array([_members(train, subset) for subset in subsets.values()])
    return Retrained(results / base.training / "model", test, train, members, np.array([*losses.values()]))


def _members(train: Samples, subset: Subset) -> np.ndarray:
    assert train.template is not None
    members = np.zeros(len(train), np.bool_)
    for template in np.unique(train.template):
        rows = np.flatnonzero(train.template == template)
        members[rows] = in_subset(train.take(rows), template, subset)
    return members


def identities(samples: Samples) -> list[str]:
    """Return template and number of each program of a split, such as ``equality/17``."""
    assert samples.template is not None
    counts: dict[str, int] = {}
    names = []
    for template in samples.template:
        number = counts[template] = counts.get(template, -1) + 1
        names.append(f"{template}/{number}")
    return names


def read_scores(path: Path, retrained: Retrained) -> np.ndarray:
    """Read the scores of a method of one's own: float64, shape (T, N).

    The file has the matrix ``scores`` and the identities of its rows, ``test``, and columns, ``train``.
    """
    store.check_readable(path)
    with reading(path, _FORM), np.load(path, allow_pickle=False) as file:
        scores, *names = (file[name] for name in ("scores", "test", "train"))
        if scores.shape != tuple(map(len, names)) or not np.isfinite(scores).all():
            raise ValueError(f"scores: must be finite, of shape (test, train), got {scores.shape}")
    places = []
    for axis, own, samples in zip(("test", "train"), names, (retrained.test, retrained.train), strict=True):
        wanted, place = identities(samples), {name: row for row, name in enumerate(own.tolist())}
        missing = next((name for name in wanted if name not in place), None)
        if missing or len(own) != len(wanted):
            problem = f"no {missing}" if missing else f"{len(own):,} programs"
            raise InputError(f"{path}: {axis}: {problem}; name each of the {len(wanted):,} programs once")
        places.append([place[name] for name in wanted])
    return scores[np.ix_(*places)].astype(np.float64)


def evaluated(retrained: Retrained, scores: Mapping[str, np.ndarray]) -> pl.DataFrame:
    """Return the linear datamodelling score of each method, by template and over all test programs.

    95% intervals are over subsets and test programs (bootstrap). The ceiling is the correlation that the mean
    loss over all seeds would reach, which the agreement of single seeds predicts (Spearman and Brown): no
    method that does not know the seeds can be better. With one seed, there is none.
    """
    templates = np.asarray(retrained.test.template)
    groups = {"": np.arange(len(templates))}
    groups |= {name: np.flatnonzero(templates == name) for name in dict.fromkeys(templates.tolist())}
    lower = _ranks(-retrained.losses.mean(1).T)
    rows = []
    for method, matrix in scores.items():
        predicted = _ranks(matrix @ retrained.members.T.astype(np.float64))
        correlations = _correlations(predicted, lower)
        rng = generator(0, "subsets")
        subsets = rng.integers(lower.shape[1], size=(_RESAMPLES, lower.shape[1]))
        resampled = np.array([_correlations(predicted[:, each], lower[:, each]) for each in subsets])
        for template, own in groups.items():
            picked = own[rng.integers(len(own), size=(_RESAMPLES, len(own)))]
            means = np.take_along_axis(resampled, picked, 1).mean(1)
            bounds = np.quantile(means, [0.025, 0.975]).tolist()
            rows.append((method, template, len(own), float(correlations[own].mean()), *bounds))
    seeds = retrained.losses.shape[1]
    ranks = [_ranks(losses.T) for losses in retrained.losses.swapaxes(0, 1)]
    agreement = [_correlations(*pair) for pair in combinations(ranks, 2)]
    for template, own in groups.items() if agreement else ():
        single = max(0.0, float(np.mean(agreement, 0)[own].mean()))
        ceiling = (seeds * single / (1 + (seeds - 1) * single)) ** 0.5
        rows.append((CEILING, template, len(own), ceiling, None, None))
    kinds = {"method": pl.String, "template": pl.String, "programs": pl.Int64}
    return pl.DataFrame(rows, {**kinds, **dict.fromkeys(("score", "low", "high"), pl.Float64)}, orient="row")


def _ranks(values: np.ndarray) -> np.ndarray:
    """Return the ranks in each row, minus their mean."""
    ranks = rankdata(values, axis=1)
    return np.asarray(ranks - ranks.mean(1, keepdims=True))


def _correlations(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the correlation of each row of two matrices; 0 if a row is constant."""
    first, second = (each - each.mean(1, keepdims=True) for each in (first, second))
    spread = np.sqrt((first**2).sum(1) * (second**2).sum(1))
    return np.divide((first * second).sum(1), spread, out=np.zeros(len(first)), where=spread > 0)


def draw(table: pl.DataFrame) -> Figure:
    """Draw the score of each method with its interval, a panel per template; a line is the ceiling."""
    methods = table.filter(pl.col("method") != CEILING)["method"].unique(maintain_order=True).to_list()
    panels = table.partition_by("template", maintain_order=True)
    figure = Figure(figsize=(style.PAGE, 0.9 + 0.22 * len(methods)))
    grid = style.multiples(figure, len(panels), len(panels), sharex=True, sharey=True)
    for axes, panel in zip(grid.flat, panels, strict=True):
        shown = panel.filter(pl.col("method") != CEILING)
        places = [len(methods) - 1 - methods.index(name) for name in shown["method"]]
        axes.barh(places, shown["score"], 0.6, color=style.BLUE)
        axes.hlines(places, shown["low"], shown["high"], "black", lw=0.8)
        for ceiling in panel.filter(method=CEILING)["score"]:
            axes.axvline(ceiling, color=style.ORANGE, label="ceiling")
        axes.set_yticks(range(len(methods)), reversed(methods))
        axes.set_title(title(panel["template"][0]) or "all", fontsize=8)
    figure.supxlabel("linear datamodelling score", fontsize=8)
    style.legend(figure, grid.flat)
    return figure


def write_all(study: StudyRuns, results: Path, directory: Path, own: list[Path]) -> pl.DataFrame:
    """Score the methods, and those in the files ``own``; write the table and the figure."""
    retrained = read_retrained(study, results)
    read = {path.stem: read_scores(path, retrained) for path in own}
    model = Cadmus.load(retrained.model)
    table = evaluated(retrained, {**scores_of(model, retrained.test, retrained.train), **read})
    figure = style.styled(draw)(table)
    with store.replacing_together() as replaced:
        table.write_csv(replaced(directory / f"{NAME}.csv"))
        style.save(figure, [replaced(directory / f"{NAME}{suffix}") for suffix in (".png", ".pdf")])
    return table
