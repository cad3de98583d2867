"""Damage the inputs of commands at random: configs, sealed files, arguments.

A mutant is determined by the seed, its number and the doors. Its command keeps the promise if it

* exits with 0, or with 2 and one line on standard error that names the damaged file;
* ends in time, prints no traceback, and leaves no temporary file and, after exit code 2, nothing else.

A config or an argument may be valid in another way. A damaged file may not: after exit code 0 the result must
be that of the undamaged file.

python -m dev.inputs --mutants 10000 --seed 1
python -m dev.inputs --mutants 1000 --doors sealed
python -m dev.inputs --seed 1 --first 1234 --mutants 1
"""

import io
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import click
import yaml

from cadmus import pipeline
from cadmus.cli.main import cadmus, main
from cadmus.config import load_config
from cadmus.experiments import grid
from cadmus.model.export import save_export
from cadmus.model.gpt import GPT
from cadmus.store import digest_of
from cadmus.tools import progress
from dev.measure import PATIENCE, ROOT, parser

DOORS = ("configs", "sealed", "arguments")
"""Inputs that are damaged."""
CONFIG = f"""\
extends: {ROOT}/tests/tiny.yaml
name: demo
dataset: {{validation: 20, test: 24, values: {{low: -9, high: 9}}}}
model: {{layers: 1, width: 16, heads: 2, mlp: 16}}
evaluate:
  completions: {{programs: 8}}
  loss: {{programs: 20}}
  pass_at_k: {{programs: 4, samples: 3}}
  induction: {{programs: 2, samples: 2, examples: 3}}
  grid: {{low: -11, high: 11, programs_per_pixel: 1}}
  probe: {{train_programs: 60, validation_programs: 20, test_programs: 20, inverse_regularization: [1]}}
"""
STUDY = """\
extends: config.yaml
name: demo_study
study:
  question: Tied?
  variants: {base: {}, tied: {model: {tied: true}}}
  seeds: [0, 1]
"""
GRID = "evaluate grid --model model --config config.yaml --output out.parquet"
COMPLETIONS = "evaluate completions --model model --dataset dataset --config config.yaml --output out.parquet"
COMPLETE = "complete 34+ --model model --json"
COMMANDS = {
    "config.yaml": (
        "config show config.yaml --json",
        "plan config.yaml",
        "sample equality -n 2 --json --config config.yaml",
        "shard new --config config.yaml --template equality --split test --number 0",
        GRID,
    ),
    "study.yaml": ("config show study.yaml", "study runs study.yaml --results studies"),
    "dataset/manifest.json": (COMPLETIONS, "card dataset"),
    "dataset/data/*/equality-0000.parquet": (COMPLETIONS, "card dataset"),
    "model/meta.json": (COMPLETE, GRID),
    "model/model.safetensors": (COMPLETE, GRID),
    "grid.parquet": ("figure comparison_grid --output drawn --results grid.parquet",),
    "completions.parquet": ("figure table3_accuracy --output drawn --results completions.parquet",),
}
"""Commands that read a file, by the path of the file."""
OTHER = ("run 34+7= --trace", "run u1b2b --json", "isa --json", "figure table2_instructions --output drawn")
"""More commands whose arguments are changed."""
VALUES = (
    *("null", "true", "0", "-1", "2.5", "1" + "0" * 400, ".nan", ".inf", "''", "../up", "a" * 100_000, "[]"),
    *('"é\\u202e\\e[31m"', "{x: null}", "{a: 1, a: 2}", "{? [a, b] : 1}", "&a [*a]", "2020-99-99", "'"),
    *("!!python/object/apply:os.system [true]", "[" * 10_000 + "]" * 10_000, "\t- a"),
)
"""Text that replaces a value in YAML."""
WORDS = (
    *("", "-", "--", "0", "-1", "1.5", "1e999", "nan", "9" * 30, "9" * 5_000),
    *("٣", "é\u202e\x1b[31m", "\udcff", "a" * 300, "a" * 5_000),
    *(".", "..", "no/such/path", "config.yaml", "model", "dataset", "grid.parquet"),
    *("--help", "--unknown", "--json", "--output", "--seed=-3", "x.parquet"),
)
"""Words of a command line; no absolute path, so that a mutant stays in its directory."""


class Ended(NamedTuple):
    """The end of a command, and the files that it changed with their digests before and after."""

    status: object
    stdout: str
    stderr: str
    changed: set[tuple[str, str]]


def build() -> None:
    """Write small valid inputs of every command to the working directory."""
    Path("config.yaml").write_text(CONFIG)
    Path("study.yaml").write_text(STUDY)
    config = load_config("config.yaml")
    pipeline.sample(config, "dataset")
    digest = pipeline.dataset(config, "dataset")["digest"]
    save_export(GPT(config.model), Path("model"), {"config": config.model_dump(), "data_digest": digest})
    # Other experiments take a minute, and for each mutant the baselines of a grid would take seconds.
    grid._TRAINING_PROGRAMS = 500
    pipeline.evaluate("grid", "model", "grid.parquet", config=config)
    pipeline.evaluate("completions", "model", "completions.parquet", "dataset", config)


def try_mutant(
    rng: random.Random, valid: Path, work: Path, doors: Sequence[str] = DOORS
) -> tuple[bool, list[str], str]:
    """Run a command on a damaged copy of the valid inputs, in ``work``.

    Returns whether the command refuses its input, how it breaks the promise, and what was changed.
    """
    shutil.copytree(valid, work)
    door = rng.choice(doors)
    if door == "arguments":
        lines = [line for lines in (*COMMANDS.values(), OTHER) for line in lines]
        words, file, change = change_arguments(rng.choice(lines).split(), rng), "", door
    else:
        pattern = rng.choice([name for name in COMMANDS if name.endswith(".yaml") == (door == "configs")])
        path = rng.choice(sorted(work.glob(pattern)))
        words, file = rng.choice(COMMANDS[pattern]).split(), str(path.relative_to(work))
        change = (change_yaml if door == "configs" and rng.random() < 0.8 else change_bytes)(path, rng)
    ended = run(words, work)
    problems = find_problems(file, ended)
    if door == "sealed" and ended.status == 0:
        undamaged = shutil.copytree(valid, work.with_name("undamaged"))
        if ended != run(words, undamaged):
            problems.append("exits with 0 and another result for a damaged file")
        shutil.rmtree(undamaged)
    return bool(ended.status), problems, f"cadmus {ascii(' '.join(words))[:300]}\n  {file}: {change}"


def run(words: list[str], work: Path) -> Ended:
    """Run the command line in this process and the directory ``work``."""
    before, out, err = files_of(work), io.StringIO(), io.StringIO()
    sys.argv, sys.stdin = ["cadmus", *words], io.StringIO("34+7=\n")
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(f"takes longer than {PATIENCE} s"))
    signal.alarm(PATIENCE)
    status: object = 0
    try:
        with chdir(work), redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as error:
        status = error.code or 0
    except BaseException:
        err.write(traceback.format_exc())
    finally:
        signal.alarm(0)
    return Ended(status, out.getvalue(), err.getvalue(), files_of(work) ^ before)


def find_problems(file: str, ended: Ended) -> list[str]:
    """Return how a command breaks the promise; ``file`` is the damaged one, if there is one."""
    lines = [line for line in ended.stderr.splitlines() if line.strip()]
    if "Traceback" in ended.stderr:
        return [f"traceback: {lines[-1][:200]}"]
    if ended.status not in (0, 2):
        return [f"exit code {ended.status}"]
    changed = sorted({name for name, _ in ended.changed})
    problems = [f"changed {name}" for name in changed if ended.status or "/." in f"/{name}"]
    # A group without a subcommand prints its help.
    if ended.status == 0 or "Usage: " in ended.stderr:
        return problems
    if len(lines) != 1 or not lines[0].startswith("cadmus: error: "):
        problems.append(f"does not print one line, an error: {lines[-2:]}")
    elif not lines[0].isprintable():
        problems.append(f"prints control characters: {lines[0]!a}")
    elif file and not any(part in lines[0] for part in (Path(file).name, "dataset", "model")):
        problems.append(f"does not name {file}: {lines[0][:200]}")
    return problems


def files_of(directory: Path) -> set[tuple[str, str]]:
    """Return each file below a directory and its digest; PDFs have a date."""
    files = (path for path in directory.rglob("*") if path.is_file() and path.suffix != ".pdf")
    return {(str(path.relative_to(directory)), digest_of(path)) for path in files}


def change_yaml(path: Path, rng: random.Random) -> str:
    """Replace, delete or rename a field of a config; return a description."""
    tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    places: list[tuple[dict[str, Any], str]] = [(tree, key) for key in tree]
    for parent, key in places:
        if isinstance(parent[key], dict):
            places += [(parent[key], below) for below in parent[key]]
    parent, key = rng.choice(places)
    before, value = parent.pop(key), rng.choice(VALUES)
    replaced = (f"replaced by {ascii(value)[:60]}", {key: "@value@"})
    edit, new = rng.choice((replaced, replaced, ("deleted", {}), ("renamed", {f"{key}s": before})))
    parent |= new
    text = yaml.safe_dump(tree, sort_keys=False, default_flow_style=None)
    path.write_text(text.replace("'@value@'", value), encoding="utf-8")
    return f"{key}: {edit}"


def change_bytes(path: Path, rng: random.Random) -> str:
    """Change the bytes of a file, or remove it; return a description."""
    content = path.read_bytes()
    place = rng.randrange(len(content))
    before, after = content[:place], content[place:]
    edits = {
        "truncated": before,
        "flipped": before + bytes([content[place] ^ 1 << rng.randrange(8)]) + after[1:],
        "inserted": before + rng.randbytes(8) + after,
        "UTF-16": content.decode("latin-1").encode("utf-16"),
    }
    edit = rng.choice((*edits, "flipped", "flipped", "missing"))
    path.unlink()
    if edit in edits:
        path.write_bytes(edits[edit])
    return f"{edit} at {place}"


def change_arguments(words: list[str], rng: random.Random) -> list[str]:
    """Return other arguments of a command: a word replaced, deleted or inserted, or an option added."""
    command: click.Command = cadmus
    for word in words:
        if isinstance(command, click.Group):
            command = command.get_command(click.Context(command), word) or command
    options = [name for param in command.params for name in param.opts if name.startswith("-")]
    place, other = rng.randrange(len(words) + 1), rng.choice(WORDS)
    start, end = words[:place], words[place:]
    option = rng.choice(options or ["--help"])
    return [*start, *rng.choice(([other, *end[1:]], end[1:], [other, *end], [option, other, *end]))]


def command() -> None:
    options = parser(__doc__)
    options.add_argument("--mutants", type=int, default=1_000, help="number of mutants")
    options.add_argument("--seed", type=int, default=0, help="of the mutants")
    options.add_argument("--doors", nargs="+", choices=DOORS, default=DOORS, help="what is damaged")
    options.add_argument("--first", type=int, default=0, help="number of the first mutant")
    given = options.parse_args()
    os.environ |= {"CUDA_VISIBLE_DEVICES": "", "MPLBACKEND": "agg", "NO_COLOR": "1"}
    directory = Path(tempfile.mkdtemp(prefix="inputs-"))
    (valid := directory / "valid").mkdir()
    with chdir(valid), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        build()
    counts: Counter[str] = Counter()
    for number in progress("mutants", range(given.first, given.first + given.mutants)):
        work = directory / str(number)
        rng = random.Random(f"mutant {given.seed} {number}")
        refused, problems, described = try_mutant(rng, valid, work, given.doors)
        counts["failed" if problems else "refused" if refused else "valid"] += 1
        if problems or given.mutants == 1:
            print(f"mutant {number}: {described}", *problems, sep="\n  ", flush=True)
        if not problems:
            shutil.rmtree(work)
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    if counts["failed"]:
        sys.exit(f"see {directory}; repeat one with --seed {given.seed} --first NUMBER --mutants 1")
    shutil.rmtree(directory)


if __name__ == "__main__":
    command()
