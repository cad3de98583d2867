"""Train a SAELens dictionary on each layer of models, and score it.

The states are those after every token of training programs of all questions. A TopK autoencoder
(Gao et al. 2024) learns to rebuild them from a few of its features. :mod:`cadmus.labs.interchange.score` asks
what they tell about the variables of the VM, and what the model does when they are exchanged. The
neurons of the state are scored too.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import torch
from sae_lens import TopKTrainingSAE, TopKTrainingSAEConfig
from sae_lens.config import SAETrainerConfig
from sae_lens.training.sae_trainer import SAETrainer

from cadmus import Cadmus, sample
from cadmus.config import OF_THE_PAPER
from cadmus.labs.interchange.score import Features, score

FEATURES = 512
ACTIVE = 16
STATES = 2_000_000
BATCH = 2_048
_AT_ONCE = 250


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path, help="directories of exports, such as models/laptop")
    parser.add_argument("--layers", nargs="+", type=int, help="by default all; 0 is the embedding")
    parser.add_argument("--output", type=Path, required=True, help="Parquet file of scores")
    given = parser.parse_args()
    tables = []
    for path in given.models:
        model = Cadmus.load(path)
        layers = states(model)
        for layer in given.layers or range(len(layers)):
            for name, features in (("neurons", neurons(layers[layer])), ("TopK", dictionary(layers[layer]))):
                found = score(model, {layer: features})
                tables.append(
                    found.select(pl.lit(str(path)).alias("model"), pl.lit(name).alias("features"), pl.all())
                )
            print(path, layer, flush=True)
            pl.concat(tables).write_parquet(given.output)


def states(model: Cadmus, n: int = 3_000) -> list[torch.Tensor]:
    """Return the states after every token of training programs: a tensor (tokens, width) per layer."""
    parts: list[list[torch.Tensor]] = []
    for name in OF_THE_PAPER:
        programs = sample(name, n, split="train")
        for first in range(0, n, _AT_ONCE):
            some = programs[first : first + _AT_ONCE]
            layers = model.states(some)
            lengths = torch.tensor([len(program) for program in some])
            inside = torch.arange(layers[0].shape[1]) < lengths[:, None]
            parts.append([layer[inside] for layer in layers])
    return [torch.cat(layer) for layer in zip(*parts, strict=True)]


def neurons(states: torch.Tensor) -> Features:
    return Features(lambda x: x, torch.eye(states.shape[1]))


def dictionary(states: torch.Tensor) -> Features:
    """Train a TopK autoencoder with the trainer of SAELens."""
    torch.manual_seed(0)
    scale = (states.shape[1] / states.square().sum(1).mean()).sqrt()

    def batches() -> Iterator[torch.Tensor]:
        while True:
            yield states[torch.randint(len(states), (BATCH,))] * scale

    config = TopKTrainingSAEConfig(d_in=states.shape[1], d_sae=FEATURES, k=ACTIVE)
    settings = SAETrainerConfig(
        total_training_samples=STATES, train_batch_size_samples=BATCH, lr=1e-3, lr_end=1e-4
    )
    sae = SAETrainer(settings, TopKTrainingSAE(config), batches()).fit().eval()
    return Features(lambda x: sae.encode(x.float() * scale), sae.W_dec.detach())


if __name__ == "__main__":
    main()
