"""Check and measure Cadmus on the GPUs of this machine (`make gpu-check`).

This takes ten minutes on one GPU. Each part starts processes with a time limit; if one fails, the others
still run. Prints one verdict per line and writes all measurements to ``gpu_check.json``. With ``--ranks N``,
runs the parts that need N GPUs: the same training with one rank and with N, over NCCL.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
import yaml

from cadmus import config, pipeline
from cadmus.store import commit, versions, write_text
from dev.bench.steps import train_steps
from dev.measure import PATIENCE, ROOT, Facts, kill_tree, parser, wait_for

STEPS = 60
"""Of the trainings of :func:`ranks_agree`."""
LOSS_NOISE = 0.02
"""Maximum difference of bf16 losses between one rank and several, in nats."""
Part = Callable[[Path, int], tuple[Facts, str]]
"""Called with an empty directory and the number of ranks; returns facts and a verdict or raises Failed."""


class Failed(Exception):
    """Failure of a part, with its verdict and the output of its process."""


def environment(directory: Path, ranks: int) -> tuple[Facts, str]:
    """Record the installed software and the GPUs."""
    # In its own process: this one must not hold a GPU.
    found = _run([sys.executable, "-m", "torch.utils.collect_env"])
    facts = {"environment": found.splitlines(), "versions": versions()}
    gpus = ", ".join(re.findall(r"GPU \d+: (.*)", found))
    return facts, f"{gpus}, torch {facts['versions']['torch']}"


def equality(directory: Path, ranks: int) -> tuple[Facts, str]:
    """Check attention, training, resuming and inference against the CPU."""
    last = _run([sys.executable, "-m", "pytest", "-q", "tests/gpu.py"]).splitlines()[-1]
    return {"tests": last}, last


def steps(directory: Path, ranks: int) -> tuple[Facts, str]:
    """Measure training steps of the ``h200`` model."""
    facts = train_steps(config.load_config(ROOT / "config/h200.yaml"), ranks)
    return facts, (
        f"{facts['ms_per_step']:.1f} ms a step; {facts['tokens_per_second']:,.0f} tokens/s, "
        f"{facts['gflop_per_second'] / 1000 / ranks:.0f} TFLOPS per GPU; "
        f"{facts['synchronizations_per_step']:.1f} waits a step; "
        f"checkpoint {facts['checkpoint_seconds']:.1f} s"
    )


def bench(directory: Path, ranks: int, *, name: str, programs: int) -> tuple[Facts, str]:
    """Measure training implementations on the model of a config."""
    output = directory / "bench.json"
    command = [sys.executable, "-m", "dev.bench", "train", f"--config=config/{name}.yaml"]
    _run([*command, f"--programs={programs}", f"--output={output}"])
    facts = json.loads(output.read_text())
    return facts, (
        f"{facts['cadmus_tokens_per_second']:,} tokens/s through DeepSpeed, "
        f"{facts['cadmus_share_of_matmul']:.0%} of the rate of matrix products"
    )


def ranks_agree(directory: Path, ranks: int) -> tuple[Facts, str]:
    """Check that losses match for one rank, for all ranks, and for all ranks resumed with one."""
    path, dataset = directory / "config.yaml", directory / "dataset"
    values = yaml.safe_load((ROOT / "tests/tiny.yaml").read_text())
    values["train"] = {"recipe": "paper", "batch_size": 32 * ranks, "steps": STEPS, "checkpoint_every": STEPS}
    path.write_text(yaml.safe_dump(values))
    run = config.load_config(path)
    pipeline.sample(run, dataset)
    pipeline.dataset(run, dataset)

    def command(name: str, count: int) -> list[str]:
        files = {"checkpoints": "checkpoints", "output": "model", "metrics": "metrics.jsonl"}
        options = [f"--{option}={directory / name / file}" for option, file in files.items()]
        common = [f"--config={path}", f"--dataset={dataset}", f"--ranks={count}"]
        return [sys.executable, "-m", "cadmus", "train", *common, *options]

    def losses(name: str, count: int) -> list[float]:
        _run(command(name, count))
        lines = (directory / name / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line)["loss"] for line in lines]

    found = {"one": losses("one", 1), "all": losses("all", ranks)}
    _run(command("resumed", ranks), interrupt=directory / "resumed/metrics.partial.jsonl")
    found["all, then one"] = losses("resumed", 1)
    apart = {name: float(np.abs(np.subtract(other, found["one"])).max()) for name, other in found.items()}
    facts = {"losses": found, "largest_difference": apart}
    verdict = (
        f"losses of {ranks} ranks are within {apart['all']:.4f} of one's, "
        f"resumed by one within {apart['all, then one']:.4f}"
    )
    if max(apart.values()) > LOSS_NOISE:
        raise Failed(verdict)
    return facts, verdict


ONE_GPU = {
    "environment": environment,
    "equality": equality,
    "steps": steps,
    "bench h200": partial(bench, name="h200", programs=512),
    "bench paper": partial(bench, name="paper", programs=256),
}
SEVERAL_GPUS = {"environment": environment, "ranks agree": ranks_agree, "steps": steps}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--output", type=Path, default=Path("gpu_check.json"), help="JSON file")
    options.add_argument("--ranks", type=int, default=1, metavar="N", help="GPUs to check together")
    given = options.parse_args()
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count < given.ranks:
        wanted = "a GPU" if given.ranks == 1 else f"{given.ranks} GPUs"
        print(f"gpu-check: needs {wanted} that PyTorch can use, found {count}", file=sys.stderr)
        sys.exit(2)
    parts = ONE_GPU if given.ranks == 1 else SEVERAL_GPUS
    sys.exit(not check(parts, given.ranks, given.output))


def check(parts: dict[str, Part], ranks: int, output: Path) -> bool:
    """Run the parts in turn, print each verdict and update the report; return True if all pass."""
    report: Facts = {"commit": commit(), "ranks": ranks, "parts": {}}
    for name, part in parts.items():
        start = time.monotonic()
        try:
            with tempfile.TemporaryDirectory(prefix="gpu-check-") as directory:
                facts, verdict = part(Path(directory), ranks)
            result = {"ok": True, "verdict": verdict, **facts}
        except Failed as error:
            result = {"ok": False, "verdict": error.args[0], "said": error.args[1:]}
        except Exception as error:
            said = traceback.format_exc().splitlines()[-50:]
            result = {"ok": False, "verdict": f"{type(error).__name__}: {error}", "said": said}
        report["parts"][name] = {**result, "seconds_taken": round(time.monotonic() - start, 1)}
        print(f"{'ok' if result['ok'] else 'FAILED':<8}{name:<14}{result['verdict']}", flush=True)
        write_text(output, json.dumps(report, indent=2) + "\n")
    return all(result["ok"] for result in report["parts"].values())


def _run(command: list[str], interrupt: Path | None = None) -> str:
    """Return the output of a command; if it fails or takes too long, its last line is the verdict.

    A training gets SIGTERM after its first step if ``interrupt`` is the file of its metrics; it must save a
    checkpoint.
    """
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    name = " ".join(command[1:4])

    def stepped() -> bool:
        return process.poll() is not None or (interrupt.exists() and interrupt.stat().st_size > 0)

    try:
        if interrupt:
            wait_for(stepped, "a step", pause=0.005)
            process.terminate()
        output, errors = process.communicate(timeout=PATIENCE)
    except (TimeoutError, subprocess.TimeoutExpired):
        # Ranks have their own sessions.
        kill_tree(process)
        process.communicate()
        raise Failed(f"{name}: took longer than {PATIENCE} s") from None
    said = (errors + output).strip()
    if "a checkpoint is saved" not in said if interrupt else process.returncode:
        lines = said.splitlines()
        told = [line for line in lines if line.startswith(("FAILED", "ERROR"))] or lines[-1:]
        raise Failed(f"{name}: {'; '.join(told) or process.returncode}", *lines[-50:])
    return output.strip()


if __name__ == "__main__":
    main()
