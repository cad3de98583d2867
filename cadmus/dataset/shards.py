"""The shards that a dataset consists of."""

import math
from typing import NamedTuple

from cadmus.config import OOD, TEMPLATES, Config


class Shard(NamedTuple):
    """One file of a dataset: ``<split>/<template>-<number>.parquet``."""

    template: str
    split: str
    number: int
    rows: int

    @property
    def path(self) -> str:
        """The file, relative to the directory of the dataset."""
        return f"{self.split}/{self.template}-{self.number:04d}.parquet"


def plan(config: Config) -> list[Shard]:
    """List the shards of a dataset in reading order.

    A template without training programs has no shards; one without OOD rules has none in the split ood.
    """
    shards = []
    for split in config.dataset.splits:
        for template in TEMPLATES:
            rows = _rows(config, template, split)
            number = math.ceil(rows / config.dataset.shard_size)
            # Equal sizes, so that parallel jobs end together.
            for index in range(number):
                size = rows * (index + 1) // number - rows * index // number
                shards.append(Shard(template, split, index, size))
    return shards


def _rows(config: Config, template: str, split: str) -> int:
    dataset = config.dataset
    train: int = getattr(dataset.templates, template).train
    if split == "train" or not train:
        return train
    if split == OOD:
        return dataset.ood_programs if dataset.rules_for(template) else 0
    rows: int = getattr(dataset, split)
    return rows
