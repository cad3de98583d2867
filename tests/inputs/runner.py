"""Run commands on damaged inputs, each in a fork of a process that has imported everything.

A mutant is determined by the seed and its number. It keeps the promise if the command

* exits with 0, or with 2 and one line on standard error that names what is wrong;
* prints no traceback, and ends within the limits of time and memory;
* leaves its inputs as they were and no temporary file, and after exit code 2 none of its outputs either;
* after exit code 0 prints JSON if ``--json`` asks for it.

With exit code 0 the result is ``same`` as that of the valid input, or ``changed``. It may change only if
the damaged file can still be parsed, or is missing: what may have been written on purpose is valid.
"""

import gc
import hashlib
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.inputs import mutators
from tests.inputs.targets import ARGUMENTS, OTHER, TARGETS, Command
from tests.inputs.workspace import build

CPU_SECONDS = 30
"""Limit of a command; the slowest valid one takes about 3."""
WALL_SECONDS = 600
"""Limit for a command that waits, long enough for a busy machine."""
MEMORY = 4 << 30
"""Bytes that a command may allocate beside the imported modules."""
DOCUMENTED = {"complete": 1}
"""Commands with a third exit code, which is a result: no verified program was found."""
LIBRARIES = (
    "PIL.PngImagePlugin",
    "deepspeed.runtime.zero.muon.original_muon",
    "fontTools.ttLib",
    "joblib",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_pdf",
    "pandas",
    "pyarrow.dataset",
    "scipy.stats",
    "uvicorn",
)
"""Imported by commands while they run."""
OUTCOMES = ("refused", "same", "changed", "failed")
Files = dict[str, str]
"""Digest of each file of a directory, by path."""


class Mutant(NamedTuple):
    """A damaged input, and the command that reads it."""

    number: int
    target: str
    file: str | None
    command: Command
    seed: str


class Ended(NamedTuple):
    """A command that ended.

    Attributes:
        status: exit code, or minus the number of the signal that ended it.
        change: description of the damage.
        words: arguments.
        before, after: files of the working directory; before is None if it was not damaged.
        seconds: of the processor.
        parses: whether the damaged file can be parsed by the library for its format.
    """

    status: int
    change: str
    words: list[str]
    stdout: str
    stderr: str
    before: Files | None
    after: Files
    seconds: float
    parses: bool = True


class Result(NamedTuple):
    """The verdict on a mutant; ``problems`` is empty unless the outcome is ``failed``."""

    mutant: Mutant
    outcome: str
    problems: list[str]
    ended: Ended


def warm() -> None:
    """Import what the commands import; nothing may start a thread, which a fork would lack."""
    import importlib
    import pkgutil
    import warnings

    import cadmus

    warnings.simplefilter("ignore")
    for found in pkgutil.walk_packages(cadmus.__path__, "cadmus."):
        if not found.name.startswith(("cadmus.__main__", "cadmus.bench")):
            importlib.import_module(found.name)
    for name in LIBRARIES:
        importlib.import_module(name)
    from cadmus.programs import Programs
    from cadmus.vm import compiled

    compiled.outputs(Programs.from_strings(["34+7=", "u1b2b", "\\E*;4Im"]))
    # Otherwise a collection in a fork copies all memory.
    gc.freeze()


class Fuzzer:
    """A workspace with valid inputs, and the mutants of a seed.

    Args:
        directory: an empty directory.
        seed: of the mutants.
    """

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory, self.seed = directory, seed
        self.workspace = directory / "workspace"
        self._valid: dict[Command, tuple[str, Files]] = {}
        self.workspace.mkdir(parents=True)
        _in_child(self.workspace, directory / "build", build)
        if "Traceback" in (errors := (directory / "build.err").read_text()):
            raise RuntimeError(errors)

    def mutant(self, number: int) -> Mutant:
        """Return the mutant of a number."""
        seed = f"{self.seed} {number}"
        rng = random.Random(f"mutant {seed}")
        target = rng.choice((*TARGETS, ARGUMENTS, ARGUMENTS))
        if target == ARGUMENTS:
            commands = [command for found in TARGETS.values() for command in found.commands]
            chosen = rng.choice([command for command in (*commands, *OTHER) if command.argument_mutants])
            return Mutant(number, target, None, chosen, seed)
        inputs, commands, *_ = TARGETS[target]
        pattern = rng.choice(inputs)
        file = rng.choice(sorted(self.workspace.glob(pattern))).relative_to(self.workspace).as_posix()
        reading = [found for found in commands if file in found.line or file == found.stdin]
        return Mutant(number, target, file, rng.choice(reading or list(commands)), seed)

    def run(self, mutant: Mutant) -> Result:
        """Run a mutant and judge it; its directory is removed unless it failed."""
        folder = self.directory / f"{mutant.number}"
        ended = self._run(mutant.command, folder, mutant)
        problems = find_problems(mutant, ended)
        same = ended.status == 0 and self._result(mutant.command, ended) == self._valid_result(mutant.command)
        if ended.status == 0 and not same and not ended.parses:
            problems.append("exits with 0 and another result for a file that cannot be parsed")
        outcome = "failed" if problems else "refused" if ended.status else "same" if same else "changed"
        if outcome != "failed":
            shutil.rmtree(folder)
        return Result(mutant, outcome, problems, ended)

    def _run(self, command: Command, folder: Path, mutant: Mutant | None) -> Ended:
        work = folder / "work"
        work.mkdir(parents=True)
        everything = mutant is None or mutant.target == ARGUMENTS
        target = None if everything else TARGETS[mutant.target]
        copied = [self.workspace] if target is None else []
        for source in copied:
            shutil.copytree(source, work, dirs_exist_ok=True)
        if target is not None and mutant is not None and mutant.file is not None:
            names = {
                *target.needs,
                *(pattern if "*" not in pattern else pattern.split("/")[0] for pattern in target.inputs),
                *([command.stdin] if command.stdin else []),
                *(word for word in command.line.split() if (self.workspace / word).exists()),
            }
            for name in names:
                mutators.replace_tree(self.workspace / name, work / name)
        words = command.line.split()
        note = folder / "note.json"

        def child() -> None:
            change, changed = "", words
            if mutant is not None:
                rng = random.Random(f"damage {mutant.seed}")
                if mutant.file is None:
                    changed, change = mutators.mutate_arguments(words, _options(words), rng)
                else:
                    change = mutators.mutate(Path(mutant.file), rng)
            note.write_text(
                json.dumps([change, changed, files_of(Path()), mutant is None or _parses(mutant)])
            )
            _limit()
            _main(changed, command.stdin or os.devnull)

        start = _cpu_seconds()
        status = _in_child(work, folder / "out", child)
        seconds = _cpu_seconds() - start
        change, changed, before, parses = (
            json.loads(note.read_text()) if note.exists() else ["", words, None, True]
        )
        texts = [
            folder.joinpath(f"out.{name}").read_text(encoding="utf-8", errors="replace")
            for name in ("out", "err")
        ]
        return Ended(status, change, changed, *texts, before, files_of(work), seconds, parses)

    def _result(self, command: Command, ended: Ended) -> tuple[str, Files]:
        written = {name: digest for name, digest in ended.after.items() if _is_output(name, command.outputs)}
        return ended.stdout, written

    def _valid_result(self, command: Command) -> tuple[str, Files]:
        """Return the result of a command on valid inputs."""
        if command not in self._valid:
            folder = self.directory / f"valid-{len(self._valid)}"
            ended = self._run(command, folder, None)
            if ended.status or "Traceback" in ended.stderr:
                raise RuntimeError(f"{command.line}: fails on valid inputs: {ended.stderr}")
            self._valid[command] = self._result(command, ended)
            shutil.rmtree(folder)
        return self._valid[command]


def find_problems(mutant: Mutant, ended: Ended) -> list[str]:
    """Return how a command breaks the promise."""
    command, status = mutant.command, ended.status
    problems = []
    if ended.before is None:
        return [f"the mutator failed: {ended.stderr[-300:]}"]
    if "Traceback" in ended.stderr + ended.stdout:
        problems.append(f"traceback: {ended.stderr.strip().splitlines()[-1][:200]}")
    if status < 0:
        problems.append(f"ended by {signal.Signals(-status).name}: above {CPU_SECONDS} s or the memory")
    elif status not in (0, 2, DOCUMENTED.get(next(iter(ended.words), ""), 0)):
        problems.append(f"exit code {status}")
    if status == 2 and not problems:
        problems += _line_problems(mutant, ended)
    for name in ended.before | ended.after:
        if ended.before.get(name) == ended.after.get(name):
            continue
        kind = "removed" if name not in ended.after else "changed" if name in ended.before else "left"
        if any(part.startswith(".") for part in Path(name).parts):
            problems.append(f"{kind} the temporary file {name}")
        elif mutant.file is None and not status:
            # The arguments may name other outputs.
            continue
        elif not _is_output(name, command.outputs):
            problems.append(f"{kind} {name}, which is not an output")
        elif status and not command.resumable and not _is_history(name):
            problems.append(f"{kind} {name} although it failed")
    if status == 0 and _asks_for_json(ended.words) and not problems:
        problems += _json_problems(ended.stdout, lines="sample" in ended.words or "-" in ended.words)
    return problems


def _is_history(name: str) -> bool:
    """Tell whether a file keeps what was read before an error, which is never read twice."""
    return "llm/replies/" in name


def _is_output(name: str, outputs: tuple[str, ...]) -> bool:
    return any(name == output or name.startswith(f"{output}/") for output in outputs)


def _line_problems(mutant: Mutant, ended: Ended) -> list[str]:
    lines = [line for line in ended.stderr.splitlines() if line.strip()]
    if mutant.command.stdin and mutant.command.line.startswith("repl"):
        # Each wrong line of a session is an error of its own.
        lines = lines[-1:]
    if not lines or not lines[-1].startswith("cadmus: error: "):
        # `cadmus study` without a subcommand prints its help.
        if "Usage: " in ended.stderr:
            return []
        return [f"the last line is not an error: {lines[-1:]}"]
    if len(lines) > 1 and not mutant.command.resumable:
        return [f"prints {len(lines)} lines"]
    message = lines[-1]
    if not message.isprintable():
        return [f"prints control characters: {message!a}"]
    if len(message) > 1_500 and mutant.file is not None:
        return [f"prints a line of {len(message):,} characters"]
    if mutant.file is None or mutant.target == "standard input":
        return []
    path = Path(mutant.file)
    names = {
        path.name,
        *TARGETS[mutant.target].names,
        *(folder.as_posix() for folder in path.parents if folder != Path()),
    }
    return [] if any(name in message for name in names) else [f"does not name {path}: {message[:300]}"]


def _asks_for_json(words: list[str]) -> bool:
    """Tell whether ``--json`` is an option of a command, and not the value of the option before it."""
    given = zip(words[1:], words, strict=False)
    return "--help" not in words and any(
        word == "--json" and not before.startswith("--") for word, before in given
    )


def _json_problems(text: str, lines: bool) -> list[str]:
    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    try:
        for part in text.splitlines() if lines else [text]:
            json.loads(part, parse_constant=refuse)
    except ValueError as error:
        return [f"prints no JSON: {error}"]
    return []


def _parses(mutant: Mutant) -> bool:
    """Tell whether the damaged file can still be parsed by the library for its format."""
    if mutant.file is None or mutant.file == mutant.command.stdin or not Path(mutant.file).exists():
        # Standard input has no format, and some files may be missing.
        return True
    path = Path(mutant.file)
    parsers: dict[str, Callable[[], object]] = {
        ".json": lambda: json.loads(path.read_text(encoding="utf-8")),
        ".yaml": lambda: path.read_text(encoding="utf-8"),
        ".csv": lambda: path.read_text(encoding="utf-8"),
        ".md": lambda: path.read_text(encoding="utf-8"),
    }
    try:
        parsers.get(path.suffix, path.read_bytes)()
    except (OSError, ValueError, RecursionError):
        return False
    return True


def _options(words: list[str]) -> list[str]:
    """Return the options of the command that ``words`` begin with."""
    import click

    from cadmus.cli.main import cadmus

    command: click.Command = cadmus
    for word in words:
        if not isinstance(command, click.Group):
            break
        command = command.get_command(click.Context(command), word) or command
    return [name for param in command.params for name in param.opts if name.startswith("-")]


def files_of(directory: Path) -> Files:
    """Return the digest of each file below a directory."""
    found = {}
    for folder, _, names in os.walk(directory):
        for name in names:
            path = Path(folder, name)
            content = b"link" if path.is_symlink() else path.read_bytes()
            found[path.relative_to(directory).as_posix()] = hashlib.sha256(content).hexdigest()
    return found


def _in_child(work: Path, output: Path, call: Callable[[], None]) -> int:
    """Call a function in a fork whose working directory is ``work``; return its exit status.

    Standard output and error go to ``output`` with the suffixes .out and .err.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setpgid(0, 0)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.chdir(work)
            for suffix, number in ((".out", 1), (".err", 2)):
                handle = os.open(f"{output}{suffix}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(handle, number)
            _reopen()
            call()
            status = 0
        except SystemExit as error:
            status = 0 if error.code is None else error.code if isinstance(error.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError, AttributeError):
                    stream.flush()
            os._exit(status)
    return _wait(child)


def _reopen() -> None:
    """Open standard output and error anew, as Python does at its start."""
    sys.stdout = _stream(1)
    sys.stderr = _stream(2, errors="backslashreplace", line_buffering=True)


def _cpu_seconds() -> float:
    """Return the processor time of all forks so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _stream(number: int, **options: Any) -> io.TextIOWrapper:
    raw = io.FileIO(number, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", **options)


def _wait(child: int) -> int:
    end = time.monotonic() + WALL_SECONDS
    pause = 0.001
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def _limit() -> None:
    data = next(
        int(line.split()[1]) << 10
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmData")
    )
    resource.setrlimit(resource.RLIMIT_DATA, (data + MEMORY, data + MEMORY))
    used = int(time.process_time()) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (used + CPU_SECONDS, used + CPU_SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _main(words: list[str], stdin: str) -> None:
    """Run the command line in this process, which ends with it."""
    import uvicorn

    from cadmus.cli.main import main

    # A server whose model is valid would run until it is stopped.
    uvicorn.Server.run = lambda self, sockets=None: None  # type: ignore[method-assign]
    os.dup2(os.open(stdin if os.path.isfile(stdin) else os.devnull, os.O_RDONLY), 0)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
    sys.argv = ["cadmus", *words]
    main()


def fuzz(directory: Path, seed: int, numbers: range) -> Iterator[Result]:
    """Yield the results of mutants, in order."""
    fuzzer = Fuzzer(directory, seed)
    for number in numbers:
        yield fuzzer.run(fuzzer.mutant(number))
