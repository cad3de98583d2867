"""The manifest: what a dataset consists of, and the proof that its splits are disjoint."""

import functools
import hashlib
import json
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cadmus import isa
from cadmus.common.cores import cores
from cadmus.common.files import replacing
from cadmus.common.progress import progress
from cadmus.config import OOD, TEMPLATES, Config, digest
from cadmus.dataset import parquet
from cadmus.dataset.ood import matches
from cadmus.dataset.shards import Shard, plan
from cadmus.dataset.splits import hash_split, hashes, split_of_hashes
from cadmus.errors import Defect, InputError
from cadmus.programs import Programs

NAME = "manifest.json"
KEYS = {"digest", "isa_digest", "config_digest", "splits", "files"}
"""What is read from a manifest."""


def write_manifest(config: Config, directory: Path) -> dict[str, Any]:
    """Check the assembled shards of ``directory`` and describe them in its ``manifest.json``.

    Raises:
        InputError: a shard is missing, truncated, not where it belongs, or was made by another instruction
            set or config, or a held-out rule excludes nothing.
        Defect: a program lies in two splits, or in one where it does not belong.
    """
    # Reading, hashing and sorting do not hold Python's lock.
    with ThreadPoolExecutor(cores()) as pool:
        shards = plan(config)
        checking = pool.map(functools.partial(_check, config, directory), shards)
        checked = list(progress("check", checking, len(shards), "shard"))
        files = [file for file, _ in checked]
        hashed: dict[tuple[str, str], list[np.ndarray]] = defaultdict(list)
        for file, of_shard in checked:
            hashed[file["split"], file["template"]].append(of_shard)
        del checked
        in_order = dict(zip(hashed, pool.map(_sorted, hashed.values()), strict=True))
    rules = _describe_rules(config, directory, files)
    shared = _shared(in_order, config.dataset.splits)
    manifest = {
        "name": config.name,
        "digest": digest([[file["file"], file["sha256"]] for file in files]),
        "isa_digest": isa.digest(),
        "isa_limits": isa.LIMITS,
        "config_digest": config.dataset_digest(),
        "seed": config.seed,
        "dataset": config.dataset.model_dump(),
        "splits": _describe(in_order, files, config.dataset.splits),
        **({"ood": rules} if rules else {}),
        "shared_between_splits": shared,
        "files": files,
    }
    if any(shared.values()):
        raise Defect(f"{directory}: splits share programs: {shared}")
    with replacing(directory / NAME) as temporary:
        temporary.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return manifest


def read_manifest(directory: Path | str) -> dict[str, Any]:
    """The manifest of a dataset.

    Raises:
        InputError: it is missing or unreadable, or the dataset belongs to another instruction set.
    """
    path = Path(directory) / NAME
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; {directory} is no finished dataset") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{path}: not a readable manifest ({reason}); write it again") from None
    if not isinstance(manifest, dict):
        manifest = {}
    missing = KEYS - set(manifest)
    if missing:
        raise InputError(f"{path}: not a manifest, {min(missing)} is missing; write it again")
    if manifest["isa_digest"] != isa.digest():
        raise InputError(
            f"{path}: the dataset was sampled with the instruction set {manifest['isa_digest']}, this is "
            f"{isa.digest()}; sample it again"
        )
    return manifest


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check(config: Config, directory: Path, shard: Shard) -> tuple[dict[str, Any], np.ndarray]:
    """What the manifest says of a shard, and the hashes of its programs."""
    path = directory / shard.path
    noted, columns = parquet.read_shard(directory, shard, config, ["program", "x", "y"])
    programs = Programs.from_arrow(columns["program"])
    hashed = hashes(programs)
    belongs = split_of_hashes(hashed, config.dataset.eval_fraction) == hash_split(shard.split)
    if not belongs.all():
        raise Defect(f"{path}: {np.sum(~belongs)} programs belong to another split")
    _check_rules(path, shard, programs, columns, config)
    file = {
        "file": shard.path,
        "template": shard.template,
        "split": shard.split,
        "rows": noted["rows"],
        "sha256": file_digest(path),
        **{key: noted[key] for key in ("counts", OOD) if key in noted},
    }
    return file, hashed


def _sorted(hashed: list[np.ndarray]) -> np.ndarray:
    together = np.concatenate(hashed)
    hashed.clear()
    together.sort()
    return together


def _check_rules(path: Path, shard: Shard, programs: Programs, columns: pa.Table, config: Config) -> None:
    """Hold the rows of a shard against the held-out rules."""
    rules = config.dataset.rules_for(shard.template)
    if not rules:
        return
    x, y = (
        None if columns[name].null_count == len(columns) else columns[name].to_numpy() for name in ("x", "y")
    )
    by_rule = matches(rules.values(), programs, x, y)
    if shard.split == OOD:
        strangers = np.sum(~by_rule.any(axis=0))
        if strangers:
            raise Defect(f"{path}: {strangers} programs match no rule of dataset.ood")
        return
    for name, hits in zip(rules, by_rule, strict=True):
        if hits.any():
            raise Defect(f"{path}: {np.sum(hits)} programs match the rule dataset.ood.{name}")


def _describe_rules(
    config: Config, directory: Path, files: list[dict[str, Any]]
) -> dict[str, dict[str, int]]:
    """For each rule, how many candidates of each template it matched.

    Raises:
        InputError: a rule excludes nothing, over all templates or of one that it names.
    """
    described = {}
    for name, rule in config.dataset.ood.items():
        of_rule = [file for file in files if name in file[OOD]]
        matched = {template: 0 for template in TEMPLATES if any(f["template"] == template for f in of_rule)}
        for file in of_rule:
            matched[file["template"]] += file[OOD][name]
        idle = [template for template, count in matched.items() if not count]
        if idle if rule.templates else not any(matched.values()):
            of_what = ", ".join(idle if rule.templates else ["any template"])
            sampled = sum(file["counts"]["sampled"] for file in of_rule if file["template"] in idle)
            raise InputError(
                f"{directory}: dataset.ood.{name} excludes nothing of {of_what}: "
                f"it matches none of {sampled} candidates; change the rule or its templates, or leave it out"
            )
        described[name] = matched
    return described


def _describe(
    in_order: dict[tuple[str, str], np.ndarray], files: list[dict[str, Any]], splits: tuple[str, ...]
) -> dict[str, dict[str, Any]]:
    """By split and template: programs, how many of them differ, and the fate of the candidates."""
    described: dict[str, dict[str, Any]] = {split: {} for split in splits}
    for (split, template), hashed in in_order.items():
        counts = [f["counts"] for f in files if (f["split"], f["template"]) == (split, template)]
        described[split][template] = {
            "programs": len(hashed),
            "distinct": int(np.sum(hashed[1:] != hashed[:-1])) + min(1, len(hashed)),
            **{key: sum(count[key] for count in counts) for key in counts[0]},
        }
    return described


def _shared(in_order: dict[tuple[str, str], np.ndarray], splits: tuple[str, ...]) -> dict[str, int]:
    """Programs (by hash) that two splits have in common, whatever the template.

    The split ood may share programs with test: what a rule excludes of one template, another may give.
    """
    shared = {}
    for pair in combinations(splits, 2):
        if pair != ("test", OOD):
            # A template may have nothing in the split ood.
            a, b = (
                [hashed for (split, _), hashed in in_order.items() if split == wanted and len(hashed)]
                for wanted in pair
            )
            # Looking a few up in many takes no time.
            few, many = sorted([a, b], key=lambda side: sum(map(len, side)))
            distinct = np.unique(np.concatenate(few)) if few else np.empty(0, np.uint64)
            found = np.zeros(len(distinct), np.bool_)
            for hashed in many:
                places = np.minimum(np.searchsorted(hashed, distinct), len(hashed) - 1)
                found |= hashed[places] == distinct
            shared[" and ".join(pair)] = int(found.sum())
    return shared
