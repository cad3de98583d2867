"""The declaration of an experiment, and the trained model it is run on."""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from cadmus.config import Config, digest, validate
from cadmus.errors import Defect, InputError

if TYPE_CHECKING:
    import polars as pl

    from cadmus.programs import Samples

TRAINED_ON = ("values", "eval_fraction")
"""Fields of the section dataset that decide which programs a model was not trained on."""


class Figure(NamedTuple):
    """A figure, table or page drawn from result files alone.

    Attributes:
        name: file stem, and argument of ``cadmus figure``.
        caption: for reports and papers.
        kind: decides the formats that are written.
        sources: results it is drawn from besides those of the experiment that declares it: ``metrics`` of the
            training, or ``llm``, which exist only when the config names models.
        module: defines ``COLUMNS``, one tuple of column names per source, and ``draw`` and ``data``
            (figures), ``table`` and, for numbers, ``data`` (tables), or ``page``; by default
            ``cadmus.figures.NAME``.
    """

    name: str
    caption: str
    kind: Literal["figure", "table", "page"] = "figure"
    sources: tuple[str, ...] = ()
    module: str | None = None


class Findings(NamedTuple):
    """Findings that the command of an experiment prints.

    Attributes:
        title: what is in the table, lines of at most 100 characters.
        table: a row per line, named by the first column; numbers with a fraction are printed in percent, but
            those of a column ``loss`` as they are.
    """

    title: str
    table: "pl.DataFrame"


@dataclass(frozen=True)
class Experiment:
    """One experiment; its settings are in :mod:`cadmus.config.evaluation`.

    Attributes:
        measure: asks the model and returns the results. Its docstring is the help of the command.
        columns: names and types of the results.
        figures: drawn from the results.
        summary: accuracies or losses from the results, which the command prints and a study compares.
        findings: what the command prints of results without a summary.
        dataset: whether it reads the test split.
        snapshots: whether it reads the snapshots of a training instead of one model.
    """

    measure: Callable[["Subject"], "pl.DataFrame"]
    columns: Mapping[str, type]
    figures: tuple[Figure, ...] = ()
    summary: Callable[["pl.DataFrame"], "pl.DataFrame"] | None = None
    findings: Callable[["pl.DataFrame"], Findings] | None = None
    dataset: bool = False
    snapshots: bool = False

    def run(self, subject: "Subject") -> "pl.DataFrame":
        """Return the results."""
        import polars as pl

        results = self.measure(subject)
        if results.columns != list(self.columns):
            raise Defect(f"the results have the columns {results.columns}, declared are {list(self.columns)}")
        return results.cast({name: pl.DataType.from_python(kind) for name, kind in self.columns.items()})


@dataclass(frozen=True)
class Subject:
    """A trained model and the test programs it may be asked about.

    Models and programs are checked when they are loaded: programs that the model may have been trained on are
    refused, whoever asks.

    Attributes:
        config: data and settings.
        directory: the export; with snapshots, the last of them.
        device: torch device.
        dataset: directory with the test split.
        snapshots: exports of one training, in the order of their steps.
    """

    config: Config
    directory: Path
    device: str = "cpu"
    dataset: Path | None = None
    snapshots: tuple[Path, ...] = ()

    def with_settings(self, experiment: str, given: Mapping[str, Any]) -> "Subject":
        """Return this subject with other values of some fields of the section ``evaluate.EXPERIMENT``."""
        before = getattr(self.config.evaluate, experiment)
        after = validate({**before.model_dump(), **given}, type(before), f"evaluate {experiment}")
        evaluate = self.config.evaluate.model_copy(update={experiment: after})
        return replace(self, config=self.config.model_copy(update={"evaluate": evaluate}))

    def model(self, directory: Path | None = None) -> Any:
        """Load the model, or the snapshot in ``directory``."""
        from cadmus.model.export import read_metadata
        from cadmus.model.inference import Cadmus

        directory = directory or self.directory
        trained = read_metadata(directory).get("config", {}).get("dataset", {})
        for key, ours in self.config.dataset.model_dump(include=set(TRAINED_ON)).items():
            if trained.get(key, ours) != ours:
                raise InputError(
                    f"{directory}: dataset.{key}: the model was trained with {trained[key]}, the config says "
                    f"{ours}, so test programs may have been trained on; use the config of the model"
                )
        return Cadmus.load(directory, self.device, self.config.evaluate.batch_size)

    def dataset_directory(self) -> Path:
        """Return the directory of the dataset."""
        if self.dataset is None:
            raise InputError("dataset: missing; name the directory of a dataset")
        return self.dataset

    def test_programs(self) -> "Samples":
        """Read the split ``evaluate.split`` of the dataset."""
        import numpy as np

        from cadmus.dataset.reader import read_split
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

    def training_programs(self, templates: Set[str]) -> dict[str, int]:
        """Count the training programs of each of ``templates``, from the manifest of the dataset."""
        from cadmus.dataset.manifest import read_manifest

        counts = read_manifest(self.dataset_directory())["splits"]["train"]
        return {name: counts[name]["programs"] for name in templates}

    def metadata(self) -> dict[str, str]:
        """Return the origin of results: digests of config, model and dataset (if read), split."""
        from cadmus.dataset.manifest import read_manifest
        from cadmus.model.export import weights_digest

        return {
            "config_digest": digest(self.config.model_dump()),
            "model_digest": weights_digest(self.directory),
            **({} if self.dataset is None else {"data_digest": read_manifest(self.dataset)["digest"]}),
            "split": self.config.evaluate.split,
        }


def load_subject(
    experiment: Experiment,
    directory: Path,
    config: Config | None = None,
    device: str = "cpu",
    dataset: Path | None = None,
) -> Subject:
    """Return the subject of an experiment.

    Args:
        experiment: decides whether ``directory`` is a model export or the snapshots of a training.
        directory: see above.
        config: by default the one that the model was trained with, with default experiments.
        device, dataset: see :class:`Subject`.
    """
    from cadmus.model import METADATA
    from cadmus.model.export import trained_config
    from cadmus.train.paths import find_snapshots

    snapshots = tuple(find_snapshots(directory)) if experiment.snapshots else ()
    export = snapshots[-1] if snapshots else directory
    config = config or trained_config(export)
    if config is None:
        raise InputError(f"{export / METADATA}: config: missing; give the config of the training")
    return Subject(config, export, device, dataset, snapshots)
