"""Trainings that differ in a few fields of their config, on the same data, and what each of them reaches."""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from cadmus import config
from cadmus.common.cores import cores
from cadmus.common.files import replacing
from cadmus.common.provenance import commit
from cadmus.errors import InputError
from cadmus.evaluate.results import accuracy_by, read_results
from cadmus.model.flops import parameter_count

LAST = 50
"""Steps at the end over which losses are averaged."""
METRICS = ("next_token", "verified")
SECTIONS = {"model", "train"}
"""What variants may change: with other data they could not share a dataset."""


def read_variants(base: Path, path: Path) -> dict[str, tuple[dict[str, Any], config.Config]]:
    """The variants of a file: for each name the changes, and the whole config.

    Raises:
        InputError: a file is missing or wrong, or a change is outside of the sections model and train.
    """
    values, variants = config.read_yaml(base), config.read_yaml(path)
    if not isinstance(variants, dict) or not variants:
        raise InputError(f"{path}: variants are a mapping of names to changes, such as `tied: {{model: …}}`")
    read = {}
    for name, changes in variants.items():
        known = isinstance(changes, dict) and set(changes) <= SECTIONS
        if not known or not all(isinstance(fields, dict) for fields in changes.values()):
            raise InputError(f"{path}: {name}: a variant changes fields of the sections model and train only")
        changed = {**values, **{key: {**values.get(key, {}), **changes[key]} for key in changes}}
        read[str(name)] = (changes, config.parse_config(changed, f"{path}: {name}"))
    return read


def ablate(
    base: Path,
    variants: Path,
    dataset: Path,
    folder: Path,
    output: Path,
    jobs: int,
    log: Callable[[str], None],
) -> None:
    """Train and evaluate each variant in processes of their own; those that ``output`` has are left out.

    Args:
        base: the config that the variants change; its dataset is the one in ``dataset``.
        variants: see :func:`read_variants`.
        dataset: a finished dataset.
        folder: for the runs; a killed one goes on from its checkpoint.
        output: a CSV file, one row a variant: its changes, parameters, programs, tokens and FLOPs, seconds of
            training, mean losses of the last :data:`LAST` steps, and the accuracy of each template.
        jobs: trainings at a time; they share the cores.
        log: takes a line for each variant that is done.

    Raises:
        InputError: a file is wrong, or a training or an evaluation failed.
    """
    runs = read_variants(base, variants)
    rows = _rows(output)
    done = {row["variant"]: row["changes"] for row in rows}
    for name, (changes, _) in runs.items():
        if done.get(name, json.dumps(changes)) != json.dumps(changes):
            raise InputError(
                f"{output}: the row {name} has the changes {done[name]}, in {variants} it has "
                f"{json.dumps(changes)}; delete the row or rename the variant"
            )
    wanted = {name: run for name, run in runs.items() if name not in done}

    def finish(name: str) -> dict[str, Any]:
        changes, run = wanted[name]
        return {"variant": name, "changes": json.dumps(changes), **_run(run, dataset, folder / name, jobs)}

    with ThreadPoolExecutor(jobs) as pool:
        for row in pool.map(finish, wanted):
            rows.append(row)
            with replacing(output) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, list(row))
                writer.writeheader()
                writer.writerows(rows)
            log(f"{row['variant']}: completion loss {float(row['completion_loss']):.4f}")


def _rows(output: Path) -> list[dict[str, Any]]:
    if not output.exists():
        return []
    with output.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _run(run: config.Config, dataset: Path, folder: Path, jobs: int) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    written, metrics, completions = (
        folder / name for name in ("config.yaml", "metrics.jsonl", "completions.parquet")
    )
    written.write_text(yaml.safe_dump(run.model_dump()), encoding="utf-8")
    common = ["--config", str(written), "--dataset", str(dataset)]
    paths = ["--checkpoints", str(folder / "checkpoints"), "--metrics", str(metrics)]
    _command(folder, "train", *common, *paths, "--output", str(folder / "model"), jobs=jobs)
    paths = ["--model", str(folder / "model"), "--output", str(completions)]
    _command(folder, "evaluate", "completions", *common, *paths, jobs=jobs)
    losses, totals = ("loss", "completion_loss"), ("programs", "tokens", "flops", "seconds")
    steps = read_results(metrics, (*losses, *totals))
    programs, tokens, flops, seconds = (steps[name][-1] for name in totals)
    accuracy = accuracy_by(read_results(completions, ("template", *METRICS)), "template")
    return {
        "parameters": parameter_count(run.model),
        "programs": programs,
        "tokens": tokens,
        "flops": f"{flops:.4g}",
        "seconds": round(seconds),
        **{name: round(steps.select(name).tail(LAST).mean().item(), 5) for name in losses},
        **{
            f"{metric} {row['template']}": round(row["accuracy"], 4)
            for metric in METRICS
            for row in accuracy.filter(metric=metric).iter_rows(named=True)
        },
        "commit": commit(),
    }


def _command(folder: Path, command: str, *arguments: str, jobs: int) -> None:
    log = folder / f"{command}.log"
    with log.open("a", encoding="utf-8") as file:
        done = subprocess.run(
            [sys.executable, "-m", "cadmus", command, *arguments],
            env={**os.environ, "OMP_NUM_THREADS": str(max(1, cores() // jobs))},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    if done.returncode:
        # What a signal ended did not come to say so.
        ended = f"ended by signal {-done.returncode}" if done.returncode < 0 else _last_line(log)
        raise InputError(f"{folder.name}: {ended.removeprefix('cadmus: ')} (more in {log})")


def _last_line(log: Path) -> str:
    return log.read_text(encoding="utf-8").strip().splitlines()[-1]
