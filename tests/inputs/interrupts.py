"""Interrupt commands at random moments with SIGINT or SIGTERM, and check how they end and what they leave.

python -m tests.inputs.interrupts --interrupts 500 --seed 1 --output docs/results/interrupts.json

A command keeps the promise if it

* ends with 1 and one line on standard error, or with 0 if it had finished;
* or is ended while Python starts, before its first line, with nothing printed but Python's own modules;
* leaves no process, no temporary file, and all of its outputs or none, except where it can be resumed.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from cadmus.common.interrupts import session_of
from tests import measured
from tests.checkout import ROOT, environment_of
from tests.inputs.targets import ENVIRONMENT, OTHER, TARGETS, Command

SERVERS = ("serve", "explore")
"""Commands that work until a signal, which ends them with 0."""
SERVING = 10.0
"""Seconds within which a server is interrupted."""
LATE = 1.1
"""Latest moment, as a part of the duration of the undisturbed command."""
ENDED = 60.0
"""Seconds within which an interrupted command has to end."""
COMMANDS = tuple(
    dict.fromkeys([*(command for target in TARGETS.values() for command in target.commands), *OTHER])
)


class Interrupted(NamedTuple):
    """A command that was interrupted.

    Attributes:
        command: its command line.
        name: of the signal.
        everything: whether all processes of the command got it, as from a terminal, or the first alone.
        seconds: until the signal.
        status: exit code, or minus the number of the signal that ended it.
        outcome: ``interrupted``, ``finished``, ``before Python`` or ``failed``.
        problems: empty unless the outcome is ``failed``.
        stderr: standard error.
    """

    command: str
    name: str
    everything: bool
    seconds: float
    status: int
    outcome: str
    problems: list[str]
    stderr: str


class Interrupter:
    """Commands on copies of a workspace with valid inputs.

    Args:
        workspace: the inputs.
        directory: an empty directory.
        environment: of the commands.
    """

    def __init__(self, workspace: Path, directory: Path, environment: dict[str, str]) -> None:
        self.workspace, self.directory, self.environment = workspace, directory, environment
        self._undisturbed: dict[Command, tuple[float, set[str], set[str]]] = {}

    def interrupt(self, command: Command, name: str, everything: bool, moment: float) -> Interrupted:
        """Interrupt a command after a part of its duration.

        Args:
            command: the command.
            name: ``SIGINT`` or ``SIGTERM``.
            everything: send it to all processes of the command, or to the first alone.
            moment: part of the time until :data:`LATE`, from 0 to 1.
        """
        seconds, outputs, removed = self._finish(command)
        seconds *= moment * LATE
        work, process = self._start(command)
        with process:
            time.sleep(seconds)
            try:
                number = signal.Signals[name]
                (os.killpg if everything else os.kill)(process.pid, number)
            except ProcessLookupError:
                pass
            try:
                process.wait(ENDED)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
        left = _left(process.pid)
        stderr = work.with_suffix(".err").read_text(encoding="utf-8", errors="replace")
        problems = [f"leaves {len(left)} processes"] * bool(left)
        outcome, found = _judge(command, process.returncode, stderr)
        problems += found
        before, after = names_of(self.workspace), names_of(work)
        # A finished training removes its checkpoints, after it has written the model.
        finished = outputs <= after
        problems += [f"removed {name}" for name in before - after if not (finished and name in removed)]
        problems += [f"left the temporary file {name}" for name in after - before if _temporary(name)]
        made = {name for name in after - before if not _temporary(name)}
        if not command.resumable and made and made != outputs:
            problems.append(f"left {', '.join(sorted(made))} of {', '.join(sorted(outputs)) or 'none'}")
        if not problems:
            shutil.rmtree(work)
        outcome = "failed" if problems else outcome
        status = process.returncode
        return Interrupted(command.line, name, everything, seconds, status, outcome, problems, stderr)

    def _finish(self, command: Command) -> tuple[float, set[str], set[str]]:
        """Return the duration of an undisturbed command, and the files that it adds and removes."""
        if command.line.split()[0] in SERVERS:
            return SERVING, set(), set()
        if command not in self._undisturbed:
            start = time.perf_counter()
            work, process = self._start(command)
            if process.wait():
                raise RuntimeError(f"{command.line}: {work.with_suffix('.err').read_text()}")
            seconds = time.perf_counter() - start
            before, after = names_of(self.workspace), names_of(work)
            self._undisturbed[command] = seconds, after - before, before - after
            shutil.rmtree(work)
        return self._undisturbed[command]

    def _start(self, command: Command) -> tuple[Path, subprocess.Popen[bytes]]:
        work = Path(tempfile.mkdtemp(dir=self.directory))
        shutil.copytree(self.workspace, work, dirs_exist_ok=True)
        with (
            Path(work / command.stdin if command.stdin else os.devnull).open("rb") as given,
            work.with_suffix(".out").open("wb") as output,
            work.with_suffix(".err").open("wb") as errors,
        ):
            process = subprocess.Popen(
                [sys.executable, "-m", "cadmus", *command.line.split()],
                cwd=work,
                env=self.environment,
                stdin=given,
                stdout=output,
                stderr=errors,
                start_new_session=True,
                # A shell lets its background jobs ignore Ctrl-C.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
        return work, process


def _judge(command: Command, status: int, stderr: str) -> tuple[str, list[str]]:
    """Return the outcome of a command and what is wrong with its end."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    # An interrupt of `import site`, or of runpy, which looks for the module: no frame is of a file of ours.
    if stderr.startswith("Fatal Python error: init_import_site") or (
        "KeyboardInterrupt" in stderr and 'File "/' not in stderr
    ):
        return "before Python", []
    if "Traceback" in stderr:
        return "failed", [f"traceback: {lines[-1][:200]}"]
    if status in (-signal.SIGINT, -signal.SIGTERM) and not lines:
        return "before Python", []
    if status == 0:
        return "finished", []
    if status != 1:
        return "failed", [f"exit code {status}: {lines[-1:]}"]
    if not lines or "interrupted" not in lines[-1]:
        return "failed", [f"the last line does not say that it was interrupted: {lines[-1:]}"]
    if len(lines) > 1 and not command.resumable and command.line.split()[0] not in SERVERS:
        return "failed", [f"prints {len(lines)} lines"]
    return "interrupted", []


def _left(leader: int) -> list[int]:
    """Return the processes that a command leaves, after some time to end, and kill them."""
    deadline = time.monotonic() + 5
    while (left := session_of(leader)) and time.monotonic() < deadline:
        time.sleep(0.02)
    for process in left:
        os.kill(process, signal.SIGKILL)
    return left


def _temporary(name: str) -> bool:
    return any(part.startswith(".") for part in Path(name).parts)


def names_of(directory: Path) -> set[str]:
    """Return the paths of all files below a directory."""
    return {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()}


def main() -> None:
    """Interrupt commands, print the counts and exit with 1 if one broke the promise."""
    parser = measured.parser(__doc__)
    parser.add_argument("--interrupts", type=int, default=100, help="number of interrupts, 100 by default")
    parser.add_argument("--seed", type=int, default=0, help="of commands, signals and moments")
    given = parser.parse_args()

    from cadmus.common.provenance import commit
    from tests.inputs.runner import Fuzzer

    directory = Path(tempfile.mkdtemp(prefix="cadmus-interrupts-"))
    environment = environment_of(ROOT) | ENVIRONMENT | {"XDG_STATE_HOME": str(directory / "home")}
    os.environ.update(environment)
    copies = directory / "copies"
    copies.mkdir()
    interrupter = Interrupter(Fuzzer(directory, given.seed).workspace, copies, environment)
    rng = random.Random(given.seed)
    counts: dict[str, Counter[str]] = {}
    failures: list[Interrupted] = []
    start, latest = time.perf_counter(), 0.0
    for _ in range(given.interrupts):
        command, name = rng.choice(COMMANDS), rng.choice(("SIGINT", "SIGTERM"))
        done = interrupter.interrupt(command, name, name == "SIGINT" or rng.random() < 0.5, rng.random())
        counts.setdefault(command.line.split()[0], Counter())[done.outcome] += 1
        if done.outcome == "before Python":
            latest = max(latest, done.seconds)
        if done.outcome == "failed":
            failures.append(done)
            print(f"{done.name} after {done.seconds:.2f} s: cadmus {done.command}: {done.problems}")
            print(f"  {done.stderr[-500:]!r}", flush=True)
    outcomes = ("interrupted", "finished", "before Python", "failed")
    total = sum(counts.values(), Counter())
    record = {
        "commit": commit(),
        "seed": given.seed,
        "interrupts": given.interrupts,
        "seconds": round(time.perf_counter() - start),
        **{outcome: total[outcome] for outcome in outcomes},
        "latest_before_python": round(latest, 3),
        "commands": {
            name: {outcome: found[outcome] for outcome in outcomes} for name, found in sorted(counts.items())
        },
        "failures": [
            {"command": failed.command, "signal": failed.name, "problems": failed.problems}
            for failed in failures
        ],
    }
    measured.report(record, given.output)
    if not failures:
        shutil.rmtree(directory)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
