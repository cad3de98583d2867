"""The session on the rented machine, which has only Python and PyTorch when it begins.

Stages follow one another, each with a limit. What is finished is in the folder that comes back at once:

====================  ====================================================================================
``log.txt``           a line for each thing that happened, with the seconds since the start
``output.txt``        the end of what each process printed
``session.json``      the card, versions, results and measurements of all stages so far
``profile.txt``       the operations of a training step that take the most time
``metrics.jsonl``     the losses of the training
``weights-STEP-N``    the newest weights, in bf16
====================  ====================================================================================

If losses or logits are not those of the CPU, the session ends: a training would waste the minutes. Any other
failure costs only its own stage.

A session outlives the command that starts it (:func:`run`): the next one follows it and brings home what is
there by then, with the newest weights. So no command has to be the last one. If the session itself was
killed, the next command starts it again, without what is in ``--work`` already.
"""

import argparse
import fcntl
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

ROOT = Path(__file__).parents[2]
PACKED = ROOT / ".gpu"
WHEELS = PACKED / "wheels"
COMMIT = PACKED / "commit"
LOG, REPORT = "log.txt", "session.json"
HOME, LOCK, CODE, PRINTED = "home", "lock-of-session", "code", "printed.txt"
"""In ``--work``: the folder that comes back, the lock that the session holds, its exit code, its output."""

CONTINUES = "the session continues; give the same command again"

LIMITS = {"environment": 90, "correct": 100, "ranks": 400, "rates": 90, "weights": 20}
"""Seconds of the stages; the training gets what they leave."""
ENDING = 40
"""Seconds before the end at which the training is told to stop, to bring its weights home."""
STARTING = 45
"""Seconds of a training that are not steps: imports, compilation, checkpoints, export."""
GRACE = 15
"""Seconds that a process has to end after SIGTERM."""
MARGIN = 1.03
"""Of the time of a step over the measured one."""
UNMEASURED_MS = 40.0
"""Time of a step if it was not measured."""
ALIKE, GAIN = 0.02, 0.95
"""Relative difference of the losses of steps as graphs from those of others, and time of a step, at most."""
CHECKPOINT_SECONDS = 45
"""Between two checkpoints, whose weights come home in case the session is cut off."""
GIB = 4
"""Free space that the session needs."""
KEPT_BYTES = 500_000
"""Of what each process printed."""
CHECKS = "attention or losses_match or graphs or resumes or shipped_model"
"""Tests of tests/gpu.py; they need no Polars."""
FATAL = ("losses_match", "shipped_model")
"""Those without which a training would be a waste."""


class Stop(Exception):
    """The session, or a command of it, cannot go on; the message is one line."""


class Session:
    """A log, a report and a clock, and processes with limits."""

    def __init__(self, output: Path, work: Path, seconds: float, device: str, slow: float = 1.0) -> None:
        self.start, self.seconds, self.device = time.monotonic(), seconds, device
        self.limits = {name: slow * limit for name, limit in LIMITS.items()}
        self.output, self.work = output.absolute(), work.absolute()
        self.processes: list[Process] = []
        for folder in (self.output, self.work / "logs"):
            folder.mkdir(parents=True, exist_ok=True)
        # Of an earlier command on this machine.
        self.report: dict[str, Any] = _facts(self.work / REPORT) or {"stages": {}}
        if (self.work / LOG).exists():
            shutil.copyfile(self.work / LOG, self.output / LOG)
        # Caches of compilers, on a disk that is there for certain, for all processes of the session.
        caches = {
            "TORCHINDUCTOR_CACHE_DIR": "inductor",
            "TRITON_CACHE_DIR": "triton",
            "NUMBA_CACHE_DIR": "numba",
        }
        self.environment = {
            **os.environ,
            **{name: str(self.work / folder) for name, folder in caches.items()},
            "PYTHONPATH": os.pathsep.join([str(self.work / "site"), str(ROOT)]),
            "PYTHONUNBUFFERED": "1",
            "GPU_LOCK": str(self.work / "lock"),
            "GPU_TESTS": device,
        }

    def left(self) -> float:
        """Return the seconds that are left."""
        return self.seconds - (time.monotonic() - self.start)

    def say(self, line: str) -> None:
        text = f"[{time.monotonic() - self.start:5.0f} s] {line}"
        print(text, flush=True)
        for folder in (self.work, self.output):
            with suppress(OSError), (folder / LOG).open("a") as log:
                log.write(text + "\n")

    def note(self, **facts: Any) -> None:
        """Add facts to the report, which is written at once."""
        self.report |= facts
        for folder in (self.work, self.output):
            path = folder / f".{REPORT}"
            path.write_text(json.dumps(self.report, indent=1) + "\n")
            os.replace(path, folder / REPORT)

    def popen(self, name: str, command: list[str], **environment: str) -> "Process":
        """Start a Python process in a session of its own, with a log of its own."""
        number = len(self.processes)
        log = self.work / "logs" / f"{number:02d}-{name}.txt"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT,
                env=self.environment | environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes.append(Process(process, log))
        return self.processes[-1]

    def stage(self, name: str, command: list[str], **environment: str) -> "Process":
        """Run a process as a stage, within its limit."""
        start = time.monotonic()
        limit = min(self.limits[name], self.left() - ENDING)
        process = self.popen(name, command, **environment)
        said = process.last_line() if process.wait(limit) else f"took longer than {limit:.0f} s"
        self.conclude(name, process.code == 0, said, start)
        return process

    def conclude(self, name: str, ok: bool, said: str, start: float) -> None:
        """Log and report how a stage has ended that began at ``start``."""
        seconds = time.monotonic() - start
        self.say(f"{name}: {'ok' if ok else 'FAILED'} in {seconds:.0f} s: {said[:300]}")
        stage = {"ok": ok, "said": said, "seconds": round(seconds, 1)}
        self.note(stages={**self.report["stages"], name: stage})
        self.gather()

    def gather(self) -> None:
        """Bring home what the processes have printed so far."""
        parts = [
            b"--- " + process.log.name.encode() + b"\n" + process.log.read_bytes()[-KEPT_BYTES:]
            for process in self.processes
        ]
        (self.output / "output.txt").write_bytes(b"\n".join(parts))

    def close(self) -> None:
        """End whatever still runs."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.end()
        self.note(seconds=round(time.monotonic() - self.start, 1))
        self.gather()
        names = sorted(path.name for path in self.output.iterdir() if not path.name.startswith("."))
        self.say(f"done: {', '.join(names)}")


class Process:
    """A process that leads a session, and its log."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process, self.log = process, log

    @property
    def code(self) -> int | None:
        """Exit code, None while it runs; negative if a signal ended it."""
        return self._process.poll()

    def wait(self, seconds: float, each: Callable[[], None] | None = None) -> bool:
        """Wait for the end, calling ``each`` every second; return False if the process was ended for time."""
        deadline = time.monotonic() + seconds
        while self.code is None:
            if time.monotonic() > deadline:
                self.end()
                return False
            if each is not None:
                each()
            time.sleep(0.2 if each is None else 1)
        return True

    def terminate(self) -> None:
        """Ask the process, and all that it started, to end."""
        if self.code is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)

    def end(self) -> None:
        """End the process, and all that it started: by SIGTERM, then by SIGKILL."""
        self.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def last_line(self) -> str:
        """Return the last line that the process printed, or its exit code."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else f"exit code {self.code}"


def run(given: argparse.Namespace) -> int:
    """Start the session or follow it, for the seconds of one command; bring home what is there then.

    Returns 0 while it runs and when it has ended well.
    """
    work, deadline = given.work.absolute(), time.monotonic() + given.command
    for folder in (given.output, work):
        folder.mkdir(parents=True, exist_ok=True)
    printed, code = work / PRINTED, work / CODE
    if not _works(work) and not code.exists():
        worker = _start(given, work)
        while worker.poll() is None and not _works(work):
            time.sleep(0.1)
    shown = 0
    while True:
        running = _works(work)
        lines = printed.read_text(errors="replace").splitlines(keepends=True)
        print("".join(lines[shown:]), end="", flush=True)
        shown = len(lines)
        if not running or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    _bring(work / HOME, given.output)
    if running:
        print(CONTINUES)
        return 0
    if not code.exists():
        print("the session was killed; the same command starts it again")
        return 1
    print(f"the session ended; remove {work} before another one")
    return int(code.read_text())


def _start(given: argparse.Namespace, work: Path) -> "subprocess.Popen[bytes]":
    """Start the session as a process in a session of its own, which the end of a command does not end."""
    options = {
        name: getattr(given, name) for name in ("config", "seconds", "slow", "device", "train_seconds")
    }
    arguments = [
        f"--{name.replace('_', '-')}={value}" for name, value in options.items() if value is not None
    ]
    command = [sys.executable, "-m", "dev.gpu_session", "work", f"--work={work}", *arguments]
    with (work / PRINTED).open("wb") as printed:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            start_new_session=True,
        )


def _works(work: Path) -> bool:
    """Tell whether a session runs in a folder: it holds a lock, which ends with it however it ends."""
    with (work / LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _bring(home: Path, output: Path) -> None:
    """Copy the files of a session, which may write them at the same time."""
    for path in home.iterdir() if home.exists() else ():
        # A part of older weights may be gone by now.
        with suppress(FileNotFoundError):
            if not path.name.startswith("."):
                shutil.copyfile(path, output / path.name)


def work(given: argparse.Namespace) -> int:
    """Check, measure, train: the session itself, which :func:`run` starts."""
    given.work.mkdir(parents=True, exist_ok=True)
    with (given.work / LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        session = Session(given.work / HOME, given.work, given.seconds, given.device, given.slow)
        code = _guarded(session, lambda: _work(session, given))
        (given.work / CODE).write_text(str(code))
    return code


def check(given: argparse.Namespace) -> int:
    """Check and measure the GPU of this machine; with several ranks, the training on as many GPUs."""
    session = Session(given.output, Path(mkdtemp(prefix="gpu-check-")), 600, "cuda")

    def checks() -> None:
        environment(session)
        if given.ranks > 1:
            command = ["-m", "pytest", "-q", "tests/gpu_ranks.py"]
            session.stage("ranks", command, GPU_RANKS=str(given.ranks))
        else:
            correct(session)
        rates(session, [ROOT / "config/h200.yaml", ROOT / "config/paper.yaml"], given.ranks)

    return _guarded(session, checks)


def _guarded(session: Session, action: Callable[[], None]) -> int:
    """Run stages; a problem that ends the session is one line in the log."""
    # Ended from outside, it still ends its processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    stopped = True
    try:
        action()
        stopped = False
    except Stop as stop:
        session.say(f"STOP: {stop}")
    except OSError as error:
        session.say(f"STOP: {error.filename or 'cannot write'}: {error.strerror or error}")
    finally:
        with suppress(OSError):
            session.close()
    return int(stopped or not all(stage["ok"] for stage in session.report["stages"].values()))


def _work(session: Session, given: argparse.Namespace) -> None:
    config, dataset = session.work / Path(given.config).name, session.work / "dataset"
    if session.report.get("programs") and session.report["commit"] == COMMIT.read_text().strip():
        session.say("checked, measured and sampled by an earlier command")
        _bring_profile(session, config)
    else:
        _prepare(session, given, config, dataset)
    train(session, config, dataset, given.train_seconds)


def _prepare(session: Session, given: argparse.Namespace, config: Path, dataset: Path) -> None:
    unpack(session)
    environment(session)
    extended = {"extends": str((ROOT / given.config).absolute()), "name": config.stem}
    # JSON is YAML.
    config.write_text(json.dumps(extended))
    start = time.monotonic()
    data = session.popen("data", ["-m", "dev.gpu_session.sampling", str(config), str(dataset)])
    correct(session)
    graphed = _graphed(config)
    graphed.write_text(json.dumps({**extended, "name": graphed.stem, "train": {"cuda_graph": True}}))
    rates(session, [config, graphed])
    data.wait(session.left() - STARTING - ENDING)
    session.conclude("data", data.code == 0, data.last_line(), start)
    if data.code:
        raise Stop("there is nothing to train on")
    session.note(
        data_digest=json.loads((dataset / "manifest.json").read_text())["digest"],
        programs=json.loads((dataset / "programs.json").read_text()),
    )


def unpack(session: Session) -> None:
    """Unpack the wheels that traveled, and note the commit."""
    for folder in (session.output, session.work):
        free = shutil.disk_usage(folder).free / 2**30
        if free < GIB:
            raise Stop(f"{folder}: {free:.1f} GiB are free, the session needs {GIB}")
    wheels = sorted(WHEELS.glob("*.whl"))
    if not wheels or not COMMIT.is_file():
        raise Stop(f"{PACKED}: not there or not whole; run `python -m dev.gpu_session pack` at home first")
    session.note(commit=COMMIT.read_text().strip(), programs=None)
    for wheel in wheels:
        try:
            with zipfile.ZipFile(wheel) as file:
                file.extractall(session.work / "site")
        except zipfile.BadZipFile as error:
            raise Stop(f"{wheel}: {error}; pack again") from None
    session.say(f"unpacked {len(wheels)} wheels")


def environment(session: Session) -> None:
    """Import what a training needs, and try the GPU."""
    found = session.work / "machine.json"
    process = session.stage("environment", ["-m", "dev.gpu_session.probe", session.device, str(found)])
    if process.code != 0:
        raise Stop("this machine cannot train")
    session.note(machine=_facts(found))
    if session.device == "cuda" and shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        cards = subprocess.run(query, capture_output=True, text=True, timeout=20).stdout.splitlines()
        session.note(cards=cards)
        session.say("; ".join(cards))


def correct(session: Session) -> None:
    """Compare attention, losses, resuming and the shipped model with the CPU."""
    # Without the plugins that the machine happens to have; their warnings would be errors.
    command = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "xdist",
        "-o",
        "filterwarnings=default",
        "tests/gpu.py",
        "-k",
        CHECKS,
    ]
    processes = max(1, min(8, (os.cpu_count() or 1) // 2))
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    process = session.stage("correct", [*command, f"-n{processes}"], **environment)
    failed = [line for line in process.log.read_text().splitlines() if line.startswith("FAILED")]
    for line in failed:
        session.say(line)
    if any(name in line for name in FATAL for line in failed):
        raise Stop("the GPU computes something else than the CPU; output.txt has what")


def rates(session: Session, configs: list[Path], ranks: int = 1) -> None:
    """Measure steps of configs, the first one's under a profiler.

    The processes start and compile together, and take turns on the GPU.
    """
    start, place = time.monotonic(), session.work / "rates"
    deadline = start + min(session.limits["rates"], session.left() - ENDING)
    place.mkdir(exist_ok=True)
    files, processes = {}, []
    for config in configs:
        files[config.stem] = place / config.stem / "facts.json"
        command = ["-m", "dev.bench.steps", str(config), str(place / config.stem), str(ranks)]
        processes.append(session.popen(f"rate-{config.stem}", command))
    for process in processes:
        process.wait(max(0.0, deadline - time.monotonic()))
    measured = {name: facts for name, file in files.items() if (facts := _facts(file))}
    session.note(rates=measured)
    for name in (config.stem for config in configs if config.stem in measured):
        facts = measured[name]
        session.say(
            f"{name}: {facts['ms_per_step']:.1f} ms a step, {facts['tokens_per_second']:,.0f} tokens/s, "
            f"{facts['gflop_per_second'] / 1000:.1f} TFLOP/s, {facts['share_of_matmul']:.0%} of a product's"
        )
    _bring_profile(session, configs[0])
    missing = [name for name in files if name not in measured]
    said = f"not measured: {', '.join(missing)}" if missing else "all measured"
    session.conclude("rates", not missing, said, start)


def _bring_profile(session: Session, config: Path) -> None:
    profile = session.work / "rates" / config.stem / "profile.txt"
    if profile.exists():
        shutil.copyfile(profile, session.output / profile.name)


def train(session: Session, config: Path, dataset: Path, most: float | None) -> None:
    """Train for the time that is left; again, without graphs and then without compilation, if it fails."""
    for settings, ms in _ways(session, config):
        seconds = session.left() - ENDING
        steps = int(1000 * (min(most or seconds, seconds) - STARTING) / (MARGIN * ms))
        if steps < 1:
            raise Stop(f"{session.left():.0f} s are too few to train")
        every = max(1, min(steps, int(1000 * CHECKPOINT_SECONDS / ms)))
        values = json.loads(config.read_text())
        values["train"] = {"steps": steps, "checkpoint_every": every, **settings}
        config.write_text(json.dumps(values))
        session.note(steps=steps)
        said = ", ".join(f"{name} {value}" for name, value in settings.items())
        session.say(f"training {steps} steps of {ms:.1f} ms, {said}")
        if _train(session, config, dataset, seconds):
            return
    raise Stop("the training failed each time")


def _ways(session: Session, config: Path) -> list[tuple[dict[str, bool], float]]:
    """Return the ways to train, settings and the milliseconds of a step, the first one first.

    CUDA graphs, which no GPU has tried yet, are one if they compute the same, learn the same and take less
    time.
    """
    rates, right = session.report.get("rates", {}), session.report["stages"].get("correct", {}).get("ok")
    steps, graphs = rates.get(config.stem), rates.get(_graphed(config).stem)
    ms = steps["ms_per_step"] if steps else UNMEASURED_MS
    ways = [({"compile": True}, ms), ({"compile": False}, 1.3 * ms)]
    if right and steps and graphs:
        alike = abs(graphs["loss"] / steps["loss"] - 1) < ALIKE
        if alike and graphs["ms_per_step"] < GAIN * ms:
            ways.insert(0, ({"cuda_graph": True}, graphs["ms_per_step"]))
    return ways


def _graphed(config: Path) -> Path:
    """Return the path of a config with steps as CUDA graphs."""
    return config.with_stem(f"{config.stem}-graphs")


def _train(session: Session, config: Path, dataset: Path, seconds: float) -> bool:
    """Train, and bring the weights of each checkpoint home; return False if the training failed."""
    start = time.monotonic()
    checkpoints, model, metrics = (session.work / name for name in ("checkpoints", "model", "metrics.jsonl"))
    # Of a first try, with other steps.
    shutil.rmtree(checkpoints, ignore_errors=True)
    files = {
        "config": config,
        "dataset": dataset,
        "checkpoints": checkpoints,
        "output": model,
        "metrics": metrics,
    }
    process = session.popen(
        "train", ["-m", "cadmus", "train", *(f"--{key}={path}" for key, path in files.items())]
    )
    # The GPU is the training's.
    places = [str(path) for path in (config, model, checkpoints, session.output)]
    bring = functools.partial(
        session.popen, "weights", ["-m", "dev.gpu_session.weights", *places], CUDA_VISIBLE_DEVICES=""
    )
    brought: dict[str, Process] = {}

    def bring_home() -> None:
        saved = sorted(path.parent.name for path in checkpoints.glob("step-*/meta.json"))
        if saved and saved[-1] not in brought and all(each.code is not None for each in brought.values()):
            brought[saved[-1]] = bring()
            _copy_metrics(session, metrics)
            session.gather()

    in_time = process.wait(seconds, bring_home)
    failed = in_time and process.code != 0
    said = process.last_line() if in_time else "stopped at the deadline; the model is its last checkpoint"
    session.conclude("train", not failed, said, start)
    for each in brought.values():
        each.wait(session.limits["weights"])
    _copy_metrics(session, metrics)
    start = time.monotonic()
    last = bring()
    last.wait(min(session.limits["weights"], max(5.0, session.left() - 3)))
    session.conclude("weights", last.code == 0, last.last_line(), start)
    return not failed


def _copy_metrics(session: Session, metrics: Path) -> None:
    """Bring home the losses, which have another name until the training has ended."""
    for path in (metrics, metrics.with_name("metrics.partial.jsonl")):
        if path.exists():
            shutil.copyfile(path, session.output / metrics.name)
            return


def _facts(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}
