"""Which shards a dataset has, and making one of them."""

import math
from pathlib import Path
from typing import NamedTuple

from cadmus.config import HELD_OUT, TEMPLATES, Config
from cadmus.errors import InputError, meant


class Shard(NamedTuple):
    """One file of a dataset: ``<split>/<template>-<number>.parquet``."""

    template: str
    split: str
    number: int
    rows: int

    @property
    def path(self) -> str:
        """The file, relative to the folder of the dataset."""
        return f"{self.split}/{self.template}-{self.number:04d}.parquet"


def plan(config: Config) -> list[Shard]:
    """The shards of a dataset, in the order in which it is read.

    A template without training programs has no shard in any split, one that no held-out rule is for has none
    in the split held_out.
    """
    shards = []
    for split in config.dataset.splits:
        for template in TEMPLATES:
            rows = _rows(config, template, split)
            number = math.ceil(rows / config.dataset.shard_size)
            # Of even size, so that parallel jobs end together.
            for index in range(number):
                size = rows * (index + 1) // number - rows * index // number
                shards.append(Shard(template, split, index, size))
    return shards


def _rows(config: Config, template: str, split: str) -> int:
    """How many programs of a template a split is to have."""
    dataset = config.dataset
    train: int = getattr(dataset.templates, template).train
    if split == "train" or not train:
        return train
    if split == HELD_OUT:
        return dataset.held_out_programs if dataset.rules_for(template) else 0
    rows: int = getattr(dataset, split)
    return rows


def write_shard(config: Config, directory: Path, template: str, split: str, number: int) -> Path:
    """Sample, execute and write one shard of the dataset in ``directory``.

    The shards of the template and split with lower numbers are there already: what they hold is a duplicate.

    Returns:
        The file.

    Raises:
        InputError: the dataset has no such shard, an earlier one is missing or none of this dataset, nothing
            can be kept, or the file cannot be written.
    """
    from cadmus.dataset import parquet
    from cadmus.dataset.sampler import check_template, sample
    from cadmus.dataset.splits import hashes
    from cadmus.programs import Programs

    check_template(template)
    if split not in config.dataset.splits:
        raise InputError(f"no split {split!r}; {meant(split, config.dataset.splits)}")
    shards = [shard for shard in plan(config) if shard[:2] == (template, split)]
    if number >= len(shards):
        raise InputError(
            f"the dataset of the config {config.name!r} has no shard {number} of {template} for {split}"
        )
    earlier = (
        hashes(Programs.from_arrow(parquet.read_shard(directory, shard, config, ["program"])[1]["program"]))
        for shard in shards[:number]
    )
    shard = shards[number]
    drawn = sample(config.dataset, config.seed, template, split, number, shard.rows, list(earlier))
    path = directory / shard.path
    parquet.write(path, shard, drawn, config)
    return path
