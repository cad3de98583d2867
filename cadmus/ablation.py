"""Training and evaluation of variants of a config on the same dataset."""

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
from cadmus.evaluate import results
from cadmus.evaluate.results import accuracy_by, read_results
from cadmus.model.flops import parameter_count

LAST = 50
"""Number of final steps over which losses are averaged."""
METRICS = ("next_token", "solved")
SECTIONS = {"model", "train"}
"""Sections that variants may change; the others decide the dataset, which they share."""


def read_variants(base: Path, path: Path) -> dict[str, tuple[dict[str, Any], config.Config]]:
    """Read the variants of a config: the changes and the full config by name.

    Raises:
        InputError: a file is missing or invalid, or a variant changes other sections than model and train.
    """
    values, variants = config.extended(config.read_yaml(base), base), config.read_yaml(path)
    if not isinstance(variants, dict) or not variants:
        raise InputError(f"{path}: must map names to changes, such as `tied: {{model: {{tied: true}}}}`")
    read = {}
    for name, changes in variants.items():
        known = isinstance(changes, dict) and set(changes) <= SECTIONS
        if not known or not all(isinstance(fields, dict) for fields in changes.values()):
            raise InputError(f"{path}: {name}: must change fields of the sections model and train only")
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
    """Train and evaluate each variant in its own processes, skipping those already in ``output``.

    Args:
        base: config that the variants change.
        variants: YAML file of the variants, see :func:`read_variants`.
        dataset: finished dataset of the config.
        folder: directory of the runs; an interrupted training resumes from its checkpoint.
        output: CSV file with one row per variant: its changes, parameters, training programs, tokens, FLOPs
            and seconds, mean losses of the last :data:`LAST` steps, and accuracies by question.
        jobs: number of variants that run at the same time and share the cores.
        log: called with a line for each finished variant.

    Raises:
        InputError: a file is invalid, or training or evaluation fails.
    """
    runs = read_variants(base, variants)
    rows: list[dict[str, Any]] = []
    if output.exists():
        with output.open(encoding="utf-8", newline="") as file:
            rows += csv.DictReader(file)
    done = {row["variant"]: row["changes"] for row in rows}
    for name, (changes, _) in runs.items():
        if done.get(name, json.dumps(changes)) != json.dumps(changes):
            raise InputError(
                f"{output}: {name}: has the changes {done[name]}, but {variants} has {json.dumps(changes)}; "
                "delete the row or rename the variant"
            )
    missing = {name: run for name, run in runs.items() if name not in done}

    def finish(name: str) -> dict[str, Any]:
        changes, run = missing[name]
        return {"variant": name, "changes": json.dumps(changes), **_run(run, dataset, folder / name, jobs)}

    with ThreadPoolExecutor(jobs) as pool:
        for row in pool.map(finish, missing):
            rows.append(row)
            with replacing(output) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, list(row))
                writer.writeheader()
                writer.writerows(rows)
            log(f"{row['variant']}: completion loss {float(row['completion_loss']):.4f}")


def _run(run: config.Config, dataset: Path, folder: Path, jobs: int) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    written, metrics, completions = (
        folder / name for name in ("config.yaml", "metrics.jsonl", "completions.parquet")
    )
    text = yaml.safe_dump(run.model_dump())
    # A training publishes its metrics last.
    trained = metrics.exists() and written.is_file() and written.read_text(encoding="utf-8") == text
    written.write_text(text, encoding="utf-8")
    common = ["--config", str(written), "--dataset", str(dataset)]
    paths = ["--checkpoints", str(folder / "checkpoints"), "--metrics", str(metrics)]
    if not trained:
        _command(folder, "train", *common, *paths, "--output", str(folder / "model"), jobs=jobs)
    paths = ["--model", str(folder / "model"), "--output", str(completions)]
    _command(folder, "evaluate", "completions", *common, *paths, jobs=jobs)
    losses, totals = ("loss", "completion_loss"), ("programs", "tokens", "flops", "seconds")
    steps = read_results(metrics, (*losses, *totals))
    programs, tokens, flops, seconds = (steps[name][-1] for name in totals)
    graded = read_results(completions, ("policy", "question", "asked", *results.METRICS))
    accuracy = accuracy_by(graded.filter(policy="model"), "question")
    return {
        "parameters": parameter_count(run.model),
        "programs": programs,
        "tokens": tokens,
        "flops": f"{flops:.4g}",
        "seconds": round(seconds),
        **{name: round(steps.select(name).tail(LAST).mean().item(), 5) for name in losses},
        **{
            f"{metric} {row['question']}": round(row["accuracy"], 4)
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
        # A process killed by a signal logs no error.
        reason = (
            f"ended by signal {-done.returncode}"
            if done.returncode < 0
            else log.read_text(encoding="utf-8").strip().splitlines()[-1].removeprefix("cadmus: ")
        )
        raise InputError(f"{folder.name}: {reason} (more in {log})")
