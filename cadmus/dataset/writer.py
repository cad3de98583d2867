"""Writing a dataset, one shard at a time."""

from pathlib import Path

from cadmus.config import Config
from cadmus.dataset import parquet
from cadmus.dataset.sampler import Sampler, check_names
from cadmus.dataset.shards import plan
from cadmus.dataset.splits import hashes
from cadmus.errors import InputError
from cadmus.programs import Programs


def write_shard(config: Config, directory: Path, template: str, split: str, number: int) -> Path:
    """Sample and write one shard of the dataset in ``directory``.

    The shards of the template and split with lower numbers must exist: their programs count as duplicates.

    Returns:
        The file.

    Raises:
        InputError: the dataset has no such shard, an earlier one is missing or of another dataset, hardly any
            candidate can be kept, or the file cannot be written.
    """
    check_names(config.dataset, template, split)
    shards = [shard for shard in plan(config) if shard[:2] == (template, split)]
    if number >= len(shards):
        raise InputError(f"config {config.name!r}: no shard {number} of {template} for {split}")
    earlier = [
        hashes(Programs.from_arrow(parquet.read_shard(directory, shard, config, ["program"])[1]["program"]))
        for shard in shards[:number]
    ]
    shard = shards[number]
    sampler = Sampler(config.dataset, config.seed, template, split, number)
    samples = sampler.sample(shard.rows, earlier)
    path = directory / shard.path
    parquet.write(path, shard, samples, config, sampler.summary())
    return path
