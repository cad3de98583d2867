"""Damage the inputs of commands at random: configs, sealed files, arguments.

A mutant is determined by the seed and its number. Its command keeps the promise if it

* exits with 0, or with 2 and one line on standard error that names the damaged file;
* ends in time, prints no traceback and, if ``--json`` asks for it, JSON;
* leaves no temporary file and, after exit code 2, all files as they were.

A config or an argument may be valid in another way. A sealed file may not: after exit code 0 the result must
be that of the undamaged file.

python -m dev.inputs --mutants 10000 --seed 1
python -m dev.inputs --seed 1 --first 1234 --mutants 1
"""

import argparse
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import click
import yaml

from cadmus.cli.main import cadmus, main
from cadmus.config import load_config
from cadmus.config.study import load_study
from cadmus.dataset.shards import plan, write_shard
from cadmus.model.export import save_export
from cadmus.model.gpt import GPT
from cadmus.store import digest_of
from cadmus.tools import progress
from dev.measure import ROOT

SECONDS = 120
"""Limit of a command, which takes a few seconds on valid inputs."""
ENVIRONMENT = {"CUDA_VISIBLE_DEVICES": "", "MPLBACKEND": "agg", "NO_COLOR": "1"}
CONFIG = {
    "extends": str(ROOT / "tests/tiny.yaml"),
    "name": "demo",
    "dataset": {"validation": 20, "test": 24, "values": {"low": -9, "high": 9}},
    "model": {"layers": 1, "width": 16, "heads": 2, "mlp": 16},
    "evaluate": {"completions": {"programs": 20}, "grid": {"low": -11, "high": 11, "programs_per_pixel": 1}},
}
STUDY = {
    "extends": "config.yaml",
    "name": "demo_study",
    "study": {"question": "Tied?", "variants": {"base": {}, "tied": {"model": {"tied": True}}}, "seeds": [0]},
}
GRID = "evaluate grid --model model --config config.yaml --output out.parquet"
COMPLETIONS = "evaluate completions --model model --dataset dataset --config config.yaml --output out.parquet"
CONFIGS = {
    "config.yaml": (
        "config show config.yaml --json",
        "plan config.yaml",
        "sample equality -n 2 --json --config config.yaml",
        "states subroutines -n 3 --config config.yaml --output out.parquet",
        "shard new --config config.yaml --template equality --split test --number 0",
        GRID,
    ),
    "study.yaml": ("config show study.yaml", "study runs study.yaml --results studies"),
}
SEALED = {
    "dataset/manifest.json": (COMPLETIONS, "report dataset"),
    "dataset/*/equality-0000.parquet": (COMPLETIONS, "report dataset"),
    "model/meta.json": ("complete 34+ --model model --json", GRID),
    "model/model.safetensors": ("complete 34+ --model model --json", GRID),
    "grid.parquet": ("figure comparison_grid --output drawn --results grid.parquet",),
    "completions.parquet": ("figure table3_accuracy --output drawn --results completions.parquet",),
}
OTHER = ("run 34+7= --trace", "run u1b2b --json", "isa --json", "figure table2_instructions --output drawn")
"""More commands whose arguments are changed."""
VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2.5,
    10**30,
    float("nan"),
    float("inf"),
    "",
    "../up",
    "é\u202e\x1b[31m",
    "a" * 100_000,
    [],
    {"x": None},
)
RAW = (
    "!!python/object/apply:os.system [true]",
    "2020-99-99",
    "&a [*a]",
    "{? [a, b] : 1}",
    "{a: 1, a: 2}",
    "[" * 10_000 + "]" * 10_000,
    "9" * 5_000,
    "'",
    "\t- a",
)
"""Text that replaces a value in YAML."""
WORDS = (
    *(
        "",
        "-",
        "--",
        "0",
        "-1",
        "1.5",
        "1e999",
        "nan",
        "9" * 30,
        "9" * 5_000,
        "٣",
        "é\u202e\x1b[31m",
        "\udcff",
    ),
    *(".", "..", "no/such/path", "config.yaml", "model", "dataset", "grid.parquet", "a" * 300, "a" * 5_000),
    *("--help", "--unknown", "--json", "--output", "--seed=-3", "x.parquet"),
)
"""Words of a command line; no absolute path, so that a mutant stays in its directory."""
OUTPUTS = ("out.parquet", "new", "drawn", "dataset/report", "dataset/README.md", "dataset/croissant.json")
Files = dict[str, str]
"""Digest of each file of a directory, by path."""


class Mutant(NamedTuple):
    """A damaged input, the command that reads it, and how the command ended."""

    number: int
    file: str
    change: str
    words: list[str]
    outcome: str
    problems: list[str]
    line: str


class Ended(NamedTuple):
    status: object
    stdout: str
    stderr: str
    files: Files


class Hang(BaseException):
    """A command that takes too long."""


def build() -> None:
    """Write small valid inputs of every command to the working directory."""
    Path("config.yaml").write_text(yaml.safe_dump(CONFIG, sort_keys=False))
    Path("study.yaml").write_text(yaml.safe_dump(STUDY, sort_keys=False))
    config = load_config(Path("config.yaml"))
    load_study(Path("study.yaml"))
    for shard in plan(config):
        write_shard(config, Path("dataset"), shard.template, shard.split, shard.number)
    save_export(GPT(config.model), config.model, Path("model"), {})
    for line in ("manifest dataset --config config.yaml", GRID, COMPLETIONS):
        cadmus.main(line.split(), standalone_mode=False)
        if "evaluate" in line:
            Path("out.parquet").rename(f"{line.split()[1]}.parquet")


class Fuzzer:
    """Mutants of the valid inputs in ``directory/valid``."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory, self.seed = directory, seed
        self.valid = directory / "valid"
        self.valid.mkdir()
        self._expected: dict[str, Ended] = {}
        os.environ.update(ENVIRONMENT)
        with chdir(self.valid), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            build()

    def mutant(self, number: int) -> Mutant:
        """Run and judge a mutant; its directory is removed unless it failed."""
        rng = random.Random(f"mutant {self.seed} {number}")
        work = self.directory / str(number)
        shutil.copytree(self.valid, work)
        door = rng.choice((CONFIGS, SEALED, None))
        if door is None:
            line = rng.choice(
                [line for lines in (*CONFIGS.values(), *SEALED.values(), OTHER) for line in lines]
            )
            file, words = "", change_arguments(line.split(), rng)
            change = ascii(" ".join(words))[:200]
        else:
            pattern = rng.choice(list(door))
            line = rng.choice(door[pattern])
            path = rng.choice(sorted(work.glob(pattern)))
            file, words = path.relative_to(work).as_posix(), line.split()
            change = (change_yaml if door is CONFIGS and rng.random() < 0.8 else change_bytes)(path, rng)
        before = files_of(work)
        ended = run(words, work)
        problems = find_problems(words, file, before, ended)
        same = ended.status == 0 and _result(ended) == _result(self._run_valid(line))
        if door is SEALED and ended.status == 0 and not same:
            problems.append("exits with 0 and another result for a damaged file")
        outcome = "failed" if problems else "refused" if ended.status else "same" if same else "changed"
        if not problems:
            shutil.rmtree(work)
        last = (ended.stderr.strip().splitlines() or [""])[-1]
        return Mutant(number, file, change, words, outcome, problems, last)

    def _run_valid(self, line: str) -> Ended:
        if line not in self._expected:
            work = self.directory / "expected"
            shutil.copytree(self.valid, work)
            self._expected[line] = run(line.split(), work)
            shutil.rmtree(work)
        return self._expected[line]


def run(words: list[str], work: Path) -> Ended:
    """Run the command line in this process and the directory ``work``."""

    def hang(number: int, frame: FrameType | None) -> None:
        raise Hang(f"takes longer than {SECONDS} s")

    arguments, stdin = sys.argv, sys.stdin
    out, err = io.StringIO(), io.StringIO()
    sys.argv, sys.stdin = ["cadmus", *words], io.StringIO("34+7=\n")
    signal.signal(signal.SIGALRM, hang)
    signal.alarm(SECONDS)
    status: object = 0
    try:
        with chdir(work), redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as error:
        status = error.code or 0
    except BaseException:
        status = 1
        err.write(traceback.format_exc())
    finally:
        signal.alarm(0)
        sys.argv, sys.stdin = arguments, stdin
    return Ended(status, out.getvalue(), err.getvalue(), files_of(work))


def find_problems(words: list[str], file: str, before: Files, ended: Ended) -> list[str]:
    """Return how a command breaks the promise.

    Args:
        words: arguments.
        file: the damaged file, empty if arguments were changed.
        before: files before the command.
        ended: the result.
    """
    lines = [line for line in ended.stderr.splitlines() if line.strip()]
    if "Traceback" in ended.stderr:
        return [f"traceback: {lines[-1][:200]}"]
    if ended.status not in (0, 2):
        return [f"exit code {ended.status}"]
    changed = {name for name in before | ended.files if before.get(name) != ended.files.get(name)}
    temporary = sorted(name for name in changed if any(part.startswith(".") for part in name.split("/")))
    problems = [f"leaves the temporary file {name}" for name in temporary]
    if ended.status == 0:
        if "--json" in words and "--help" not in words and file:
            problems += _json_problems(ended.stdout.splitlines() if "sample" in words else [ended.stdout])
        return problems
    problems += [f"changed {name} although it failed" for name in sorted(changed - set(temporary))]
    if "Usage: " in ended.stderr:
        # A group without a subcommand prints its help.
        return problems
    if len(lines) != 1 or not lines[0].startswith("cadmus: error: "):
        problems.append(f"does not print one line, an error: {lines[-2:]}")
    elif not lines[0].isprintable():
        problems.append(f"prints control characters: {lines[0]!a}")
    elif file and not any(part in lines[0] for part in (Path(file).name, "dataset", "model")):
        problems.append(f"does not name {file}: {lines[0][:200]}")
    return problems


def _json_problems(texts: list[str]) -> list[str]:
    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    try:
        for text in texts:
            json.loads(text, parse_constant=refuse)
    except ValueError as error:
        return [f"prints no JSON: {error}"]
    return []


def _result(ended: Ended) -> tuple[str, Files]:
    """Return what a command printed and wrote; PDFs have a date, and a Parquet file the commit."""
    return ended.stdout, {
        name: digest
        for name, digest in ended.files.items()
        if name.startswith(OUTPUTS) and ".pdf" not in name
    }


def files_of(directory: Path) -> Files:
    """Return the digest of each file below a directory."""
    found = {}
    for path in directory.rglob("*"):
        if path.is_symlink() or path.is_file():
            name = path.relative_to(directory).as_posix()
            found[name] = "link" if path.is_symlink() else digest_of(path)
    return found


def change_yaml(path: Path, rng: random.Random) -> str:
    """Change one place of a config; return a description."""
    tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    parent, key = rng.choice(list(_places(tree)))
    edits: dict[str, Callable[[], Any]] = {
        "replaced": lambda: parent.update({key: rng.choice(VALUES)}),
        "raw": lambda: parent.update({key: "@raw@"}),
        "deleted": lambda: parent.pop(key),
        "renamed": lambda: parent.update({f"{key}s": parent.pop(key)}),
        "wrapped": lambda: parent.update({key: [parent[key]]}),
        "text": lambda: parent.update({key: str(parent[key])}),
    }
    edit = rng.choice([*edits, "replaced", "replaced"])
    edits[edit]()
    raw = rng.choice(RAW)
    text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, default_flow_style=None)
    path.write_text(text.replace("'@raw@'", raw), encoding="utf-8")
    return f"{key}: {edit}: {ascii(raw if edit == 'raw' else parent.get(key))[:60]}"


def _places(tree: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each mapping in a tree with each of its keys."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield tree, key
            yield from _places(value)


def change_bytes(path: Path, rng: random.Random) -> str:
    """Change the bytes of a file, or what is in its place; return a description."""
    content = path.read_bytes()
    place = rng.randrange(len(content))
    edits: dict[str, Callable[[], bytes | None]] = {
        "truncated": lambda: content[:place],
        "flipped": lambda: (
            content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :]
        ),
        "inserted": lambda: content[:place] + rng.randbytes(8) + content[place:],
        "deleted": lambda: content[:place] + content[place + 8 :],
        "empty": lambda: b"",
        "twice": lambda: content * 2,
        "zeros": lambda: bytes(len(content)),
        "noise": lambda: rng.randbytes(200),
        "UTF-16": lambda: content.decode("latin-1").encode("utf-16"),
        "removed": lambda: None,
        "a directory": lambda: None,
        "a broken link": lambda: None,
    }
    edit = rng.choice([*edits, "flipped", "flipped"])
    changed = edits[edit]()
    path.unlink()
    if changed is not None:
        path.write_bytes(changed)
    elif edit == "a directory":
        path.mkdir()
    elif edit == "a broken link":
        path.symlink_to("nowhere")
    return f"{edit} at {place}"


def change_arguments(words: list[str], rng: random.Random) -> list[str]:
    """Return other arguments of a command."""
    changed = list(words)
    place = rng.randrange(len(changed) + 1)
    edit = rng.choice(("replaced", "replaced", "deleted", "option", "inserted"))
    if edit == "option" and (options := _options(words)):
        changed += [rng.choice(options), rng.choice(WORDS)]
    elif edit in ("replaced", "deleted") and place < len(changed):
        changed[place : place + 1] = [rng.choice(WORDS)] if edit == "replaced" else []
    else:
        changed.insert(place, rng.choice(WORDS))
    return changed


def _options(words: list[str]) -> list[str]:
    """Return the options of the command that ``words`` begin with."""
    command: click.Command = cadmus
    for word in words:
        if isinstance(command, click.Group):
            command = command.get_command(click.Context(command), word) or command
    return [name for param in command.params for name in param.opts if name.startswith("-")]


def fuzz(directory: Path, seed: int, numbers: range) -> Iterator[Mutant]:
    """Yield mutants in order."""
    fuzzer = Fuzzer(directory, seed)
    for number in progress("mutants", numbers):
        yield fuzzer.mutant(number)


def command() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mutants", type=int, default=1_000, help="number of mutants")
    parser.add_argument("--seed", type=int, default=0, help="of the mutants")
    parser.add_argument("--first", type=int, default=0, help="number of the first mutant")
    given = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="inputs-"))
    counts: Counter[str] = Counter()
    for mutant in fuzz(directory, given.seed, range(given.first, given.first + given.mutants)):
        counts[mutant.outcome] += 1
        if mutant.problems or given.mutants == 1:
            print(f"mutant {mutant.number}: {mutant.outcome}: cadmus {ascii(' '.join(mutant.words))[:200]}")
            print(f"  {mutant.file} {mutant.change}\n  {mutant.line[:300]}")
            print("".join(f"  {problem}\n" for problem in mutant.problems), end="", flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    if counts["failed"]:
        sys.exit(f"see {directory}; repeat one with --seed {given.seed} --first NUMBER --mutants 1")
    shutil.rmtree(directory)


if __name__ == "__main__":
    command()
