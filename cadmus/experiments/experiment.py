"""The declaration of an experiment, and the trained model it is run on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from cadmus.columns import FRACTION, MEASURED, Column, Table
from cadmus.config import Config, Model, digest
from cadmus.errors import Defect, InputError
from cadmus.model import METADATA
from cadmus.programs import Samples
from cadmus.train.paths import find_snapshots

ACCURACY = {"accuracy": FRACTION.or_null(), "low": FRACTION.or_null(), "high": FRACTION.or_null()}
"""Columns of an accuracy and its 95% interval; null without a program."""
TOKENS = 11
"""Tokens of a comparison: two expressions of five and the comparator."""
TOKEN = Column(int, low=1, high=TOKENS)
"""Position in the program."""


class Figure(NamedTuple):
    """A figure or table drawn from result files alone."""

    name: str
    """File stem, and argument of ``cadmus figure``."""
    caption: str
    kind: Literal["figure", "table"] = "figure"
    sources: tuple[str, ...] = ()
    """Results besides those of the experiment that declares it, such as ``metrics`` of the training."""
    module: str | None = None
    """Defines what :mod:`cadmus.figures` lists for its kind; by default ``cadmus.figures.NAME``."""
    compares: bool = False
    """Draws several files of its source as well, which a column ``run`` then names."""


class Summary(NamedTuple):
    """Table that the command of an experiment prints, and its title of lines of at most 100 characters.

    The first column names the rows. Numbers with a fraction are printed in percent.
    """

    title: str
    table: pl.DataFrame


@dataclass(frozen=True)
class Experiment:
    """One experiment; its settings are in :mod:`cadmus.config.evaluation`."""

    measure: Callable[["Subject"], pl.DataFrame]
    """Asks the model and returns the results. Its docstring is the help of the command."""
    columns: Mapping[str, Column]
    """Columns of the results."""
    rules: Mapping[str, pl.Expr] = field(default_factory=dict)
    """Conditions without which a figure cannot be drawn, for every row, by `COLUMN: what must be`."""
    figures: tuple[Figure, ...] = ()
    metrics: Callable[[pl.DataFrame], pl.DataFrame] | None = None
    """Returns what studies compare, from the results: a table with the columns of :data:`MEASURED`."""
    summary: Callable[[pl.DataFrame], Summary] | None = None
    """Returns the table that the command prints."""
    dataset: bool = False
    """True if it reads the test split."""
    baselines: Callable[["Subject"], pl.DataFrame] | None = None
    """Measures what depends on the dataset alone, so that all models of a dataset can share it."""
    snapshots: bool = False
    """True if it reads the snapshots of a training instead of one model."""
    needs: str | None = None
    """Needed of a model besides completions and next-token logits; None if these are enough."""
    seconds: int = 30
    """About those of one core in a run of ``quick``; the workflow starts the longest experiment first."""
    attention: Literal["causal", "full"] | None = None
    """``model.attention`` of the models that it can ask; None if it asks all."""

    def asks(self, model: Model) -> bool:
        """Tell whether it can ask a model of these sizes."""
        return self.attention in (None, model.attention)

    @property
    def table(self) -> Table:
        return Table(self.columns, self.rules)

    def measured(self, results: pl.DataFrame) -> pl.DataFrame:
        """Return :attr:`metrics` of results, checked against its columns; no rows if nothing was tested."""
        assert self.metrics is not None
        try:
            metrics = self.metrics(results)
            if metrics.is_empty():
                return pl.DataFrame(schema=MEASURED.schema)
            return MEASURED.checked(metrics).select(*MEASURED.columns)
        except (InputError, pl.exceptions.ColumnNotFoundError) as error:
            raise Defect(f"metrics of {self.metrics.__module__}: {error}") from None

    def run(self, subject: "Subject") -> pl.DataFrame:
        """Return the results, with the declared columns and no other."""
        return self.measure(subject).select(*self.columns).cast(self.table.schema)


class Subject:
    """A trained model and the test programs it may be asked about.

    Programs that the model may have been trained on are refused, whoever asks. ``directory`` is a model
    export or, if the experiment reads them, has the snapshots of a training; ``dataset`` has the test split,
    and ``baselines`` is a file of what depends on it alone. The config is by default that of the training,
    with default experiments.
    """

    baselines: Path | None = None
    exported = True
    """True if the model is an export, whose digest the results record."""

    def __init__(
        self,
        experiment: str,
        directory: Path,
        config: Config | None = None,
        device: str = "cpu",
        dataset: Path | None = None,
        baselines: Path | None = None,
    ) -> None:
        from cadmus.experiments import get
        from cadmus.model.export import read_metadata

        self.snapshots = find_snapshots(directory) if get(experiment).snapshots else []
        self.directory = self.snapshots[-1] if self.snapshots else directory
        noted = config or read_metadata(self.directory).config
        if noted is None:
            raise InputError(f"{self.directory / METADATA}: config: missing; give the config of the training")
        if not get(experiment).asks(noted.model):
            needs = f"{experiment} needs {get(experiment).attention}"
            raise InputError(f"{self.directory}: model.attention: is {noted.model.attention}; {needs}")
        self.config = noted
        self.device, self.dataset, self.baselines = device, dataset, baselines

    def model(self, directory: Path | None = None) -> Any:
        """Load the model, or the snapshot in ``directory``."""
        from cadmus.model.export import read_metadata
        from cadmus.model.inference import Cadmus

        directory = directory or self.directory
        trained = (read_metadata(directory).config or self.config).dataset
        # These decide which programs a model was not trained on.
        for key in ("values", "eval_fraction"):
            theirs, ours = getattr(trained, key), getattr(self.config.dataset, key)
            if theirs != ours:
                raise InputError(
                    f"{directory}: dataset.{key}: the model was trained with {theirs}, the config says "
                    f"{ours}, so test programs may have been trained on; use the config of the model"
                )
        return Cadmus.load(directory, self.device, self.config.evaluate.batch_size)

    def dataset_directory(self) -> Path:
        if self.dataset is None:
            raise InputError("dataset: missing; name the directory of a dataset")
        return self.dataset

    def test_programs(self) -> Samples:
        """Read the split ``evaluate.split`` of the dataset."""
        from cadmus.dataset.manifest import read_split
        from cadmus.dataset.splits import TRAIN, split_of

        split, dataset = self.config.evaluate.split, self.config.dataset
        table = read_split(self.dataset_directory(), split)
        longest = table.programs.lengths.max()
        if longest > dataset.max_length:
            raise InputError(
                f"{self.dataset}: has a program of {longest} instructions; the config allows "
                f"dataset.max_length {dataset.max_length}"
            )
        trained_on = np.flatnonzero(split_of(table.programs, dataset.eval_fraction) == TRAIN)
        if len(trained_on):
            (first,) = table.programs.take(trained_on[:1]).to_strings()
            raise InputError(
                f"{self.dataset}: {len(trained_on)} of its {split} programs, such as {first!r}, belong "
                f"to the training split at dataset.eval_fraction {dataset.eval_fraction}; sample it with the "
                "eval_fraction of the model"
            )
        return table

    def metadata(self) -> dict[str, str]:
        """Return the origin of results: digests of config, model and dataset (if read), split."""
        digests = {"config_digest": digest(self.config.model_dump())}
        if self.exported:
            from cadmus.model.export import weights_digest

            digests["model_digest"] = weights_digest(self.directory)
        if self.dataset is not None:
            from cadmus.dataset.manifest import read_manifest

            digests["data_digest"] = read_manifest(self.dataset).digest
        return {**digests, "split": self.config.evaluate.split}


class DatasetSubject(Subject):
    """The test programs of a dataset, without a model."""

    exported = False

    def __init__(self, config: Config, dataset: Path) -> None:
        self.config, self.dataset = config, dataset
