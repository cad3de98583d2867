"""The manifest: the contents of a dataset and the proof that its splits are disjoint."""

import functools
import hashlib
import json
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, NotRequired

import numpy as np
from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from cadmus import isa
from cadmus.common.files import replacing
from cadmus.config import OOD, TEMPLATES, Config, digest, read_json
from cadmus.config.fields import CLOSED, STRICT, Count, PlainText, RunName, Tally
from cadmus.dataset import parquet
from cadmus.dataset.ood import matches
from cadmus.dataset.shards import Shard, plan
from cadmus.dataset.splits import hash_split, hashes, split_of_hashes
from cadmus.errors import Defect, InputError, near_path, suggest
from cadmus.programs import Samples
from cadmus.tools import cores, progress
from cadmus.vm import compiled

NAME = "manifest.json"
_FIX = "write it again"


def _known(template: str) -> str:
    if template not in TEMPLATES:
        raise ValueError(f"no template {template!r}; {suggest(template, TEMPLATES)}")
    return template


class _File(TypedDict):
    __pydantic_config__ = STRICT  # type: ignore[misc]

    # Never a path out of the dataset.
    file: Annotated[str, Field(pattern=r"^[a-z]+/[a-z_]+-[0-9]+\.parquet$")]
    template: Annotated[str, AfterValidator(_known)]
    split: PlainText
    rows: Tally
    sha256: str
    counts: parquet.Outcomes
    ood: NotRequired[dict[str, Tally]]


class _Described(parquet.Outcomes):
    __pydantic_config__ = CLOSED  # type: ignore[misc]

    programs: Tally
    distinct: Tally


def _with_train(splits: dict[str, Any]) -> dict[str, Any]:
    if "train" not in splits:
        raise ValueError("has no train")
    return splits


class _Manifest(TypedDict):
    __pydantic_config__ = STRICT  # type: ignore[misc]

    name: RunName
    digest: PlainText
    isa_digest: str
    config_digest: PlainText
    seed: Count
    dataset: dict[str, Any]
    splits: Annotated[
        dict[PlainText, dict[Annotated[str, AfterValidator(_known)], _Described]], AfterValidator(_with_train)
    ]
    ood: NotRequired[dict[PlainText, dict[str, Tally]]]
    shared_between_splits: dict[PlainText, Tally]
    files: list[_File]


_Hashes = dict[tuple[str, str], np.ndarray]
"""By split and template: the hashes of all programs, ascending."""


def write_manifest(config: Config, directory: Path) -> dict[str, Any]:
    """Check all shards of ``directory``, describe them in its ``manifest.json`` and return the manifest.

    Raises:
        InputError: a shard is missing, truncated, misplaced, or of another instruction set or config; or an
            OOD rule excludes nothing.
        Defect: a program is in two splits or in the wrong one.
    """
    # Reading, hashing and sorting release the GIL.
    with ThreadPoolExecutor(cores()) as pool:
        shards = plan(config)
        checking = pool.map(functools.partial(_check, config, directory), shards)
        files = []
        by_shard: dict[tuple[str, str], list[np.ndarray]] = defaultdict(list)
        for file, hashed in progress("check", checking, len(shards), "shard"):
            files.append(file)
            by_shard[file["split"], file["template"]].append(hashed)
        in_order = dict(zip(by_shard, pool.map(_sorted, by_shard.values()), strict=True))
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
    """Return the manifest of a dataset.

    Raises:
        InputError: it is missing or unreadable, or the dataset is of another instruction set.
    """
    path = Path(directory) / NAME
    if not path.exists():
        raise InputError(
            f"{path}: no such file{near_path(path) or f'; {directory} is not a finished dataset'}"
        )
    manifest = read_json(path, _Manifest, _FIX)
    if manifest["isa_digest"] != isa.digest():
        raise InputError(
            f"{path}: isa_digest: the dataset was sampled with the instruction set {manifest['isa_digest']}, "
            f"this is {isa.digest()}; sample it again"
        )
    return dict(manifest)


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check(config: Config, directory: Path, shard: Shard) -> tuple[dict[str, Any], np.ndarray]:
    """Check a shard; return its description for the manifest and the hashes of its programs."""
    path = directory / shard.path
    metadata, table = parquet.read_shard(directory, shard, config, ["program", "prompt_length", "x", "y"])
    samples = Samples.from_arrow(table)
    true = compiled.verdicts(samples.programs)
    if not true.all():
        raise InputError(f"{path}: program: {np.sum(~true)} are not true; delete it and sample it again")
    hashed = hashes(samples.programs)
    expected = split_of_hashes(hashed, config.dataset.eval_fraction) == hash_split(shard.split)
    if not expected.all():
        raise Defect(f"{path}: {np.sum(~expected)} programs belong to another split")
    rules = config.dataset.rules_for(shard.template)
    by_rule = matches(rules.values(), samples)
    if shard.split == OOD:
        unmatched = np.sum(~by_rule.any(axis=0))
        if unmatched:
            raise Defect(f"{path}: {unmatched} programs match no rule of dataset.ood")
    else:
        for name, hits in zip(rules, by_rule, strict=True):
            if hits.any():
                raise Defect(f"{path}: {np.sum(hits)} programs match the rule dataset.ood.{name}")
    file = {
        "file": shard.path,
        "template": shard.template,
        "split": shard.split,
        "rows": metadata["rows"],
        "sha256": file_digest(path),
        **{key: value for key, value in metadata.items() if key in ("counts", "ood")},
    }
    return file, hashed


def _sorted(hashed: list[np.ndarray]) -> np.ndarray:
    together = np.concatenate(hashed)
    hashed.clear()
    together.sort()
    return together


def _describe_rules(
    config: Config, directory: Path, files: list[dict[str, Any]]
) -> dict[str, dict[str, int]]:
    """Count for each OOD rule the candidates of each template that it matched.

    Raises:
        InputError: a rule matches nothing, in all templates or in one that it names.
    """
    described = {}
    for name, rule in config.dataset.ood.items():
        of_rule = [file for file in files if name in file["ood"]]
        matched = {template: 0 for template in TEMPLATES if any(f["template"] == template for f in of_rule)}
        for file in of_rule:
            matched[file["template"]] += file["ood"][name]
        idle = [template for template, count in matched.items() if not count]
        if idle if rule.templates else not any(matched.values()):
            where = ", ".join(idle) if rule.templates else "any template"
            sampled = sum(file["counts"]["sampled"] for file in of_rule if file["template"] in idle)
            raise InputError(
                f"{directory}: dataset.ood.{name}: excludes nothing of {where}: it matches none of {sampled} "
                "candidates; change the rule or its templates, or remove it"
            )
        described[name] = matched
    return described


def _describe(
    in_order: _Hashes, files: list[dict[str, Any]], splits: tuple[str, ...]
) -> dict[str, dict[str, Any]]:
    """Return by split and template: programs, distinct ones and outcome counts."""
    described: dict[str, dict[str, Any]] = {split: {} for split in splits}
    for (split, template), hashed in in_order.items():
        counts = [f["counts"] for f in files if (f["split"], f["template"]) == (split, template)]
        described[split][template] = {
            "programs": len(hashed),
            "distinct": int(np.sum(hashed[1:] != hashed[:-1])) + min(1, len(hashed)),
            **{
                # Without OOD rules there is no count of ood.
                key: sum(count.get(key, 0) for count in counts)
                for key in parquet.Outcomes.__annotations__
                if any(key in count for count in counts)
            },
        }
    return described


def _shared(in_order: _Hashes, splits: tuple[str, ...]) -> dict[str, int]:
    """Count the programs (by hash) that each pair of splits shares, across templates.

    The pair of test and ood is left out: one template may draw in test what a rule excludes of another.
    """
    shared = {}
    for pair in combinations(splits, 2):
        if pair == ("test", OOD):
            continue
        sides = (
            [hashed for (split, _), hashed in in_order.items() if split == wanted and len(hashed)]
            for wanted in pair
        )
        # Searching for a few in many is fast.
        few, many = sorted(sides, key=lambda side: sum(map(len, side)))
        distinct = np.unique(np.concatenate(few)) if few else np.empty(0, np.uint64)
        found = np.zeros(len(distinct), np.bool_)
        for hashed in many:
            places = np.minimum(np.searchsorted(hashed, distinct), len(hashed) - 1)
            found |= hashed[places] == distinct
        shared[" and ".join(pair)] = int(found.sum())
    return shared
