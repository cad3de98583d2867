"""The manifest, which has the contents of a dataset and proves its splits disjoint, and reading by it.

Every program is executed and hashed again before the manifest seals the shards. One hash decides the split of
a program (:mod:`cadmus.dataset.splits`), so programs that all hash to their split are in no other; only test
and ood have the same hashes, and one template may draw in test what a rule excludes of another.
"""

import functools
import re
import reprlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, model_validator

from cadmus import isa, store
from cadmus.config import LONGEST_PROGRAM, OOD, Config, Dataset, digest
from cadmus.config.dataset import MOST_PROGRAMS
from cadmus.config.fields import Count, PlainText, RunName
from cadmus.dataset.sampler import Counts
from cadmus.dataset.shards import FOLDER, SCHEMA, Shard, check_columns, list_shards, read_shard
from cadmus.dataset.splits import hash_split, hashes, matches, split_of_hashes
from cadmus.errors import InputError, naming, reading
from cadmus.programs import TOKEN_OF_BYTE, Samples
from cadmus.records import Digest, Record, Sealed
from cadmus.tools import cores, progress
from cadmus.vm import compiled

NAME = "manifest.json"
_FIX = "sample it again: `make run`, or `cadmus shard` and `cadmus manifest`"
_IS_INSTRUCTION = TOKEN_OF_BYTE >= 0
_IS_INSTRUCTION[ord(isa.END)] = False


class File(Record):
    """A shard, as the manifest describes it."""

    file: str
    """Path in the directory of the dataset."""
    template: Annotated[str, Field(pattern=r"^\w+$")]
    split: Literal["train", "validation", "test", "ood"]
    rows: Annotated[Count, Field(le=MOST_PROGRAMS)]
    sha256: Digest

    @model_validator(mode="after")
    def _check_path(self) -> "File":
        # A path that leaves the directory does not match.
        if not re.fullmatch(rf"({FOLDER}/)?{self.split}/{self.template}-\d{{4,9}}\.parquet", self.file):
            wanted = f"{FOLDER}/{self.split}/{self.template}-NUMBER.parquet"
            raise ValueError(f"file: must be {wanted}, got {reprlib.repr(self.file)}")
        return self


class Manifest(Sealed):
    """``manifest.json``."""

    digest: PlainText
    config_digest: PlainText
    splits: dict[PlainText, dict[PlainText, dict[PlainText, Count]]]
    """By split and template: programs, distinct ones and outcome counts."""
    files: list[File]

    @model_validator(mode="after")
    def _check_files(self) -> "Manifest":
        # Their shards have other columns, too.
        if not all(file.file.startswith(FOLDER) for file in self.files):
            raise ValueError("files: an earlier version of Cadmus sampled them")
        rows: Counter[tuple[str, str]] = Counter()
        for file in self.files:
            rows[file.split, file.template] += file.rows
        for split, templates in self.splits.items():
            for template, counts in templates.items():
                programs, found = counts.get("programs"), rows.pop((split, template), 0)
                if programs != found:
                    raise ValueError(f"splits.{split}.{template}.programs: must be {found}, got {programs}")
        for split, template in rows:
            raise ValueError(f"splits.{split}.{template}: is missing")
        return self


class Described(Manifest):
    """With the config of the dataset."""

    name: RunName
    seed: Count
    dataset: Dataset


M = TypeVar("M", bound=Manifest)


def write_manifest(config: Config, directory: Path) -> dict[str, Any]:
    """Check all shards of ``directory``, describe them in its ``manifest.json`` and return the manifest."""
    # Reading, hashing and sorting release the GIL.
    with ThreadPoolExecutor(cores()) as pool:
        shards = list_shards(config)
        checking = pool.map(functools.partial(_check, config, directory), shards)
        files = []
        by_shard: dict[tuple[str, str], list[np.ndarray]] = defaultdict(list)
        for file, hashed in progress("check", checking, len(shards), "shard"):
            files.append(file)
            by_shard[file["split"], file["template"]].append(hashed)
        distinct = dict(zip(by_shard, pool.map(_distinct, by_shard.values()), strict=True))
    rules = _describe_rules(config, directory, files)
    manifest = {
        "name": config.name,
        "digest": digest([[file["file"], file["sha256"]] for file in files]),
        "isa_limits": isa.LIMITS,
        "config_digest": config.dataset_digest(),
        "seed": config.seed,
        "dataset": config.dataset.model_dump(),
        "splits": _describe(distinct, files, config.dataset.splits),
        **({"ood": rules} if rules else {}),
        "files": files,
    }
    store.write_json(directory / NAME, "dataset", manifest)
    return manifest


def read_manifest(directory: Path | str) -> Manifest:
    """Return the manifest of a dataset."""
    return read_manifest_as(Manifest, directory)


def read_manifest_as(model: type[M], directory: Path | str) -> M:
    """Return the manifest of a dataset as a narrower type than :class:`Manifest`."""
    path = Path(directory) / NAME
    if not path.exists():
        raise InputError(f"{path}: no such file; {directory} is not a finished dataset")
    return store.read_json(path, "dataset", model, _FIX)


def read_split(directory: Path | str, split: str, templates: Collection[str] | None = None) -> Samples:
    """Read a split into memory, with all columns, as :func:`stream_split` yields it."""
    return Samples.concat([*stream_split(directory, split, templates, ("template", "x", "y"))])


def stream_split(
    directory: Path | str, split: str, templates: Collection[str] | None = None, columns: Collection[str] = ()
) -> Iterator[Samples]:
    """Read a split shard by shard, in the order of the manifest; of some templates, or all if None.

    ``columns`` are any of template, x and y, besides the programs and their prompt lengths.
    """
    directory = Path(directory)
    files = [
        file
        for file in read_manifest(directory).files
        if file.split == split and (templates is None or file.template in templates)
    ]
    if not files:
        selection = f" of {', '.join(templates)}" if templates else ""
        raise InputError(f"{directory}: the dataset has no {split} programs{selection}")
    for file in files:
        yield Samples.from_arrow(read_file(directory, file, ["program", "prompt_length", *columns]))
    # Otherwise Arrow keeps the memory that it decoded into.
    pa.default_memory_pool().release_unused()


def read_file(directory: Path, file: File, columns: list[str]) -> pa.Table:
    """Return some columns of a shard, ``program`` and ``prompt_length`` among them."""
    path = directory / file.file
    store.check_digest(path, file.sha256, "dataset")
    with reading(path, store.KINDS["dataset"]), pq.ParquetFile(path) as opened:
        if not opened.schema_arrow.equals(SCHEMA):
            raise ValueError("other columns than a shard's")
        if opened.metadata.num_rows != file.rows:
            raise ValueError(f"{opened.metadata.num_rows} rows, {NAME} has {file.rows}")
        table = opened.read(["split", *columns])
        check_columns(table, file.split, file.template)
        table = table.select(columns)
        samples = Samples.from_arrow(table)
    for problem, rows in unreadable(samples).items():
        if rows.any():
            raise InputError(f"{path}: program: row {rows.argmax()} {problem}; {store.KINDS['dataset']}")
    return table


def unreadable(samples: Samples) -> dict[str, np.ndarray]:
    """Return rows that are not programs with a prompt, by what is wrong: bool, shape (n,)."""
    programs = samples.programs
    lengths, bad = programs.lengths, np.zeros(len(programs), np.bool_)
    wrong = np.flatnonzero(~_IS_INSTRUCTION[programs.data])
    bad[np.searchsorted(programs.offsets, wrong, "right") - 1] = True
    return {
        "has a character that is not an instruction": bad,
        f"has more than {LONGEST_PROGRAM} instructions": lengths > LONGEST_PROGRAM,
        "has no prompt": (samples.prompt_length < 1) | (samples.prompt_length > lengths),
    }


def _check(config: Config, directory: Path, shard: Shard) -> tuple[dict[str, Any], np.ndarray]:
    """Check a shard; return its description for the manifest and the hashes of its programs."""
    path = directory / shard.path
    metadata, table = read_shard(directory, shard, config)
    outcomes = vars(Counts()).keys() - (set() if config.dataset.ood else {OOD})
    if metadata.counts.keys() != outcomes:
        raise InputError(
            f"{path}: counts: must be of {', '.join(sorted(outcomes))}; delete it and sample it again"
        )
    samples = Samples.from_arrow(table)
    hashed = hashes(samples.programs)
    rules = config.dataset.rules_for(shard.template)
    by_rule = matches(rules.values(), samples)
    with naming(path):
        true = compiled.are_true(samples.programs)
    wrong = {
        "have no prompt": (samples.prompt_length < 1) | (samples.prompt_length > samples.programs.lengths),
        "have other numbers": table["number"].to_numpy() != shard.start + np.arange(len(table)),
        "are not true": ~true,
        "belong to another split": split_of_hashes(hashed, config.dataset.eval_fraction)
        != hash_split(shard.split),
    }
    if shard.split == OOD:
        wrong["match no rule of dataset.ood"] = ~by_rule.any(axis=0)
    else:
        wrong |= {f"match dataset.ood.{name}": hits for name, hits in zip(rules, by_rule, strict=True)}
    for problem, rows in wrong.items():
        if rows.any():
            raise InputError(f"{path}: {np.sum(rows)} programs {problem}; delete it and sample it again")
    file = {
        "file": shard.path,
        "template": shard.template,
        "split": shard.split,
        "rows": len(table),
        "sha256": store.digest_of(path),
        **metadata.model_dump(include={"counts", "ood"}, exclude_unset=True),
    }
    return file, hashed


def _distinct(hashed: list[np.ndarray]) -> int:
    together = np.concatenate(hashed)
    # A template may have tens of millions.
    hashed.clear()
    together.sort()
    return int(np.sum(together[1:] != together[:-1])) + min(1, len(together))


def _describe_rules(config: Config, directory: Path, files: list[dict[str, Any]]) -> dict[str, Any]:
    """Count for each OOD rule the candidates of each template that it matched, which must be some."""
    described = {}
    for name, rule in config.dataset.ood.items():
        of_rule = [file for file in files if name in file["ood"]]
        matched: dict[str, int] = defaultdict(int)
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
        described[name] = dict(matched)
    return described


def _describe(
    distinct: dict[tuple[str, str], int], files: list[dict[str, Any]], splits: tuple[str, ...]
) -> dict[str, dict[str, Any]]:
    """Return by split and template: programs, distinct ones and outcome counts."""
    described: dict[str, dict[str, Any]] = {split: {} for split in splits}
    for (split, template), different in distinct.items():
        of_key = [file for file in files if (file["split"], file["template"]) == (split, template)]
        counts = [file["counts"] for file in of_key]
        described[split][template] = {
            "programs": sum(file["rows"] for file in of_key),
            "distinct": different,
            # In their order; without OOD rules, ood is not counted.
            **{name: sum(count[name] for count in counts) for name in vars(Counts()) if name in counts[0]},
        }
    return described
