"""The model of a session: from its export or its newest checkpoint to files of 15 MiB, and back.

A checkpoint has all that an export has, so a training that is killed leaves a model as well. Weights travel
in bf16, the precision in which the training computed with them.

``python -m dev.gpu_session.weights CONFIG MODEL CHECKPOINTS OUT`` writes the newest weights to OUT.
"""

import json
import os
import re
import shutil
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, safe_open, save

from cadmus import config, store
from cadmus.model import METADATA
from cadmus.model.export import load_export, read_metadata
from cadmus.train import checkpoint
from cadmus.train.muon import WEIGHT
from cadmus.train.paths import STATE, find_checkpoints
from dev.gpu_session.session import Stop

PART = re.compile(r"weights-(\d{6,})-(\d)")
"""Step and number of a part."""
PART_BYTES = 15 * 2**20
METADATA_KEY = "cadmus"
Weights = dict[str, torch.Tensor]


def newest(run: config.Config, model: Path, checkpoints: Path) -> tuple[Weights, dict[str, Any]]:
    """Return the fp32 weights of the export or, without one, of the newest checkpoint, and their metadata."""
    if (model / METADATA).exists():
        noted = read_metadata(model).model_dump(mode="json", exclude={"cadmus"})
        return load_export(model).state_dict(), {key: noted[key] for key in noted if noted[key] is not None}
    found = find_checkpoints(checkpoints)
    if not found:
        raise Stop(f"{checkpoints}: no checkpoint and no model")
    saved = store.read_json(found[-1] / METADATA, "checkpoint", checkpoint.Metadata)
    with safe_open(found[-1] / STATE, "pt") as file:
        names = [name for name in file.keys() if name.startswith(f"{WEIGHT}/")]  # noqa: SIM118 - no mapping
        weights = {name.removeprefix(f"{WEIGHT}/"): file.get_tensor(name) for name in names}
    # Heads are not exported.
    weights = {name: weight for name, weight in weights.items() if not name.startswith("heads.")}
    noted = {"config": run.model_dump(mode="json"), "data_digest": saved.description["data"]}
    return weights, {**noted, "steps": saved.step, **saved.values.progress.model_dump()}


def write_parts(weights: Weights, metadata: dict[str, Any], out: Path) -> None:
    """Write weights in bf16 to ``out``, in parts, then remove the parts of earlier steps."""
    if metadata["config"]["model"]["tied"]:
        weights = {name: weight for name, weight in weights.items() if name != "lm_head.weight"}
    rounded = {name: weight.to(torch.bfloat16).contiguous() for name, weight in weights.items()}
    data = save(rounded, {METADATA_KEY: json.dumps(metadata)})
    steps = metadata["steps"]
    for number, start in enumerate(range(0, len(data), PART_BYTES)):
        part = out / f"weights-{steps:06d}-{number}"
        # Whoever takes the folder now finds a whole part or none.
        hidden = out / f".{part.name}"
        hidden.write_bytes(data[start : start + PART_BYTES])
        os.replace(hidden, part)
    for path in out.iterdir():
        if (named := PART.fullmatch(path.name)) and int(named[1]) != steps:
            path.unlink()


def join_parts(folder: Path) -> tuple[Weights, dict[str, Any]]:
    """Return the weights, in bf16, and the metadata of the latest step all of whose parts are in a folder."""
    parts: dict[int, dict[int, Path]] = defaultdict(dict)
    for path in folder.iterdir():
        if named := PART.fullmatch(path.name):
            parts[int(named[1])][int(named[2])] = path
    for _, of_step in sorted(parts.items(), reverse=True):
        data = b"".join(of_step[number].read_bytes() for number in sorted(of_step))
        try:
            weights = load(data)
        except SafetensorError:
            # The session ended before the last part.
            continue
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        return weights, json.loads(header["__metadata__"][METADATA_KEY])
    raise Stop(f"{folder}: no weights")


def main(path: str, model: str, checkpoints: str, out: str) -> int:
    try:
        weights, metadata = newest(config.load_config(Path(path)), Path(model), Path(checkpoints))
        write_parts(weights, metadata, Path(out))
    except Stop as stop:
        print(stop, file=sys.stderr)
        return 2
    print(f"weights of step {metadata['steps']}, {shutil.disk_usage(out).free / 2**30:.0f} GiB free")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
