"""Sample a dataset without Snakemake: ``python -m dev.gpu_session.sampling CONFIG DIRECTORY``."""

import hashlib
import json
import os
import sys
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

from cadmus import config, pipeline
from cadmus.dataset.manifest import File, read_file, read_manifest
from cadmus.dataset.shards import Shard, list_shards, write_shard
from cadmus.programs import Samples
from cadmus.tools import cores

DIGESTS = "programs.json"


def main(path: Path, directory: Path) -> None:
    run, start = config.load_config(path), time.monotonic()
    shards = defaultdict(list)
    for shard in list_shards(run):
        shards[shard.template].append(shard)
    # Lower priority: the checks and measurements run at the same time.
    os.nice(5)
    with ProcessPoolExecutor(min(len(shards), cores())) as pool:
        list(pool.map(_sample, [path] * len(shards), [directory] * len(shards), shards.values()))
    print(f"sampled in {time.monotonic() - start:.0f} s", flush=True)
    pipeline.dataset(run, directory)
    (directory / DIGESTS).write_text(json.dumps(program_digests(directory)))
    print(f"ready after {time.monotonic() - start:.0f} s")


def _sample(path: Path, directory: Path, shards: list[Shard]) -> None:
    run = config.load_config(path)
    for shard in shards:
        write_shard(run, directory, shard.template, shard.split, shard.number)


def program_digests(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of the programs of each shard, whatever bytes Arrow stores them in."""

    def digest(file: File) -> str:
        programs = Samples.from_arrow(read_file(directory, file, ["program", "prompt_length"])).programs
        return hashlib.sha256(programs.data.tobytes() + programs.offsets.tobytes()).hexdigest()

    files = read_manifest(directory).files
    with ThreadPoolExecutor(cores()) as pool:
        return dict(zip((file.file for file in files), pool.map(digest, files), strict=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
