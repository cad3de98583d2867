"""The plan of shards."""

from cadmus.dataset.shards import plan
from tests.dataset.conftest import CONFIG


def test_shards_have_equal_sizes_that_add_up_to_the_config():
    shards = plan(CONFIG)
    assert [shard.rows for shard in shards if shard[:2] == ("less_greater", "train")] == [500, 500]
    for split, rows in (("train", 4_100), ("validation", 9 * 40), ("test", 9 * 60)):
        assert sum(shard.rows for shard in shards if shard.split == split) == rows


def test_shard_paths_are_unique():
    paths = [shard.path for shard in plan(CONFIG)]
    assert len(set(paths)) == len(paths)
