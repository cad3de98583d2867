"""Writing a dataset, one shard at a time."""

from pathlib import Path

from cadmus.config import Config
from cadmus.dataset import parquet
from cadmus.dataset.sampler import check_template, sample
from cadmus.dataset.shards import plan
from cadmus.dataset.splits import hashes
from cadmus.errors import InputError, suggest
from cadmus.programs import Programs


def write_shard(config: Config, directory: Path, template: str, split: str, number: int) -> Path:
    """Sample, execute and write one shard of the dataset in ``directory``.

    The shards of the template and split with lower numbers are there already: what they hold is a duplicate.

    Returns:
        The file.

    Raises:
        InputError: the dataset has no such shard, an earlier one is missing or none of this dataset, nothing
            can be kept, or the file cannot be written.
    """
    check_template(template)
    if split not in config.dataset.splits:
        raise InputError(f"no split {split!r}; {suggest(split, config.dataset.splits)}")
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
