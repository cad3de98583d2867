"""``cadmus score``: features of a sparse autoencoder, a probe or an alignment search."""

import json
from pathlib import Path

import click

from cadmus.cli.options import (
    PATH,
    check_results_path,
    device_option,
    echo_table,
    model_option,
    usable_device,
)


@click.command()
@click.argument("features", type=PATH)
@model_option
@click.option("--output", type=PATH, required=True, help="Parquet file of the scores.")
@click.option(
    "-n",
    "--programs",
    type=click.IntRange(2),
    default=500,
    metavar="N",
    help="Pairs of prompts per variable.",
)
@click.option(
    "--directions",
    type=click.IntRange(1),
    default=8,
    metavar="N",
    help="Features whose directions are exchanged.",
)
@click.option("--seed", type=click.IntRange(0), default=0, metavar="SEED", help="Random seed.")
@device_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def score(
    features: Path,
    directory: Path | None,
    output: Path,
    programs: int,
    directions: int,
    seed: int,
    device: str | None,
    as_json: bool,
) -> None:
    """Score FEATURES of hidden states against the VM.

    FEATURES is a safetensors file with a matrix `layer.N` of shape (features, width) for each layer to score;
    the embedding is 0. With a vector `layer.N.bias` the features are what a ReLU leaves, and a matrix
    `layer.N.decoder` has their directions. For other encoders, call `score` in `cadmus.evaluate.score`.

    For each layer and variable: R² of all features, correlation of the best one and of one that no other
    variable has, F1 for its values, and how often the answer is the counterfactual one after an exchange of
    the best features' directions, of learned and of random ones.

    \b
    Example:
      cadmus score features.safetensors --model laptop --output scores.parquet
    """
    from cadmus.evaluate.score import COLUMNS, read_features
    from cadmus.evaluate.score import score as scores_of
    from cadmus.model import DEFAULT_MODEL
    from cadmus.model.export import trained_config, weights_digest
    from cadmus.model.inference import Cadmus
    from cadmus.store import write_parquet

    check_results_path(output)
    directory = directory or DEFAULT_MODEL
    model = Cadmus.load(directory, usable_device(device))
    found = read_features(features)
    config = trained_config(directory)
    dataset = None if config is None else config.dataset
    table = scores_of(model, found, (), programs, directions, seed, dataset)
    write_parquet(output, "scores", table, {"model_digest": weights_digest(directory)})
    if as_json:
        click.echo(json.dumps(table.to_dicts(), indent=2))
        return
    rows = [
        [row["variable"], *(str(row[name]) for name in ("layer", "programs"))]
        + ["" if row[name] is None else f"{row[name]:.2f}" for name in COLUMNS]
        for row in table.iter_rows(named=True)
    ]
    echo_table([["variable", "layer", "programs", *COLUMNS], *rows])
