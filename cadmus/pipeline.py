"""The whole of Cadmus in five calls: programs, their dataset, a model, an experiment, a figure.

Each step reads what the one before has written, and a config decides all of them:

.. code-block:: python

    config = load_config("config/quick.yaml")
    sample(config, "run/dataset")
    dataset(config, "run/dataset")
    train(config, "run/dataset", "run/model")
    evaluate("completions", "run/model", "run/completions.parquet", "run/dataset")
    draw("table3_accuracy", ["run/completions.parquet"], "run/figures")

The commands ``cadmus shard``, ``manifest``, ``train``, ``evaluate`` and ``figure`` do the same; the workflow
starts them in parallel. The step that needs a slow package imports it: the job of a shard needs no PyTorch.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cadmus.config import TEMPLATES, Config
from cadmus.errors import InputError
from cadmus.model import find_model
from cadmus.store import check_writable, write_parquet
from cadmus.train.paths import RunPaths

if TYPE_CHECKING:
    import polars as pl


def sample(config: Config, directory: Path | str, splits: Sequence[str] = ()) -> list[Path]:
    """Sample true programs of every template and of some or all splits; return their files, the shards."""
    from cadmus.dataset.sampler import check_names
    from cadmus.dataset.shards import list_shards, write_shard

    for split in splits:
        check_names(config.dataset, TEMPLATES[0], split)
    return [
        write_shard(config, Path(directory), shard.template, shard.split, shard.number)
        for shard in list_shards(config)
        if not splits or shard.split in splits
    ]


def dataset(config: Config, directory: Path | str) -> dict[str, Any]:
    """Execute all programs again, check that the splits are disjoint, and seal all with a manifest."""
    from cadmus.dataset.manifest import write_manifest

    return write_manifest(config, Path(directory))


def train(
    config: Config,
    dataset: Path | str,
    output: Path | str,
    paths: RunPaths | None = None,
    log: Callable[[str], None] = print,
) -> None:
    """Train a model in this process and export it to ``output``; the same call resumes what was interrupted.

    Checkpoints and metrics are at ``paths``, by default in the directory ``training`` next to ``output``.
    """
    from cadmus.dataset.manifest import read_split, stream_split
    from cadmus.train import loop, ranks

    training = Path(output).with_name("training")
    paths = paths or RunPaths(training / "checkpoints", Path(output), training / "metrics.jsonl")
    digest = check_training(config, Path(dataset), paths)
    held_out = partial(read_split, dataset, "validation") if config.dataset.validation else None
    read = partial(stream_split, dataset, "train")
    loop.train(config, read, digest, paths.partial(), log, held_out)
    # Of several processes, the first.
    if ranks.is_first():
        # An exit code of 1 would make Snakemake delete the files.
        with ranks.deferred_signals():
            paths.publish()


def check_training(config: Config, dataset: Path, paths: RunPaths) -> str:
    """Check before the work starts that all can be read and written; return the dataset's digest."""
    from cadmus.dataset.manifest import read_manifest
    from cadmus.model.export import check_export, check_snapshots, read_init

    manifest = read_manifest(dataset)
    if manifest.config_digest != config.dataset_digest():
        problem = f"sampled with another seed or section dataset than config {config.name!r} has"
        raise InputError(f"{dataset}: {problem}; sample it again")
    read_init(config)
    paths.check()
    check_export(paths.export)
    check_writable(paths.metrics)
    for snapshots in filter(None, (paths.snapshots, paths.partial().snapshots)):
        check_writable(snapshots, directory=True)
        check_snapshots(snapshots, config.name)
    return manifest.digest


def evaluate(
    experiment: str,
    model: Path | str,
    output: Path | str,
    dataset: Path | str | None = None,
    config: Config | None = None,
    device: str = "cpu",
    baselines: Path | str | None = None,
) -> "pl.DataFrame":
    """Run an experiment on an exported model, write its results to a Parquet file and return them.

    ``model`` is a directory, that of an export or of snapshots, or the name of a shipped model. ``config`` is
    by default that of the model, with default experiments. ``baselines`` is what :func:`baselines` has
    written; without it, completions measures them anew.
    """
    from cadmus import experiments
    from cadmus.experiments.experiment import Subject

    data, known = (None if path is None else Path(path) for path in (dataset, baselines))
    subject = Subject(experiment, find_model(model), config, device, data, known)
    results = experiments.get(experiment).run(subject)
    write_parquet(output, "results", results, subject.metadata())
    return results


def baselines(config: Config, dataset: Path | str, output: Path | str) -> None:
    """Grade the baselines on a dataset, with which all its models are compared; write a Parquet file."""
    from cadmus.experiments.completions import BASELINES, EXPERIMENT, measure_baselines
    from cadmus.experiments.experiment import DatasetSubject

    subject = DatasetSubject(config, Path(dataset))
    measured = measure_baselines(subject).select(*EXPERIMENT.columns).cast(EXPERIMENT.table.schema)
    write_parquet(output, BASELINES, measured, subject.metadata())


def draw(figure: str, results: Sequence[Path | str], output: Path | str) -> list[Path]:
    """Draw a figure or table from result files alone; return the files written to ``output``."""
    from cadmus.experiments.drawing import produce

    return produce(figure, [Path(path) for path in results], Path(output))
